"""Reading files within limits: which reader, which rows, or why not. All of it pickles, for worker processes."""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np
from numpy import ma  # every reader needs it: loaded before they are copied

from ioweather.core.contracts import BatchSource, ReadContext, Source
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Frame
from ioweather.core.registry import OURS
from ioweather.core.tables import TABLES, Complaints, concat
from ioweather.core.units import (
    DAY_NS,
    MIB,
    MINUTE_NS,
    NS,
    format_bytes,
    format_seconds,
    format_time_ns,
    now_ns,
    zone_named,
)
from ioweather.facts.job_metrics import job_io
from ioweather.ingestion.ledger import FileOutcome
from ioweather.lake.limited import WorkerDied, limit_memory, limit_seconds, run_limited, stream_limited
from ioweather.readers.reader_catalogue import SOURCES, nearest
from ioweather.readers.text_files import take_cuts

# Limit of wall time per second of processor time: storage may be slow, but not dead.
_WALL_RATIO: Final = 10.0
_CHANGED: Final = "changed_input"
UNREADABLE: Final = "unreadable"  # the file system failed, and may work again: the file is not to blame
_HEAD_BYTES = 64 << 10
# Asked first, by how the file begins: one that is sure spares the loading of all others, which takes longer than a
# small file.
_BY_MAGIC_NUMBER: Final = {b"\x89HDF": ("tts", "h5lmt"), b"SQLi": ("lmt",)}
# How a segment of our own agent begins.
_SEGMENT: Final = b'{"ioweather_spool"'
# Sources of logs. From their rows job metrics are computed at once, while they are in memory.
DERIVED: Final = frozenset({"darshan"})
# Of ours, those that read a directory as one: the others are not loaded to say no.
_OF_FOLDERS: Final = ("lustre", "prometheus")
_SECONDS_PER_MIB = 5.0
_MEMORY_RATIO = 64
_MEMORY_STEP_BYTES = 16 * MIB
# File systems count time in steps of up to 2 s: a change within one step of the last leaves the times as they are.
_TIME_STEP_NS = 2 * NS
_WHOLE: Final = "Ingest the file again when it is complete."


@dataclass(frozen=True)
class Limits:
    """Limits of reading one file: a constant, and a part that grows with its size. Compressed text takes up to a second
    of processor time per MiB of the file; five leave room for slow machines."""

    seconds: float
    memory_bytes: int
    rows: int

    def seconds_for(self, size: int) -> float:
        """Processor time for a file of so many bytes."""
        return self.seconds + _SECONDS_PER_MIB * size / MIB

    def wall_seconds_for(self, size: int) -> float:
        """Wall time for a file of so many bytes."""
        return _WALL_RATIO * self.seconds_for(size)

    def memory_for(self, size: int) -> int:
        """Memory in bytes for a file of so many bytes: at most half of the machine's; the same for all small files."""
        half = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
        more = _MEMORY_RATIO * (size - size % _MEMORY_STEP_BYTES)
        return min(self.memory_bytes + more, max(self.memory_bytes, half))

    def rows_for(self, size: int) -> int:
        """Most rows of a file of so many bytes."""
        return self.rows + size


def limits_of(facility: Facility) -> Limits:
    """The limits that facility.toml sets in [ingest]."""
    return Limits(facility.stuck_after_ns / NS, facility.most_memory_bytes, facility.most_rows)


def context_of(
    facility: Facility, *, mapping: Mapping[str, Any] | None = None, hosts: str | None = None
) -> ReadContext:
    """The context of files without a description: the zone of the facility, and its cluster if it has only one."""
    return ReadContext(
        zone=zone_named(facility.zone) if facility.zone else None,
        cluster=facility.clusters[0] if len(facility.clusters) == 1 else None,
        mapping=mapping,
        hosts=hosts,
    )


@dataclass(frozen=True)
class Reading:
    """How to read: what the user knows of the files, a source or (table, SELECT) if given, limits, and the current time
    (rows from after tomorrow are refused)."""

    context: ReadContext
    source: str | None = None
    select: tuple[str, str] | None = None
    limits: Limits = field(default_factory=lambda: limits_of(Facility()))
    now_ns: int = field(default_factory=now_ns)
    # Digests of files that are in the lake: such a file is not read.
    known: frozenset[str] = frozenset()


