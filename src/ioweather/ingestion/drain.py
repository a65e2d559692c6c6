"""Write what other hosts pushed from the queue to the lake, many files in one commit.

    python -m ioweather.ingestion.drain LAKE

One pass in a child of the server, which keeps memory and processor time of writing out of the server. It may be killed
at any moment: a file leaves the queue after its ledger entry is committed, and rows in the lake are not added again.
"""

from __future__ import annotations

import fcntl
import hashlib
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
from typing import Any, Final

from ioweather.core.errors import CorruptInput, IoweatherError, LakeError, SourceError
from ioweather.core.safe_files import write_whole
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, HOUR_NS, MIB, now_ns
from ioweather.ingestion import queue
from ioweather.ingestion.derivations import search_new_rows
from ioweather.ingestion.ingest import IngestReport, add_rows, ingest
from ioweather.ingestion.queue import Queued
from ioweather.ingestion.reading import UNREADABLE
from ioweather.ingestion.receive import reading_of, refusal, source_of, take_samples
from ioweather.lake.lake import Lake, LedgerEntry, new_ingest_id, open_lake
from ioweather.lake.workers import Processes

_LOG = logging.getLogger("ioweather.drain")
# One commit of every table.
BATCH_FILES: Final = 5_000
BATCH_BYTES: Final = 32 * MIB
# A sender repeats soon, and rows have keys: the ledger of years is not read for every batch.
_REPEATED_WITHIN_NS: Final = 2 * DAY_NS
# A file in the batches of so many writers that died is written alone; after as many deaths again it is set aside.
MOST_DEATHS: Final = 5
_SPOOL: Final = "spool"
# A search of new rows waits so many times as long as the last one took, so that rows of many hosts do not wait for it.
_SEARCH_REST: Final = 5.0


def drain(lake: Lake) -> int:
    """Write the queued files, then search the new rows for events; returns the number of files.

    Of files that arrive during the pass, full batches are written too; others wait for the next pass, since a commit
    of a few rows takes as long as one of many. Raises LakeError or OSError if the lake or its disk fails: the files
    stay in the queue."""
    done, report, is_last = 0, IngestReport(), False
    while files := next_batch(lake):
        is_part = files[0].kind != queue.WIDE and len(files) < BATCH_FILES
        is_part = is_part and sum(file.bytes for file in files) < BATCH_BYTES // 2
        if is_part and is_last:
            break
        is_last = is_last or is_part
        with _attempt(lake.root, files):
            _write(lake, files, report)
        done += len(files)
    _search(lake, report.first_ns)
    return done


def _search(lake: Lake, first_ns: dict[str, int]) -> None:
    """Search new rows for events, of this pass and of passes that left it to a later one."""
    note = queue.queue_dir(lake.root) / ".searched"
    not_before = 0.0
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        body = json.loads(note.read_bytes())
        not_before = float(body["not_before"])
        for table, first in body["first_ns"].items():
            first_ns[table] = min(int(first), first_ns.get(table, int(first)))
    if not first_ns:
        return
    if (began := time.time()) >= not_before:
        search_new_rows(lake, first_ns)
        first_ns, not_before = {}, time.time() + _SEARCH_REST * (time.time() - began)
    write_whole(note, json.dumps({"not_before": not_before, "first_ns": first_ns}).encode(), 0o640)


def next_batch(lake: Lake) -> list[Queued]:
    """The oldest files; those of many days one at a time and last, after them those that writers died over."""
    files, deaths = queue.queued(lake.root), _read_deaths(lake.root)
    clean = [file for file in files if deaths[file.path.name] < MOST_DEATHS]
    if clean:
        quick = [file for file in clean if file.kind != queue.WIDE]
        return queue.one_pass(quick, BATCH_FILES, BATCH_BYTES) or clean[:1]
    for file in files:
        count = deaths[file.path.name]
        if count < 2 * MOST_DEATHS:
            return [file]
        with _attempt(lake.root, [file]):
            _set_aside(lake, file, "worker_lost", f"{count} writers of the lake died over it.")
    return []


def _read_deaths(root: Path) -> Counter[str]:
    """How many writers died over each file."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Counter(json.loads((queue.queue_dir(root) / ".writing").read_bytes())["deaths"])
    return Counter()


@contextmanager
def _attempt(root: Path, files: Sequence[Queued]) -> Iterator[None]:
    """Count one death for each file while it is written. Only a kill leaves the count: after an exception the writer
    is alive."""

    def note(deaths: Counter[str]) -> None:
        draft = queue.queue_dir(root) / ".writing.new"
        draft.write_text(json.dumps({"deaths": deaths}), encoding="utf-8")
        draft.replace(draft.with_suffix(""))

    before, names = _read_deaths(root), {file.path.name for file in files}
    note(before + Counter(names))
    try:
        yield
    except (Exception, SystemExit):
        with suppress(OSError):
            note(before)
        raise
    note(Counter({name: count for name, count in before.items() if name not in names}))


def _write(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write a batch; if that fails, each file alone, so that one bad file does not stop others."""
    try:
        take(lake, files, report)
    except (LakeError, OSError):
        raise
    except Exception as error:
        left = [file for file in files if file.path.exists()]
        if len(files) > 1:
            for file in left:
                _write(lake, [file], report)
        elif left:
            reason = error.reason if isinstance(error, SourceError) else "reader_failed"
            _set_aside(lake, left[0], reason, f"It cannot be written ({type(error).__name__}: {error}).")


