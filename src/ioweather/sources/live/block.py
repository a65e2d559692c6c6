"""Block devices of this machine: /proc/diskstats every few seconds, as amounts in `series`.

Each byte once: devices that lie on others (md, dm, multipath, bcache) are left out in favour of the ones below, and so
are partitions. `stacked` takes the top ones instead. Files and memory dressed as devices (loop, ram, zram) are neither.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ioweather.core.errors import SourceError
from ioweather.core.units import NS
from ioweather.sources.disk_counters import RESET, amounts_between, parse_diskstats
from ioweather.sources.live.contract import Reading, Ready, Reporter
from ioweather.sources.live.monotonic_samples import Clocks, ForwardTime, Gap
from ioweather.sources.live.rows import event_row

_NOT_STORAGE = re.compile(r"(?:loop|ram|zram|sr|fd)\d+(?:p\d+)?")


@dataclass
class BlockDevices(Reading):
    period_ns: int = 10 * NS
    root: Path = Path("/")
    stacked: bool = False
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    name = "block"

    def __post_init__(self) -> None:
        self._time = ForwardTime()
        self._last: dict[str, tuple[int, ...]] = {}
        self._last_wall_ns = 0
        self._away: dict[str, dict[str, object]] = {}

    def prepare(self, reporter: Reporter) -> Ready:
        devices = self._read()[0]
        names = ", ".join(sorted(devices)) or "no device that stores anything"
        return Ready(self.host, message=names)

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        devices, wall_ns, monotonic_ns = self._read()
        step = self._time.step(wall_ns, monotonic_ns)
        if step is not None and step.gap is not None:
            reporter.row("events", self._gap(step.gap))
        if step is not None and step.is_placed:
            for device, counters in devices.items():
                if device in self._last:
                    self._report(device, self._last[device], counters, step.start_ns, step.interval_ns, reporter)
        self._comings_and_goings(devices, wall_ns, reporter)
        self._last, self._last_wall_ns = devices, wall_ns

    def _read(self) -> tuple[dict[str, tuple[int, ...]], int, int]:
        path = self.root / "proc/diskstats"
        wall, monotonic = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        try:
            found = parse_diskstats(path.read_text(encoding="ascii", errors="replace"))
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}.") from None
        return {name: found[name] for name in found if self._counts(name)}, wall, monotonic

    def _counts(self, name: str) -> bool:
        """Whole devices, each byte once: sysfs names what lies on what."""
        if _NOT_STORAGE.fullmatch(name):
            return False
        blocks = self.root / "sys/block"
        if not blocks.is_dir():
            return True
        folder = blocks / name.replace("/", "!")  # sysfs writes cciss/c0d0 so
        if not folder.is_dir():  # a partition: it lies in its device's folder
            return False
        if not self.stacked:
            return not _has_entries(folder / "slaves")
        # What is held may be the device or any partition of it.
        return not any(_has_entries(place) for place in (folder / "holders", *folder.glob("*/holders")))

    def _report(
        self,
        device: str,
        before: tuple[int, ...],
        after: tuple[int, ...],
        start_ns: int,
        interval_ns: int,
        reporter: Reporter,
    ) -> None:
        amounts = amounts_between(before, after, interval_ns / NS)
        if amounts is None:
            return
        for metric, value in amounts.values.items():
            reporter.row(
                "series",
                {
                    "start_ns": start_ns,
                    "interval_ns": interval_ns,
                    "system": f"{self.host}:{device}",
                    "component_kind": "device",
                    "component": device,
                    "metric": metric,
                    "value": value,
                    "quality": RESET if amounts.restarted else 0,
                },
            )

    def _comings_and_goings(self, devices: Mapping[str, object], wall_ns: int, reporter: Reporter) -> None:
        """A device that was pulled out leaves a gap until it is back; what it did meanwhile is nobody's guess."""
        for device in self._last.keys() - devices.keys():
            key, at_ns = f"gap:{self.host}:{device}:{self._last_wall_ns}", self._last_wall_ns
            gone = partial(event_row, host=self.host, system=f"{self.host}:{device}", component=device)
            event = gone(key, "gap", "device is gone", at_ns)
            self._away[device] = event
            reporter.row("events", event)
        for device in self._away.keys() & devices.keys():
            reporter.row("events", {**self._away.pop(device), "end_ns": wall_ns})

    def _gap(self, gap: Gap) -> dict[str, object]:
        return event_row(
            f"gap:{self.host}:{self.name}:{gap.start_ns}", "gap", gap.label, gap.start_ns, gap.end_ns, host=self.host
        )


def _has_entries(folder: Path) -> bool:
    try:
        return any(True for _ in folder.iterdir())
    except OSError:
        return False
