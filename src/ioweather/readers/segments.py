"""Segments of the agent's spool: NDJSON, a header line and one row per line. The source `spool`.

The header names format version, host and boot. A torn last line is what a killed agent left, and is dropped. The tables
are those that live sources fill.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import EVENT_KINDS, TABLES
from ioweather.core.units import parse_json
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import plain_head, whole_lines

VERSION = 1
_MARK = "ioweather_spool"
_TABLES = ("components", "events", "job_operations", "responses", "series")
# So few at first: what is not taken anyway is known early.
_FIRST_ROWS = 1_000
_FRAME_ROWS = 50_000
_LONGEST_HEADER = 4096
_TYPES: dict[str, frozenset[type]] = {
    "int64": frozenset({int}),
    "float64": frozenset({int, float}),
    "text": frozenset({str}),
    "bool": frozenset({bool}),
}
_INT64 = range(-(1 << 63), 1 << 63)


def _detect_spool(head: bytes, path: Path) -> float:
    first = plain_head(head).lstrip().partition("\n")[0]
    return 0.95 if first.startswith("{") and f'"{_MARK}"' in first else 0.0


def _read_spool(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of the segment, up to the first damaged line."""
    numbered = whole_lines(path)
    number, header = next(numbered, (0, ""))
    if number:
        _check_header(header, path)
    most = _FIRST_ROWS
    while batch := list(islice(numbered, most)):
        yield from _make_frames(batch, path, context.hosts)
        most = _FRAME_ROWS


SPOOL = FileReader(
    "spool",
    "agent spool segments (probe, sampler, live device, Lustre, GPFS and NFS counters)",
    _TABLES,
    _detect_spool,
    _read_spool,
)


def segment_host(path: Path) -> str:
    """The host that the header names. A segment that comes over the network is looked at before it is read: it is
    plain text, and its header is whole."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST_HEADER)
    if not first.startswith(b"{") or not first.endswith(b"\n"):
        raise CorruptInput(f"{path} does not start with a spool segment header.")
    line = first.decode("utf-8", errors="replace")
    _check_header(line, path)
    host = _parse_object(line, path, 1).get("host")
    if not isinstance(host, str) or not host:
        raise CorruptInput(f"{path}: the header has no host.")
    return host


def _make_frames(batch: Sequence[tuple[int, str]], path: Path, hosts: str | None) -> Iterator[tuple[str, Frame]]:
    """Frames of some lines, by table. Raises SourceError for the first row that does not fit its table or `hosts`."""
    tables: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for number, line in batch:
        if line and not line.isspace():
            row = _parse_object(line, path, number)
            table = row.pop("table", None)
            if table not in _TABLES:
                raise CorruptInput(f"{path}, line {number}: table {table!r} is not one of {', '.join(_TABLES)}.")
            tables.setdefault(table, []).append((number, row))
    for table, rows in tables.items():
        for number, row in rows:
            # Raise CorruptInput unless the row has the columns of the table and values that fit them.
            where = f"{path}, line {number}"
            unknown = row.keys() - TABLES[table].names
            if unknown:
                raise CorruptInput(f"{where}: {table} has no column {', '.join(sorted(unknown))}.")
            for column in TABLES[table].columns:
                value = row.get(column.name)
                fits = column.nullable if value is None else type(value) in _TYPES[column.type]
                if (
                    not fits
                    or (type(value) is int and value not in _INT64)
                    or (column.choices is not None and value not in column.choices)
                ):
                    raise CorruptInput(f"{where}: {column.name} = {repr(value)[:60]} is not valid in {table}.")
            if hosts is not None:
                _check_hosts(table, row, f"{path}, line {number}", hosts)
        yield table, TABLES[table].frame_of([row for _, row in rows])


def _check_header(line: str, path: Path) -> None:
    """Raise SourceError unless the line is the header of a segment of this version."""
    header = _parse_object(line, path, 1)
    if header.get(_MARK) != VERSION:
        raise SourceError(
            f"{path} is a spool segment of version {header.get(_MARK)}; only version {VERSION} is supported.",
            hint="Ingest it with the ioweather version that wrote it.",
            kind="UnsupportedVersion",
        )


def _parse_object(line: str, path: Path, number: int) -> dict[str, Any]:
    """The JSON object in a line. Raises CorruptInput for other texts."""
    try:
        body = parse_json(line)
    except ValueError:
        raise CorruptInput(f"{path}, line {number}: {line[:60]!r} is not JSON.") from None
    if not isinstance(body, dict):
        raise CorruptInput(f"{path}, line {number}: expected an object, found {line[:60]!r}.")
    return body


def _check_hosts(table: str, row: Mapping[str, Any], where: str, hosts: str) -> None:
    """Raise SourceError where a row of a live source names a host that its sender may not speak for."""
    named: list[str | None] = []
    if table == "series":  # targets of Lustre belong to their file system, not to a host
        kind, system, component = row["component_kind"], row["system"], row["component"]
        named = [{"device": system.partition(":")[0], "host": component.partition(":")[0]}.get(kind)]
    elif table != "job_operations":  # those belong to their jobs; `host` is a client
        named = [row.get("host")]
    if table == "events":  # a later row of the same id revises an event, and ids are kind:host:...
        parts = row["event_id"].split(":")
        named.append(parts[1] if len(parts) > 2 and parts[0] in EVENT_KINDS else None)
    for host in named:
        if host is not None and not fnmatch.fnmatchcase(host, hosts):
            raise SourceError(f"{where}: the row is from {host}, but only {hosts} is allowed.", kind="ForeignRows")
