"""Reading one file: which source, which rows, or why not. Runs in worker processes, so all of it pickles."""

from __future__ import annotations

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from ioweather.core.clock import now_ns
from ioweather.core.contracts import BatchSource, ReadContext, Source
from ioweather.core.errors import AmbiguousFormat, CorruptInput, EmptyInput, ImpossibleRows, SourceError, UnknownFormat
from ioweather.core.frames import Frame
from ioweather.core.units import MIB, format_seconds
from ioweather.engine import allow, allow_anew
from ioweather.sources.catalogue import SOURCES
from ioweather.tables import TABLES, Complaints, concat

_HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Reading:
    """How to read: what the person knows, which source or mapping if they said, after how much processor time without a
    row a reader of HDF5 is taken to be stuck, and what time it is: rows from after tomorrow are refused."""

    context: ReadContext
    source: str | None = None
    mapping: tuple[str, Mapping[str, Any]] | None = None
    stuck_seconds: float = 30.0
    now_ns: int = field(default_factory=now_ns)

    def allowed_seconds(self, size: int) -> float:
        """With a second for every MiB: fifty times what reading one takes, so that no slow machine is in doubt."""
        return self.stuck_seconds + size / MIB


@dataclass(frozen=True)
class FileOutcome:
    path: Path
    digest: str
    bytes: int
    source: str | None
    status: Literal["ok", "partial", "quarantined"]
    rows: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None
    message: str | None = None
    # Rows left out because they cannot be, and rows kept with a complaint; the message says why.
    refused_rows: int = 0
    flagged_rows: int = 0


Frames = dict[tuple[str, str], list[Frame]]
Batch = list[tuple[Path, str | None, int]]  # path, digest (None: it could not be read), bytes


def digest_of(path: Path, reading: Reading) -> str:
    """Of the content; of a mapped file also of the mapping, because one CSV may hold rows of several tables."""
    if path.is_dir():
        digest = hashlib.sha256()
        for member in files_of_tree(path):
            digest.update(str(member.relative_to(path)).encode(errors="surrogateescape"))
            digest.update(member.read_bytes())
        return digest.hexdigest()[:32]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    if reading.mapping is not None:
        digest.update(repr(reading.mapping).encode())
    return digest.hexdigest()[:32]


def digests_of(paths: list[Path], reading: Reading) -> list[str | None]:
    """Of many files, in a worker. What cannot be read has none, until reading says why."""
    found: list[str | None] = []
    for path in paths:
        try:
            found.append(digest_of(path, reading))
        except OSError:
            found.append(None)
    return found


def digest_of_name(path: Path) -> str:
    """Of a file that cannot be read: it must not stand in the ledger as one whose content is known."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:32]


def files_of_tree(folder: Path) -> list[Path]:
    os.scandir(folder).close()  # which says so where it may not be looked into; rglob does not
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def reads_as_one(folder: Path) -> bool:
    """Some source takes the directory as a whole."""
    return any(source.detect(b"", folder) > 0 for source in SOURCES.values())


def choose_source(head: bytes, path: Path) -> Source:
    """The source that recognises the content best."""
    scores: list[tuple[float, str]] = []
    for name, source in SOURCES.items():
        score = source.detect(head, path)
        if score >= 1.0:  # a magic number: no other source can be as sure
            return source
        scores.append((score, name))
    scores.sort(reverse=True)
    best, name = scores[0]
    if best <= 0:
        raise UnknownFormat(
            f"{path} is not in a format that ioweather knows.",
            hint="`ioweather ingest --list-sources` lists those it knows; any CSV or Parquet goes in with --as TABLE "
            "--map FILE.",
        )
    if len(scores) > 1 and scores[1][0] == best:
        raise AmbiguousFormat(f"{path} could be {name} or {scores[1][1]}.", hint="Say which with --source.")
    return SOURCES[name]


def read_file(
    path: Path, digest: str | None, size: int, reading: Reading
) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they come; last, what became of the file."""
    source_name: str | None = reading.source
    rows: dict[str, int] = {}
    made: dict[str, list[Frame]] = {}
    complaints = Complaints()
    try:
        digest = digest or digest_of(path, reading)
        if reading.mapping is not None:
            from ioweather.sources.mapped.source import read_mapped

            source_name = "mapped"
            pieces: Iterator[tuple[str, Frame]] = read_mapped(path, *reading.mapping, reading.context)
        else:
            source = _source_for(path, size, reading)
            source_name = source.name
            pieces = source.read(path, reading.context)
        for table, frame in pieces:
            good = _possible(source_name, table, frame, reading, complaints)
            rows[table] = rows.get(table, 0) + good.rows
            if source_name in DERIVED:
                made.setdefault(table, []).append(good)
            yield source_name, table, good
            allow_anew()
        for table, frame in derive(source_name, {name: concat(frames) for name, frames in made.items()}):
            yield source_name, table, _possible(source_name, table, frame, reading, complaints)
        if complaints.refused_rows:
            raise ImpossibleRows("Some rows were left out.")
    except Exception as error:
        yield _with_complaints(_refused(error, path, digest, size, source_name, rows), complaints)
    else:
        yield _with_complaints(FileOutcome(path, digest, size, source_name, "ok", rows), complaints)


