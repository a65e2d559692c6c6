"""Rows in a lake that its tables would not take today: from before rows were checked, or by another hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ioweather.core.tables import METRICS, TableSpec
from ioweather.core.units import NS
from ioweather.lake.convert import literal, quote
from ioweather.lake.snapshot import Snapshot

_SECONDS = f"greatest(interval_ns / {NS}.0, 1.0)"


@dataclass(frozen=True)
class Impossible:
    table: str
    column: str
    rows: int


def impossible_rows(snapshot: Snapshot, now_ns: int) -> Iterator[Impossible]:
    """Counted by column, from every file of every table."""
    for files in snapshot.pinned.values():
        conditions = _conditions(files.spec, now_ns) if files.uris else {}
        if not conditions:
            continue
        # Filters reach the statistics of the Parquet files, which most often tell that there is no such row.
        anywhere = " OR ".join(conditions.values())
        counted = ", ".join(f"count(*) FILTER (WHERE {condition})" for condition in conditions.values())
        rows = snapshot.query(f"SELECT {counted} FROM ({files.scan()}) WHERE {anywhere}").fetchall()[0]
        yield from (Impossible(files.spec.name, column, n) for column, n in zip(conditions, rows, strict=True) if n)


def _conditions(spec: TableSpec, now_ns: int) -> dict[str, str]:
    """SQL that is true of a value outside of its column's range."""
    found = {}
    for column in spec.columns:
        allowed, name = column.allowed, quote(column.name)
        if column.by_rule:
            found[column.name] = _of_samples()
        elif allowed is not None and column.type == "int64":
            bounds = ((name, "<", int(allowed.least)), (name, ">", int(allowed.most_at(now_ns))))
            reachable = [f"{a} {sign} {bound}" for a, sign, bound in bounds if abs(bound) < (1 << 63) - 1]
            if reachable:
                found[column.name] = f"({' OR '.join(reachable)})"
        elif allowed is not None:
            found[column.name] = f"({name} < {allowed.least!r} OR {name} > {allowed.most!r})"
    return found


def _of_samples() -> str:
    limits = " ".join(
        f"WHEN {literal(metric.name)} THEN if(component_kind = 'device', {metric.most('device')!r}, "
        f"{metric.most('ost')!r})" + (f" * {_SECONDS}" if metric.extensive else "")
        for metric in METRICS.values()
    )
    return f"(value < 0 OR value > CASE metric {limits} END)"
