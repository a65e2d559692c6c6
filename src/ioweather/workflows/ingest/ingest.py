"""Ingest: find files, recognise them by content, read them in parallel, put them in once, and say what became of each.

A file is in when the ledger says so, and the ledger is written last: whatever interrupts this, running it again
completes it.
"""

from __future__ import annotations

import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from ioweather.core.clock import now_ns, utc_day
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.progress import Progress, silent
from ioweather.core.words import names_of
from ioweather.engine import ChildDied, Serial, Threads, in_order, local_executor, place_of, workers_of
from ioweather.sources.catalogue import SOURCES
from ioweather.store import layout
from ioweather.store.appends import Staged, discard, stage
from ioweather.store.lake import Lake, LedgerEntry, new_ingest_id
from ioweather.tables import TABLES, Checked, concat
from ioweather.workflows.ingest.bounded_reading import read_alone_bounded, read_bounded, readers
from ioweather.workflows.ingest.one_run import without_copies
from ioweather.workflows.ingest.reading import (
    DERIVED,
    Batch,
    FileOutcome,
    Reading,
    digests_of,
    files_of_tree,
    limits_of,
    reads_as_one,
)
from ioweather.workflows.ingest.staging import Frames, Staging
from ioweather.workflows.ingest.what_follows import SEARCHED, follow_arrival, follow_mapping, follow_rows

_LOG = logging.getLogger("ioweather.ingest")
# One task: enough logs to pay for a file of their rows, little enough to lose; fewer where that keeps all workers busy.
_BATCH_LEAST, _BATCHES_EACH = 32, 2
# Logs are compressed: a megabyte may hold fifty thousand records, which become sixteen megabytes of rows. To open a
# file and to say what became of it takes as long as to read so many bytes of a log.
_BATCH_BYTES, _FILE_BYTES = 1 << 20, 512
# Many files are logs most often: what their readers need is loaded while the others are still being found.
_FOR_LOGS = names_of("ioweather.sources.darshan.rows ioweather.derive.jobs.job_io ioweather.store.appends arro3.io")
# Larger files come back piece by piece, not whole.
_STREAM_BYTES = 256 << 20
# One commit: so many numbers (32 MB, and seven times as much while they are written), or seconds, what comes first.
_FLUSH_CELLS = 4_000_000
# Of rows that workers wrote: those that meet others are read again to compare them.
_FLUSH_ROWS, _FLUSH_BYTES = 500_000, 64 << 20
_FLUSH_SECONDS = 10.0
_COPY = "The lake has this run in a fuller form: nothing was added."
# Of a worker, before all files are found.
_FIRST_FILES = 2048
# Below this, starting workers costs more than it saves.
_SMALL_FILES, _SMALL_BYTES = 64, 8 << 20
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")

Known: TypeAlias = dict[str | None, int]  # digest and bytes of each file that is in
Told = TypeVar("Told", FileOutcome, LedgerEntry)
Look: TypeAlias = Callable[[Set[int]], Known]  # those of some sizes


class Found(NamedTuple):
    file: str
    bytes: int

    @property
    def path(self) -> Path:
        return Path(self.file)


@dataclass(repr=False)
class IngestReport:
    """What became of every file. `known` files were in already."""

    outcomes: list[FileOutcome] = field(default_factory=list)
    known: int = 0
    rows_added: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    # Time of the first new row, of tables that are searched.
    first_ns: dict[str, int] = field(default_factory=dict)
    # What was not computed from the new rows, why, and how to repeat it.
    missing: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        rows = [f"{n:,} rows of {table}" for table, n in sorted(self.rows_added.items()) if n]
        added = ", ".join(rows) or "no new rows"
        return f"<IngestReport: {len(self.good):,} read, {self.known:,} known, {len(self.bad):,} refused; {added}>"

    def add(self, other: IngestReport) -> None:
        self.outcomes += other.outcomes
        self.known += other.known
        self.rows_added.update(other.rows_added)
        self.missing += other.missing
        self.seconds += other.seconds

    def note_first(self, first_ns: Mapping[str, int]) -> None:
        """The times of the first new rows, by table."""
        for table, first in first_ns.items():
            self.first_ns[table] = min(first, self.first_ns.get(table, first))

    @property
    def bad(self) -> list[FileOutcome]:
        return [outcome for outcome in self.outcomes if outcome.status != "ok"]

    @property
    def flagged(self) -> list[FileOutcome]:
        """Files that are in, with rows that were kept with a complaint."""
        return [outcome for outcome in self.good if outcome.flagged_rows]

    @property
    def noted(self) -> list[FileOutcome]:
        """Files that are in, and hold more than could be taken."""
        return [outcome for outcome in self.good if outcome.message and not outcome.flagged_rows]

    @property
    def good(self) -> list[FileOutcome]:
        return [outcome for outcome in self.outcomes if outcome.status == "ok"]


