"""From samples of devices and hosts to frames of `series`: who, when, and one row per metric."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.errors import CorruptInput, EmptyInput
from ioweather.core.frames import Frame, Text
from ioweather.core.units import NS
from ioweather.tables import TABLES, encode_text

Number = TypeVar("Number", np.float64, np.uint64)


# Many lines of numbers at once: all or nothing, so that the rare wrong line is looked for only where there is one.
def parse_lines(lines: Sequence[str], dtype: type[Number], delimiter: str | None = None) -> NDArray[Number] | None:
    """Line x column, or None where lines differ in their number of columns or hold anything but numbers."""
    if any(not line or line.isspace() for line in lines):
        return None
    try:
        table: NDArray[Any] = np.loadtxt(lines, dtype, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return table if len(table) == len(lines) else None


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def printed_numbers(
    path: Path, rows: list[Any], lines: list[int], columns: Sequence[str], delimiter: str | None = None
) -> Floats:
    """Row x column of lines of text, or of lists of numbers; `lines` says where each stands."""
    if not isinstance(rows[0], str):
        return np.array(rows, np.float64).reshape(len(rows), len(columns))
    rows = [row.replace(",", ".") for row in rows]  # the writer's locale may have a decimal comma
    numbers = parse_lines(rows, np.float64, delimiter)
    if numbers is not None and numbers.shape[1] == len(columns):
        return numbers
    for row, line in zip(rows, lines, strict=True):
        words = row.split(delimiter)
        if len(words) != len(columns):
            expected = f"expected {len(columns)} numbers, found {len(words)} in {row.strip()[:60]!r}"
            raise CorruptInput(f"{path}, line {line}: {expected}.")
        wrong = next((word for word in words if not is_number(word)), None)
        if wrong is not None:
            hint = "iostat -h (--human) rounds to two digits; run it without."
            raise CorruptInput(f"{path}, line {line}: {wrong!r} is not a number.", hint=hint)
    raise CorruptInput(f"{path}, line {lines[0]}: its numbers cannot be read.")


def with_rows(frames: Iterable[Frame], empty: EmptyInput) -> Iterator[tuple[str, Frame]]:
    """Frames of `series`; an error where none of them has a row."""
    rows = 0
    for frame in frames:
        rows += frame.rows
        yield "series", frame
    if not rows:
        raise empty


# Files and memory dressed as devices: they are not storage, and there are many of them.
_NOT_STORAGE = re.compile(r"(?:loop|ram|zram)\d+(?:p\d+)?")

# Samples per frame: some hundred thousand rows, so that a day of a large server never lies in memory at once.
BATCH_SAMPLES = 50_000

Values = Mapping[str, tuple[Floats, "Bools | None"]]


@dataclass(frozen=True)
class Spans:
    """The intervals of samples, [start, start + interval)."""

    start_ns: Ints
    interval_ns: Ints

    @classmethod
    def of(cls, spans: Sequence[tuple[int, int]]) -> Spans:
        pairs = np.array(spans, np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])

    def repeat(self, counts: Sequence[int]) -> Spans:
        """Each interval as often as it has devices."""
        return Spans(np.repeat(self.start_ns, counts), np.repeat(self.interval_ns, counts))

    @property
    def seconds(self) -> Floats:
        return self.interval_ns / NS


def device_rows(
    hosts: str | Sequence[str], devices: Sequence[str], spans: Spans, values: Values, quality: Ints | None = None
) -> Frame:
    """Rows of samples of devices: system 'host:device', component the device. Loop and RAM devices make none."""
    component = encode_text(devices)
    if isinstance(hosts, str):
        system = Text(component.codes, tuple(f"{hosts}:{device}" for device in component.categories))
    else:
        system = encode_text([f"{host}:{device}" for host, device in zip(hosts, devices, strict=True)])
    storage = np.array([_NOT_STORAGE.fullmatch(device) is None for device in component.categories], np.bool_)
    return _rows("device", system, component, spans, values, storage[component.codes], quality)


def host_rows(hosts: str | Sequence[str], spans: Spans, values: Values) -> Frame:
    """Rows of samples of whole hosts: system and component the host."""
    names = encode_text([hosts] * len(spans.start_ns) if isinstance(hosts, str) else hosts)
    return _rows("host", names, names, spans, values, np.ones(len(names), np.bool_), None)


def _rows(
    kind: str, system: Text, component: Text, spans: Spans, values: Values, kept: Bools, quality: Ints | None
) -> Frame:
    """Metric by metric, each in the order of the samples."""
    all_kept = np.flatnonzero(kept)
    picks = [all_kept if present is None else np.flatnonzero(kept & present) for _, present in values.values()]
    order = np.concatenate(picks) if picks else all_kept[:0]
    metric_codes = np.repeat(np.arange(len(picks), dtype=np.int32), [len(pick) for pick in picks])
    numbers = [column[pick] for (column, _), pick in zip(values.values(), picks, strict=True)]
    return TABLES["series"].frame(
        start_ns=spans.start_ns[order],
        interval_ns=spans.interval_ns[order],
        system=system[order],
        component_kind=kind,
        component=component[order],
        metric=Text(metric_codes, tuple(values)),
        value=np.concatenate(numbers) if numbers else np.zeros(0),
        quality=np.zeros(len(order), np.int64) if quality is None else quality[order],
        rows=len(order),
    )