def take(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write files to the tables, then to the ledger, then remove them from the queue."""
    if notes := [file for file in files if file.kind == queue.REFUSAL]:
        lake.record([LedgerEntry(**json.loads(note.path.read_bytes())) for note in notes])
        for note in notes:
            note.path.unlink(missing_ok=True)
    if columns := [file for file in files if file.kind == queue.COLUMNS]:
        _take_columns(lake, columns, report)
    rest = [file for file in files if file.kind not in (queue.REFUSAL, queue.COLUMNS)]
    for source in sorted({source_of(file.name) for file in rest}):
        own = [file for file in rest if source_of(file.name) == source]
        (take_samples if source == "prometheus" else _take_rows)(lake, own, report)


def _take_columns(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write rows that were checked when they came, in one commit of each table. All files have one entry in the ledger:
    one for each would be more than the rows after some months of many hosts."""
    tables: dict[str, dict[str, list[Any]]] = {}
    hosts, read, unreadable = set(), [], ""
    for file in files:
        try:
            data = file.path.read_bytes()
        except OSError as error:  # the disk failed, not the file: it stays in the queue
            unreadable = f"{file.path} cannot be read: {error.strerror}."
            continue
        try:
            body = json.loads(data)
            hosts.add(body["host"])
            for table, columns in body["columns"].items():
                mine = tables.setdefault(table, {name: [] for name in TABLES[table].names})
                for name, values in mine.items():
                    values += columns[name]
            read.append(file)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptInput(f"{file.path} was pushed and cannot be read any more: {error}.") from None
    if read:
        ingest_id = new_ingest_id()
        for table, columns in sorted(tables.items()):
            add_rows(lake, table, TABLES[table].frame(columns), _SPOOL, ingest_id, report)
        whose = f"{len(hosts):,} hosts" if len(hosts) > 1 else min(hosts)
        entry = LedgerEntry(
            digest=hashlib.sha256("".join(sorted(file.digest for file in read)).encode()).hexdigest()[:32],
            path=str(queue.queue_dir(lake.root).absolute()),
            bytes=sum(file.bytes for file in read),
            source=_SPOOL,
            status="ok",
            rows={table: len(columns["start_ns"]) for table, columns in tables.items()},
            message=f"{len(read):,} segment{'s' if len(read) > 1 else ''} of {whose}",
            rows_ingest_ids=ingest_id,
        )
        lake.record([entry])
    for file in read:
        file.path.unlink(missing_ok=True)
    if unreadable:
        raise LakeError(unreadable)


def _take_rows(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    reading = reading_of(lake.facility, files[0].name)
    found = ingest(
        lake,
        [file.path for file in files],
        context=reading.context,
        source=reading.source,
        executor=Processes(1),
        known_since_ns=now_ns() - _REPEATED_WITHIN_NS,
        search=False,
    )
    report.add(found)
    bad = {outcome.path: outcome for outcome in found.bad}
    unreadable = []
    for file in files:
        outcome = bad.get(file.path)
        if outcome is not None and outcome.reason == UNREADABLE:
            unreadable.append(outcome.message or "")  # the disk failed, not the file: it stays in the queue
        elif outcome is not None and outcome.status == "quarantined":
            place = _move_aside(lake.root, file)
            _LOG.error("%s was pushed and cannot be read now: %s", place, outcome.message)
        else:
            file.path.unlink(missing_ok=True)
    if unreadable:
        raise LakeError("; ".join(unreadable[:3]))


def _move_aside(root: Path, file: Queued) -> Path:
    folder = queue.refused_dir(root) / file.host
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    return file.path.replace(folder / f"{file.digest}-{file.name}")


def _set_aside(lake: Lake, file: Queued, reason: str, why: str) -> None:
    """Move the file to `refused/` and name it in the ledger."""
    place = _move_aside(lake.root, file)
    message = f"{why} It was kept as {place}."
    _LOG.error("%s: %s", file.name, message)
    lake.record([refusal(file.digest, place, file.bytes, source_of(file.name), reason, message)])


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
            if queue.DRAFT.fullmatch(entry.name) and now_ns() - entry.stat().st_mtime_ns > HOUR_NS:
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
