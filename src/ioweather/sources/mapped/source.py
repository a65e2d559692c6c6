"""Anybody's CSV or Parquet into any table, by a mapping file: `ioweather ingest --as TABLE --map FILE.toml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UsageError
from ioweather.core.frames import Frame
from ioweather.sources.mapped.rules import Batch, Converter, CsvShape, Rule, make_rule, read_batches
from ioweather.tables import TABLES, TableSpec

_PARTS = {"csv", "columns", "rows", "where"}
# What most files do not say, and what it then is.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "series": {"quality": 0},
    "jobs": {"step": "", "restart": 0},
    "responses": {"status": "ok"},
}


def read_mapped(
    path: Path, table: str, mapping: Mapping[str, Any], context: ReadContext
) -> Iterator[tuple[str, Frame]]:
    """Frames of `table`. A mistake in the mapping is a UsageError at once; one in the file, a SourceError when read."""
    if table not in TABLES or table == "ingests":
        raise UsageError(
            f"There is no table {table!r} to map to.",
            hint=f"There are: {', '.join(name for name in TABLES if name != 'ingests')}.",
        )
    spec = TABLES[table]
    unknown = sorted(set(mapping) - _PARTS)
    if unknown:
        raise UsageError(
            f"The mapping has an unknown part [{unknown[0]}].", hint="There are: columns, csv, rows, where."
        )
    shape = CsvShape.of(_section(mapping, "csv"))
    where = _section(mapping, "where")
    variants = _variants(spec, mapping, context)
    return _read(path, spec, shape, where, variants, context)


def _section(mapping: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = mapping.get(name, {})
    if not isinstance(section, Mapping):
        raise UsageError(f"[{name}] of the mapping should be a table.")
    return section


def _variants(spec: TableSpec, mapping: Mapping[str, Any], context: ReadContext) -> list[list[Rule]]:
    """The rules of each row that a line of the file makes: one, or as many as there are [[rows]]."""
    shared = _section(mapping, "columns")
    extra = mapping.get("rows", [{}])
    if not isinstance(extra, list) or not extra or not all(isinstance(part, Mapping) for part in extra):
        raise UsageError("[[rows]] of the mapping should be a list of tables.")
    known: dict[str, Any] = dict(_DEFAULTS.get(spec.name, {}))
    known.update({name: value for name, value in (("system", context.system), ("host", context.host)) if value})
    variants = []
    for part in extra:
        entries = {**{name: {"value": value} for name, value in known.items() if name in spec.names}, **shared, **part}
        unknown = sorted(set(entries) - set(spec.names))
        if unknown:
            raise UsageError(
                f"The table {spec.name} has no column {unknown[0]!r}.", hint=f"It has: {', '.join(spec.names)}."
            )
        missing = [column.name for column in spec.columns if not column.nullable and column.name not in entries]
        if missing:
            raise UsageError(f"The mapping does not say where {', '.join(missing)} of {spec.name} come from.")
        variants.append([make_rule(spec.column(name), given) for name, given in entries.items()])
    return variants


def _read(
    path: Path,
    spec: TableSpec,
    shape: CsvShape,
    where: Mapping[str, Any],
    variants: list[list[Rule]],
    context: ReadContext,
) -> Iterator[tuple[str, Frame]]:
    wanted = frozenset(where).union(*(rule.wanted for rules in variants for rule in rules))
    converters = [Converter(str(path), context.zone, shape.decimal) for _ in variants]
    empty = True
    for batch in read_batches(path, shape, wanted):
        kept = _filtered(batch, where)
        if kept.rows == 0:
            continue
        empty = False
        for rules, converter in zip(variants, converters, strict=True):
            columns = {rule.column.name: converter.convert(rule, kept) for rule in rules}
            frame = spec.frame(columns, rows=kept.rows)
            _check(path, spec, frame, kept)
            yield spec.name, frame
    if empty:
        raise EmptyInput(f"{path} holds no row{' that [where] of the mapping lets through' if where else ''}.")


def _filtered(batch: Batch, where: Mapping[str, Any]) -> Batch:
    """Rows whose columns hold what [where] says: a value, or one of a list."""
    kept = range(batch.rows)
    for name, wanted in where.items():
        texts = {str(value) for value in (wanted if isinstance(wanted, list) else [wanted])}
        values = batch.columns[name]
        kept = [row for row in kept if values[row] is not None and str(values[row]) in texts]  # type: ignore[assignment]
    if len(kept) == batch.rows:
        return batch
    return Batch(
        [batch.lines[row] for row in kept],
        {name: [values[row] for row in kept] for name, values in batch.columns.items()},
    )


def _check(path: Path, spec: TableSpec, frame: Frame, batch: Batch) -> None:
    """What is likely a mistake in the mapping, and so of every row: a name of no closed list."""
    for column in spec.columns:
        if column.choices is not None:
            text = frame.text(column.name)
            wrong = [code for code, value in enumerate(text.categories) if value not in column.choices]
            rows = np.flatnonzero(np.isin(text.codes, wrong))
            if len(rows):
                found = text.categories[text.codes[rows[0]]]
                raise CorruptInput(
                    f"{path}, line {batch.lines[rows[0]]}: {found!r} is no {column.name} of {spec.name}.",
                    hint=f"There are: {', '.join(sorted(column.choices))}.",
                )