def is_address(text: str) -> bool:
    """Of a server (`workflows.ingest.servers`), and not the name of a file."""
    return _ADDRESS.match(text) is not None


def find_files(paths: Sequence[Path]) -> Iterator[Found]:
    """Files named or below directories named, each once, as they are found; hidden ones, links below directories and
    lakes are left alone. What may not be looked at is found too, so that reading says so.

    A directory that a source reads as one (a copied /proc tree) is one entry.
    """
    named = {file: _size_of_named(file) for file in map(os.fspath, paths)}
    told: set[str] = set()
    for path, size in named.items():
        for found in _below(path) if size is None else (Found(path, size),):
            if found.file not in told:
                told.add(found.file)
                yield found


def _below(top: str) -> Iterator[Found]:
    unlisted: list[str] = []
    for folder, subfolders, names in os.walk(top, onerror=lambda error: unlisted.append(error.filename)):
        if layout.lake_marker(Path()).name in names:
            subfolders.clear()
        elif reads_as_one(Path(folder)):
            yield Found(folder, sum(_size(str(file)) or 0 for file in files_of_tree(Path(folder))))
            subfolders.clear()
        else:
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for name in sorted(names):
                file = f"{folder}/{name}"
                if not name.startswith(".") and (size := _size(file)) is not None:
                    yield Found(file, size)
    yield from (Found(folder, 0) for folder in unlisted)


def _size(file: str) -> int | None:
    """Of a regular file; 0 where that may not be asked, None of anything else."""
    try:
        status = os.lstat(file)
    except FileNotFoundError:  # just removed
        return None
    except OSError:
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _size_of_named(file: str) -> int | None:
    """Of a regular file; None of a directory."""
    try:
        status = os.stat(file)  # noqa: PTH116 - a Path for each of a hundred thousand names takes longer than this
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"There is no file {file}.") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from None
    if stat.S_ISDIR(status.st_mode):
        return None
    if not stat.S_ISREG(status.st_mode):
        raise UsageError(
            f"{file} is a pipe or a device; ioweather needs a regular file.", hint="Write it to a file first."
        )
    return status.st_size


