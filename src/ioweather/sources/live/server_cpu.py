"""How busy the processors of a file server are: /proc/stat of this machine, as `cpu_ratio` of the oss or mds it is.

Waiting for I/O is idling: nothing is computed. What other guests took of a virtual machine (steal) is not idle, as in
sar. Counters of idle time may run backwards (proc(5)): such an interval is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ioweather.sources.counter_samples import Target
from ioweather.sources.live.contract import Reporter
from ioweather.sources.live.monotonic_samples import Clocks, ForwardTime
from ioweather.sources.live.rows import series_row

# The server of such a target, as `series` calls it.
_SERVERS: Final = {"ost": "oss", "mdt": "mds"}
# user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
_COUNTED: Final = 8
_IDLE: Final = slice(3, 5)


@dataclass
class ServerCpu:
    root: Path
    host: str
    clocks: Clocks
    _last: tuple[int, ...] | None = None
    _time: ForwardTime = field(default_factory=ForwardTime)

    def cycle(self, targets: Iterable[Target], reporter: Reporter) -> None:
        """Since the cycle before, of the server of these targets; once for each file system."""
        wall_ns, monotonic_ns = self.clocks.wall_ns(), self.clocks.monotonic_ns()
        counters = _read(self.root / "proc/stat")
        if counters is None:
            return
        step = self._time.step(wall_ns, monotonic_ns)
        last, self._last = self._last, counters
        if step is None or not step.is_placed or last is None:
            return
        busy = _busy_ratio(last, counters)
        if busy is None:
            return
        for system, kind in sorted(
            {(target.system, _SERVERS[target.kind]) for target in targets if target.kind in _SERVERS}
        ):
            server = Target(system, kind, self.host)
            reporter.row("series", series_row(server, step.start_ns, step.interval_ns, "cpu_ratio", busy, 0))


def _read(path: Path) -> tuple[int, ...] | None:
    """None where this machine does not say: a copy of a tree may lack it."""
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            words = file.readline().split()
    except OSError:
        return None
    numbers = words[1 : 1 + _COUNTED]
    if words[:1] != ["cpu"] or len(numbers) < 4 or not all(number.isdecimal() for number in numbers):
        return None
    return tuple(map(int, numbers))


def _busy_ratio(before: tuple[int, ...], after: tuple[int, ...]) -> float | None:
    grown = [b - a for a, b in zip(before, after, strict=False)]
    if min(grown) < 0 or sum(grown) <= 0:
        return None
    return 1.0 - sum(grown[_IDLE]) / sum(grown)