def _possible(source: str, table: str, frame: Frame, reading: Reading, complaints: Complaints) -> Frame:
    """The rows that can be. Rows that others are made of stand or fall together: a sum without one of them is wrong."""
    checked = TABLES[table].check(frame, reading.now_ns)
    complaints.add(checked)
    if source in DERIVED and complaints.refused_rows:
        raise ImpossibleRows("No row was taken.")
    return checked.frame


def _with_complaints(outcome: FileOutcome, complaints: Complaints) -> FileOutcome:
    """Of rows that cannot be, the complaints are the message."""
    if not complaints.refused_rows and not complaints.flagged_rows:
        return outcome
    known = outcome.message if outcome.reason != "impossible_rows" else None
    message = f"{known or f'{outcome.path}:'} {complaints}"
    if outcome.status == "quarantined" and outcome.source in DERIVED:
        message += " No row of the file is taken."
    return replace(outcome, message=message, refused_rows=complaints.refused_rows, flagged_rows=complaints.flagged_rows)


def read_batch(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames]:
    """Many files in one task: outcomes, and one frame per source and table."""
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    together: dict[str, list[tuple[Path, str, int, Any]]] = {}
    for path, known_digest, size in batch:
        allow(None)
        source, digest = None, known_digest
        try:
            digest = digest or digest_of(path, reading)
            source = None if reading.mapping is not None else _source_for(path, size, reading)
            if source is not None and _is_batch(source.name):
                parsed = cast(BatchSource, source).parse(path, reading.context)
                together.setdefault(source.name, []).append((path, digest, size, parsed))
                continue
        except Exception as error:
            outcomes.append(_refused(error, path, digest, size, source.name if source else None, {}))
            continue
        for item in read_file(path, digest, size, reading):
            if isinstance(item, FileOutcome):
                outcomes.append(item)
            else:
                frames.setdefault(item[:2], []).append(item[2])
    allow(None)
    for name, members in together.items():
        outcomes += _rows_together(name, members, reading, frames)
    return outcomes, {key: [concat(pieces)] for key, pieces in frames.items()}


@cache
def _is_batch(name: str) -> bool:
    """Asked once per source: the check of a protocol costs more than reading a small log."""
    return isinstance(SOURCES[name], BatchSource)


def _rows_together(
    name: str, members: list[tuple[Path, str, int, Any]], reading: Reading, frames: Frames
) -> list[FileOutcome]:
    """All at once, without files whose rows cannot be; one by one where that fails, to find the one to blame."""
    if not members:
        return []
    source = cast(BatchSource, SOURCES[name])
    counts: list[dict[str, int]] = [{} for _ in members]
    complaints = [Complaints() for _ in members]
    made: dict[str, Frame] = {}
    try:
        for table, frame, owner in source.rows([parsed for *_, parsed in members], reading.context):
            checked = TABLES[table].check(frame, reading.now_ns)
            for position in np.unique(owner[checked.doubtful]).tolist():
                complaints[position].add(TABLES[table].check(frame.take(owner == position), reading.now_ns))
            made[table] = checked.frame
            for position, count in Counter(owner.tolist()).items():
                counts[position][table] = count
        good = [member for member, own in zip(members, complaints, strict=True) if not own.refused_rows]
        if len(good) == len(members):
            for table, frame in derive(name, made):
                made[table] = _possible(
                    name, table, frame, reading, complaints[0] if len(members) == 1 else Complaints()
                )
    except Exception as error:
        if len(members) == 1:
            return [_with_complaints(_refused(error, *members[0][:3], name, {}), complaints[0])]
        return [outcome for member in members for outcome in _rows_together(name, [member], reading, frames)]
    if len(good) < len(members):
        refused = [
            _with_complaints(_refused(ImpossibleRows("No row was taken."), *member[:3], name, {}), own)
            for member, own in zip(members, complaints, strict=True)
            if own.refused_rows
        ]
        return refused + _rows_together(name, good, reading, frames)
    for table, frame in made.items():
        frames.setdefault((name, table), []).append(frame)
    return [
        _with_complaints(FileOutcome(path, digest, size, name, "ok", rows), own)
        for (path, digest, size, _), rows, own in zip(members, counts, complaints, strict=True)
    ]


