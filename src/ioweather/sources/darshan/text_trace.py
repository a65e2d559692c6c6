"""The text of darshan-dxt-parser: every read and write with its offset, length, start and end.

A binary log has counters beside its traces; this text has none. So those that follow from the operations are made of
them: how many, how large, how long, where and when. Opens, seeks, metadata and collective calls are not traced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.words import pairs_of
from ioweather.sources.darshan.layout import DXT_DTYPE
from ioweather.sources.darshan.model import Module
from ioweather.sources.plain_values import whole_number
from ioweather.tables.applications import SIZE_BIN_UPPER_BYTES, SIZE_BINS

# Module of the trace, to the module whose counters follow from it.
TRACES: Final = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
_OF_LINE: Final = {"X_POSIX": "DXT_POSIX", "X_MPIIO": "DXT_MPIIO"}
_FILE: Final = re.compile(r"# DXT, file_id: (\d{1,20}), file_name: (.*)")
_RANK: Final = re.compile(r"# DXT, rank: (\d{1,18}), hostname: (.*)")
_COUNTS: Final = re.compile(r"# DXT, write_count: (\d{1,18}), read_count: (\d{1,18})")
_LARGEST: Final = 1 << 62
_SEGMENT: Final = list(pairs_of("record=i8 write=? offset=i8 length=i8 start_seconds=f8 end_seconds=f8").items())
_HINT: Final = "darshan-dxt-parser JOB.darshan > trace.txt"


@dataclass
class _Block:
    """One file's operations of one rank."""

    record_id: int
    name: str
    rank: int = -1
    host: str = ""
    writes: int = 0
    reads: int = 0
    module: str = ""
    columns: list[str] = field(default_factory=list)
    operations: list[tuple[bool, int, int, float, float]] = field(default_factory=list)


def modules_of_trace(
    lines: Sequence[tuple[int, str]], versions: Mapping[str, int], partial: Sequence[str]
) -> tuple[dict[str, Module], dict[int, str]]:
    """Traces, the counters that follow from them, and the names of files."""
    blocks = _blocks(lines)
    made: dict[str, Module] = {}
    for trace, module in TRACES.items():
        own = [block for block in blocks if block.module == trace]
        if own:
            made[trace] = _trace(trace, versions.get(trace, 1), trace in partial, own)
            counters = counters_of_trace(module, made[trace])
            made[module] = Module(module, versions.get(module, 0), trace in partial, counters)
    return made, {block.record_id: block.name for block in blocks if block.name}


def _blocks(lines: Sequence[tuple[int, str]]) -> list[_Block]:
    blocks: list[_Block] = []
    for number, line in lines:
        if match := _FILE.match(line):
            if int(match[1]) >= 1 << 64:
                raise CorruptInput(f"Line {number}: {match[1]} is no id of a file.")
            blocks.append(_Block(int(match[1]), match[2]))
        elif not blocks:
            raise TruncatedInput(f"Line {number} of the trace stands before the file it is of.", hint=_HINT)
        elif match := _RANK.match(line):
            blocks[-1].rank, blocks[-1].host = int(match[1]), match[2].strip()
        elif match := _COUNTS.match(line):
            blocks[-1].writes, blocks[-1].reads = int(match[1]), int(match[2])
        elif line.startswith("# Module"):
            blocks[-1].columns = line[1:].split()
        elif not line.startswith("#"):
            _operation(number, line, blocks[-1])
    for block in blocks:
        if len(block.operations) != block.writes + block.reads:
            raise TruncatedInput(
                f"The trace of {block.name[:120]} by rank {block.rank} has {len(block.operations)} of "
                f"{block.writes + block.reads} operations: lines are missing.",
                hint=f"Paste it whole: {_HINT}",
            )
    return [block for block in blocks if block.operations]


