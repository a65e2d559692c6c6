"""Reading one file: which source, which rows, or why not. Runs in worker processes, so all of it pickles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ioweather.core.contracts import ReadContext, Source
from ioweather.core.errors import AmbiguousFormat, EmptyInput, SourceError, UnknownFormat
from ioweather.core.frames import Frame
from ioweather.sources.catalogue import SOURCES
from ioweather.tables import concat

_HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Reading:
    """How to read: what the person knows, and which source or mapping if they said."""

    context: ReadContext
    source: str | None = None
    mapping: tuple[str, Mapping[str, Any]] | None = None


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


Frames = dict[tuple[str, str], list[Frame]]


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def choose_source(head: bytes, path: Path) -> Source:
    """The source that recognises the content best."""
    if not head:
        raise EmptyInput(f"{path} is empty.")
    scores = sorted(((source.detect(head, path), name) for name, source in SOURCES.items()), reverse=True)
    best, name = scores[0]
    if best <= 0:
        raise UnknownFormat(
            f"{path} is not in a format that ioweather knows.",
            hint="`ioweather ingest --help` lists the sources; any CSV or Parquet goes in with --as TABLE --map FILE.",
        )
    if len(scores) > 1 and scores[1][0] == best:
        raise AmbiguousFormat(f"{path} could be {name} or {scores[1][1]}.", hint="Say which with --source.")
    return SOURCES[name]


def read_file(path: Path, digest: str, size: int, reading: Reading) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they come; last, what became of the file."""
    source_name: str | None = reading.source
    rows: dict[str, int] = {}
    try:
        if size == 0:
            raise EmptyInput(f"{path} is empty.")
        if reading.mapping is not None:
            from ioweather.sources.mapped import read_mapped

            source_name = "mapped"
            table, mapping = reading.mapping
            pieces: Iterator[tuple[str, Frame]] = read_mapped(path, table, mapping, reading.context)
        else:
            with path.open("rb") as file:
                head = file.read(_HEAD_BYTES)
            source = SOURCES[reading.source] if reading.source else choose_source(head, path)
            source_name = source.name
            pieces = source.read(path, reading.context)
        for table, frame in pieces:
            rows[table] = rows.get(table, 0) + frame.rows
            yield source_name, table, frame
    except SourceError as error:
        status: Literal["partial", "quarantined"] = "partial" if any(rows.values()) else "quarantined"
        yield FileOutcome(path, digest, size, source_name, status, rows, error.reason, str(error))
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}."
        yield FileOutcome(path, digest, size, source_name, "quarantined", rows, "unreadable", message)
    except Exception as error:  # a mistake of ours must not stop the other files
        message = f"{path}: the {source_name} reader failed ({type(error).__name__}: {error}). Please report this."
        yield FileOutcome(path, digest, size, source_name, "quarantined", rows, "reader_failed", message)
    else:
        yield FileOutcome(path, digest, size, source_name, "ok", rows)


def read_batch(batch: list[tuple[Path, str, int]], reading: Reading) -> tuple[list[FileOutcome], Frames]:
    """Many files in one task: outcomes, and one frame per source and table."""
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    for path, digest, size in batch:
        for item in read_file(path, digest, size, reading):
            if isinstance(item, FileOutcome):
                outcomes.append(item)
            else:
                source, table, frame = item
                frames.setdefault((source, table), []).append(frame)
    return outcomes, {key: [concat(pieces)] for key, pieces in frames.items()}
