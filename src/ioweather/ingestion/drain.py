"""Write what other hosts pushed from the queue to the lake, many files in one commit.

    python -m ioweather.ingestion.drain LAKE

One pass in a child of the server, which keeps memory and processor time of writing out of the server. It may be killed
at any moment: a file leaves the queue after its ledger entry is committed, and rows in the lake are not added again.
"""

from __future__ import annotations

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
from ioweather.core.frames import Frame
from ioweather.core.safe_files import write_whole
from ioweather.core.tables import TABLES, concat
from ioweather.core.units import HOUR_NS, MIB, now_ns
from ioweather.ingestion import queue
from ioweather.ingestion.derivations import search_new_rows
from ioweather.ingestion.ingest import IngestReport, add_rows
from ioweather.ingestion.queue import Queued
from ioweather.lake.lake import Lake, new_ingest_id, open_lake
from ioweather.lake.layout import locked
from ioweather.lake.ledger import FileOutcome

_LOG = logging.getLogger("ioweather.drain")
# One commit of every table.
BATCH_FILES: Final = 5_000
BATCH_BYTES: Final = 32 * MIB
# A file in the batches of so many writers that died is written alone; after as many deaths again it is set aside.
MOST_DEATHS: Final = 5
# A search of new rows waits so many times as long as the last one took, so that rows of many hosts do not wait for it.
_SEARCH_REST: Final = 5.0
_FRAME_ROWS: Final = 50_000


def drain(lake: Lake) -> int:
    """Write the queued files, then search the new rows for events; returns the number of files.

    Of files that arrive during the pass, full batches are written too; others wait for the next pass, since a commit
    of a few rows takes as long as one of many. Raises LakeError or OSError if the lake or its disk fails: the files
    stay in the queue."""
    done, report, is_last = 0, IngestReport(), False
    while files := next_batch(lake):
        is_part = len(files) < BATCH_FILES and sum(file.bytes for file in files) < BATCH_BYTES // 2
        if is_part and is_last:
            break
        is_last = is_last or is_part
        with _counting_deaths(lake.root, files):
            _write_or_split(lake, files, report)
        done += len(files)
    _search_if_due(lake, report.first_ns)
    return done


def _search_if_due(lake: Lake, first_ns: dict[str, int]) -> None:
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
    """The oldest files; those that writers died over come last and one at a time, and are set aside in the end."""
    files, deaths = queue.queued(lake.root), _read_deaths(lake.root)
    if clean := [file for file in files if deaths[file.path.name] < MOST_DEATHS]:
        return queue.first_within(clean, BATCH_FILES, BATCH_BYTES)
    for file in files:
        count = deaths[file.path.name]
        if count < 2 * MOST_DEATHS:
            return [file]
        with _counting_deaths(lake.root, [file]):
            _set_aside(lake, file, "worker_lost", f"The file crashed {count} lake writers.")
    return []


def _read_deaths(root: Path) -> Counter[str]:
    """How many writers died over each file."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        return Counter(json.loads((queue.queue_dir(root) / ".writing").read_bytes())["deaths"])
    return Counter()


@contextmanager
def _counting_deaths(root: Path, files: Sequence[Queued]) -> Iterator[None]:
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


def _write_or_split(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write a batch; if that fails, each file alone, so that one bad file does not stop others."""
    try:
        write_batch(lake, files, report)
    except (LakeError, OSError):
        raise
    except Exception as error:
        left = [file for file in files if file.path.exists()]
        if len(files) > 1:
            for file in left:
                _write_or_split(lake, [file], report)
        elif left:
            reason = error.reason if isinstance(error, SourceError) else "reader_failed"
            _set_aside(lake, left[0], reason, f"Writing the file to the lake failed ({type(error).__name__}: {error}).")


