"""`check_source`: what every reader must do with good, damaged, foreign and large files."""

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

from ioweather.core.clock import now_ns
from ioweather.core.contracts import BatchSource, DivisibleSource, ReadContext, Source
from ioweather.core.errors import SourceError
from ioweather.core.tables import TABLES
from ioweather.core.units import MIB
from ioweather.lake.limited import WorkerDied, limit_memory, limit_seconds, run_limited
from ioweather.readers.reader_catalogue import SOURCES


@dataclass(frozen=True)
class Problem:
    """`check` is the name of the check, `where` the sample or the case, `text` what was found."""

    check: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.check}, {self.where}: {self.text}"


class ChecksFailed(AssertionError):
    """Everything that was found, not only the first."""

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        super().__init__("\n".join([f"{name}: {len(self.problems)} problems.", *map(str, self.problems)]))

    def __reduce__(self) -> tuple[object, ...]:
        return ChecksFailed, (self.name, self.problems)


def raise_if_any(name: str, problems: Iterable[Problem]) -> None:
    found = list(dict.fromkeys(problems))
    if found:
        raise ChecksFailed(name, found)


# Reading in a child process with limits, so that a reader that never ends or takes all memory ends a check, not the
# test run.

SECONDS: Final = 10.0
_MEMORY_BYTES: Final = 256 * MIB
_MEMORY_RATIO: Final = 64


@dataclass
class ReadOutcome:
    """What came of a file: rows per table, complaints of the tables about them, and the error at the end if any."""

    rows: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    refusal: str = ""
    was_ended: bool = False


def read_limited(source: Source, path: Path, context: ReadContext) -> ReadOutcome:
    """Read in a process of its own, which finds modules where this process does."""
    size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    try:
        return run_limited(_read, pickle.dumps(source), path, size, context, wall_seconds=10 * SECONDS)
    except WorkerDied as death:
        reason = f"took more than {SECONDS:g} s of processor time" if death.overran else "its process died"
        return ReadOutcome(faults=[reason], was_ended=True)


def _read(pickled: bytes, path: Path, size: int, context: ReadContext) -> ReadOutcome:
    source: Source = pickle.loads(pickled)
    outcome = ReadOutcome()
    limit_seconds(SECONDS)
    limit_memory(_MEMORY_BYTES + _MEMORY_RATIO * size)
    try:
        for table, frame in source.read(path, context):
            outcome.rows[table] += frame.rows
            _judge(source, table, frame, outcome)
    except SourceError as error:
        outcome.refusal = f"{type(error).__name__}: {error}"
        _check_error(error, outcome)
    except MemoryError:
        outcome.faults.append(f"took more than {(_MEMORY_BYTES + _MEMORY_RATIO * size) // MIB} MiB of memory")
    except Exception as error:
        outcome.faults.append(f"{type(error).__name__} instead of a SourceError: {error}"[:300])
    return outcome


def _judge(source: Source, table: str, frame: Any, outcome: ReadOutcome) -> None:
    if table not in source.tables:
        outcome.faults.append(f"rows of {table}, which is not in its `tables`")
    spec = TABLES.get(table)
    if spec is None:
        return
    if tuple(frame) != spec.names:
        outcome.faults.append(f"the columns of {table} are not those of the table; use TABLES[{table!r}].frame(...)")
        return
    outcome.complaints += [
        f"{c.table}: {c.rule} ({c.rows}; first: {c.first})" for c in spec.check(frame, now_ns()).complaints
    ]


def _check_error(error: SourceError, outcome: ReadOutcome) -> None:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception as trouble:
        outcome.faults.append(f"its {type(error).__name__} does not survive pickling ({trouble})")
        return
    if str(again) != str(error):
        outcome.faults.append(f"its {type(error).__name__} loses its message when pickled")


# Files made worse, in ways that happen: cut, doubled, out of order, a counter that restarts, sizes without bound.

