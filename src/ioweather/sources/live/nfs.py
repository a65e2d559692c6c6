"""NFS mounts of this machine: /proc/self/mountstats every few seconds, as amounts in `series`."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path

from ioweather.core.errors import SourceError
from ioweather.core.units import NS
from ioweather.sources.counter_samples import Target
from ioweather.sources.live.contract import Reading, Ready, Reporter
from ioweather.sources.live.monotonic_samples import Clocks, ForwardTime
from ioweather.sources.live.rows import event_row, report_growth
from ioweather.sources.nfs.mountstats import Mount, growth_of, parse_mountstats

MOUNTSTATS = Path("proc/self/mountstats")


def is_here(root: Path) -> bool:
    """Whether anything is mounted by NFS; the list of mounts asks no server."""
    try:
        return " with fstype nfs" in (root / MOUNTSTATS).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


@dataclass
class NfsClient(Reading):
    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    clocks: Clocks = field(default_factory=Clocks)
    name = "nfs"

    def __post_init__(self) -> None:
        self._time = ForwardTime()
        self._last: dict[str, Mount] = {}

    def prepare(self, reporter: Reporter) -> Ready:
        return Ready(self.host, message=", ".join(sorted(self._read()[0])) or "nothing is mounted by NFS")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        mounts, wall_ns, monotonic_ns = self._read()
        step = self._time.step(wall_ns, monotonic_ns)
        if step is not None and step.gap is not None:
            gap = step.gap
            event_id = f"gap:{self.host}:{self.name}:{gap.start_ns}"
            reporter.row("events", event_row(event_id, "gap", gap.label, gap.start_ns, gap.end_ns, host=self.host))
        if step is not None and step.is_placed:
            for path, mount in mounts.items():
                if path in self._last:
                    grown = growth_of(self._last[path], mount, step.start_ns, step.start_ns + step.interval_ns)
                    report_growth(reporter, Target(f"mount:{path}", "host", self.host), grown)
        self._last = mounts

    def _read(self) -> tuple[dict[str, Mount], int, int]:
        path = self.root / MOUNTSTATS
        wall, monotonic = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise SourceError(f"{path} cannot be read: {error.strerror}.") from None
        return {mount.path: mount for mount in parse_mountstats(text.splitlines(), str(path))}, wall, monotonic