def write_batch(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write rows that were checked when they came, in one commit of each table. Files without a complaint have one
    entry in the ledger: one for each would be more than the rows after some months of many hosts."""
    rows = _CheckedRows()
    read, unreadable = [], ""
    for file in files:
        try:
            rows.add(file)
            read.append(file)
        except OSError as error:  # the disk failed, not the file: it stays in the queue
            unreadable = f"Cannot read {file.path}: {error.strerror}."
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptInput(f"The pushed file {file.path} is damaged: {error}.") from None
    ingest_id, tables = new_ingest_id(), rows.tables()
    for (source, table), frame in tables.items():
        add_rows(lake, table, frame, source, ingest_id, report)
    lake.record(rows.outcomes(queue.queue_dir(lake.root)), ingest_id if tables else None)
    for file in read:
        file.path.unlink(missing_ok=True)
    if unreadable:
        raise LakeError(unreadable)


class _CheckedRows:
    """Rows of queued files by source and table, and their entries in the ledger."""

    def __init__(self) -> None:
        # Columns of the last rows as lists, which take ten times the memory of a Frame.
        self._columns: dict[tuple[str, str], dict[str, list[Any]]] = {}
        self._frames: dict[tuple[str, str], list[Frame]] = {}
        self._complaints: list[FileOutcome] = []
        self._quiet: list[Queued] = []
        self._hosts: set[str] = set()
        self._counts: Counter[str] = Counter()

    def add(self, file: Queued) -> None:
        """Add the rows of a file, which `receive` wrote."""
        header, *pieces = map(json.loads, file.path.read_bytes().splitlines())
        if pieces and pieces[-1][0] == "ingests":
            self._complaints.append(FileOutcome(*pieces.pop()[1]))
        else:
            self._quiet.append(file)
            self._hosts.add(header["host"])
            self._counts.update({table: len(columns[TABLES[table].time]) for table, columns in pieces})
        for table, columns in pieces:
            key = header["source"], table
            mine = self._columns.setdefault(key, {name: [] for name in TABLES[table].names})
            for name, values in mine.items():
                values += columns[name]
            if len(mine[TABLES[table].time]) >= _FRAME_ROWS:
                self._frames.setdefault(key, []).append(TABLES[table].frame(self._columns.pop(key)))

    def tables(self) -> dict[tuple[str, str], Frame]:
        """All rows, by source and table."""
        for key, columns in self._columns.items():
            self._frames.setdefault(key, []).append(TABLES[key[1]].frame(columns))
        self._columns = {}
        return {key: concat(frames) for key, frames in sorted(self._frames.items())}

    def outcomes(self, place: Path) -> list[FileOutcome]:
        """Entries of files with a complaint, and one for all others together, at `place`."""
        if not self._quiet:
            return self._complaints
        whose = f"{len(self._hosts):,} hosts" if len(self._hosts) > 1 else min(self._hosts)
        message = f"{len(self._quiet):,} file{'s' if len(self._quiet) > 1 else ''} of {whose}"
        digest = hashlib.sha256("".join(sorted(file.digest for file in self._quiet)).encode()).hexdigest()[:32]
        size = sum(file.bytes for file in self._quiet)
        together = FileOutcome(str(place.absolute()), digest, size, "spool", "ok", self._counts, message=message)
        return [*self._complaints, together]


def _set_aside(lake: Lake, file: Queued, reason: str, why: str) -> None:
    """Move the file to `refused/` and name it in the ledger."""
    folder = queue.refused_dir(lake.root)
    folder.mkdir(exist_ok=True, mode=0o750)
    place = file.path.replace(folder / file.path.name)
    message = f"{why} The file was moved to {place}."
    _LOG.error("%s: %s", file.name, message)
    lake.record([FileOutcome(str(place), file.digest, file.bytes, "spool", "quarantined", {}, reason, message)])


# The process


def _report_trouble(fd: int, text: str) -> None:
    """Write the error of this pass to the writer's file, if its disk, which may be full, takes it."""
    with suppress(OSError):
        os.pwrite(fd, text.encode()[: queue.TROUBLE_BYTES].ljust(queue.TROUBLE_BYTES), 0)


def run_pass(root: Path) -> int:
    """Drain the queue unless another writer does; the exit code. An error is logged and shown with the queue."""
    with suppress(OSError):
        for entry in os.scandir(queue.queue_dir(root)):  # drafts of a killed server: their senders send again
            if queue.DRAFT.fullmatch(entry.name) and now_ns() - entry.stat().st_mtime_ns > HOUR_NS:
                Path(entry.path).unlink(missing_ok=True)
    try:
        queue.queue_dir(root).mkdir(exist_ok=True, mode=0o750)
        with locked(queue.writer_file(root)) as fd:
            if fd is None:
                time.sleep(1.0)
                return 0
            if not os.fstat(fd).st_size:
                _report_trouble(fd, "")  # takes the room on the disk
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
    """Drain the queue of a lake once, at low priority; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server ends
    return run_pass(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
