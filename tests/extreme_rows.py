"""Rows that every table takes and no machine has made: each value at a bound of its column, or beyond all habit."""

from __future__ import annotations

import random
from typing import Any

from ioweather.core.frames import Frame
from ioweather.core.tables import METRICS, TABLES, ColumnSpec, Complaints, TableSpec, concat
from ioweather.core.units import DAY_NS, now_ns
from ioweather.lake.lake import Lake

_YEAR_NS = 365 * DAY_NS
_TEXTS = (
    "",
    "x" * 100_000,
    "a\nb\x1b[31m",
    "%s{}'\"\\",
    "{",
    "[1, null]",
    "-1",
    "nan",
    "1,2,,x",
    "é\u202e",
    "/",
    "a:b",
)
# Of columns that are parsed.
_WRITTEN = ("{}", "[]", "0,1,2", "999999999;0", "~", "~!!", f"~{chr(1300)}{chr(0x10FFFF)}",
            "-1200:1 99:999999999999999", "POSIX", "HDF5,STDIO", '{"/": "lustre"}',
            '{"POSIX": {"total": 1}}', '{"999999999999999999": 9}',
            '{"through": ["OST0000"], "probability": 1e308, "runs": 0, "direction": "slow"}',
            '{"interval_ns": 1, "op": "", "mode": "x", "request_bytes": -1}')  # fmt: skip
_CLOSED = {"operation": ("read", "write", "open"), "phase": ("write",), "state": ("COMPLETED",)}


def _numbers(column: ColumnSpec, now: int) -> list[Any]:
    allowed = column.range
    assert allowed is not None
    least, most = allowed.least, allowed.most_at(now)
    if column.type == "float64":
        values: list[Any] = [least, 1.0, min(most, 1e300), 5e-324]
        return [*values, float("nan")] if column.nullable else values
    ints = [int(least), int(most), 1, 60 * 10**9, 3600 * 10**9]
    if column.name.endswith("_ns") and column.name not in ("interval_ns", "duration_ns"):
        ints = [int(least), 1, now - 50 * _YEAR_NS, now - 2 * DAY_NS, now - DAY_NS, now, int(most)]
    return [value for value in ints if least <= value <= most]


def _value(column: ColumnSpec, now: int, rng: random.Random) -> Any:
    if column.nullable and rng.random() < 0.15:
        return None if column.type != "float64" else float("nan")
    if column.type == "bool":
        return rng.random() < 0.5
    if column.type == "text":
        if column.choices is not None:
            return rng.choice(sorted(column.choices))
        if column.reads is not None:
            return rng.choice([text for text in (*_WRITTEN, *_TEXTS) if column.reads(text)])
        return rng.choice((*_TEXTS, *_CLOSED.get(column.name, ()), f"name{rng.randrange(30)}"))
    return rng.choice(_numbers(column, now))


def extreme_rows(spec: TableSpec, count: int, rng: random.Random, now: int) -> Frame:
    """Some of them may be refused: times in the wrong order, intervals that end after tomorrow."""
    rows = [{column.name: _value(column, now, rng) for column in spec.columns} for _ in range(count)]
    for row in rows:
        for first, last in (("start_ns", "end_ns"), ("valid_from_ns", "valid_to_ns")):
            if row.get(first) is not None and row.get(last) is not None:
                row[first], row[last] = sorted((row[first], row[last]))
        for length in ("interval_ns", "duration_ns"):
            if row.get(length) and row.get(spec.time) is not None:
                row[length] = max(1, min(row[length], now + DAY_NS - row[spec.time]))
        if spec.name == "series":
            metric = METRICS[row["metric"]]
            row["value"] = rng.choice((0.0, metric.most, 1.0, float("nan"), 5e-324))
    return concat([spec.frame({name: [value] for name, value in row.items()}) for row in rows])


def century_rows(now: int) -> Frame:
    """What a node with an unset clock reports: one interval from 1970 to today, from many devices."""
    spec, count = TABLES["series"], 40
    return spec.frame(
        rows=count, start_ns=0, interval_ns=now - DAY_NS, system="scratch", component_kind="ost",
        component=[f"OST{n:04x}" for n in range(count)], metric="read_bytes", value=1e24, quality=0,
    )  # fmt: skip


def add_extreme_rows(lake: Lake, seed: int, count: int = 40) -> dict[str, int]:
    """Rows that each table took."""
    rng, now = random.Random(seed), now_ns()
    added = {"series": lake.append("series", century_rows(now), source="iostat", checked=True)}
    for name, spec in TABLES.items():
        rows = extreme_rows(spec, count, rng, now)
        added[name] = added.get(name, 0) + lake.append(name, rows, source="extreme", complaints=Complaints())
    return added