def ingest(
    lake: Lake,
    paths: Sequence[Path],
    *,
    context: ReadContext | None = None,
    source: str | None = None,
    select: tuple[str, str] | None = None,
    executor: Executor | None = None,
    known_since_ns: int = 0,
    again: bool = False,
    search: bool = True,
    progress: Progress = silent,
    clock: Callable[[], int] = now_ns,
) -> IngestReport:
    """Read every file into the lake. `source` names one instead of detecting; `select` is (table, SQL of a SELECT).
    Files that came in since `known_since_ns` are known (with `again`: none); of others, rows that are in are not
    added. Rows from after tomorrow, by the clock, are refused. Without `search`, what is searched for in new rows is
    left to the caller (`follow_arrival`).

    Workers of the executor (default: a process per core) read and write files of rows; this process alone commits them,
    in the order of what was read, so that it does not matter who read it.
    """
    started = time.monotonic()
    _check_asked(lake, source, select)
    found = find_files(paths)
    most = max(_SMALL_FILES, workers_of(executor or local_executor()))
    first = [*islice(found, most + 1)]
    pool = _suited(executor, first)
    if first:
        # While others are found and the lake is opened. Workers of a cluster have readers of their own.
        count = workers_of(pool) if isinstance(pool, (Serial, Threads)) else 0
        readers().start(count, _FOR_LOGS if len(first) > most else ())
        _ = SOURCES.plugins  # a broken one is named here, and not by every reader
    files = _Files(chain(first, found))
    limits, staging = limits_of(lake.facility), Staging.of(lake.root)
    reading = Reading(context or ReadContext(), source, select, limits, clock(), staging)
    report = IngestReport()
    writer = _Writer(lake, report)
    known: Known = {}
    look: Look = (lambda _: {}) if again else partial(_known_digests, lake, known_since_ns)
    try:
        for outcomes, frames in _read(pool, files, known, look, reading, report):
            writer.add(_first_of_each(outcomes, known, report), frames)
            progress(len(report.outcomes) + report.known, files.total, "files")
        writer.flush()
    except BaseException:
        readers().stop()
        writer.discard()
        raise
    finally:
        if pool is not executor:
            pool.shutdown(wait=True, cancel_futures=True)
        readers().rest()
    if files.count > _SMALL_FILES:
        readers().stop()  # a search needs the memory that they hold
    if select is not None:
        report.rows_added.update(follow_mapping(lake, select[0]))
    if search:
        report.rows_added.update(follow_arrival(lake, report.first_ns, report.missing))
    progress(files.count, files.count, "files")
    report.seconds = time.monotonic() - started
    _log(report, lake)
    return report


def _log(report: IngestReport, lake: Lake) -> None:
    for outcome in report.bad:
        _LOG.info("%s: %s: %s", outcome.path, outcome.status, outcome.message or outcome.reason)
    text, added = "%d files read, %d known, %d refused, %d rows added to %s in %.1f s", sum(report.rows_added.values())
    _LOG.info(text, len(report.good), report.known, len(report.bad), added, lake.root, report.seconds)


def _check_asked(lake: Lake, source: str | None, select: tuple[str, str] | None) -> None:
    """What is wrong with the command is one mistake, not one per file."""
    if source is not None:
        SOURCES[source]
    if select is not None:
        from ioweather.workflows.ingest.selected import check_select

        check_select(*select)
    if not os.access(lake.root, os.W_OK):
        raise LakeError(f"The lake {lake.root} may only be read by you.", hint="Name another one with --lake.")


def _suited(executor: Executor | None, files: Sequence[Found]) -> Executor:
    """A cluster that was asked for is used. Here there are as many readers as workers; one for a handful of files."""
    if executor is not None and place_of(executor) not in ("process", "processes"):
        return executor
    small = len(files) <= _SMALL_FILES and sum(file.bytes for file in files) <= _SMALL_BYTES
    workers = 1 if small else min(len(files), workers_of(executor or local_executor()))
    return Serial() if workers == 1 else Threads(workers)


def _first_of_each(outcomes: list[FileOutcome], known: Known, report: IngestReport) -> list[FileOutcome]:
    """Without files of the same content as one that is in, or was read before: their rows are the same rows."""
    first = []
    for outcome in outcomes:
        if outcome.digest in known:
            report.known += 1
        else:
            known[outcome.digest] = outcome.bytes
            first.append(outcome)
    return first


class _Files:
    """Files to be read: enough for all workers to begin with, and those that are left to find while they work."""

    def __init__(self, found: Iterator[Found]) -> None:
        self._found = found
        self.count = 0
        self.total: int | None = None  # not known before all are found
        self.large: list[Found] = []

    def small(self, workers: int) -> Iterator[list[Found]]:
        """In two portions; one worker alone would gain nothing by that."""
        for most in (workers * _FIRST_FILES, None) if workers > 1 else (None,):
            portion = [*islice(self._found, most)]
            self.count += len(portion)
            self.large += [file for file in portion if file.bytes > _STREAM_BYTES]
            if most is None:
                self.total = self.count
            yield [file for file in portion if file.bytes <= _STREAM_BYTES]


