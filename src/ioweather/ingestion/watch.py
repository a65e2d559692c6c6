"""Catch up: read what is new in watched directories and in the scheduler's accounting, then judge finished runs.

One pass, short and bounded; the agent or a timer repeats it. It may be killed at any moment: files are in when the
ledger says so, verdicts are due until the table holds them, and `<lake>/catch_up.json` is only where to look first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ioweather.agent.counters import has_sacct, poll_accounting
from ioweather.agent.settings import WatchSettings
from ioweather.core.clock import now_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError, UsageError
from ioweather.core.safe_files import write_whole
from ioweather.core.units import DAY_NS, HOUR_NS, NS
from ioweather.diagnosis.recorded_verdicts import clusters_of, counts, judge_due, text_of_row
from ioweather.ingestion.ingest import IngestReport, ingest
from ioweather.ingestion.mappings import own_mapping
from ioweather.ingestion.reading import UNREADABLE, context_of
from ioweather.ingestion.watched import MOST_BYTES, MOST_FILES, Changed, Watched, one_pass, read_caught_up, state_file
from ioweather.lake.lake import Lake
from ioweather.lake.layout import lake_directory
from ioweather.lake.workers import Serial

_LOG = logging.getLogger("ioweather.catch_up")
_LOCK: Final = ".catch_up.lock"
# Accounting arrives late: each poll looks back further than the last one, and the lake takes no row twice.
_FIRST_POLL_NS: Final = DAY_NS
_POLL_OVERLAP_NS: Final = HOUR_NS
_TELL_SECONDS: Final = 20.0
_TOLD_NS: Final = DAY_NS
_MOST_JUDGING_SECONDS: Final = 30.0


@dataclass
class CaughtUp:
    """`refused`: path and reason of files that are in quarantine. `busy`: another pass is at work, this did nothing.
    `left_files` and `left_verdicts` wait for the next pass; `troubles` say what could not be looked at."""

    read: int = 0
    known: int = 0
    refused: dict[str, str] = field(default_factory=dict)
    rows_added: dict[str, int] = field(default_factory=dict)
    verdicts: int = 0
    told: int = 0
    left_files: int = 0
    left_verdicts: int = 0
    troubles: list[str] = field(default_factory=list)
    busy: bool = False
    seconds: float = 0.0


@dataclass
class _State:
    """Where the next pass begins, in `<lake>/catch_up.json`."""

    watched: dict[str, Any] = field(default_factory=dict)
    polled_ns: int = 0
    polled_digest: str = ""
    told_ns: int = 0

    @classmethod
    def of(cls, root: Path) -> _State:
        """The stored state, without values of a wrong type."""
        default, body = cls(), read_caught_up(root)
        return cls(**{name: body[name] for name, value in vars(default).items() if type(body.get(name)) is type(value)})


def catch_up(
    lake: Lake,
    settings: WatchSettings,
    *,
    everything: bool = False,
    judge: bool = True,
    clock: Callable[[], int] = now_ns,
) -> CaughtUp:
    """One pass. With `everything`, all files of the directories are handed to the ledger, however old they are."""
    started = time.monotonic()
    done = CaughtUp()
    with _alone(lake.root) as is_alone:
        if not is_alone:
            return CaughtUp(busy=True)
        state = _State.of(lake.root)
        added: Counter[str] = Counter()
        for top in settings.directories:
            context = context_of(lake.facility, mapping=own_mapping(lake.root))
            if settings.check_owner:
                context = replace(context, believed_owners=_believed_owners(top))
            added.update(_read_directory(lake, top, context, state, done, clock(), everything=everything))
            _keep(lake.root, state)
        if settings.accounting and has_sacct():
            added.update(_read_accounting(lake, state, done, clock()))
        done.rows_added = {table: n for table, n in sorted(added.items()) if n}
        if judge:
            judged = judge_due(lake, most_seconds=_MOST_JUDGING_SECONDS, clock=clock)
            done.verdicts, done.left_verdicts = judged.made, judged.left
        if settings.tell is not None:
            tell_verdicts(lake, settings.tell, state, done, clock())
        done.seconds = round(time.monotonic() - started, 3)
        _keep(lake.root, state, _told(lake, done, clock()))
    return done


@contextmanager
def _alone(root: Path) -> Iterator[bool]:
    """Whether no other pass over this lake is at work."""
    with lake_directory(root) as folder:
        fd = folder.open(_LOCK)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)


def _told(lake: Lake, done: CaughtUp, at_ns: int) -> dict[str, Any]:
    """The result of a pass, for programs that show it without opening the lake."""
    with lake.snapshot() as snapshot:
        kinds = counts(snapshot, at_ns)
    told = {key: value for key, value in asdict(done).items() if key not in ("refused", "busy")}
    return {**told, "refused": len(done.refused), "kinds_last_day": kinds, "made_ns": at_ns}


def _keep(root: Path, state: _State, told: Mapping[str, Any] | None = None) -> None:
    before = read_caught_up(root).get("last", {})
    body = {"version": 1, **asdict(state), "last": before if told is None else told}
    write_whole(state_file(root), json.dumps(body).encode())


def tell_verdicts(lake: Lake, program: Path, state: _State, done: CaughtUp, at_ns: int) -> None:
    """Run the program for each verdict, as of a run's end, that is newer than the last one it was run for. After a kill
    some are repeated; none is left out."""
    since = max(state.told_ns, at_ns - _TOLD_NS)
    with lake.snapshot() as snapshot:
        found = snapshot.frame("verdicts", where={"judged_ns >": since}, period_ns=(at_ns - _TOLD_NS, at_ns + 1))
        clusters = clusters_of(snapshot, found)
    every = [{**row, "cluster": on} for row, on in zip(found.records(), clusters, strict=True)]
    rows = [row for row in every if row["as_of_ns"] == row["end_ns"] and (row["raw_job_id"] or 0) > 0]
    for row in sorted(rows, key=lambda row: row["judged_ns"]):
        job = str(row["raw_job_id"])
        try:
            ended = subprocess.run(
                [str(program), job, text_of_row(row, job).line(), row["cluster"] or ""],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TELL_SECONDS,
                check=False,
            )
            done.told += ended.returncode == 0
            if ended.returncode:
                said = (ended.stderr or ended.stdout).strip()[-200:] or f"exit code {ended.returncode}"
                done.troubles.append(f"{program} for job {job}: {said}")
        except (OSError, subprocess.TimeoutExpired) as error:
            done.troubles.append(f"{program}: {error}")
            return
        state.told_ns = row["judged_ns"]


def _believed_owners(top: Path) -> frozenset[int]:
    """Uids that are trusted: root, this user, and the owner of the directory, who fills an archive."""
    try:
        return frozenset({0, os.geteuid(), top.stat().st_uid})
    except OSError:  # said where it is read
        return frozenset({0, os.geteuid()})


def _read_directory(
    lake: Lake, top: Path, context: ReadContext, state: _State, done: CaughtUp, at_ns: int, *, everything: bool
) -> Counter[str]:
    watched = Watched.from_json(top, state.watched.get(str(top)))
    try:
        waiting = watched.candidates(at_ns, everything=everything)
    except OSError as error:
        done.troubles.append(f"{top}: {error.strerror}")
        return Counter()
    added: Counter[str] = Counter()
    while waiting:
        files = one_pass(waiting, MOST_FILES, MOST_BYTES)
        waiting = waiting[len(files) :]
        report = _ingest(lake, files, context)
        unreadable = {str(o.path): o.message or "" for o in report.bad if o.reason == UNREADABLE}
        watched.hand_over(files, unreadable, at_ns)
        added.update(report.rows_added)
        done.read += len(report.good)
        done.known += report.known
        done.refused |= {str(o.path): o.message or o.reason or "" for o in report.bad if str(o.path) not in unreadable}
        if unreadable:
            path, why = next(iter(unreadable.items()))
            done.troubles.append(f"{len(unreadable)} files cannot be read, such as {path}: {why}")
        if not everything:
            break
    done.left_files += len(waiting)
    state.watched[str(top)] = watched.to_json()
    return added


def _ingest(lake: Lake, files: Sequence[Changed], context: ReadContext) -> IngestReport:
    paths = [Path(file.path) for file in files]
    try:
        return ingest(lake, paths, context=context, executor=Serial())
    except UsageError:  # one of them just went: the rest is read
        there = [path for path in paths if path.is_file()]
        return ingest(lake, there, context=context, executor=Serial())


def _read_accounting(lake: Lake, state: _State, done: CaughtUp, at_ns: int) -> Counter[str]:
    since = state.polled_ns - _POLL_OVERLAP_NS if state.polled_ns else at_ns - _FIRST_POLL_NS
    try:
        text = poll_accounting((at_ns - since) // NS)
    except SourceError as error:
        done.troubles.append(error.message)
        return Counter()
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    added: Counter[str] = Counter()
    if text.count("\n") > 1 and digest != state.polled_digest:
        with tempfile.TemporaryDirectory(prefix="ioweather-accounting-") as folder:
            file = Path(folder) / f"sacct-{at_ns}.txt"
            file.write_text(text, encoding="utf-8")
            report = ingest(
                lake,
                [file],
                context=context_of(lake.facility, mapping=own_mapping(lake.root)),
                source="sacct",
                executor=Serial(),
            )
        added = report.rows_added
        done.troubles += [f"accounting: {outcome.message}" for outcome in report.bad]
    state.polled_ns, state.polled_digest = at_ns, digest
    return added