Batch: TypeAlias = list[tuple[str, int]]  # path and bytes
Frames: TypeAlias = dict[tuple[str, str], list[Frame]]  # by source and table


def head_of(path: Path) -> bytes:
    """The first bytes of a file (most logs have no more); none of a directory."""
    try:
        with path.open("rb", buffering=0) as file:
            return file.read(_HEAD_BYTES) or b""
    except IsADirectoryError:
        return b""


def digest_of(path: Path, reading: Reading, head: bytes | None = None) -> str:
    """Digest of the content, and of the SELECT or mapping: one CSV may have rows of several tables."""
    head = head_of(path) if head is None else head
    digest = hashlib.sha256(head)
    if not head and path.is_dir():
        for member in files_of_tree(path):
            digest.update(str(member.relative_to(path)).encode(errors="surrogateescape"))
            digest.update(member.read_bytes())
        return digest.hexdigest()[:32]
    if len(head) == _HEAD_BYTES:
        with path.open("rb", buffering=0) as file:
            file.seek(_HEAD_BYTES)
            while piece := file.read(256 << 10):
                digest.update(piece)
    for mapping in (reading.select, reading.context.mapping):
        if mapping is not None:
            digest.update(repr(mapping).encode())
    return digest.hexdigest()[:32]


class _Version:
    """The current content of a file, to check that rows and digest are of the same content. A file that is replaced or
    written to gets another inode, size or time; if it changed just before, the times may be equal, and the digest is
    compared."""

    def __init__(self, path: Path, reading: Reading) -> None:
        self._path, self._reading = path, reading
        self._marks = self._stat_files()
        self.digest = digest_of(path, reading)
        self._is_fresh = max(max(mark[-2:]) for mark in self._marks) > now_ns() - _TIME_STEP_NS

    def _stat_files(self) -> list[tuple[int, ...]]:
        """Device, inode, size and times of the file, or of all files of the directory."""
        files = [self._path, *(files_of_tree(self._path) if self._path.is_dir() else ())]
        found = (file.stat() for file in files)
        return [(at.st_dev, at.st_ino, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for at in found]

    def check(self) -> None:
        """Raise SourceError if the file has changed."""
        changed = self._stat_files() != self._marks
        if changed or (self._is_fresh and digest_of(self._path, self._reading) != self.digest):
            raise SourceError(
                f"{self._path} changed while it was read.",
                hint="Ingest it again after all writes to it end.",
                kind="ChangedInput",
            )


def files_of_tree(folder: Path) -> list[Path]:
    """All regular files below the directory, sorted; links are left out."""
    os.scandir(folder).close()  # which says so where it may not be looked into; rglob does not
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def reads_as_one(folder: Path) -> bool:
    """Whether some source reads the directory as one."""
    return any(_detection_score(name, b"", folder) > 0 for name in (*_OF_FOLDERS, *SOURCES.plugins))


def _detection_score(name: str, head: bytes, path: Path) -> float:
    """How sure the source is that it reads the file. A plug-in whose `detect` fails is left out."""
    if SOURCES.is_ours(name):
        return SOURCES[name].detect(head, path)
    try:
        score = SOURCES[name].detect(head, path)
        if 0.0 <= score <= 1.0:
            return score
        why = f"detect() returned {score!r} for {path}, expected 0 to 1"
    except Exception as error:
        why = f"detect() failed for {path} ({type(error).__name__}: {error})"
    SOURCES.leave_out(name, why)
    return 0.0


def choose_source(head: bytes, path: Path) -> Source:
    """The source that recognises the content best."""
    if head.startswith(_SEGMENT):
        return SOURCES["spool"]
    for name in _BY_MAGIC_NUMBER.get(head[:4], ("darshan",)):
        if SOURCES[name].detect(head, path) >= 1.0:  # no other source can be as sure
            return SOURCES[name]
    scores: list[tuple[float, str]] = []
    for name in SOURCES:
        score = _detection_score(name, head, path)
        if score >= 1.0:
            return SOURCES[name]
        scores.append((score, name))
    scores.sort(reverse=True)
    best, name = scores[0]
    if best <= 0 and (near := nearest(head)) is not None:
        raise SourceError(
            f"{path} is {near[0]}, which is not supported.", hint=f"Use instead: {near[1]}", kind="UnknownFormat"
        )
    if best <= 0:
        raise SourceError(
            f"The format of {path} is not supported.",
            hint="`ioweather ingest --list-sources` lists supported formats. Ingest CSV, JSON or Parquet files with "
            "--as TABLE --select FILE.sql.",
            kind="UnknownFormat",
        )
    if len(scores) > 1 and scores[1][0] == best:
        raise SourceError(
            f"{path} could be {name} or {scores[1][1]}.", hint="Select one with --source.", kind="AmbiguousFormat"
        )
    return SOURCES[name]


def read_file(path: Path, size: int, reading: Reading) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they are read; last, the outcome."""
    digest: str | None = None
    source_name: str | None = reading.source
    rows: Counter[str] = Counter()
    made: dict[str, list[Frame]] = {}
    complaints, cadence, notes = Complaints(), Cadence(), list[str]()
    take_cuts()
    try:
        version = _Version(path, reading)
        digest = version.digest
        if digest in reading.known:
            yield FileOutcome(str(path), digest, size, None, "ok")
            return
        if reading.select is not None:
            # It loads DuckDB, which no other file needs in the process that reads it.
            from ioweather.ingestion.mappings import read_selected, source_of

            source_name, most = source_of(reading.select[1]), reading.limits
            pieces: Iterator[tuple[str, Frame]] = read_selected(
                path,
                *reading.select,
                reading.context,
                seconds=most.seconds_for(size),
                memory_bytes=most.memory_for(size),
                rows=most.rows_for(size),
            )
        else:
            source = _source_for(path, head_of(path), reading)
            source_name, pieces = source.name, source.read(path, reading.context)
        for table, frame in _noted(pieces, cadence, notes):
            good = _check_frame(source_name, table, frame, reading, complaints)
            rows[table] += good.rows
            _check_rows(path, size, rows.total(), reading.limits)
            if source_name in DERIVED:
                made.setdefault(table, []).append(good)
            yield source_name, table, good
        for table, frame in derive_job_io(source_name, {name: concat(frames) for name, frames in made.items()}):
            yield source_name, table, _check_frame(source_name, table, frame, reading, complaints)
        version.check()
        if cut := take_cuts():
            raise SourceError(cut, hint=_WHOLE, kind="TruncatedInput")
        if complaints.refused_rows:
            raise SourceError("Some rows were skipped.", kind="ImpossibleRows")
    except Exception as error:
        cut = take_cuts()
        if cut and isinstance(error, SourceError) and error.kind != "TruncatedInput":
            error = SourceError(f"{cut} {error}", hint=_WHOLE, kind="TruncatedInput")
        yield _failed_outcome(error, path, digest, size, source_name, rows, reading.limits, complaints)
    else:
        note = " ".join([*notes, *([f"{path}: {cadence}"] if str(cadence) else [])]) or None
        outcome = FileOutcome(str(path), digest, size, source_name, "ok", dict(rows), message=note)
        yield _with_complaints(outcome, complaints)


# Times the median interval of the same metric of the same kind of component; at least a minute: raw rows and those of
# minutes come together.
_MOST_INTERVALS: Final = 10


class Cadence:
    """Usual interval of samples in a file, from the first frame of each metric; removes samples that last too long."""

    def __init__(self) -> None:
        self._longest: dict[tuple[str, str], float] = {}
        self._left_out = 0
        self._first = ""

    def leave_out_long(self, frame: Frame) -> Frame:
        """The rows of `series` whose interval is within its bound."""
        intervals = frame.array("interval_ns")
        good = np.ones(frame.rows, np.bool_)
        for name, chosen in _sample_groups(frame):
            if name not in self._longest:
                usual = float(np.quantile(intervals[chosen], 0.5, method="lower"))
                self._longest[name] = max(_MOST_INTERVALS * usual, MINUTE_NS)
            good[chosen] = intervals[chosen] <= self._longest[name]
        if good.all():
            return frame
        self._left_out += int((~good).sum())
        first = int(np.flatnonzero(~good)[0])
        begin, length = format_time_ns(int(frame.array("start_ns")[first])), format_seconds(intervals[first] / NS)
        self._first = self._first or f"first: {begin}, lasts {length}"
        return frame.take(good)

    def __str__(self) -> str:
        """Describe what was left out; empty if nothing was."""
        if not self._left_out:
            return ""
        return (
            f"Skipped {self._left_out:,} series row(s) longer than {_MOST_INTERVALS} times the usual interval: clock "
            f"change or gap in the recording ({self._first})."
        )


def _sample_groups(frame: Frame) -> Iterator[tuple[tuple[str, str], Bools]]:
    """(kind of component, metric) and their rows."""
    kinds, metrics = frame.text("component_kind"), frame.text("metric")
    count = max(1, len(metrics.categories))
    groups = kinds.codes.astype(np.int64) * count + metrics.codes
    for group in np.unique(groups).tolist():
        yield (kinds.categories[group // count], metrics.categories[group % count]), groups == group


def _noted(pieces: Iterator[tuple[str, Frame]], cadence: Cadence, notes: list[str]) -> Iterator[tuple[str, Frame]]:
    """Pieces without rows of `series` that last far too long. A note that the source returns, on content that no table
    takes, is added to `notes`."""
    source = cast(Generator[tuple[str, Frame], None, str | None], iter(pieces))
    while True:
        try:
            table, frame = next(source)
        except StopIteration as end:
            notes += [end.value] if end.value else []
            return
        yield table, cadence.leave_out_long(frame) if table == "series" else frame


def _check_frame(source: str, table: str, frame: Frame, reading: Reading, complaints: Complaints) -> Frame:
    """The possible rows. If other rows are derived from them, all are refused together: a sum without one is wrong."""
    possible, _ = complaints.check(TABLES[table], frame, reading.now_ns)
    if source in DERIVED and complaints.refused_rows:
        raise SourceError("No row was added.", kind="ImpossibleRows")
    return possible


def _with_complaints(outcome: FileOutcome, complaints: Complaints) -> FileOutcome:
    """The outcome with its complaints; for impossible rows, these are the message."""
    if not complaints.refused_rows and not complaints.flagged_rows:
        return outcome
    known = outcome.message if outcome.reason != "impossible_rows" else None
    message = f"{known or f'{outcome.path}:'} {complaints}"
    if outcome.status == "quarantined" and outcome.source in DERIVED:
        message += " No row of the file was added."
    return outcome._replace(message=message, refused_rows=complaints.refused_rows, flagged_rows=complaints.flagged_rows)


def read_batch(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames]:
    """Read many files in one task: outcomes, and one frame per source and table. Rows of logs are made together."""
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    together: dict[str, list[_Parsed]] = {}
    limits = reading.limits
    limit_memory(limits.memory_for(max(size for _, size in batch)))
    for file, size in batch:
        path, digest, source = Path(file), None, None
        limit_seconds(limits.seconds_for(size))
        try:
            head = head_of(path)
            source = None if reading.select is not None else _source_for(path, head, reading)
            if source is not None and isinstance(source, BatchSource):
                is_whole = 0 < len(head) < _HEAD_BYTES and reading.context.mapping is None
                version = None if is_whole else _Version(path, reading)
                digest = digest_of(path, reading, head) if version is None else version.digest
                if digest in reading.known:
                    outcomes.append(FileOutcome(file, digest, size, source.name, "ok"))
                    continue
                parsed = source.parse(path, reading.context, (head, digest) if is_whole else None)
                if version is not None:
                    version.check()
                together.setdefault(source.name, []).append((path, digest, size, parsed))
                continue
        except Exception as error:
            outcomes.append(_failed_outcome(error, path, digest, size, source.name if source else None, {}, limits))
            continue
        found: list[Any] = [*read_file(path, size, reading)]
        *items, outcome = found
        if outcome.reason == _CHANGED:
            outcome, items = outcome._replace(status="quarantined", rows={}), []
        outcomes.append(outcome)
        for name, table, frame in items:
            frames.setdefault((name, table), []).append(frame)
    limit_seconds(limits.seconds_for(sum(size for _, size in batch)))
    for name, members in together.items():
        outcomes += _make_rows(name, members, reading, frames)
    return outcomes, {key: [concat(pieces)] for key, pieces in frames.items()}


_Parsed: TypeAlias = tuple[Path, str, int, Any]  # path, digest and bytes of a file, and what its source parsed


def _make_rows(name: str, members: list[_Parsed], reading: Reading, frames: Frames) -> list[FileOutcome]:
    """Make the rows of all parsed files of source `name` at once, append them to `frames`, return an outcome per file.

    Files with impossible rows are then done one by one, so that each gets its own complaints; after an error all are,
    to find the file that causes it.
    """
    if not members:
        return []
    source = cast(BatchSource, SOURCES[name])
    counts: list[Counter[str]] = [Counter() for _ in members]
    complaints, made, doubtful = Complaints(), dict[str, Frame](), set[int]()
    try:
        for table, frame, owner in source.rows([parsed for *_, parsed in members], reading.context):
            for position, count in Counter(owner.tolist()).items():  # the file of each row, as a position in `members`
                path, _, size, _ = members[position]
                counts[position][table] = count
                _check_rows(path, size, counts[position].total(), reading.limits)
            made[table], wrong = complaints.check(TABLES[table], frame, reading.now_ns)
            doubtful.update(owner[wrong].tolist())
        if complaints.refused_rows and len(members) == 1:
            raise SourceError("No row was added.", kind="ImpossibleRows")
        if not doubtful or len(members) == 1:
            for table, frame in derive_job_io(name, made):
                made[table] = _check_frame(name, table, frame, reading, complaints)
    except Exception as error:
        if len(members) == 1:
            return [_failed_outcome(error, *members[0][:3], name, {}, reading.limits, complaints)]
        doubtful = set(range(len(members)))
    if doubtful and len(members) > 1:
        rest = [member for position, member in enumerate(members) if position not in doubtful]
        alone = [[members[position]] for position in sorted(doubtful)]
        return [each for group in (*alone, rest) for each in _make_rows(name, group, reading, frames)]
    for table, frame in made.items():
        frames.setdefault((name, table), []).append(frame)
    return [
        _with_complaints(FileOutcome(str(path), digest, size, name, "ok", dict(rows)), complaints)
        for (path, digest, size, _), rows in zip(members, counts, strict=True)
    ]


def derive_job_io(source: str | None, made: Mapping[str, Frame]) -> Iterator[tuple[str, Frame]]:
    """What follows from the rows of one source alone: (table, rows)."""
    if source in DERIVED and made:
        files = made.get("files") or TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
        yield "job_io", job_io(made["applications"], files)


def days_of(table: str, frame: Frame) -> set[int]:
    """The days since 1970 of the rows."""
    times = ma.masked_array(frame.array(TABLES[table].time)).compressed()
    return set(np.unique(times // DAY_NS).tolist())


def _check_rows(path: Path, size: int, rows: int, limits: Limits) -> None:
    """Raise SourceError if a file of this size gives more rows than its limit."""
    if rows > limits.rows_for(size):
        raise SourceError(
            f"{path} has more than {limits.rows_for(size):,} rows.",
            hint="If the file is valid, increase most_rows in [ingest] of facility.toml.",
            kind="TooManyRows",
        )


def _source_for(path: Path, head: bytes, reading: Reading) -> Source:
    """The source that reads the file. Raises SourceError, also where its owner may not bring such rows."""
    if not head:
        if not path.is_dir():
            raise SourceError(f"{path} is empty.", kind="EmptyInput")
        os.scandir(path).close()
        if not reads_as_one(path):  # one to look into, which could not be
            raise OSError(errno.EIO, "cannot list its files") from None
    source = SOURCES[reading.source] if reading.source else choose_source(head, path)
    owner = reading.context.doubted_owner(path)
    if owner is not None and not getattr(source, "is_of_one_person", False):
        raise SourceError(
            f"{path} belongs to user {owner}, whose files are accepted only if they are logs of their own runs.",
            hint="Ingest it with `ioweather ingest`, or set check_owner = false in [watch].",
            kind="ForeignRows",
        )
    return source


def _failed_outcome(
    error: Exception,
    path: Path,
    digest: str | None,
    size: int,
    source: str | None,
    rows: Mapping[str, int],
    limits: Limits,
    complaints: Complaints | None = None,
) -> FileOutcome:
    """The outcome of a file whose reading raised this error. Rows that were read before stay: the file is then known
    to be partial."""
    if isinstance(error, MemoryError):
        error = SourceError(
            f"{path}: reading it exceeded the memory limit of {format_bytes(limits.memory_for(size))}.",
            hint="If the file is valid, increase most_memory in [ingest] of facility.toml.",
            kind="TooMuchMemory",
        )
    elif isinstance(error, WorkerDied) and error.kind == "TooMuchTime":
        error = SourceError(
            f"{path}: reading it exceeded the limit of {format_seconds(limits.seconds_for(size))} of processor time.",
            hint="It may be damaged: copy it again. If it is valid, increase stuck_after in [ingest] of facility.toml.",
            kind="TooMuchTime",
        )
    elif isinstance(error, WorkerDied):
        error = SourceError(f"{path}: reading it crashed every process (killed, or out of memory).", kind="WorkerLost")
    elif isinstance(error, RecursionError):
        error = CorruptInput(f"{path} is nested too deeply.")
    if isinstance(error, SourceError):
        reason, message = error.reason, str(error)
    elif isinstance(error, OSError):
        reason, message = UNREADABLE, f"Cannot read {path}: {error.strerror or error}."
    else:  # a mistake of the reader must not stop the other files
        package = SOURCES.package_of(source) if source else OURS
        whom = "" if package == OURS else f" to the authors of {package}"
        reason = "reader_failed"
        message = f"{path}: the {source} reader failed ({type(error).__name__}: {error}). Please report this{whom}."
    if digest is None or reason == _CHANGED:  # of the path: the ledger must not list the content as known
        digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
    status: Literal["partial", "quarantined"] = "partial" if any(rows.values()) else "quarantined"
    outcome = FileOutcome(str(path), digest, size, source, status, dict(rows), reason, message)
    return _with_complaints(outcome, complaints) if complaints else outcome


# Each file is read in a process of its own or of its batch, which the kernel limits. These functions may be called from
# any thread of any process, also by the workers of a cluster.


def read_bounded(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames]:
    """Outcomes and rows of the batch. If its reader dies, or runs out of the memory that the files share, files are
    read one by one to find the cause."""
    suspects = [file for file, _ in batch]
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    try:
        seconds = sum(reading.limits.wall_seconds_for(size) for _, size in batch)
        outcomes, frames = run_limited(read_batch, batch, reading, wall_seconds=seconds)
        suspects = [o.file for o in outcomes if o.reason == "too_much_memory" and len(batch) > 1]
        outcomes = [outcome for outcome in outcomes if outcome.file not in suspects]
    except WorkerDied:
        pass
    for file, size in batch:
        if file in suspects:
            for item in read_alone_bounded(file, size, reading):
                if isinstance(item, FileOutcome):
                    outcomes.append(item)
                else:
                    frames.setdefault(item[:2], []).append(item[2])
    return outcomes, frames


def read_alone(path: Path, size: int, reading: Reading) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """`read_file` within the limits of the file."""
    limit_seconds(reading.limits.seconds_for(size))
    limit_memory(reading.limits.memory_for(size))
    yield from read_file(path, size, reading)


def read_alone_bounded(file: str, size: int, reading: Reading) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they are read; last, the outcome of the file."""
    rows: Counter[str] = Counter()
    path, limits = Path(file), reading.limits
    try:
        for item in stream_limited(read_alone, path, size, reading, wall_seconds=limits.wall_seconds_for(size)):
            if not isinstance(item, FileOutcome):
                rows[item[1]] += item[2].rows
            yield item
    except WorkerDied as death:
        digest = None
        with suppress(OSError):
            digest = digest_of(path, reading)
        yield _failed_outcome(death, path, digest, size, None, rows, limits)
