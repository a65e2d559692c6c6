"""Checks of readers, for our own tests and those of plug-ins. `check_source` reads good, damaged, foreign and large
files.

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
_MEMORY_BYTES: Final = 256 * MIB
_MEMORY_RATIO: Final = 64
_HEAD_BYTES: Final = 64 << 10
# A linear reader takes about a second of processor time for so many bytes, a quadratic one more than the limit.
_LARGE_BYTES: Final = 4 << 20
_CUTS: Final = 16
_FLIPS: Final = 8
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_NUMBER: Final = re.compile(rb"\d+")
_TOKEN: Final = re.compile(rb"[^\s,;|]+")
_NO_KNOWN_FORMAT: Final = {
    "random bytes": Random(1).randbytes(4096),
    "zeros": bytes(4096),
    "a very long line": b"x" * _HEAD_BYTES,
    "prose": b"It was a dark and stormy night; the rain fell in torrents.\n" * 20,
    "a script": b'#!/bin/sh\nset -e\nfor f in *.log; do wc -l "$f"; done\n',
    "a CSV table": b"name,age,town\nAda,36,London\nAlan,41,Wilmslow\n",
    "a JSON document": b'{"name": "Ada", "friends": [{"name": "Alan"}]}\n',
}


class ChecksFailed(AssertionError):
    """All problems found, as lines of the form 'check, sample: problem'."""

    def __init__(self, name: str, problems: Iterable[str]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__("\n".join([f"{name}: {len(self.problems)} problems.", *self.problems]))


def check_source(
    source: Source,
    files: Sequence[Path],
    *,
    context: ReadContext | None = None,
    foreign: Sequence[Path] = (),
    larger: Callable[[int], bytes] | None = None,
    scaling: bool = True,
) -> None:
    """Check a reader on `files`, good samples of its format. Raises `ChecksFailed` with all problems.

    - It is described (name, title, tables), pickles, and gives the same rows when it reads again.
    - `detect` gives 0 to 1 for anything, recognises `files` better than any other source, and claims neither `foreign`
      (files of other sources) nor files of no known format.
    - Rows of good files are of the tables it names, and keep their rules.
    - Files cut at any place, empty, doubled, out of order, with changed bytes, with numbers that are huge or below zero
      give rows or a SourceError that pickles; no other error.
    - A counter that restarts gives no amount below zero.
    - Reading is bounded: every file is read in a process with limits, a large one too. `larger` makes a file of about
      so many bytes; without it a text is repeated. `scaling=False` leaves out the large file.
    """
    context = context or ReadContext()
    problems = [*_description(source), *_foreign_files(source, foreign)]
    if not problems:
        with tempfile.TemporaryDirectory() as name:
            for path in files:
                found = [*_good_file(source, path, context)]
                problems += found
                if not found:  # what fails on a good file would fail on all made of it
                    problems += _damaged_files(source, path, context, Path(name))
            if scaling and not problems:
                problems += _large_file(source, files[0], context, Path(name), larger)
    if problems:
        raise ChecksFailed(f"source {source.name}", dict.fromkeys(problems))


@dataclass
class _Outcome:
    """The result of reading a file: rows by table, complaints about rows, faults of the reader, and the SourceError."""

    rows: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    refusal: str = ""
    was_ended: bool = False


def _read_limited(source: Source, path: Path, context: ReadContext) -> _Outcome:
    """Read a file in a process with limits, so that an endless reader fails a check and not the test run."""
    size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    try:
        return run_limited(_read, pickle.dumps(source), path, size, context, wall_seconds=10 * _SECONDS)
    except WorkerDied as death:
        reason = (
            f"used more than {_SECONDS:g} s of processor time" if death.kind == "TooMuchTime" else "its process crashed"
        )
        return _Outcome(faults=[reason], was_ended=True)


def _read(pickled: bytes, path: Path, size: int, context: ReadContext) -> _Outcome:
    """Read a file, in a child process, and check rows and errors."""
    source: Source = pickle.loads(pickled)
    outcome = _Outcome()
    limit_seconds(_SECONDS)
    limit_memory(_MEMORY_BYTES + _MEMORY_RATIO * size)
    try:
        for table, frame in source.read(path, context):
            outcome.rows[table] += frame.rows
            if table not in source.tables or table not in TABLES:
                outcome.faults.append(f"rows of {table}, which is not in its `tables`")
            elif tuple(frame) != TABLES[table].names:
                outcome.faults.append(f"the columns differ from those of {table}: use TABLES[...].frame(...)")
            else:
                complaints = Complaints()
                complaints.check(TABLES[table], frame, now_ns())
                broken = complaints.by_rule.items()
                outcome.complaints += [f"{table}: {rule} ({n}; first: {first})" for (_, rule), (n, first) in broken]
    except SourceError as error:
        outcome.refusal = f"{type(error).__name__}: {error}"
        if str(_copy_of(error)) != str(error):
            outcome.faults.append(f"its {type(error).__name__} changes when pickled")
    except MemoryError:
        outcome.faults.append(f"used more than {(_MEMORY_BYTES + _MEMORY_RATIO * size) // MIB} MiB of memory")
    except Exception as error:
        outcome.faults.append(f"{type(error).__name__} instead of a SourceError: {error}"[:300])
    return outcome


def _copy_of(value: Any) -> Any:
    """A copy by pickling; None where that fails."""
    try:
        return pickle.loads(pickle.dumps(value))
    except Exception:
        return None


def _description(source: Source) -> Iterator[str]:
    """Problems of the name, title and tables of a source, and of pickling it."""
    if not _NAME.fullmatch(source.name):
        yield f"name, {source.name}: a name may contain only lowercase letters, digits and underscores"
    if not source.title.strip() or "\n" in source.title:
        yield f"title, {source.name}: it must be one line that describes the format"
    if unknown := [table for table in source.tables if table not in TABLES]:
        yield f"tables, {source.name}: no table {', '.join(unknown)}"
    if not source.tables:
        yield f"tables, {source.name}: it has no table"
    copy = _copy_of(source)
    if copy is None or copy.name != source.name:
        yield f"pickle, {source.name}: it must be picklable for other processes"


def _score(source: Source, head: bytes, path: Path) -> float | str:
    """The score that `detect` returns, or why it is not a score."""
    try:
        score = source.detect(head, path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return score if 0.0 <= score <= 1.0 else f"{score!r} is not between 0 and 1"


def _foreign_files(source: Source, foreign: Sequence[Path]) -> Iterator[str]:
    """Problems of `detect` with files of other formats."""
    cases = [(name, head, Path("unknown.log")) for name, head in _NO_KNOWN_FORMAT.items()]
    cases += [(repr(head), head, Path("unknown.log")) for head in (b"", b"\n", b"\xff\xfe", b"{", b"[")]
    for name, head, path in [*cases, *((path.name, _head(path), path) for path in foreign)]:
        score = _score(source, head, path)
        if isinstance(score, str):
            yield f"detect, {name}: {score}"
        elif score > 0 and len(head) > 2:
            yield f"detect, {name}: it recognises a file of another format ({score})"


def _good_file(source: Source, path: Path, context: ReadContext) -> Iterator[str]:
    """Problems of reading a good file."""
    head = _head(path)
    score = _score(source, head, path)
    if isinstance(score, str) or score == 0:
        yield f"detect, {path.name}: {score or 'it does not recognise its own file'}"
        return
    for name, other in SOURCES.items():
        if name != source.name and other.detect(head, path) >= score:
            yield f"detect, {path.name}: the source {name} has the same or a higher score"
    outcome = _read_limited(source, path, context)
    yield from (f"read, {path.name}: {text}" for text in outcome.faults)
    yield from (f"rows, {path.name}: {text}" for text in outcome.complaints)
    if outcome.refusal:
        yield f"read, {path.name}: a valid file is rejected ({outcome.refusal})"
    if not outcome.rows.total():
        yield f"read, {path.name}: a valid file has no rows"
    if not (outcome.faults or outcome.refusal):
        rows = _rows(source.read(path, context))
        if rows != _rows(source.read(path, context)):
            yield f"read, {path.name}: a second read returns different rows"
        if isinstance(source, BatchSource):
            batch = source.rows([source.parse(path, context)], context)
            if rows != _rows((table, frame) for table, frame, _ in batch):
                yield f"batch, {path.name}: a batch read returns different rows"


def _rows(pieces: Iterable[tuple[str, Any]]) -> Counter[tuple[Any, ...]]:
    """All rows, with the number of times that each occurs."""
    return Counter((table, *row.items()) for table, frame in pieces for row in frame.records())


def _damaged_files(source: Source, path: Path, context: ReadContext, folder: Path) -> Iterator[str]:
    """Problems of reading damaged copies of a file; of a directory, its largest file is damaged."""
    members = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    member = max(members, key=lambda file: file.stat().st_size)
    data = member.read_bytes()
    for name, changed in _damaged(data):
        outcome = _read_limited(source, _copy_with(folder, path, member, changed), context)
        yield from (f"{name}, {path.name}: {text}" for text in outcome.faults)
        if outcome.was_ended:
            return  # each of the others may take as long
    for name, changed in _restarted(data):
        outcome = _read_limited(source, _copy_with(folder, path, member, changed), context)
        wrong = [text for text in outcome.complaints if re.search(r"= -\d", text) and not re.search(r": \w+_ns ", text)]
        yield from (f"{name}, {path.name}: {text}" for text in (*outcome.faults, *wrong))


def _copy_with(folder: Path, path: Path, member: Path, data: bytes) -> Path:
    """A copy of the sample in the folder, with one member replaced."""
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        copy = folder / path.name / file.relative_to(path)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data if file == member else file.read_bytes())
    return folder / path.name


def _damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield damaged versions: what was done, and the bytes. A reader may yield rows or raise a SourceError."""
    yield "empty", b""
    for part in range(1, _CUTS):
        yield f"cut after {part}/{_CUTS}", data[: len(data) * part // _CUTS]
    yield "without its last byte", data[:-1]
    yield "doubled", data + data
    rng = Random(len(data))
    for number in range(_FLIPS):
        changed = bytearray(data)
        for place in rng.sample(range(len(data)), min(4, len(data))):
            changed[place] = rng.randrange(256)
        yield f"bytes changed ({number})", bytes(changed)
    yield "trailing zeros", data + bytes(4096)
    if not _is_text(data):
        return
    lines = data.splitlines(keepends=True)
    yield "lines in reverse", b"".join(reversed(lines))
    yield "lines shuffled", b"".join(rng.sample(lines, len(lines)))
    yield "every line doubled", b"".join(line + line for line in lines)
    yield "a byte that is not UTF-8", data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :]
    yield "a very long line", data + b"9" * _LARGE_BYTES + b"\n"
    yield "numbers of 40 digits", _NUMBER.sub(lambda found: b"9" * 40, data)
    yield "numbers below zero", _NUMBER.sub(lambda found: b"-" + found[0], data)


