"""Catch up: read what is new in watched directories and in the scheduler's accounting, then judge finished runs.

One pass, short and bounded; a timer repeats it. It may be killed at any moment: files are in when the ledger says so,
verdicts are due until the table holds them, and `<lake>/catch_up.json` is only where to look first, and what the last
pass did (`last`), for programs that do not open the lake for it.

A file is new when it changed after the newest file that was handed over, or shortly before: clients that write to one
directory have clocks of their own. The time is that of the inode (ctime), which a file also gets when it is moved or
copied with its old date. Folders without subfolders that have been quiet for days are not listed again until they
change.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from ioweather.agent.sensor import run_tool
from ioweather.agent.settings import WatchSettings
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError, UsageError
from ioweather.core.safe_files import write_whole
from ioweather.core.units import DAY_NS, GIB, HOUR_NS, MIB, MINUTE_NS, NS, now_ns
from ioweather.diagnosis.recorded_verdicts import clusters_of, count_verdicts, judge_due, text_of_row
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.mappings import own_mapping
from ioweather.ingestion.queue import caught_up_file, first_within, read_caught_up
from ioweather.ingestion.reading import UNREADABLE, context_of
from ioweather.lake import layout
from ioweather.lake.lake import Lake
from ioweather.lake.workers import Processes

# One pass hands over so much; the rest waits for the next one.
MOST_FILES: Final = 500
MOST_BYTES: Final = GIB
# Older files are history, which `ioweather ingest` reads once.
FIRST_LOOK_NS: Final = DAY_NS
OVERLAP_NS: Final = 30 * MINUTE_NS
_QUIET_NS: Final = 2 * DAY_NS
# A file that was just written to is left for the next pass.
_SETTLED_NS: Final = 3 * NS
# A large file that grows (a day of LMT in HDF5) is read again no more often than this.
_LARGE_BYTES: Final = 16 * MIB
_GROWING_NS: Final = 10 * MINUTE_NS
# Accounting arrives late: each poll looks back further than the last one, and the lake takes no row twice.
_FIRST_POLL_NS: Final = DAY_NS
_POLL_OVERLAP_NS: Final = HOUR_NS
SACCT_FIELDS: Final = "JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
_POLL_SECONDS: Final = 120.0
_TELL_SECONDS: Final = 20.0
_TOLD_NS: Final = DAY_NS
_MOST_JUDGING_SECONDS: Final = 30.0


class Changed(NamedTuple):
    """A file, its size and when its inode changed last."""

    path: str
    bytes: int
    changed_ns: int


@dataclass
class Watched:
    """One directory. `mark_ns`: the newest change that was handed over; `recent`: files handed over that may be
    candidates again: size, change, and when; `quiet`: folders that need no listing while their time stays."""

    top: Path
    mark_ns: int = 0
    recent: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, top: Path, body: Any) -> Watched:
        """Return the stored state of `top`, or an empty one if `body` is damaged. Nothing is ingested twice then: the
        ledger knows which files are in the lake."""
        try:
            recent = {
                str(path): (int(size), int(changed_ns), int(given_ns))
                for path, (size, changed_ns, given_ns) in body["recent"].items()
            }
            quiet = {str(path): int(changed_ns) for path, changed_ns in body["quiet"].items()}
            return cls(top, int(body["mark_ns"]), recent, quiet)
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls(top)

    def find_new_files(self, at_ns: int, *, everything: bool = False) -> list[Changed]:
        """New files, the longest unchanged first."""
        since = 0 if everything else (self.mark_ns - OVERLAP_NS if self.mark_ns else at_ns - FIRST_LOOK_NS)
        if everything:
            self.quiet, self.recent = {}, {}
        found = []
        for file in self._list_files(self.top, at_ns):
            size, changed, handed = self.recent.get(file.path, (-1, -1, 0))
            is_settled = not 0 <= at_ns - file.changed_ns < _SETTLED_NS
            is_growing = size >= _LARGE_BYTES and at_ns - handed < _GROWING_NS
            if file.changed_ns >= since and is_settled and not is_growing and (size, changed) != file[1:]:
                found.append(file)
        return sorted(found, key=lambda file: (file.changed_ns, file.path))

    def note_handed_over(self, files: Sequence[Changed], unreadable: Collection[str], at_ns: int) -> None:
        """Note files that were read or refused. Unreadable ones are tried again."""
        for file in files:
            if file.path not in unreadable:
                self.recent[file.path] = (file.bytes, file.changed_ns, at_ns)
        # A host whose clock is ahead must not make the files of all others old.
        self.mark_ns = max([self.mark_ns, *(min(file.changed_ns, at_ns) for file in files)])
        self.recent = {path: seen for path, seen in self.recent.items() if seen[1] >= self.mark_ns - OVERLAP_NS}

    def _list_files(self, folder: Path, at_ns: int) -> Iterator[Changed]:
        """Regular files, without hidden ones, links, lakes, files that were just removed, and logs that Darshan writes
        at this moment: it renames them at the end."""
        try:
            changed = folder.stat().st_mtime_ns
            if self.quiet.get(str(folder)) == changed:
                return
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            if folder == self.top:
                raise
            return
        if any(entry.name == layout.lake_marker(Path()).name for entry in entries):
            return
        newest, subfolders = changed, []
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith("_partial"):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                subfolders.append(Path(entry.path))
            elif stat.S_ISREG(status.st_mode):
                newest = max(newest, status.st_ctime_ns)
                yield Changed(entry.path, status.st_size, status.st_ctime_ns)
        for subfolder in subfolders:
            yield from self._list_files(subfolder, at_ns)
        self.quiet.pop(str(folder), None)
        if not subfolders and at_ns - newest > _QUIET_NS and folder != self.top:
            self.quiet[str(folder)] = changed


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


# Where the next pass begins, in `<lake>/catch_up.json`: the state of each watched directory; when accounting was read,
# and the digest of its text; the newest verdict that the site's program was run for.
_FIRST_STATE: Final[Mapping[str, Any]] = {"watched": {}, "polled_ns": 0, "polled_digest": "", "told_ns": 0}


def catch_up(
    lake: Lake,
    settings: WatchSettings,
    *,
    everything: bool = False,
    clock: Callable[[], int] = now_ns,
) -> CaughtUp:
    """One pass. With `everything`, all files of the directories are handed to the ledger, however old they are."""
    started = time.monotonic()
    layout.lake_directory(lake.root).close()
    with layout.locked(lake.root / ".catch_up.lock") as lock:
        if lock is None:
            return CaughtUp(busy=True)
        done, stored = CaughtUp(), read_caught_up(lake.root)
        state: dict[str, Any] = {
            key: stored[key] if type(stored.get(key)) is type(first) else copy(first)
            for key, first in _FIRST_STATE.items()
        }

        def keep(last: Any) -> None:
            body = {"version": 1, **state, "last": last}
            write_whole(caught_up_file(lake.root), json.dumps(body).encode())

        added: Counter[str] = Counter()
        context = context_of(lake.facility, mapping=own_mapping(lake.root))
        for top in settings.directories:
            believed = {0, os.geteuid()}
            with suppress(OSError):  # said where it is read
                believed.add(top.stat().st_uid)  # who fills an archive
            of_top = replace(context, believed_owners=frozenset(believed)) if settings.check_owner else context
            added.update(_read_directory(lake, top, of_top, state, done, clock(), everything=everything))
            keep(stored.get("last", {}))
        if settings.accounting and shutil.which("sacct"):
            added.update(_read_accounting(lake, context, state, done, clock()))
        done.rows_added = {table: n for table, n in sorted(added.items()) if n}
        done.verdicts, done.left_verdicts = judge_due(lake, most_seconds=_MOST_JUDGING_SECONDS, clock=clock)
        if settings.tell is not None:
            report_verdicts(lake, settings.tell, state, done, clock())
        done.seconds = round(time.monotonic() - started, 3)
        at_ns = clock()
        with lake.snapshot() as snapshot:
            kinds = count_verdicts(snapshot, at_ns)
        told = {key: value for key, value in asdict(done).items() if key not in ("refused", "busy")}
        keep({**told, "refused": len(done.refused), "kinds_last_day": kinds, "made_ns": at_ns})
    return done


def report_verdicts(lake: Lake, program: Path, state: dict[str, Any], done: CaughtUp, at_ns: int) -> None:
    """Run the program for each verdict, as of a run's end, that is newer than the last one it was run for. After a kill
    some are repeated; none is left out."""
    since = max(state["told_ns"], at_ns - _TOLD_NS)
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
        state["told_ns"] = row["judged_ns"]


def _read_directory(
    lake: Lake, top: Path, context: ReadContext, state: dict[str, Any], done: CaughtUp, at_ns: int, *, everything: bool
) -> Counter[str]:
    """Read new files of one directory; returns new rows by table. Updates `state` and `done`."""
    watched = Watched.from_json(top, state["watched"].get(str(top)))
    added: Counter[str] = Counter()
    try:
        waiting = watched.find_new_files(at_ns, everything=everything)
    except OSError as error:
        done.troubles.append(f"{top}: {error.strerror}")
        return added
    while waiting:
        files = first_within(waiting, MOST_FILES, MOST_BYTES)
        waiting = waiting[len(files) :]
        paths = [Path(file.path) for file in files]
        try:
            report = ingest(lake, paths, context=context, executor=Processes(1))
        except UsageError:  # one of them just went: the rest is read
            report = ingest(lake, [path for path in paths if path.is_file()], context=context, executor=Processes(1))
        bad = {str(o.path): (o.reason == UNREADABLE, o.message or o.reason or "") for o in report.bad}
        unreadable = {path: why for path, (is_unreadable, why) in bad.items() if is_unreadable}
        watched.note_handed_over(files, unreadable, at_ns)
        added.update(report.rows_added)
        done.read += len(report.good)
        done.known += report.known
        done.refused |= {path: why for path, (_, why) in bad.items() if path not in unreadable}
        if unreadable:
            path, why = next(iter(unreadable.items()))
            done.troubles.append(f"Cannot read {len(unreadable)} files, such as {path}: {why}")
        if not everything:
            break
    done.left_files += len(waiting)
    state["watched"][str(top)] = {"mark_ns": watched.mark_ns, "recent": watched.recent, "quiet": watched.quiet}
    return added


def _poll_accounting(back_seconds: int) -> str:
    """The jobs of all users in the last seconds, as the source `sacct` reads them: with epochs, so without a zone."""
    command = ["sacct", "--allusers", "--parsable2", "--delimiter=\x1f"]
    command += [f"--starttime=now-{back_seconds}seconds", f"--format={SACCT_FIELDS}"]
    return run_tool(command, _POLL_SECONDS, environment={"SLURM_TIME_FORMAT": "%s"})


def _read_accounting(
    lake: Lake, context: ReadContext, state: dict[str, Any], done: CaughtUp, at_ns: int
) -> Counter[str]:
    """Read what sacct reports since the last poll; returns new rows by table. Updates `state` and `done`."""
    since = state["polled_ns"] - _POLL_OVERLAP_NS if state["polled_ns"] else at_ns - _FIRST_POLL_NS
    added: Counter[str] = Counter()
    try:
        text = _poll_accounting((at_ns - since) // NS)
    except SourceError as error:
        if state["polled_ns"]:  # a login node may have `sacct` without a cluster: it never answered
            done.troubles.append(error.message)
        return added
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    if text.count("\n") > 1 and digest != state["polled_digest"]:
        with tempfile.TemporaryDirectory(prefix="ioweather-accounting-") as folder:
            file = Path(folder) / f"sacct-{at_ns}.txt"
            file.write_text(text, encoding="utf-8")
            report = ingest(lake, [file], context=context, source="sacct", executor=Processes(1))
        added = report.rows_added
        done.troubles += [f"accounting: {outcome.message}" for outcome in report.bad]
    state["polled_ns"], state["polled_digest"] = at_ns, digest
    return added