def _job_io(made: Mapping[str, Frame]) -> Iterator[tuple[str, Frame]]:
    from ioweather.derive.jobs.job_io import job_io

    applications = made["applications"]
    files = made.get("files") or TABLES["files"].frame({name: [] for name in TABLES["files"].names}, rows=0)
    yield "job_io", job_io(applications, files)


# What follows from the rows of a source alone, made at once while they are at hand.
DERIVED: dict[str, Callable[[Mapping[str, Frame]], Iterator[tuple[str, Frame]]]] = {"darshan": _job_io}


def derive(source: str | None, made: Mapping[str, Frame]) -> Iterator[tuple[str, Frame]]:
    if source in DERIVED and made:
        yield from DERIVED[source](made)


def is_hdf5(head: bytes) -> bool:
    return head.startswith(b"\x89HDF\r\n\x1a\n")


def _source_for(path: Path, size: int, reading: Reading) -> Source:
    head = b""
    if path.is_dir():
        os.scandir(path).close()
        if not reads_as_one(path):  # one to look into, which could not be
            raise OSError(errno.EIO, "its files could not be listed")
    else:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        if not head:
            raise EmptyInput(f"{path} is empty.")
        if is_hdf5(head):  # already to list its names the library may take for ever
            allow(reading.allowed_seconds(size))
    return SOURCES[reading.source] if reading.source else choose_source(head, path)


def worker_lost(path: Path, digest: str | None, size: int) -> FileOutcome:
    """The outcome of a file whose reader takes its process along (no memory, a fault in a library)."""
    message = f"{path}: every worker that read it died (killed, or out of memory)."
    return FileOutcome(path, digest or digest_of_name(path), size, None, "quarantined", {}, "worker_lost", message)


def reader_stuck(path: Path, digest: str | None, size: int, reading: Reading) -> FileOutcome:
    """The outcome of a file on which a library loops."""
    message = (
        f"{path}: HDF5 computed for {format_seconds(reading.allowed_seconds(size))} over it and gave no row; it is "
        "taken to loop over a damaged file, and was ended. Copy the file again; if it is good, set [ingest] "
        "stuck_after in facility.toml higher."
    )
    return FileOutcome(path, digest or digest_of_name(path), size, None, "quarantined", {}, "reader_stuck", message)


def _refused(
    error: Exception, path: Path, digest: str | None, size: int, source: str | None, rows: Mapping[str, int]
) -> FileOutcome:
    """Rows that came before the trouble stay; the file is then known to be partial."""
    digest = digest or digest_of_name(path)
    status: Literal["partial", "quarantined"] = "partial" if any(rows.values()) else "quarantined"
    if isinstance(error, SourceError):
        return FileOutcome(path, digest, size, source, status, rows, error.reason, str(error))
    if isinstance(error, OSError):
        message = f"{path} cannot be read: {error.strerror or error}."
        return FileOutcome(path, digest, size, source, status, rows, "unreadable", message)
    if isinstance(error, RecursionError):
        message = f"{path} is nested deeper than any file of its kind."
        return FileOutcome(path, digest, size, source, status, rows, CorruptInput(message).reason, message)
    # A mistake of ours must not stop the other files.
    message = f"{path}: the {source} reader failed ({type(error).__name__}: {error}). Please report this."
    return FileOutcome(path, digest, size, source, status, rows, "reader_failed", message)
