"""From labelled samples to rows: counters become what they grew by, states stay as they are.

Counters restart: one that fell has grown by at least what it shows, and the row says so (RESET). The first value of a
counter is no growth, and neither is the first after a gap of ten times its usual interval: the clock may have been set.
Entries of jobs are another matter: a server makes one, at zero, when a job begins. A state is kept for the minute in
which it was read; how full a target is, once an hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from ioweather.core.counters.growth import Target
from ioweather.core.counters.lustre_text import identity_of
from ioweather.core.frames import Frame
from ioweather.core.tables.jobs import JOB_OPERATIONS
from ioweather.core.tables.series import METRICS, SERIES, Quality
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.readers.prometheus.mapping import Mapped

_SLOW: Final = frozenset({"capacity_bytes", "free_bytes", "capacity_files", "free_files", "client_count"})
_LONGEST_GAP: Final = 10  # times the interval before
_COLUMNS: Final = ("start_ns", "interval_ns", "system", "component_kind", "component", "metric", "value", "quality")

_JobPlace: TypeAlias = tuple[int, int, Target, str, str]  # start, end, target, job, operation


@dataclass(slots=True)
class _Counter:
    """As it was seen last; `grown` since the row began. `step_ns`: how long before that it was seen."""

    at_ns: int
    value: float
    since_ns: int
    grown: float = 0.0
    fell: bool = False
    step_ns: int = 0


@dataclass(slots=True)
class _Group:
    """When a group was seen last, and before that; and where the rows of then began."""

    at_ns: int
    since_ns: int
    before_ns: int | None = None
    before_since_ns: int | None = None

    def see(self, time_ns: int, *, begins: bool) -> None:
        if time_ns > self.at_ns:
            self.before_ns, self.before_since_ns = self.at_ns, self.since_ns
            self.at_ns = time_ns
            self.since_ns = time_ns if begins else self.since_ns

    def seen_before(self, time_ns: int) -> tuple[int, int] | None:
        """(moment, beginning of its row) of the last time before."""
        if self.at_ns < time_ns:
            return self.at_ns, self.since_ns
        if self.before_ns is None or self.before_since_ns is None or self.before_ns >= time_ns:
            return None
        return self.before_ns, self.before_since_ns


@dataclass
class Amounts:
    """Samples come in the order of time. `by_minute`: rows begin at the first sample of a minute, whoever reads them
    and from when on; otherwise every sample ends a row."""

    by_minute: bool = False
    cluster: str | None = None
    shown_once: set[str] = field(default_factory=set)
    gaps: int = 0
    late: int = 0  # samples behind later ones of their series
    _counters: dict[str, _Counter] = field(default_factory=dict)
    _groups: dict[tuple[str, ...], _Group] = field(default_factory=dict)
    _kept: dict[str, int] = field(default_factory=dict)
    _series: dict[tuple[int, int, Target, str], tuple[float, int]] = field(default_factory=dict)
    _jobs: dict[_JobPlace, dict[str, float]] = field(default_factory=dict)

    def add(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        """`key` tells one series of samples from all others. What is no number tells nothing."""
        if not abs(value) < 1e300:
            return
        if mapped.value == "state":
            self._keep(key, mapped, time_ns, value * mapped.factor)
        else:
            self._count(key, mapped, time_ns, value * mapped.factor)

    def _count(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        group = self._groups.get(mapped.group)
        if group is None:
            group = self._groups[mapped.group] = _Group(time_ns, time_ns)
        elif time_ns > group.at_ns:
            group.see(time_ns, begins=self._begins(group.at_ns, time_ns))
        counter = self._counters.get(key)
        if counter is not None and time_ns <= counter.at_ns:
            self.late += time_ns < counter.at_ns
            return
        seen = group.seen_before(time_ns) if mapped.job is not None and mapped.value == "counter" else None
        gone = counter is not None and seen is not None and counter.at_ns < seen[0]
        step_ns = 0 if counter is None else time_ns - counter.at_ns
        gap = counter is not None and step_ns > _LONGEST_GAP * max(counter.step_ns, MINUTE_NS)
        if counter is None or gone or gap:
            if seen is None or gap:
                self._counters[key] = _Counter(time_ns, value, time_ns, step_ns=step_ns)
                self.gaps += gap
                if counter is None:
                    self.shown_once.add(key)
                return
            counter = self._counters[key] = _Counter(seen[0], 0.0, seen[1])  # servers forget a job that rests
        counter.step_ns = step_ns
        self.shown_once.discard(key)
        fell = mapped.value == "counter" and value < counter.value
        if mapped.value == "counter":
            counter.grown += value if fell else value - counter.value
        else:
            counter.grown += value * ((time_ns - counter.at_ns) / NS if mapped.value == "rate" else 1)
        counter.fell |= fell
        ends = self._begins(counter.at_ns, time_ns)
        counter.at_ns, counter.value = time_ns, value
        if ends:
            self._row(mapped, counter)

    def _begins(self, before_ns: int, time_ns: int) -> bool:
        return not self.by_minute or before_ns // MINUTE_NS != time_ns // MINUTE_NS

    def _row(self, mapped: Mapped, counter: _Counter) -> None:
        start, end, flag = counter.since_ns, counter.at_ns, int(Quality.RESET) if counter.fell else 0
        if mapped.job is not None:
            if counter.grown > 0:
                row = self._jobs.setdefault((start, end, mapped.target, *mapped.job), {"quality": 0})
                row[mapped.metric] = row.get(mapped.metric, 0.0) + counter.grown
                row["quality"] = int(row["quality"]) | flag
        else:
            is_state = not METRICS[mapped.metric].extensive
            amount = counter.grown / ((end - start) / NS) if is_state else counter.grown
            known, flags = self._series.get((start, end, mapped.target, mapped.metric), (0.0, 0))
            self._series[start, end, mapped.target, mapped.metric] = known + amount, flags | flag
        counter.since_ns, counter.grown, counter.fell = end, 0.0, False

    def _keep(self, key: str, mapped: Mapped, time_ns: int, value: float) -> None:
        span = HOUR_NS if mapped.metric in _SLOW else MINUTE_NS
        if self._kept.get(key, -1) >= time_ns // span:
            return
        self._kept[key] = time_ns // span
        start = time_ns // MINUTE_NS * MINUTE_NS
        place = (start, start + MINUTE_NS, mapped.target, mapped.metric)
        self._series[place] = self._series.get(place, (0.0, 0))[0] + value, 0

    @property
    def waiting(self) -> int:
        return len(self._series) + len(self._jobs)

    def rows(self) -> Iterator[tuple[str, Frame]]:
        """What came together since the last time."""
        if self._series:
            rows = [
                (start, end - start, *target, metric, value, flag)
                for (start, end, target, metric), (value, flag) in self._series.items()
            ]
            yield "series", SERIES.frame({n: list(c) for n, c in zip(_COLUMNS, zip(*rows, strict=True), strict=True)})
        if self._jobs:
            yield "job_operations", _job_frame(self._jobs.items(), self.cluster)
        self._series, self._jobs = {}, {}

    def state(self) -> dict[str, Any]:
        """To go on from, as JSON has it. Rows that wait are not in it."""
        return {
            "counters": {key: list(asdict(counter).values()) for key, counter in self._counters.items()},
            "groups": [[list(name), *asdict(group).values()] for name, group in self._groups.items()],
            "kept": self._kept,
        }

    def forget(self, before_ns: int) -> None:
        """Counters and groups that were not seen since."""
        self._counters = {key: counter for key, counter in self._counters.items() if counter.at_ns >= before_ns}
        self._groups = {name: group for name, group in self._groups.items() if group.at_ns >= before_ns}
        self.shown_once &= self._counters.keys()

    def go_on(self, state: dict[str, Any]) -> None:
        self._counters = {key: _Counter(*values) for key, values in state["counters"].items()}
        self._groups = {tuple(name): _Group(*values) for name, *values in state["groups"]}
        self._kept = dict(state["kept"])


def _job_frame(rows: Iterable[tuple[_JobPlace, dict[str, float]]], cluster: str | None) -> Frame:
    columns: dict[str, list[Any]] = {name: [] for name in JOB_OPERATIONS.names}
    for (start, end, target, job, operation), amounts in rows:
        who = identity_of(job)
        row = {
            "start_ns": start, "interval_ns": end - start, "system": target.system, "component_kind": target.kind,
            "component": target.name, "job_key": job, "job_id": who.job_id,
            "cluster": cluster if who.job_id is not None else None, "uid": who.uid, "exe": who.exe, "host": who.host,
            "operation": operation, "count": round(amounts.get("count", 0.0)),
            "bytes": _whole(amounts.get("bytes")), "time_ns": _whole(amounts.get("time_ns")), "histogram": None,
            "quality": int(amounts["quality"]),
        }  # fmt: skip
        for name, values in columns.items():
            values.append(row[name])
    return JOB_OPERATIONS.frame(columns)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
