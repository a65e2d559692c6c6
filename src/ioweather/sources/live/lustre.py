"""Counters of a Lustre server on this machine, as amounts in `series`. `root` may be a copy of its /proc and /sys."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.errors import SourceError
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.sources.disk_counters import RESET
from ioweather.sources.live.contract import Operation, Ready, Reporter
from ioweather.sources.live.rows import event_row
from ioweather.sources.lustre.snapshot import Differ, Growth, Snapshot, Target, in_base_unit, is_tree, read_tree


@dataclass
class LustreServer:
    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    name: str = "lustre"
    operations: tuple[Operation, ...] = ()
    is_periodic: bool = True

    def __post_init__(self) -> None:
        self._differ = Differ()
        self._covered_until_ns: dict[Target, int] = {}
        self._set_back: set[Target] = set()
        self._hours: dict[tuple[Target, str], int] = {}

    @property
    def label(self) -> str:
        return self.name

    def prepare(self, reporter: Reporter) -> Ready:
        if not is_tree(self.root):
            raise SourceError(
                f"{self.root} shows no Lustre server.", hint="Run this on an OSS or MDS, or give its root."
            )
        targets = sorted(target.name for target in read_tree(self.root).samples)
        return Ready(self.host, message=", ".join(targets) or "no target is mounted here, or only root sees it")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        snapshot = read_tree(self.root)
        for target, grown in self._differ.update(snapshot.samples):
            if self._moves_forward(target, grown, reporter):
                for metric, amount in sorted(grown.amounts.items()):
                    _report(reporter, target, grown.start_ns, grown.end_ns - grown.start_ns, metric,
                            in_base_unit(metric, amount), RESET if grown.restarted else 0)  # fmt: skip
        self._states(snapshot, reporter)

    def _moves_forward(self, target: Target, grown: Growth, reporter: Reporter) -> bool:
        """Snapshots carry the server's clock. Where it was set back, the same minutes are not told of twice."""
        until = self._covered_until_ns.get(target, 0)
        if grown.start_ns < until:
            if target not in self._set_back:
                self._set_back.add(target)
                event = event_row(
                    f"gap:{self.host}:{target.name}:{grown.start_ns}", "gap", "clock of the server set back",
                    grown.start_ns, until, host=self.host, system=target.system, component=target.name,
                )  # fmt: skip
                reporter.row("events", event)
            return False
        self._set_back.discard(target)
        self._covered_until_ns[target] = grown.end_ns
        return True

    def _states(self, snapshot: Snapshot, reporter: Reporter) -> None:
        """How full and how used targets are, once an hour."""
        for target, gauges in snapshot.gauges.items():
            moment = snapshot.time_ns(target)
            if moment is None:
                continue
            for metric, value in sorted(gauges.items()):
                if self._hours.get((target, metric)) != moment // HOUR_NS:
                    self._hours[target, metric] = moment // HOUR_NS
                    _report(reporter, target, moment // MINUTE_NS * MINUTE_NS, MINUTE_NS, metric, float(value), 0)

    def finish(self, reporter: Reporter) -> None:
        """Nothing was made, nothing is left."""


def _report(
    reporter: Reporter, target: Target, start_ns: int, interval_ns: int, metric: str, value: float, quality: int
) -> None:
    reporter.row(
        "series",
        {
            "start_ns": start_ns,
            "interval_ns": interval_ns,
            "system": target.system,
            "component_kind": target.kind,
            "component": target.name,
            "metric": metric,
            "value": value,
            "quality": quality,
        },
    )
