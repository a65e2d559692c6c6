"""Lustre stats text to rows of `series`: what happened between snapshots, and how full and how used targets are.

A snapshot shows counters since the server started: alone it says nothing about activity. Two of them give amounts,
in the exact interval between them; the lake splits those over its grid by overlap. States (capacity, free space,
clients) are kept once an hour, for the minute in which they were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.sources.lustre.parse import get_param_blocks
from ioweather.sources.lustre.snapshot import (
    Differ,
    Growth,
    Snapshot,
    Target,
    in_base_unit,
    is_tree,
    read_tree,
    snapshots,
)
from ioweather.sources.textfiles import line_blocks, plain_head
from ioweather.tables.series import SERIES, Quality

_FRAME_ROWS = 50_000
_PARAMETER = re.compile(r"^(?:obdfilter|mdt|mds|osd-\w+)\.[^\s=]+=", re.MULTILINE)
_LONE_FILE = re.compile(r"^snapshot_time:?\s+\d+")
_HINT = "Record at least two: `lctl get_param obdfilter.*.stats mdt.*.md_stats >> FILE` once a minute, and ingest FILE."


class LustreSource:
    """`lctl get_param` output with one or more snapshots, or a folder of copied /proc and /sys trees."""

    name = "lustre"
    title = "Lustre server counters (lctl get_param output, copied /proc trees)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        if path.is_dir():
            return 0.9 if _trees(path) else 0.0
        text = plain_head(head)
        if _PARAMETER.search(text):
            return 0.95
        return 0.4 if _LONE_FILE.match(text) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        if path.is_dir():
            found: Iterator[Snapshot] = iter(sorted(map(read_tree, _trees(path)), key=_latest_ns))
        else:
            found = snapshots(get_param_blocks(_lines(path)), str(path))
        rows = _Rows(path, context)
        for snapshot in found:
            yield from rows.add(snapshot)
        yield from rows.finish()


def _trees(path: Path) -> list[Path]:
    """The folder itself, or the folders in it: one per snapshot."""
    if is_tree(path):
        return [path]
    return [folder for folder in sorted(path.iterdir()) if folder.is_dir() and is_tree(folder)]


def _latest_ns(snapshot: Snapshot) -> int:
    return max((sample.time_ns for sample in snapshot.samples.values()), default=0)


def _lines(path: Path) -> Iterator[str | None]:
    """All whole lines; None where the last one is torn: the file was cut, or is being written."""
    for block in line_blocks(path):
        if block.first == 1 and _LONE_FILE.match(block.lines[0]):
            raise SourceError(f"{path} is one snapshot of one target: counters alone give no amounts.", hint=_HINT)
        if block.torn:
            yield None
        else:
            yield from block.lines


class _Rows:
    """Collects rows until a frame is worth making."""

    def __init__(self, path: Path, context: ReadContext) -> None:
        self.path, self.context = path, context
        self.differ = Differ()
        self.kept_hours: set[tuple[Target, str, int]] = set()
        self.rows: list[tuple[int, int, str, str, str, str, float, int]] = []
        self.snapshots = self.made = 0

    def add(self, snapshot: Snapshot) -> Iterator[tuple[str, Frame]]:
        self.snapshots += 1
        for target, grown in self.differ.update(snapshot.samples):
            self._amounts(target, grown)
        for target, gauges in snapshot.gauges.items():
            self._states(snapshot, target, gauges)
        if len(self.rows) >= _FRAME_ROWS:
            yield self._frame()

    def finish(self) -> Iterator[tuple[str, Frame]]:
        if self.rows:
            yield self._frame()
        if not self.made:
            raise EmptyInput(
                f"{self.path} holds {self.snapshots} snapshot(s) of Lustre counters and nothing to compare.", hint=_HINT
            )

    def _amounts(self, target: Target, grown: Growth) -> None:
        flag = int(Quality.RESET) if grown.restarted else 0
        length = grown.end_ns - grown.start_ns
        for metric, amount in sorted(grown.amounts.items()):
            self.rows.append((grown.start_ns, length, *target, metric, in_base_unit(metric, amount), flag))

    def _states(self, snapshot: Snapshot, target: Target, gauges: dict[str, int]) -> None:
        moment = snapshot.time_ns(target)
        if moment is None:
            moment = self.context.start_ns
        if moment is None:
            raise UndatedInput(
                f"{self.path} holds states of {target.name} and no snapshot_time.",
                hint="Give --start, or record stats.",
            )
        for metric, value in sorted(gauges.items()):
            hour = (target, metric, moment // HOUR_NS)
            if hour not in self.kept_hours:
                self.kept_hours.add(hour)
                minute = moment // MINUTE_NS * MINUTE_NS
                self.rows.append((minute, MINUTE_NS, *target, metric, float(value), 0))

    def _frame(self) -> tuple[str, Frame]:
        columns = zip(*self.rows, strict=True)
        names = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")
        frame = SERIES.frame({name: list(column) for name, column in zip(names, columns, strict=True)})
        self.made += frame.rows
        self.rows = []
        return "series", frame


SOURCE = LustreSource()
