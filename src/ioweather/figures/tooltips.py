"""What a pointer shows over a mark, in the units people read; and the layers that only a pointer needs."""

from __future__ import annotations

from typing import Final

from ioweather.core.results import ResultColumn
from ioweather.figures.theme import Spec

HOVER: Final = "hover"  # layers of this name are left out of printed pictures

_BINARY: Final = tuple((float(1 << (10 * power)), f" {'KMGTP'[power - 1]}iB") for power in range(5, 0, -1))
_SECONDS: Final = (
    (172800.0, 86400.0, " d"),
    (7200.0, 3600.0, " h"),
    (120.0, 60.0, " min"),
    (1.0, 1.0, " s"),
    (1e-3, 1e-3, " ms"),
)
_SUFFIXES: Final = {
    "mib_per_s": " MiB/s",
    "mib_per_s_per_node": " MiB/s/CN",
    "ops_per_s": "/s",
    "percent": "%",
    "factor": "x",
}


def tooltip(fields: dict[str, ResultColumn]) -> tuple[list[Spec], list[Spec]]:
    """The tooltip channel for fields of a layer, and the transforms that make its texts."""
    channel: list[Spec] = []
    transforms: list[Spec] = []
    for name, column in fields.items():
        title = column.heading
        if column.unit in ("time_ns", "date"):
            form = "%Y-%m-%d" if column.unit == "date" else "%Y-%m-%d %H:%M:%S UTC"
            transforms.append({"calculate": f"utcFormat(datum.{name},'{form}')", "as": f"{name}_text"})
            channel.append({"field": f"{name}_text", "type": "nominal", "title": title})
        elif column.unit == "text":
            channel.append({"field": name, "type": "nominal", "title": title})
        else:
            transforms.append({"calculate": _expression(f"datum.{name}", column.unit), "as": f"{name}_text"})
            channel.append({"field": f"{name}_text", "type": "nominal", "title": title})
    return channel, transforms


def text_column(heading: str) -> ResultColumn:
    """A column of names, for a field that was already made readable."""
    return ResultColumn("text", heading, "text")


def _expression(value: str, unit: str) -> str:
    """core.units.format_value in Vega's language."""
    if unit in ("bytes", "bytes_per_s"):
        text = f"format({value},'.3~r')+' B'"
        for size, suffix in reversed(_BINARY):
            text = f"abs({value})>={size:.0f}?format({value}/{size:.0f},'.4~r')+'{suffix}':{text}"
        text = f"({text})+'/s'" if unit == "bytes_per_s" else text
    elif unit in ("seconds", "ns"):
        number = f"({value}/1e9)" if unit == "ns" else value
        text = f"abs({number})<5e-10?'0 s':format({number}*1e6,'.3~r')+' µs'"
        for least, size, suffix in reversed(_SECONDS):
            text = f"abs({number})>={least!r}?format({number}/{size!r},'.3~r')+'{suffix}':{text}"
    else:
        form = ".3~p" if unit == "ratio" else ",.6~r"
        text = f"format({value},'{form}')+'{_SUFFIXES.get(unit, '')}'"
    return f"isValid({value})?({text}):'–'"
