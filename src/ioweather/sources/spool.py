"""Segments of the agent's spool: NDJSON, a header line and one row per line. The source `spool`.

The header names format version, host and boot. A torn last line is what a killed agent left, and is dropped. The tables
are those that live sources fill.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UnsupportedVersion
from ioweather.core.frames import Frame
from ioweather.sources.textfiles import line_blocks, plain_head
from ioweather.tables import METRICS, TABLES
from ioweather.tables.jobs import EVENT_KINDS
from ioweather.tables.responses import MODES, OPERATIONS, STATUSES
from ioweather.tables.schema import ColumnSpec
from ioweather.tables.series import COMPONENT_KINDS

VERSION = 1
_MARK = "ioweather_spool"
_TABLES = ("events", "responses", "series")
_FRAME_ROWS = 50_000
_CLOSED = {
    ("events", "kind"): frozenset(EVENT_KINDS),
    ("responses", "op"): frozenset(OPERATIONS),
    ("responses", "mode"): frozenset(MODES),
    ("responses", "status"): frozenset(STATUSES),
    ("series", "component_kind"): frozenset(COMPONENT_KINDS),
    ("series", "metric"): frozenset(METRICS),
}
_TYPES: dict[str, tuple[type, ...]] = {"int64": (int,), "float64": (int, float), "text": (str,), "bool": (bool,)}
_INT64 = range(-(1 << 63), 1 << 63)


@dataclass(frozen=True)
class SpoolSource:
    name: str = "spool"
    title: str = "segments of the agent's spool (probe, sampler, live block devices and Lustre counters)"
    tables: tuple[str, ...] = _TABLES

    def detect(self, head: bytes, path: Path) -> float:
        first = plain_head(head).lstrip().partition("\n")[0]
        return 0.95 if first.startswith("{") and f'"{_MARK}"' in first else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _TABLES}
        for number, line in _whole_lines(path):
            if number == 1:
                _check_header(line, path)
            elif line.strip():
                table, row = _row(line, path, number)
                rows[table].append(row)
                if len(rows[table]) >= _FRAME_ROWS:
                    yield table, _frame(table, rows[table])
                    rows[table] = []
        for table, kept in rows.items():
            if kept:
                yield table, _frame(table, kept)


def _whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    for block in line_blocks(path):
        if block.torn:
            return
        yield from enumerate(block.lines, block.first)


def _check_header(line: str, path: Path) -> None:
    header = _parsed(line, path, 1)
    if header.get(_MARK) != VERSION:
        raise UnsupportedVersion(
            f"{path} is a spool segment of version {header.get(_MARK)}; this software reads {VERSION}.",
            hint="Ingest it with the version that wrote it.",
        )


def _parsed(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        body = json.loads(line)
    except ValueError:
        raise CorruptInput(f"{path}, line {number}: {line[:60]!r} is not JSON.") from None
    if not isinstance(body, dict):
        raise CorruptInput(f"{path}, line {number}: expected an object, found {line[:60]!r}.")
    return body


def _row(line: str, path: Path, number: int) -> tuple[str, dict[str, Any]]:
    row = _parsed(line, path, number)
    table = row.pop("table", None)
    if table not in _TABLES:
        raise CorruptInput(f"{path}, line {number}: table {table!r} is none of {', '.join(_TABLES)}.")
    spec = TABLES[table]
    unknown = row.keys() - set(spec.names)
    if unknown:
        raise CorruptInput(f"{path}, line {number}: {table} has no column {', '.join(sorted(unknown))}.")
    for column in spec.columns:
        value = row.get(column.name)
        if not _fits(column, value) or (value is not None and value not in _CLOSED.get((table, column.name), (value,))):
            raise CorruptInput(f"{path}, line {number}: {column.name} = {value!r} does not fit {table}.")
    return table, row


def _fits(column: ColumnSpec, value: Any) -> bool:
    if value is None:
        return column.nullable
    if not isinstance(value, _TYPES[column.type]) or (column.type != "bool" and isinstance(value, bool)):
        return False
    return column.type != "int64" or value in _INT64


def _frame(table: str, rows: list[dict[str, Any]]) -> Frame:
    spec = TABLES[table]
    return spec.frame({column.name: [row.get(column.name) for row in rows] for column in spec.columns}, rows=len(rows))


SOURCE = SpoolSource()