def _operation(number: int, line: str, block: _Block) -> None:
    """Columns by their names: old versions have no offset for MPI-IO, others print targets or threads at the end."""
    words = dict(zip(block.columns, line.split(), strict=False))
    length, rank = (whole_number(words.get(name, "")) for name in ("Length", "Rank"))
    offset = whole_number(words.get("Offset", "-1").removeprefix("-"))
    module = _OF_LINE.get(words.get("Module", ""))
    try:
        start, end = float(words["Start(s)"]), float(words["End(s)"])
        write = ("read", "write").index(words["Wt/Rd"]) == 1
    except (KeyError, ValueError):
        module = None
        start = end = 0.0
        write = False
    if module is None or length is None or offset is None or rank != block.rank or not max(length, offset) < _LARGEST:
        raise CorruptInput(f"Line {number} is no operation of a trace: {line[:80]!r}.", hint=f"Paste it whole: {_HINT}")
    if block.module not in ("", module):
        raise CorruptInput(f"Line {number} is of {module}, the lines before are of {block.module}.")
    block.module = module
    known = not words.get("Offset", "-").startswith("-")
    block.operations.append((write, offset if known else -1, length, start, end))


def _trace(name: str, version: int, partial: bool, blocks: Sequence[_Block]) -> Module:
    records = np.zeros(len(blocks), DXT_DTYPE)
    records["id"] = np.array([block.record_id for block in blocks], np.uint64)
    for column in ("rank", "writes", "reads"):
        records[column] = [getattr(block, column) for block in blocks]
    records["shared"] = -1  # not printed
    records["hostname"] = [block.host.encode()[:63] for block in blocks]
    rows = [(place, *operation) for place, block in enumerate(blocks) for operation in block.operations]
    return Module(name, version, partial, records, segments=np.array(rows, _SEGMENT))


def counters_of_trace(module: str, trace: Module) -> NDArray[Any]:
    """Records with those counters that operations tell; others are not there."""
    segments = trace.segments
    assert segments is not None
    prefix, sized = ("POSIX_", "") if module == "POSIX" else ("MPIIO_", "AGG_")
    count = len(trace.records)
    columns: dict[str, NDArray[Any]] = {"id": trace.records["id"], "rank": trace.records["rank"]}
    for verb, past, write in (("READ", "READ", False), ("WRITE", "WRITTEN", True)):
        rows = segments[segments["write"] == write]
        of = rows["record"]
        start, end = rows["start_seconds"], rows["end_seconds"]
        took = np.maximum(end - start, 0.0)
        columns[f"{prefix}{verb}S"] = _sums(np.ones(len(rows), np.int64), of, count)
        columns[f"{prefix}BYTES_{past}"] = _sums(rows["length"], of, count)
        columns |= {f"{prefix}SIZE_{verb}_{sized}{size}": amounts for size, amounts in _sizes(rows, count).items()}
        if (rows["offset"] >= 0).all() and len(rows):
            columns[f"{prefix}MAX_BYTE_{past}"] = _largest(rows["offset"] + rows["length"] - 1, of, count)
        columns[f"{prefix}F_{verb}_TIME"] = np.bincount(of, weights=took, minlength=count)
        columns[f"{prefix}F_MAX_{verb}_TIME"] = _largest(took, of, count)
        columns[f"{prefix}F_{verb}_START_TIMESTAMP"] = _first(start, of, count)
        columns[f"{prefix}F_{verb}_END_TIMESTAMP"] = _largest(end, of, count)
    dtype = [(name, "u8" if name == "id" else values.dtype.str) for name, values in columns.items()]
    table = np.zeros(count, dtype)
    for name, values in columns.items():
        table[name] = values
    table.flags.writeable = False
    return table


def _sizes(rows: NDArray[Any], count: int) -> dict[str, Ints]:
    uppers = [upper for upper in SIZE_BIN_UPPER_BYTES if upper is not None]
    of_size = np.searchsorted(uppers, rows["length"], side="left")
    return {
        size.upper(): _sums((of_size == place).astype(np.int64), rows["record"], count)
        for place, size in enumerate(SIZE_BINS)
    }


def _sums(values: Ints, group: Ints, groups: int) -> Ints:
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, values)
    return total


def _largest(values: NDArray[Any], group: Ints, groups: int) -> NDArray[Any]:
    largest = np.zeros(groups, values.dtype)
    np.maximum.at(largest, group, values)
    return largest


def _first(values: Floats, group: Ints, groups: int) -> Floats:
    first = np.full(groups, np.inf)
    np.minimum.at(first, group, values)
    known: Bools = np.isfinite(first)
    return np.where(known, first, 0.0)
