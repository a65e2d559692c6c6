"""A status as a table for the terminal: what each operation takes now, against what it usually takes."""

from __future__ import annotations

import errno

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ioweather.cli.render import shown
from ioweather.collect.status import OperationStatus, Status, TargetStatus
from ioweather.core.units import format_bytes, format_value

_COLUMNS = ("operation", "last", "median", "q90", "max", "usual", "slow", "done", "bad")
_SLOW, _VERY_SLOW = 2.0, 10.0


def status_table(status: Status) -> RenderableType:
    parts: list[RenderableType] = []
    for target in status.targets:
        parts += [_heading(target), _table(target)]
    for source in status.sources:
        if source.name not in ("probe", "sample"):  # these are the targets above
            parts.append(shown(f"{source.name}: {source.state}, {source.rows:,} rows. {source.message}", style="dim"))
    return Group(*parts)


def _heading(target: TargetStatus) -> Text:
    text = shown(target.target, style="bold")
    text.append(shown(f"  {target.state}", "red" if target.state in ("hung", "failed") else "default"))
    if target.in_flight is not None and target.state != "stopped":
        text.append(shown(f", {target.in_flight.op} for {format_value(target.in_flight.age_ns, 'ns')}"))
    if target.message:
        text.append(shown(f"  {target.message}", "dim"))
    return text


def _table(target: TargetStatus) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
    for place, name in enumerate(_COLUMNS):
        table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
    with_mode = len({(entry.op, entry.mode) for entry in target.operations}) > len({e.op for e in target.operations})
    for operation in target.operations:
        table.add_row(*_cells(operation, with_mode))
    return table


def _cells(operation: OperationStatus, with_mode: bool) -> list[Text]:
    last = operation.last
    recent = operation.recent
    failure = errno.errorcode.get(last.errno or 0, "failed") if last is not None and last.status == "error" else ""
    times = [
        failure or format_value(last.duration_ns if last else None, "ns"),
        *(format_value(value, "ns") for value in (recent.median_ns, recent.q90_ns, recent.max_ns)),
        format_value(operation.expected_ns, "ns"),
    ]
    counts = (operation.ok_count, operation.error_count + operation.missed_count)
    size = f" {format_bytes(operation.request_bytes)}" if operation.request_bytes else ""
    mode = f" {operation.mode}" if with_mode else ""
    return [
        shown(f"{operation.op}{size}{mode}"),
        *(shown(cell) for cell in times),
        _slowdown(operation.slowdown_ratio),
        *(shown(f"{count:,}" if count else "–") for count in counts),
    ]


def _slowdown(ratio: float | None) -> Text:
    style = "default" if ratio is None or ratio < _SLOW else "yellow" if ratio < _VERY_SLOW else "red"
    return shown(format_value(ratio, "factor"), style=style)
