"""Counters of a Lustre server or client on this machine, as amounts in `series`, and of its jobs in `job_operations`;
of a server also how busy its processors are.

`root` may be a copy of its /proc and /sys. A target may list ten thousand jobs: the list is read in pieces, and only
entries that changed are looked into.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from ioweather.agent.sensor import Reading, Ready, Reporter, event_row, report_growth, series_row
from ioweather.core.counters.diskstats import RESET
from ioweather.core.counters.growth import Clocks, Differ, ForwardTime, Growth, Origin, Target
from ioweather.core.counters.lustre_snapshot import Snapshot, is_tree, job_stats_files, read_tree
from ioweather.core.counters.lustre_text import ENTRY, JobAmounts, TargetJobs, job_rows, parse_entry, unquoted
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS

# The server of such a target, as `series` calls it.
_SERVERS: Final = {"ost": "oss", "mdt": "mds"}
# user, nice, system, idle, iowait, irq, softirq, steal; guests are in user and nice already.
_COUNTED: Final = 8
_IDLE: Final = slice(3, 5)


@dataclass
class ServerCpu:
    """How busy the processors of a file server are: /proc/stat of this machine, as `cpu_ratio` of the oss or mds it is.
    Waiting for I/O is idling: nothing is computed. What other guests took of a virtual machine (steal) is not idle, as
    in sar. Counters of idle time may run backwards (proc(5)): such an interval is left out."""

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


_PIECE_BYTES = 256 << 10
_LONGEST_ENTRY = 64 << 10
_ENTRY = ENTRY.encode()


@dataclass
class LustreServer(Reading):
    period_ns: int = 10 * NS
    root: Path = Path("/")
    host: str = field(default_factory=socket.gethostname)
    cluster: str | None = None
    clocks: Clocks = field(default_factory=Clocks)
    name = "lustre"

    def __post_init__(self) -> None:
        self._differ = Differ()
        self._covered_until_ns: dict[Origin, int] = {}
        self._set_back: set[Origin] = set()
        self._hours: dict[tuple[Target, str], int] = {}
        self._jobs: dict[Target, JobList] = {}
        self._cpu = ServerCpu(self.root, self.host, self.clocks)

    def prepare(self, reporter: Reporter) -> Ready:
        if not is_tree(self.root):
            raise SourceError(
                f"{self.root} shows no Lustre server or client.", hint="Run this where Lustre runs, or give its root."
            )
        found = read_tree(self.root, self.host, with_jobs=False).samples
        targets = sorted({origin.target.name for origin in found})
        return Ready(self.host, message=", ".join(targets) or "no target is mounted here, or only root sees it")

    def cycle(self, scheduled_ns: int, reporter: Reporter) -> None:
        snapshot = read_tree(self.root, self.host, with_jobs=False)
        for origin, grown in self._differ.update(snapshot.placed(self.host)):
            if self._moves_forward(origin, grown, reporter):
                report_growth(reporter, origin.target, grown)
        self._states(snapshot, reporter)
        self._cpu.cycle({*(origin.target for origin in snapshot.samples), *snapshot.gauges}, reporter)
        for target, path in job_stats_files(self.root):
            known = self._jobs.setdefault(target, JobList(str(path)))
            for amounts in known.look(_pieces(path), self.clocks.wall_ns()):
                for row in job_rows(target, amounts, RESET if amounts.restarted else 0, self.cluster):
                    reporter.row("job_operations", row)
        if snapshot.damaged:
            raise SourceError(f"{len(snapshot.damaged)} parameter(s) left out: {snapshot.damaged[0]}")

    def _moves_forward(self, origin: Origin, grown: Growth, reporter: Reporter) -> bool:
        """Snapshots carry the server's clock. Where it was set back, the same minutes are not told of twice."""
        until = self._covered_until_ns.get(origin, 0)
        if grown.start_ns < until:
            if origin not in self._set_back:
                self._set_back.add(origin)
                target = origin.target
                key, words = f"gap:{self.host}:{target.name}:{grown.start_ns}", "clock of the server set back"
                of_target = partial(event_row, host=self.host, system=target.system, component=target.name)
                event = of_target(key, "gap", words, grown.start_ns, until)
                reporter.row("events", event)
            return False
        self._set_back.discard(origin)
        self._covered_until_ns[origin] = grown.end_ns
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
                    minute = moment // MINUTE_NS * MINUTE_NS
                    reporter.row("series", series_row(target, minute, MINUTE_NS, metric, float(value), 0))


class JobList:
    """The jobs of one target, look after look. Of an entry that did not change there is only a hash to compare."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._jobs = TargetJobs()
        self._hashes: dict[str, int] = {}

    def look(self, pieces: Iterator[bytes], looked_ns: int) -> Iterator[JobAmounts]:
        hashes: dict[str, int] = {}
        for text in entry_pieces(pieces):
            key = unquoted(text.partition(b"\n")[0].decode(errors="replace"))
            hashes[key] = hash(text)
            if self._hashes.get(key) != hashes[key]:
                amounts = self._jobs.see(*parse_entry(text.decode(errors="replace"), self._where))
                if amounts is not None:
                    yield amounts
        self._hashes = hashes
        self._jobs.end_look(hashes.__contains__, looked_ns)


def _pieces(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb", buffering=0) as file:
            while data := file.read(_PIECE_BYTES):
                yield data
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.", hint="Some of debugfs needs root.") from None


def entry_pieces(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Entry by entry, each from behind its mark on; what is before the first is none."""
    open_entry, begun = b"\n", False
    for piece in pieces:
        *whole, open_entry = (open_entry + piece).split(_ENTRY)
        if len(open_entry) > _LONGEST_ENTRY:
            raise CorruptInput("an entry of job_stats is longer than any can be.")
        for text in whole:
            if begun:
                yield text
            begun = True
    if begun:
        yield open_entry.rstrip(b"\n\0")
