"""Ingest: find files, recognise them by content, read them in parallel, add their rows once, and report each outcome.

A file is in the lake when the ledger lists it, and the ledger is written last: an interrupted ingest is completed by
running it again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import urlencode

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import LakeError, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.logs import Progress, silent
from ioweather.core.tables import TABLES, Complaints, concat
from ioweather.core.units import DAY_NS, MINUTE_NS, NS, now_ns, utc_day
from ioweather.ingestion.derivations import SEARCHED, derive_from_mapped, derive_from_rows, search_new_rows
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.ingestion.mappings import check_select
from ioweather.ingestion.reading import (
    Batch,
    Frames,
    Reading,
    files_of_tree,
    limits_of,
    read_alone_bounded,
    read_bounded,
    reads_as_one,
)
from ioweather.lake import layout
from ioweather.lake.database import connection, literal
from ioweather.lake.delta_tables import newest_files
from ioweather.lake.lake import Lake, new_ingest_id
from ioweather.lake.limited import stop_workers
from ioweather.lake.maintenance import forget_runs
from ioweather.lake.workers import Processes, in_order, workers_of
from ioweather.readers.prometheus.server import Poll, PrometheusServer
from ioweather.readers.reader_catalogue import SOURCES

# Of a server that was never read; older samples are read with --start.
_FIRST_TIME_NS: Final = DAY_NS
_PROMETHEUS: Final = "prometheus"


def ingest_server(
    lake: Lake,
    server: PrometheusServer,
    context: ReadContext,
    *,
    again: bool = False,
    progress: Progress = silent,
) -> IngestReport:
    """Read what is new at the server: since the start in the context, else since the last ingest, else for a day."""
    began, report, rows, complaints = time.monotonic(), IngestReport(), Counter[str](), Complaints()
    poll, where = Poll(server, context), _where_in_ledger(server, context)
    # A form that a path keeps unchanged, unlike //.
    name = server.where.replace("://", " at ").replace("/", "∕")
    reason, message = None, None
    try:
        until = poll.settled_ns()
        since = until - _FIRST_TIME_NS
        if context.start_ns is not None:
            since = context.start_ns // MINUTE_NS * MINUTE_NS
        elif not again and (known := _last_read_ns(lake, where)) is not None:
            since = known
        at = since
        for end, frames in poll.pieces(since, until):
            if frames or end == until:
                rows.update(_write_piece(lake, where, frames, (at, end), complaints, report))
                at = end
            progress((end - since) // MINUTE_NS, (until - since) // MINUTE_NS, "minutes")
        hosts = poll.mappings.without_host
        note = f"{hosts} series have no host (use --host)" if hosts else ""
        if said := "; ".join(part for part in (note, str(complaints)) if part):
            message = f"{name}: {said}"
    except SourceError as error:
        reason, message = error.reason, str(error)
    status: Literal["ok", "partial", "quarantined"] = "ok" if not reason else "partial" if rows else "quarantined"
    report.rows_added.update(search_new_rows(lake, report.first_ns, report.missing))
    counts = complaints.refused_rows, complaints.flagged_rows
    report.outcomes.append(FileOutcome(name, "", 0, _PROMETHEUS, status, dict(rows), reason, message, *counts))
    report.seconds = time.monotonic() - began
    return report


def _where_in_ledger(server: PrometheusServer, context: ReadContext) -> str:
    """The server, and with which mapping and resolution it is read."""
    own = hashlib.sha256(repr(sorted((context.mapping or {}).items())).encode()).hexdigest()[:8]
    options = {"mapping": own} if context.mapping else {}
    options |= {"resolution": "raw"} if context.keep_raw else {}
    return server.where + (f"#{urlencode(options)}" if options else "")


def _write_piece(
    lake: Lake,
    where: str,
    frames: list[tuple[str, Frame]],
    period_ns: tuple[int, int],
    complaints: Complaints,
    report: IngestReport,
) -> Mapping[str, int]:
    """Check the rows of one piece of time, add them and note the piece in the ledger; returns how many good ones there
    are by table."""
    by_table: dict[str, list[Frame]] = {}
    for table, frame in frames:
        possible, _ = complaints.check(TABLES[table], frame, now_ns())
        by_table.setdefault(table, []).append(possible)
    ingest_id, counts = new_ingest_id(), dict[str, int]()
    for table, pieces in sorted(by_table.items()):
        rows = concat(pieces)
        add_rows(lake, table, rows, _PROMETHEUS, ingest_id, report)
        counts[table] = rows.rows
    digest = hashlib.sha256(json.dumps([where, *period_ns]).encode()).hexdigest()[:32]
    entry = FileOutcome(where, digest, 0, _PROMETHEUS, "ok", counts, message=f"up to {period_ns[1]}")
    record(lake, [entry], ingest_id if any(counts.values()) else None)
    return counts


def _last_read_ns(lake: Lake, where: str) -> int | None:
    """Up to when the ledger says that the server was read."""
    with lake.snapshot() as snapshot:
        sql = f"SELECT max(CAST(substr(message, 7) AS BIGINT)) FROM ({snapshot.rows('ingests')}) WHERE path = "
        rows = snapshot.bare.execute(f"{sql}{literal(where)} AND message LIKE 'up to %'").fetchall()
    return None if rows[0][0] is None else int(rows[0][0])


_LOG = logging.getLogger("ioweather.ingest")
# Files of one task: enough to pay for a process, few enough to read one by one if it dies. A megabyte of compressed
# logs may have fifty thousand records, which become sixteen megabytes of rows.
_BATCH_FILES, _BATCH_BYTES = 256, 1 << 20
# Rows of larger files are committed while the file is read.
_STREAM_BYTES = 256 << 20
# One commit: so many numbers (32 MB, and seven times as much while they are written), or seconds.
_FLUSH_CELLS = 4_000_000
_FLUSH_SECONDS = 10.0
# Columns of a run, for texts whose log is there, and the entry of such a text.
_TEXTS, _NUMBERS = ("log_digest", "form", "exe"), ("job_id", "uid", "nprocs", "start_ns")
_IS_COPY: Final[Any] = {"rows": {}, "message": "The lake already has the log of this run: nothing was added."}
# Below this, starting several readers costs more than it saves.
_SMALL_FILES, _SMALL_BYTES = 64, 8 << 20
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://")


class Found(NamedTuple):
    """A file or directory to read, and its size."""

    file: str
    bytes: int


@dataclass(repr=False)
class IngestReport:
    """The outcome of every file. `known` files were in the lake already."""

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
        """Add the outcomes, rows and seconds of another part of the ingest."""
        self.outcomes += other.outcomes
        self.known += other.known
        self.rows_added.update(other.rows_added)
        self.missing += other.missing
        self.seconds += other.seconds
        for table, first in other.first_ns.items():
            self.first_ns[table] = min(first, self.first_ns.get(table, first))

    @property
    def bad(self) -> list[FileOutcome]:
        """Files that were refused or read in part."""
        return [outcome for outcome in self.outcomes if outcome.status != "ok"]

    @property
    def flagged(self) -> list[FileOutcome]:
        """Files that were read, with rows that were stored with a complaint."""
        return [outcome for outcome in self.good if outcome.flagged_rows]

    @property
    def noted(self) -> list[FileOutcome]:
        """Files that were read, with content that no table takes."""
        return [outcome for outcome in self.good if outcome.message and not outcome.flagged_rows]

    @property
    def good(self) -> list[FileOutcome]:
        """Files that were read whole."""
        return [outcome for outcome in self.outcomes if outcome.status == "ok"]


def is_address(text: str) -> bool:
    """Whether the text is the address of a server and not the name of a file."""
    return _ADDRESS.match(text) is not None


def find_files(paths: Sequence[Path]) -> Iterator[Found]:
    """Files that are named or below named directories, each once; not hidden ones, links below directories, and lakes.
    A file without permission is yielded too, so that reading it reports the error.

    A directory that a source reads as one (a copied /proc tree) is one entry.
    """
    seen: set[str] = set()
    for file in map(os.fspath, paths):
        try:
            status = os.stat(file)  # noqa: PTH116 - a Path for each of a hundred thousand names takes longer than this
        except (FileNotFoundError, NotADirectoryError):
            raise UsageError(f"{file} does not exist.") from None
        except OSError as error:
            raise UsageError(f"Cannot read {file}: {error.strerror}.") from None
        if not stat.S_ISDIR(status.st_mode) and not stat.S_ISREG(status.st_mode):
            raise UsageError(
                f"{file} is a pipe or a device, not a regular file.", hint="Write the data to a file first."
            )
        for found in _files_below(file) if stat.S_ISDIR(status.st_mode) else (Found(file, status.st_size),):
            if found.file not in seen:
                seen.add(found.file)
                yield found


def _files_below(top: str) -> Iterator[Found]:
    """Files below a directory, in order of their names."""
    unlisted: list[str] = []
    for folder, subfolders, names in os.walk(top, onerror=lambda error: unlisted.append(error.filename)):
        if layout.lake_marker(Path()).name in names:
            subfolders.clear()
        elif reads_as_one(Path(folder)):
            yield Found(folder, sum(file.stat().st_size for file in files_of_tree(Path(folder))))
            subfolders.clear()
        else:
            subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
            for file in (f"{folder}/{name}" for name in sorted(names) if not name.startswith(".")):
                try:
                    status = os.lstat(file)
                    if stat.S_ISREG(status.st_mode):
                        yield Found(file, status.st_size)
                except FileNotFoundError:  # just removed
                    continue
                except OSError:
                    yield Found(file, 0)
    yield from (Found(folder, 0) for folder in unlisted)


def ingest(
    lake: Lake,
    paths: Sequence[Path],
    *,
    context: ReadContext | None = None,
    source: str | None = None,
    select: tuple[str, str] | None = None,
    executor: Executor | None = None,
    again: bool = False,
    progress: Progress = silent,
    clock: Callable[[], int] = now_ns,
) -> IngestReport:
    """Read every file into the lake. `source` names one instead of detecting; `select` is (table, SQL of a SELECT).
    Files that came in before are known and not read (with `again` they are, and only rows that are not in are added).
    Rows from after tomorrow, by the clock, are refused.

    Readers on the executor's workers (default: one per core) give back rows; this process alone commits them, in the
    order of the files, so that the lake does not depend on the workers.
    """
    started = time.monotonic()
    # Errors of the command itself, which would otherwise be reported for each file.
    if source is not None:
        SOURCES[source]
    if select is not None:
        check_select(*select)
    if not os.access(lake.root, os.W_OK):
        raise LakeError(f"No write permission for the lake {lake.root}.", hint="Use another lake with --lake.")
    _ = SOURCES.plugins  # a broken one is named here, and not by every reader
    files = [*find_files(paths)]
    known = {} if again else _known_digests(lake, {file.bytes for file in files})
    reading = Reading(context or ReadContext(), source, select, limits_of(lake.facility), clock())
    report = IngestReport()
    writer = _Writer(lake, report)
    pool = _choose_pool(executor, files)
    try:
        for outcomes, frames in _read(pool, files, known, reading):
            first = []  # of files with the same content: their rows are the same rows
            for outcome in outcomes:
                if outcome.digest not in known:
                    known[outcome.digest] = outcome.bytes
                    first.append(outcome)
            report.known += len(outcomes) - len(first)
            writer.add(first, frames)
            progress(len(report.outcomes) + report.known, len(files), "files")
        writer.flush()
    except BaseException:
        if isinstance(pool, ThreadPoolExecutor):
            pool.shutdown(wait=False, cancel_futures=True)
            stop_workers(pool._threads)
        raise
    finally:
        if pool is not executor:
            pool.shutdown(wait=True, cancel_futures=True)
    if select is not None:
        report.rows_added.update(derive_from_mapped(lake, select[0]))
    report.rows_added.update(search_new_rows(lake, report.first_ns, report.missing))
    progress(len(files), len(files), "files")
    report.seconds = time.monotonic() - started
    for outcome in report.bad:
        _LOG.info("%s: %s: %s", outcome.path, outcome.status, outcome.message or outcome.reason)
    text, added = "%d files read, %d known, %d refused, %d rows added to %s in %.1f s", sum(report.rows_added.values())
    _LOG.info(text, len(report.good), report.known, len(report.bad), added, lake.root, report.seconds)
    return report


def _choose_pool(executor: Executor | None, files: Sequence[Found]) -> Executor:
    """The executor of the readers: a given cluster, or threads that wait for limited processes, one for each worker of
    this machine; one for a handful of files."""
    if executor is not None and not isinstance(executor, Processes):
        return executor
    is_small = len(files) <= _SMALL_FILES and sum(file.bytes for file in files) <= _SMALL_BYTES
    return ThreadPoolExecutor(1 if is_small else min(len(files), workers_of(executor or Processes())))


def _known_digests(lake: Lake, sizes: Set[int]) -> dict[str, int]:
    """Digest and bytes of known files of these sizes; after years the ledger has millions of others. A file that was
    refused or read in part is tried again: the user may now give the zone."""
    with lake.snapshot() as snapshot:
        ledger = snapshot.pinned["ingests"]
        if not ledger.uris or not sizes:
            return {}
        entries = ledger.scan(None, ("digest", "bytes", "status", "ingest_id"))
        newest_ok = "GROUP BY digest HAVING arg_max(status, ingest_id) = 'ok'"
        query = f"SELECT digest, any_value(bytes) FROM ({entries}) WHERE bytes IN (SELECT unnest(?)) {newest_ok}"
        return dict(snapshot.bare.execute(query, [sorted(sizes)]).fetchall())


def _read(
    pool: Executor, files: Sequence[Found], known: Mapping[str, int], reading: Reading
) -> Iterator[tuple[list[FileOutcome], Frames]]:
    """Outcomes and rows of the files: small ones first, in batches; then each of the large ones, piece by piece."""

    def reading_of(batch: Batch) -> Reading:
        sizes = {size for _, size in batch}
        return replace(reading, known=frozenset(digest for digest, size in known.items() if size in sizes))

    small = [file for file in files if file.bytes <= _STREAM_BYTES]
    batches = ((batch, reading_of(batch)) for batch in _make_batches(small))
    # A batch over which the workers of a cluster died is read here.
    yield from in_order(pool, read_bounded, batches, lost=read_bounded)
    for file in files:
        if file.bytes > _STREAM_BYTES:
            own = reading_of([file])
            for item in read_alone_bounded(*file, own):
                yield ([item], {}) if isinstance(item, FileOutcome) else ([], {item[:2]: [item[2]]})


def _make_batches(files: Sequence[Found]) -> Iterator[Batch]:
    """The files in batches for one task each."""
    batch: Batch = []
    size = 0
    for file in files:
        if batch and (len(batch) >= _BATCH_FILES or size + file.bytes > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((file.file, file.bytes))  # a worker need not load this module
        size += file.bytes
    if batch:
        yield batch


def add_rows(lake: Lake, table: str, rows: Frame, source: str, ingest_id: str, report: IngestReport) -> None:
    """Append checked rows to a table, and derive other tables from them; the report counts what is new."""
    added = lake.append(table, rows, source=source, ingest_id=ingest_id, checked=True)
    report.rows_added[table] += added
    if added and table in SEARCHED:
        first = int(rows.ints(TABLES[table].time).min())
        report.first_ns[table] = min(first, report.first_ns.get(table, first))
    report.rows_added.update(derive_from_rows(lake, table, rows, report.missing))


class _Writer:
    """Collects rows and commits them in large pieces: tables first, then the ledger."""

    def __init__(self, lake: Lake, report: IngestReport) -> None:
        self._lake = lake
        self._report = report
        self._frames: Frames = {}
        self._entries: list[FileOutcome] = []
        self._cells = 0
        self._since = time.monotonic()
        self._ingest_ids: set[str] = set()  # of rows since the last ledger entry

    def add(self, outcomes: list[FileOutcome], frames: Frames) -> None:
        """Add the outcomes and rows of some files; commit if enough were collected, or the last commit is old."""
        here = Path.cwd()
        for outcome in outcomes:
            # A folder that could not be listed is not in the ledger: no file in it has its name.
            # Path.is_dir fails where a directory above may not be entered.
            if not (outcome.reason == "unreadable" and os.path.isdir(outcome.file)):  # noqa: PTH112
                self._entries.append(outcome._replace(file=str(here / outcome.file)))
        self._report.outcomes += outcomes
        for key, pieces in frames.items():
            self._frames.setdefault(key, []).extend(pieces)
            self._cells += sum(piece.rows * len(piece) for piece in pieces)
        if self._cells >= _FLUSH_CELLS or time.monotonic() - self._since > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Commit the collected rows, then their ledger entries."""
        ingest_id = new_ingest_id()
        self._ingest_ids |= {ingest_id} if self._frames else set()
        joined = {key: concat(frames) for key, frames in self._frames.items()}
        if (logs := joined.get(("darshan", "applications"))) is not None:
            joined = self._leave_out_copies(joined, logs)
        for (source, table), frame in sorted(joined.items()):
            add_rows(self._lake, table, frame, source, ingest_id, self._report)
        if self._entries:
            record(self._lake, self._entries, ",".join(sorted(self._ingest_ids)) or None)
            self._ingest_ids = set()
        self._frames, self._entries, self._cells, self._since = {}, [], 0, time.monotonic()

    def _leave_out_copies(self, joined: dict[tuple[str, str], Frame], runs: Frame) -> dict[tuple[str, str], Frame]:
        """Return the rows without text of a run whose log is in the lake, or comes too; remove stored text of these
        runs. Text lacks the digest of its log, so a run is known by its job, user, program, processes and start."""
        columns = [*(runs.text(name).tolist() for name in _TEXTS), *(runs.ints(name).tolist() for name in _NUMBERS)]
        new = [*zip(*columns, strict=True)]
        jobs = {job_id for _, form, _, job_id, *_ in new if form}
        days = {utc_day(start_ns) for *_, start_ns in new}
        files = newest_files(layout.tables_dir(self._lake.root), TABLES["applications"])
        query = f"SELECT {', '.join((*_TEXTS, *_NUMBERS))} FROM ({files.scan(days)}) WHERE form = 'text'"
        with connection() as con:
            old = con.execute(f"{query} OR list_contains(?, job_id)", [[*jobs]]).fetchall() if files.uris else []
        forms: dict[tuple[object, ...], dict[str, str | None]] = {}
        for digest, form, exe, *numbers, start_ns in (*new, *old):
            forms.setdefault(((exe or "").rstrip(), *numbers, start_ns // NS), {})[digest] = form
        copies = {d for run in forms.values() if None in run.values() for d, form in run.items() if form == "text"}
        forget_runs(self._lake, copies.intersection(digest for digest, *_ in old))
        if not copies.intersection(digest for digest, *_ in new):
            return joined
        self._entries = [e._replace(**_IS_COPY) if e.digest in copies else e for e in self._entries]
        self._report.outcomes = [o._replace(**_IS_COPY) if o.digest in copies else o for o in self._report.outcomes]
        for key in [key for key in joined if key[0] == "darshan"]:
            kept = [digest not in copies for digest in joined[key].text("log_digest").tolist()]
            joined[key] = joined[key].take(np.array(kept, np.bool_))
        return joined