def _read(
    pool: Executor, files: _Files, known: Known, look: Look, reading: Reading, report: IngestReport
) -> Iterator[tuple[list[FileOutcome], Frames]]:
    """What is in the files: small ones first, by batches; then large ones and suspects, each alone."""
    alone: Batch = []

    def put_off(batch: Batch, _: Reading) -> tuple[list[FileOutcome], Frames, Batch]:
        return [], {}, batch  # the workers of a cluster died over it: read here

    portions = (_batches(small, known, look, reading, report, pool) for small in files.small(workers_of(pool)))
    batches = ((batch, reading) for batch in chain.from_iterable(portions))
    for outcomes, frames, suspects in in_order(pool, read_bounded, batches, lost=put_off):
        alone += suspects
        yield outcomes, frames
    for batch in _batches(files.large, known, look, reading, report, pool):
        alone += batch
    for path, digest, size in alone:
        for item in read_alone_bounded(Path(path), digest, size, reading):
            yield ([item], {}) if isinstance(item, FileOutcome) else ([], {item[:2]: [item[2]]})


def _digests_apart(paths: list[str], reading: Reading) -> list[str | None]:
    """Not for safety: for the processor."""
    try:
        return readers().call(digests_of, paths, reading)
    except ChildDied:
        return digests_of(paths, reading)


def _known_digests(lake: Lake, since_ns: int, sizes: Set[int]) -> Known:
    """Files of these sizes that are in: of others, after years millions, nothing is asked. What was refused, or read in
    part, is tried again: the person may now say the zone."""
    with lake.snapshot() as snapshot:
        ledger = snapshot.pinned["ingests"]
        if not ledger.uris:
            return {}
        recent = {day for day in ledger.days() if day >= utc_day(since_ns)} if since_ns else None
        entries = ledger.scan(recent, ("digest", "bytes", "status", "ingest_id"))
        newest_ok = "GROUP BY digest HAVING arg_max(status, ingest_id) = 'ok'"
        asked = f"SELECT digest, any_value(bytes) FROM ({entries}) WHERE bytes IN (SELECT unnest(?)) {newest_ok}"
        return dict(snapshot.bare.execute(asked, [sorted(sizes)]).fetchall())


