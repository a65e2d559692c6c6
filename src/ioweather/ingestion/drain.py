"""Write what other hosts pushed from the queue to the lake, many files in one commit.

    python -m ioweather.ingestion.drain LAKE

One pass in a child of the server, which keeps memory and processor time of writing out of the server. It may be killed
at any moment: a file leaves the queue after its ledger entry is committed, and rows in the lake are not added again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ioweather.core.clock import now_ns
from ioweather.core.errors import IoweatherError, LakeError, SourceError
from ioweather.core.units import DAY_NS, HOUR_NS, MIB
from ioweather.ingestion import queue
from ioweather.ingestion.derivations import follow_arrival
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.pushed_samples import take_samples
from ioweather.ingestion.queue import Queued
from ioweather.ingestion.reading import UNREADABLE
from ioweather.ingestion.receive import reading_of, source_of
from ioweather.ingestion.watched import one_pass
from ioweather.lake.lake import Lake, LedgerEntry, open_lake
from ioweather.lake.workers import Serial

_LOG = logging.getLogger("ioweather.drain")
# One commit of every table.
BATCH_FILES: Final = 500
BATCH_BYTES: Final = 32 * MIB
# A sender repeats soon, and rows have keys: the ledger of years is not read for every batch.
_REPEATED_WITHIN_NS: Final = 2 * DAY_NS
_OLD_DRAFT_NS: Final = HOUR_NS
# A file in the batches of so many writers that died is written alone; after as many deaths again it is set aside.
MOST_DEATHS: Final = 5


def drain(lake: Lake) -> int:
    """Write all queued files, then search the new rows for events; returns the number of files.

    Raises LakeError or OSError if the lake or its disk fails: the files stay in the queue."""
    done = 0
    first_ns: dict[str, int] = {}
    while files := next_batch(lake):
        with _noted(lake.root, files):
            _merge(first_ns, _write(lake, files))
        done += len(files)
    follow_arrival(lake, first_ns)
    return done


def next_batch(lake: Lake) -> list[Queued]:
    """The oldest files; those of many days one at a time and last, after them those that writers died over."""
    files, deaths = queue.queued(lake.root), _read_deaths(lake.root)
    clean = [file for file in files if deaths[file.path.name] < MOST_DEATHS]
    if clean:
        quick = [file for file in clean if file.kind != queue.WIDE]
        return one_pass(quick, BATCH_FILES, BATCH_BYTES) or clean[:1]
    for file in files:
        count = deaths[file.path.name]
        if count < 2 * MOST_DEATHS:
            return [file]
        with _noted(lake.root, [file]):
            _set_aside(lake, file, "worker_lost", f"{count} writers of the lake died over it.")
    return []


def _deaths_file(root: Path) -> Path:
    return queue.queue_dir(root) / ".writing"


def _read_deaths(root: Path) -> Counter[str]:
    """How many writers died over each file: those named `writing` were in the batch of one that did not come back."""
    deaths: Counter[str] = Counter()
    with suppress(OSError, ValueError, KeyError, TypeError):
        body = json.loads(_deaths_file(root).read_bytes())
        deaths.update(body["deaths"])
        deaths.update(body["writing"])
    return deaths


@contextmanager
def _noted(root: Path, files: Sequence[Queued]) -> Iterator[None]:
    """Note the batch on disk while it is written. Any exception means that the writer is alive; a kill does not."""
    deaths, names = _read_deaths(root), [file.path.name for file in files]
    _write_deaths(root, deaths, names)
    try:
        yield
    except (Exception, SystemExit):
        with suppress(OSError):
            _write_deaths(root, deaths, ())
        raise
    _write_deaths(root, Counter({name: count for name, count in deaths.items() if name not in names}), ())


def _write_deaths(root: Path, deaths: Counter[str], writing: Sequence[str]) -> None:
    path = _deaths_file(root)
    draft = path.with_name(".writing.new")
    draft.write_text(json.dumps({"deaths": deaths, "writing": writing}), encoding="utf-8")
    draft.replace(path)


def _write(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    """Write a batch; if that fails, each file alone, so that one bad file does not stop others."""
    try:
        return take(lake, files)
    except (LakeError, OSError):
        raise
    except Exception as error:
        first_ns: dict[str, int] = {}
        left = [file for file in files if file.path.exists()]
        if len(files) > 1:
            for file in left:
                _merge(first_ns, _write(lake, [file]))
        elif left:
            reason = error.reason if isinstance(error, SourceError) else "reader_failed"
            _set_aside(lake, left[0], reason, f"It cannot be written ({type(error).__name__}: {error}).")
        return first_ns


def take(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    """To the tables, then to the ledger, then out of the queue. Returns the time of the first new row by table."""
    first_ns: dict[str, int] = {}
    by_source: dict[str, list[Queued]] = {}
    for file in files:
        by_source.setdefault("" if file.kind == queue.REFUSAL else source_of(file.name), []).append(file)
    if notes := by_source.pop("", []):
        lake.record([LedgerEntry(**json.loads(note.path.read_bytes())) for note in notes])
        for note in notes:
            note.path.unlink(missing_ok=True)
    for source, own in by_source.items():
        _merge(first_ns, take_samples(lake, own) if source == "prometheus" else _take_rows(lake, own))
    return first_ns


def _merge(first_ns: dict[str, int], new: dict[str, int]) -> None:
    for table, moment in new.items():
        first_ns[table] = min(moment, first_ns.get(table, moment))


def _take_rows(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    reading = reading_of(lake.facility, files[0].name)
    report = ingest(
        lake, [file.path for file in files], context=reading.context, source=reading.source, executor=Serial(),
        known_since_ns=now_ns() - _REPEATED_WITHIN_NS, search=False,
    )  # fmt: skip
    outcomes = {outcome.path: outcome for outcome in report.outcomes}
    unreadable = [outcome.message or "" for outcome in report.outcomes if outcome.reason == UNREADABLE]
    for file in files:
        outcome = outcomes.get(file.path)
        if outcome is not None and outcome.reason == UNREADABLE:
            continue  # the disk failed, not the file: it stays in the queue
        if outcome is not None and outcome.status == "quarantined":
            _LOG.error("%s was pushed and cannot be read now: %s", _move_aside(lake.root, file), outcome.message)
        else:
            file.path.unlink(missing_ok=True)
    if unreadable:
        raise LakeError("; ".join(unreadable[:3]))
    return report.first_ns


def _move_aside(root: Path, file: Queued) -> Path:
    folder = queue.refused_dir(root) / file.host
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    return file.path.replace(folder / f"{file.digest}-{file.name}")


def _set_aside(lake: Lake, file: Queued, reason: str, why: str) -> None:
    """Move the file to `refused/` and name it in the ledger."""
    place = _move_aside(lake.root, file)
    message = f"{why} It was kept as {place}."
    _LOG.error("%s: %s", file.name, message)
    entry = LedgerEntry(
        digest=file.digest, path=str(place), bytes=file.bytes, source=source_of(file.name), status="quarantined",
        rows={}, reason=reason, message=message,
    )  # fmt: skip
    lake.record([entry])


@contextmanager
def only_writer(root: Path) -> Iterator[int | None]:
    """A descriptor of the locked writer's file; None if another writer of this lake is running."""
    queue.queue_dir(root).mkdir(exist_ok=True, mode=0o750)
    fd = os.open(queue.writer_file(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        if not os.fstat(fd).st_size:
            _report_trouble(fd, "")  # takes the room on the disk
        yield fd
    finally:
        os.close(fd)


def _report_trouble(fd: int, text: str) -> None:
    """Best effort: the disk that failed is the one that this is written to."""
    with suppress(OSError):
        os.pwrite(fd, text.encode()[: queue.TROUBLE_BYTES].ljust(queue.TROUBLE_BYTES), 0)


def run_pass(root: Path) -> int:
    """Drain the queue unless another writer does; the exit code. An error is logged and shown with the queue."""
    with suppress(OSError):
        for entry in os.scandir(queue.queue_dir(root)):  # drafts of a killed server: their senders send again
            if queue.DRAFT.fullmatch(entry.name) and now_ns() - entry.stat().st_mtime_ns > _OLD_DRAFT_NS:
                Path(entry.path).unlink(missing_ok=True)
    try:
        with only_writer(root) as fd:
            if fd is None:
                time.sleep(1.0)
                return 0
            try:
                drain(open_lake(root))
                _report_trouble(fd, "")
            except (IoweatherError, OSError) as error:
                _report_trouble(fd, str(error))
                raise
    except (IoweatherError, OSError) as error:
        _LOG.error("%s", error)
        return 2
    return 0


def main(arguments: Sequence[str]) -> int:
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server ends
    return run_pass(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