def _restarted(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield versions of a text in which one growing column of numbers starts again in the middle, as a counter does
    after a restart."""
    if not _is_text(data):
        return
    lines = data.splitlines(keepends=True)
    rows = [list(_TOKEN.finditer(line)) for line in lines]
    for column in range(max(map(len, rows), default=0)):
        places = [(row, tokens[column]) for row, tokens in enumerate(rows) if len(tokens) > column]
        places = [(row, token) for row, token in places if token[0].isdigit() and len(token[0]) < 19]
        values = [int(token[0]) for _, token in places]
        if len(values) < 3 or values != sorted(values) or values[0] == values[-1]:
            continue
        changed = list(lines)
        for row, token in places[len(places) // 2 :]:
            smaller = str(int(token[0]) - values[len(values) // 2]).encode()
            changed[row] = lines[row][: token.start()] + smaller + lines[row][token.end() :]
        yield f"column {column + 1} restarts", b"".join(changed)


def _is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8 text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _large_file(
    source: Source, path: Path, context: ReadContext, folder: Path, larger: Callable[[int], bytes] | None
) -> Iterator[str]:
    """A large file is read within the same limits: work that grows with the square of its size is not."""
    data = path.read_bytes() if path.is_file() else b""
    if larger is None and not (data and _is_text(data)):
        return
    large = larger(_LARGE_BYTES) if larger is not None else data * max(1, _LARGE_BYTES // len(data))
    (folder / path.name).write_bytes(large)
    for fault in _read_limited(source, folder / path.name, context).faults:
        yield f"growth, {path.name}: a file of {len(large):,} bytes: {fault}"


def _head(path: Path) -> bytes:
    return b"" if path.is_dir() else path.read_bytes()[:_HEAD_BYTES]