def _batches(
    files: Sequence[Found], known: Known, look: Look, reading: Reading, report: IngestReport, pool: Executor
) -> Iterator[Batch]:
    """Files that are not in yet. One of a size that none has which is in need not be looked at before it is read; at
    others workers look: on a parallel file system it is the opening that takes the time."""
    if not files:
        return
    share, most = _share(files, workers_of(pool))
    held = look({file.bytes for file in files})
    known |= held
    sizes = set(held.values())
    doubted = [file.file for file in files if file.bytes in sizes]
    parts = [doubted[first : first + most] for first in range(0, len(doubted), most)]
    take = _digests_apart if place_of(pool) == "threads" else digests_of
    digests = chain.from_iterable(in_order(pool, take, ((part, reading) for part in parts)))
    batch: Batch = []
    size = 0
    for file in files:
        digest = next(digests) if file.bytes in sizes else None
        if digest in known:
            report.known += 1
            continue
        batch.append((file.file, digest, file.bytes))
        size += _FILE_BYTES + file.bytes
        if size >= share:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _share(files: Sequence[Found], workers: int) -> tuple[int, int]:
    """Bytes and files of a batch: as many batches for each worker, and all alike, so that all end at the same time."""
    size = sum(_FILE_BYTES + file.bytes for file in files)
    batches = max(size // _BATCH_BYTES, min(_BATCHES_EACH * workers - 1, len(files) // _BATCH_LEAST)) + 1
    batches += -batches % workers
    return -(-size // batches), -(-len(files) // batches) or 1


class _Writer:
    """Collects rows and commits them in large pieces: tables first, then the ledger."""

    def __init__(self, lake: Lake, report: IngestReport) -> None:
        self._lake = lake
        self._report = report
        self._frames: dict[tuple[str, str], list[Frame]] = {}
        self._staged: dict[str, list[Staged]] = {}
        self._entries: list[LedgerEntry] = []
        self._cells = self._rows = self._bytes = 0
        self._since = time.monotonic()
        self._ingest_ids: set[str] = set()  # of rows since the last ledger entry

    def add(self, outcomes: list[FileOutcome], frames: Frames) -> None:
        here = os.getcwd()  # noqa: PTH109 - a text, put before many
        # Of a folder that could not be listed the ledger would speak for ever: no file in it has its name.
        # Of a Path, `is_dir` fails where a directory above may not be entered.
        self._entries += [
            _ledger_entry(outcome, here)
            for outcome in outcomes
            if not (outcome.reason == "unreadable" and os.path.isdir(outcome.file))  # noqa: PTH112
        ]
        self._report.outcomes += outcomes
        for key, pieces in frames.items():
            for piece in pieces:
                if isinstance(piece, Frame):
                    self._frames.setdefault(key, []).append(piece)
                    self._cells += piece.rows * len(piece)
                else:
                    self._staged.setdefault(key[1], []).append(piece)
                    self._rows += piece.rows
                    self._bytes += sum(file.size for file in piece.files)
        is_full = self._cells >= _FLUSH_CELLS or self._rows >= _FLUSH_ROWS or self._bytes >= _FLUSH_BYTES
        if is_full or time.monotonic() - self._since > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        ingest_id = new_ingest_id()
        self._ingest_ids |= {ingest_id} if self._frames else set()
        self._ingest_ids |= {each.ingest_id for staged in self._staged.values() for each in staged}
        for (source, table), joined in sorted(self._joined().items()):
            if joined.rows and table in self._staged:  # in one commit: those of two would be compared with each other
                folder = layout.tables_dir(self._lake.root)
                self._staged[table].append(stage(folder, TABLES[table], joined, source, ingest_id))
                continue
            added = self._lake.append(table, Checked(joined), source=source, ingest_id=ingest_id)
            self._note(table, added, int(joined.ints(TABLES[table].time).min()) if added else 0)
            self._report.rows_added.update(follow_rows(self._lake, table, joined, self._report.missing))
        for table in sorted(self._staged):
            staged = self._staged.pop(table)
            self._note(table, self._lake.commit(table, staged), min(each.low_ns for each in staged))
        if self._entries:
            self._lake.record(self._entries, ",".join(sorted(self._ingest_ids)) or None)
            self._ingest_ids = set()
        self._frames, self._entries, self._since = {}, [], time.monotonic()
        self._cells = self._rows = self._bytes = 0

    def discard(self) -> None:
        """Files that nobody will commit."""
        for table, staged in self._staged.items():
            files = [file for each in staged for file in each.files]
            discard(layout.tables_dir(self._lake.root) / table, files)

    def _joined(self) -> dict[tuple[str, str], Frame]:
        """One frame for each source and table, and each run once."""
        joined = {key: concat(frames) for key, frames in self._frames.items()}
        made = {key: joined[key] for key in joined if key[0] in DERIVED}
        logs, left_out = without_copies(self._lake, made, self._staged.get("applications", ()))
        if left_out:
            _leave_out(self._entries, left_out)
            _leave_out(self._report.outcomes, left_out)
        return {**joined, **logs}

    def _note(self, table: str, added: int, first_ns: int) -> None:
        self._report.rows_added[table] += added
        if added and table in SEARCHED:
            self._report.note_first({table: first_ns})


def _leave_out(told: list[Told], digests: Set[str]) -> None:
    told[:] = [each._replace(rows={}, message=_COPY) if each.digest in digests else each for each in told]


def _ledger_entry(outcome: FileOutcome, here: str) -> LedgerEntry:
    path = outcome.file if outcome.file.startswith("/") else f"{here}/{outcome.file}"
    return LedgerEntry(outcome.digest, path, outcome.bytes, outcome.source or "unknown", *outcome[4:])