_CUTS: Final = 16
_FLIPS: Final = 8
_LONG_BYTES: Final = 4 << 20
_NUMBER: Final = re.compile(rb"\d+")
_TOKEN: Final = re.compile(rb"[^\s,;|]+")


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(what was done, the file): for each a reader may give rows or a SourceError, and nothing else."""
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
    yield "zeros behind it", data + bytes(4096)
    if not is_text(data):
        return
    lines = data.splitlines(keepends=True)
    yield "lines in reverse", b"".join(reversed(lines))
    yield "lines shuffled", b"".join(rng.sample(lines, len(lines)))
    yield "every line doubled", b"".join(line + line for line in lines)
    yield "a byte that is no UTF-8", data[: len(data) // 2] + b"\xff" + data[len(data) // 2 :]
    yield "a very long line", data + b"9" * _LONG_BYTES + b"\n"
    yield "numbers of 40 digits", _NUMBER.sub(lambda found: b"9" * 40, data)
    yield "numbers below zero", _NUMBER.sub(lambda found: b"-" + found[0], data)


def restarted(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Of a text, each column that only grows begins again in the middle: a counter after a restart (or a clock that was
    set back)."""
    if not is_text(data):
        return
    lines = data.splitlines(keepends=True)
    for column in range(max((len(_TOKEN.findall(line)) for line in lines), default=0)):
        places = [(row, token) for row, line in enumerate(lines) if (token := _number_at(line, column)) is not None]
        values = [int(token[0]) for _, token in places]
        if len(values) < 3 or values != sorted(values) or values[0] == values[-1]:
            continue
        changed = list(lines)
        for row, token in places[len(places) // 2 :]:
            smaller = str(int(token[0]) - values[len(values) // 2]).encode()
            changed[row] = lines[row][: token.start()] + smaller + lines[row][token.end() :]
        yield f"column {column + 1} restarts", b"".join(changed)


def _number_at(line: bytes, column: int) -> re.Match[bytes] | None:
    for number, token in enumerate(_TOKEN.finditer(line)):
        if number == column:
            return token if token[0].isdigit() and len(token[0]) < 19 else None
    return None


def is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_HEAD_BYTES: Final = 64 << 10
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_STRANGERS: Final = {
    "random bytes": Random(1).randbytes(4096),
    "zeros": bytes(4096),
    "a very long line": b"x" * _HEAD_BYTES,
    "prose": b"It was a dark and stormy night; the rain fell in torrents.\n" * 20,
    "a program": b'#!/bin/sh\nset -e\nfor f in *.log; do wc -l "$f"; done\n',
    "a table of somebody": b"name,age,town\nAda,36,London\nAlan,41,Wilmslow\n",
    "a document of somebody": b'{"name": "Ada", "friends": [{"name": "Alan"}]}\n',
}
# Of this size a linear reader takes about a second of processor time, a quadratic one more than is allowed.
_LARGE_BYTES: Final = 4 << 20


def check_source(
    source: Source,
    files: Sequence[Path],
    *,
    context: ReadContext | None = None,
    foreign: Sequence[Path] = (),
    larger: Callable[[int], bytes] | None = None,
    scaling: bool = True,
) -> None:
    """Everything that a reader of `files` must do. Raises `ChecksFailed` with all that was found.

    - It is described (name, title, tables), pickles, and gives the same rows when it reads again.
    - `detect` gives 0 to 1 for anything, recognises `files` better than any other source, and claims neither `foreign`
      (files of other sources) nor what is obviously something else.
    - Rows of good files are of the tables it names, and keep their rules.
    - Files cut at any place, empty, doubled, out of order, with changed bytes, with numbers that are huge or below zero
      give rows or a SourceError that pickles; no other error.
    - A counter that restarts gives no amount below zero.
    - Where the source says that its files are divisible, parts give the rows of the whole.
    - Reading is bounded: every file is read in a process with limits, a large one too. `larger` makes a file of about
      so many bytes; without it a text is repeated. `scaling=False` leaves out the large file.
    """
    context = context or ReadContext()
    problems = [*_description(source), *_strangers(source, foreign)]
    if not problems:
        with tempfile.TemporaryDirectory() as name:
            for path in files:
                found = [*_own_file(source, path, context)]
                problems += found
                if not found:  # what fails on a good file would fail on all made of it
                    problems += _damage(source, path, context, Path(name))
                    problems += _parts(source, path, context, Path(name))
            if scaling and not problems:
                problems += _growth(source, files[0], context, Path(name), larger)
    raise_if_any(f"source {source.name}", problems)


def _description(source: Source) -> Iterator[Problem]:
    if not _NAME.fullmatch(source.name):
        yield Problem("name", source.name, "a name is lower case letters, digits and underscores")
    if not source.title.strip() or "\n" in source.title:
        yield Problem("title", source.name, "it says in one line what is read")
    unknown = [table for table in source.tables if table not in TABLES]
    if unknown or not source.tables:
        yield Problem("tables", source.name, f"no table {', '.join(unknown)}" if unknown else "it names no table")
    try:
        again = pickle.loads(pickle.dumps(source))
    except Exception as error:
        yield Problem("pickle", source.name, f"it is sent to other processes, and does not pickle: {error}")
    else:
        if again.name != source.name:
            yield Problem("pickle", source.name, "it has another name when pickled")


def _score(source: Source, head: bytes, path: Path) -> float | str:
    try:
        score = source.detect(head, path)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return score if 0.0 <= score <= 1.0 else f"{score!r} is not between 0 and 1"


def _strangers(source: Source, foreign: Sequence[Path]) -> Iterator[Problem]:
    cases = [(name, head, Path("unknown.log")) for name, head in _STRANGERS.items()]
    cases += [(path.name, _head(path), path) for path in foreign]
    for name, head, path in cases:
        score = _score(source, head, path)
        if isinstance(score, str):
            yield Problem("detect", name, score)
        elif score > 0:
            yield Problem("detect", name, f"it claims what is not its own ({score})")
    for head in (b"", b"\n", b"\xff\xfe", b"{", b"["):
        if isinstance(wrong := _score(source, head, Path("unknown.log")), str):
            yield Problem("detect", repr(head), wrong)


def _own_file(source: Source, path: Path, context: ReadContext) -> Iterator[Problem]:
    head = _head(path)
    score = _score(source, head, path)
    if isinstance(score, str) or score == 0:
        yield Problem("detect", path.name, str(score) if score else "it does not recognise its own file")
        return
    for name, other in SOURCES.items():
        if name != source.name and other.detect(head, path) >= score:
            yield Problem("detect", path.name, f"the source {name} is as sure that this is its own")
    outcome = read_limited(source, path, context)
    yield from (Problem("read", path.name, text) for text in outcome.faults)
    yield from (Problem("rows", path.name, text) for text in outcome.complaints)
    if outcome.refusal:
        yield Problem("read", path.name, f"a good file is refused ({outcome.refusal})")
    if not outcome.rows.total():
        yield Problem("read", path.name, "a good file gives no row")
    if not (outcome.faults or outcome.refusal):
        rows = _rows(source.read(path, context))
        if rows != _rows(source.read(path, context)):
            yield Problem("read", path.name, "read again, it gives other rows")
        if isinstance(source, BatchSource) and rows != _rows(_batched(source, path, context)):
            yield Problem("batch", path.name, "read in a batch, it gives other rows")


def _batched(source: BatchSource, path: Path, context: ReadContext) -> Iterator[tuple[str, Any]]:
    for table, frame, _ in source.rows([source.parse(path, context)], context):
        yield table, frame


def _rows(pieces: Iterator[tuple[str, Any]]) -> Counter[tuple[Any, ...]]:
    return Counter((table, *row.items()) for table, frame in pieces for row in frame.records())


def _damage(source: Source, path: Path, context: ReadContext, folder: Path) -> Iterator[Problem]:
    """Of a folder, its largest file."""
    member = _largest(path)
    data = member.read_bytes()
    for name, changed in damaged(data):
        outcome = read_limited(source, _put(folder, path, member, changed), context)
        yield from (Problem(name, path.name, text) for text in outcome.faults)
        if outcome.was_ended:
            return  # each of the others may take as long
    for name, changed in restarted(data):
        outcome = read_limited(source, _put(folder, path, member, changed), context)
        wrong = [text for text in outcome.complaints if re.search(r"= -\d", text) and not re.search(r": \w+_ns ", text)]
        yield from (Problem(name, path.name, text) for text in (*outcome.faults, *wrong))


def _largest(path: Path) -> Path:
    if path.is_file():
        return path
    return max((file for file in path.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)


def _put(folder: Path, path: Path, member: Path, data: bytes) -> Path:
    """The sample with one member replaced, under its own name."""
    if path.is_file():
        (folder / path.name).write_bytes(data)
        return folder / path.name
    for file in path.rglob("*"):
        if file.is_file():
            copy = folder / path.name / file.relative_to(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data if file == member else file.read_bytes())
    return folder / path.name


def _parts(source: Source, path: Path, context: ReadContext, folder: Path) -> Iterator[Problem]:
    if not (isinstance(source, DivisibleSource) and source.is_divisible and path.is_file()):
        return
    lines = path.read_bytes().splitlines(keepends=True)
    whole = _rows(source.read(path, context))
    for cut in sorted({1, len(lines) // 3, len(lines) // 2, len(lines) - 1} - {0, len(lines)}):
        found: Counter[tuple[Any, ...]] = Counter()
        for part in (lines[:cut], lines[cut:]):
            (folder / path.name).write_bytes(b"".join(part))
            try:
                found += _rows(source.read(folder / path.name, context))
            except SourceError as error:
                yield Problem("two parts", path.name, f"a part of a divisible file is refused ({error})")
        if found != whole:
            yield Problem("two parts", path.name, f"cut after line {cut}, the parts do not give the rows of the whole")


def _growth(
    source: Source, path: Path, context: ReadContext, folder: Path, larger: Callable[[int], bytes] | None
) -> Iterator[Problem]:
    """A large file is read within the same limits: work that grows with the square of its size is not."""
    data = path.read_bytes() if path.is_file() else b""
    if larger is None and not (data and is_text(data)):
        return
    large = larger(_LARGE_BYTES) if larger is not None else data * max(1, _LARGE_BYTES // len(data))
    (folder / path.name).write_bytes(large)
    for fault in read_limited(source, folder / path.name, context).faults:
        yield Problem("growth", path.name, f"a file of {len(large):,} bytes: {fault}")


def _head(path: Path) -> bytes:
    return b"" if path.is_dir() else path.read_bytes()[:_HEAD_BYTES]
