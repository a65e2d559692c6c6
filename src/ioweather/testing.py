"""Checks of readers, for our own tests and those of plug-ins. `check_source` reads good and damaged files.

from ioweather.testing import check_source
from my_package import SOURCE

def test_source(tmp_path):
    check_source(SOURCE, [write_sample(tmp_path)])
"""

from __future__ import annotations

import pickle
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from ioweather.core.contracts import BatchSource, ReadContext, Source
from ioweather.core.errors import SourceError
from ioweather.core.tables import TABLES, Complaints
from ioweather.core.units import MIB, now_ns
from ioweather.lake.limited import WorkerDied, limit_memory, limit_seconds, run_limited
from ioweather.readers.reader_catalogue import SOURCES

_SECONDS: Final = 10.0
_MEMORY_BYTES: Final = 512 * MIB
# A linear reader takes about a second of processor time for so many bytes, a quadratic one more than the limit.
_LARGE_BYTES: Final = 4 << 20
_NUMBER: Final = re.compile(rb"\d+")
_OTHER_FORMATS: Final = {
    "random bytes": Random(1).randbytes(4096),
    "zeros": bytes(4096),
    "prose": b"It was a dark and stormy night; the rain fell in torrents.\n" * 20,
    "a CSV table": b"name,age,town\nAda,36,London\nAlan,41,Wilmslow\n",
    "a JSON document": b'{"name": "Ada", "friends": [{"name": "Alan"}]}\n',
}


class ChecksFailed(AssertionError):
    """All problems found, one per line."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        self.problems = tuple(dict.fromkeys(problems))
        super().__init__("\n".join([f"{name}: {len(self.problems)} problems.", *self.problems]))


def check_source(source: Source, files: Sequence[Path], *, context: ReadContext | None = None) -> None:
    """Check a reader on `files`, good samples of its format. Raises `ChecksFailed` with all problems.

    - It names known tables, pickles, and gives the same rows when it reads again.
    - `detect` recognises `files` better than any other source, and no file of another format.
    - Rows of good files are of the tables that it names, and keep their rules.
    - Damaged files (cut, empty, doubled, with changed bytes or numbers) give rows or a SourceError; no other error.
    - Each file is read in a process with limits of time and memory, a large one too: a text is repeated to 4 MiB.
    """
    context = context or ReadContext()
    problems = [f"tables: there is no table {table}" for table in source.tables if table not in TABLES]
    for name, head in _OTHER_FORMATS.items():
        if source.detect(head, Path("unknown.log")) > 0:
            problems.append(f"detect: it recognises {name}")
    with tempfile.TemporaryDirectory() as folder:
        for path in files:
            found = [*_good_file(source, path, context)]
            # What fails on a good file would fail on all damaged ones.
            problems += found or _damaged_files(source, path, context, Path(folder))
    if problems:
        raise ChecksFailed(f"source {source.name}", problems)


def _read_limited(source: Source, path: Path, context: ReadContext) -> tuple[list[str], list[str], bool]:
    """Read a file in a process with limits: faults of the reader, why it refuses the file or its rows, whether there
    were rows."""
    try:
        return run_limited(_read, pickle.dumps(source), path, context, wall_seconds=10 * _SECONDS)
    except WorkerDied as death:
        slow = death.kind == "TooMuchTime"
        return [f"used more than {_SECONDS:g} s of processor time" if slow else "its process crashed"], [], False


def _read(pickled: bytes, path: Path, context: ReadContext) -> tuple[list[str], list[str], bool]:
    """Read a file in a child process, and check rows and errors."""
    source: Source = pickle.loads(pickled)
    faults: list[str] = []
    refused: list[str] = []
    rows = 0
    limit_seconds(_SECONDS)
    limit_memory(_MEMORY_BYTES)
    try:
        for table, frame in source.read(path, context):
            rows += frame.rows
            if table not in source.tables:
                faults.append(f"rows of {table}, which is not in its `tables`")
            elif tuple(frame) != TABLES[table].names:
                faults.append(f"the columns differ from those of {table}: use TABLES[...].frame(...)")
            else:
                complaints = Complaints()
                complaints.check(TABLES[table], frame, now_ns())
                refused += [str(complaints)] if complaints.by_rule else []
    except SourceError as error:
        refused.append(f"{type(error).__name__}: {error}")
    except MemoryError:
        faults.append(f"used more than {_MEMORY_BYTES // MIB} MiB of memory")
    except Exception as error:
        faults.append(f"{type(error).__name__} instead of a SourceError: {error}"[:300])
    return faults, refused, rows > 0


def _good_file(source: Source, path: Path, context: ReadContext) -> Iterator[str]:
    """Problems of a good file."""
    head = path.read_bytes()[: 64 << 10] if path.is_file() else b""
    score = source.detect(head, path)
    if not 0 < score <= 1:
        yield f"detect, {path.name}: {score} is not a score above 0 and at most 1"
        return
    for name, other in SOURCES.items():
        if name != source.name and other.detect(head, path) >= score:
            yield f"detect, {path.name}: the source {name} has the same or a higher score"
    faults, refused, has_rows = _read_limited(source, path, context)
    yield from (f"read, {path.name}: {text}" for text in (*faults, *refused))
    if not has_rows:
        yield f"read, {path.name}: a valid file has no rows"
    if not faults and not refused:
        rows = _count_rows(source.read(path, context))
        if rows != _count_rows(source.read(path, context)):
            yield f"read, {path.name}: a second read returns different rows"
        if isinstance(source, BatchSource):
            batch = source.rows([source.parse(path, context)], context)
            if rows != _count_rows((table, frame) for table, frame, _ in batch):
                yield f"batch, {path.name}: a batch read returns different rows"


def _count_rows(pieces: Iterable[tuple[str, Any]]) -> Counter[tuple[Any, ...]]:
    """All rows, with the number of times that each occurs."""
    return Counter((table, *row.items()) for table, frame in pieces for row in frame.records())


def _damaged_files(source: Source, path: Path, context: ReadContext, folder: Path) -> Iterator[str]:
    """Problems of damaged copies of a file; of a directory, its largest file is damaged."""
    members = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    largest = max(members, key=lambda file: file.stat().st_size)
    for name, changed in _damaged(largest.read_bytes()):
        for member in members:
            copy = folder / path.name / member.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(changed if member == largest else member.read_bytes())
        if faults := _read_limited(source, folder / path.name, context)[0]:
            yield f"{name}, {path.name}: {faults[0]}"
            return  # each of the others may take as long


def _damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield damaged versions: what was done, and the bytes."""
    yield "empty", b""
    for part in range(1, 16):
        yield f"cut after {part}/16", data[: len(data) * part // 16]
    yield "doubled", data + data
    rng = Random(len(data))
    for number in range(8):
        changed = bytearray(data)
        for place in rng.sample(range(len(data)), min(4, len(data))):
            changed[place] = rng.randrange(256)
        yield f"bytes changed ({number})", bytes(changed)
    if b"\0" not in data:
        yield "lines in reverse", b"".join(reversed(data.splitlines(keepends=True)))
        yield "a byte that is not UTF-8", data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :]
        yield "a very long line", data + b"9" * _LARGE_BYTES + b"\n"
        yield "numbers of 40 digits", _NUMBER.sub(b"9" * 40, data)
        yield "numbers below zero", _NUMBER.sub(rb"-\g<0>", data)
        yield "large", data * (1 + _LARGE_BYTES // len(data))
