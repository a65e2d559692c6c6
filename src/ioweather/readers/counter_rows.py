"""Rows of `series` out of growing counters, collected until a frame is worth making."""

from __future__ import annotations

from collections.abc import Iterator

from ioweather.core.counters.growth import Growth, Target, in_base_unit
from ioweather.core.frames import Frame
from ioweather.core.tables.series import SERIES, Quality

_FRAME_ROWS = 50_000
_COLUMNS = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")


class SeriesRows:
    def __init__(self) -> None:
        self._rows: list[tuple[int, int, str, str, str, str, float, int]] = []
        self.made = 0

    def amounts(self, target: Target, grown: Growth) -> None:
        flag = int(Quality.RESET) if grown.restarted else 0
        length = grown.end_ns - grown.start_ns
        for metric, amount in sorted(grown.amounts.items()):
            self._rows.append((grown.start_ns, length, *target, metric, in_base_unit(metric, amount), flag))

    def value(self, target: Target, start_ns: int, interval_ns: int, metric: str, value: float) -> None:
        self._rows.append((start_ns, interval_ns, *target, metric, value, 0))

    def full(self) -> Iterator[tuple[str, Frame]]:
        """A frame, where there are rows enough."""
        if len(self._rows) >= _FRAME_ROWS:
            yield from self.rest()

    def rest(self) -> Iterator[tuple[str, Frame]]:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            yield "series", SERIES.frame({name: list(c) for name, c in zip(_COLUMNS, columns, strict=True)})
        self.made += len(self._rows)
        self._rows = []
