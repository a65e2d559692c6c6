"""Incidents: which components were unhealthy, from when to when, merged into the fewest causes.

Each component is healthy or sick in every time bin. Becoming sick is rare (one onset per search is expected), so single
slow observations are not enough; the most likely sequence of states is found with the Viterbi algorithm. Then

- targets of one server that are sick together are the server;
- a server whose targets all fell silent at once failed; later slowness of its own targets and of the one server that
  took them over is a consequence.

A capped target still does what is requested, but never faster than a limit it did not have before. Amounts alone do not
separate a slow target from an idle one. A capped target works at its limit for long, never above, while its peers go
faster. In its rates over five minutes, as shares of its ceiling, that is a stretch

    nothing above L (1 + e),   at least MIN_MINUTES between L (1 - e) and L (1 + e),   L < HIGHEST_LEVEL

in which most peers exceed L by a margin. A striped job that is slow at its own end has the same mark on all its targets
at once. So of targets with the same limit at the same time, only one that stands out is named, or targets of one server
together, whose limit may be the server's.

All targets together may be capped too, as by the network: the sum of their bytes stays at a limit for long, never
above, while its parts change.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
from scipy.special import ndtr

from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Ints, Matrix
from ioweather.core.units import HOUR_NS, MINUTE_NS

# Evidence: timed operations (requests of a device, probes of a target, files of a run) are compared with what is usual.
# A busy target is slow for everyone and healthy, so
#
#     excess = log(time) - usual of the component - expected at its load - common excess of its peers at the same time
#
# The spread of the excess over all components, which are healthy most of the time, says how surprising a value is. The
# result per time bin is log p(observed | sick) - log p(observed | healthy).
# [ours] All constants of the evidence were fixed on the simulated weeks of seeds 101-104 and the first half of a real
# testbed; benchmarks/health.py reports others.
# Observations that give a component a usual time of its own; with fewer, that of all components is used.
_LEAST_OWN: Final = 50
# Components in a bin from which their median is a common excess.
LEAST_PEERS: Final = 3
_LEAST_IN_CLASS: Final = 40
_LEAST_SPREAD: Final = 0.12
# Range of factors by which a sick component is slower, and the probability that an observation shows it (if busy, or
# idle below this load).
_SLOWER: Final = (1.5, 20.0)
SLOWER_WITHOUT_PEERS: Final = (2.0, 20.0)
_SLOWER_SHARED: Final = (3.0, 20.0)
_SHOWS, _SHOWS_IDLE, _IDLE = 0.5, 0.2, 0.1
# A component that does this share of the most it ever did, or its peers do, is loaded: waiting is no evidence.
_LOADED: Final = 0.85
# Within a run, files on different targets differ little, and each was served by its target.
SLOWER_IN_RUN: Final = (1.2, 3.0)
SPREAD_IN_RUN: Final = 0.05
SHOWS_IN_RUN: Final = 0.8
# Cap of the evidence in one bin. Common slowness must last longer: it is more frequent than a sick component.
MOST_EVIDENCE: Final = 4.0
_MOST_SHARED: Final = 2.5
_LEAST_TAIL: Final = 0.01
_STUDENT: Final = 3.0  # degrees of freedom: single operations have heavy tails
_STUDENT_SCALE: Final = 0.3675525969478614  # Gamma(2) / (sqrt(3 pi) Gamma(3/2))
# Classes of load.
_LOADS: Final = np.array([0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
# Requests at their usual time that are added to each bin: ratios of few requests are near 1.
_PADDING: Final = 16.0
CEILING_QUANTILE: Final = 0.998


class Bins(NamedTuple):
    """Time bins of a search."""

    start_ns: int
    bin_ns: int
    count: int  # type: ignore[assignment]  # hides tuple.count

    @property
    def starts_ns(self) -> Ints:
        """Start of each bin."""
        return self.start_ns + np.arange(self.count, dtype=np.int64) * self.bin_ns


@dataclass(frozen=True, eq=False)
class Observations:
    """Timed operations from one source.

    `component` are codes of `components`; `log_seconds` is the mean logarithm of the time (or of a ratio to it) of
    `count` operations; `load` the component's load as a share of its ceiling (NaN: unknown). Without `has_peers` the
    components are not compared with each other. `most` caps the evidence of a bin; `slower` is the range of factors of
    a sick component, `shows` the probability that an observation of it shows that, `least_spread` of healthy ones.
    """

    source: str
    components: tuple[str, ...]
    component: Ints
    start_ns: Ints
    log_seconds: Floats
    load: Floats
    count: Floats
    has_peers: bool = True
    most: float = MOST_EVIDENCE
    slower: tuple[float, float] = _SLOWER
    shows: float = _SHOWS
    least_spread: float = _LEAST_SPREAD

    def take(self, rows: Bools) -> Observations:
        """Some of the observations."""
        columns = ("component", "start_ns", "log_seconds", "load", "count")
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})


@dataclass(frozen=True, eq=False)
class Evidence:
    """(bin, component) log-likelihood ratio of sick to healthy, and mean excess of slow observations (NaN: none)."""

    source: str
    components: tuple[str, ...]
    bins: Bins
    log_ratio: Floats
    excess: Floats


def weigh(observed: Observations, bins: Bins) -> Evidence:
    """Return the evidence of the observations."""
    place = (observed.start_ns - bins.start_ns) // bins.bin_ns
    rows = np.flatnonzero((place >= 0) & (place < bins.count) & np.isfinite(observed.log_seconds))
    component, place = observed.component[rows], place[rows]
    shape = bins.count, len(observed.components)
    excess = _subtract_usual(observed.log_seconds[rows], component, shape[1])
    # Median excess at each load; it grows with the load.
    load = observed.load[rows]
    classes = np.where(np.isfinite(load), np.searchsorted(_LOADS, load), len(_LOADS) + 1)
    median = np.zeros(len(_LOADS) + 2)
    for each in np.unique(classes):
        mine = excess[classes == each]
        if len(mine) >= _LEAST_IN_CLASS:
            median[each] = float(np.median(mine))
    known = len(_LOADS) + 1
    median[:known] = np.maximum.accumulate(np.maximum(median[:known], 0.0))
    excess = excess - np.asarray(median[classes])
    if observed.has_peers:
        median, seen = _medians(excess, place, component, shape)
        excess = excess - np.where(seen > LEAST_PEERS, np.maximum(median, 0.0), 0.0)[place]
    shows = np.where(observed.load[rows] > _IDLE, observed.shows, _SHOWS_IDLE)
    log_ratio = _log_likelihood_ratio(excess, observed.least_spread, shows, observed.slower)
    log_ratio = np.where(load >= _LOADED, np.minimum(log_ratio, 0.0), log_ratio)
    total, slow, seen = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    np.add.at(total, (place, component), log_ratio)
    is_slow = log_ratio > 0
    np.add.at(slow, (place[is_slow], component[is_slow]), excess[is_slow])
    np.add.at(seen, (place[is_slow], component[is_slow]), 1.0)
    mean = np.divide(slow, seen, out=np.full(shape, np.nan), where=seen > 0)
    return Evidence(observed.source, observed.components, bins, np.clip(total, -observed.most, observed.most), mean)


def combine(parts: Sequence[Evidence], components: Sequence[str]) -> tuple[Floats, Floats, Mapping[str, Floats]]:
    """(log ratio, excess) from all sources with columns for `components`, and the log ratio by source."""
    shape = parts[0].bins.count, len(components)
    column_of = {name: column for column, name in enumerate(components)}
    log_ratio, by_source = np.zeros(shape), {}
    total, seen = np.zeros(shape), np.zeros(shape)
    for part in parts:
        columns = [column_of[name] for name in part.components]
        own = np.zeros(shape)
        own[:, columns] = part.log_ratio
        by_source[part.source] = own
        log_ratio += own
        known: Bools = np.isfinite(part.excess)
        total[:, columns] += np.where(known, part.excess, 0.0)
        seen[:, columns] += known
    return log_ratio, np.divide(total, seen, out=np.full(shape, np.nan), where=seen > 0), by_source


# Observations from tables.


def request_observations(
    source: str,
    components: Sequence[str],
    bins: Bins,
    seconds: Sequence[Floats],
    counts: Sequence[Floats],
    load: Floats,
) -> Observations:
    """Seconds that requests took over what as many usually take.

    `seconds` and `counts` have one (bin, component) table per kind of request, `load` is such a table.
    """
    spent, expected, requests, padding = np.zeros(load.shape), np.zeros(load.shape), np.zeros(load.shape), 0.0
    for took, count in zip(seconds, counts, strict=True):
        enough = (count >= _PADDING) & np.isfinite(took)
        if not enough.any():
            continue
        usual = float(np.median(took[enough] / count[enough]))
        known = np.isfinite(took) & np.isfinite(count)
        spent += np.where(known, took, 0.0)
        expected += np.where(known, count * usual, 0.0)
        requests += np.where(known, count, 0.0)
        padding += _PADDING * usual
    chosen = place, component = np.nonzero((requests >= _PADDING) & (padding > 0))
    return Observations(
        source=source,
        components=tuple(components),
        component=component,
        start_ns=bins.starts_ns[place],
        log_seconds=np.log((spent[chosen] + padding) / (expected[chosen] + padding)),
        load=load[chosen],
        count=requests[chosen],
        has_peers=len(components) > LEAST_PEERS,
    )


# Work of a device against its queue. A sample with a shorter queue shows no demand, and this share of each sample is
# added to both sides of ratios. [ours]
_LEAST_QUEUE: Final = 0.1
_BUSY_PADDING: Final = 0.1


def _busy_and_usual(amounts: Sequence[Floats], queue: Floats, busy_ratio: Floats) -> tuple[Floats, Floats]:
    """(step, component) shares of time that devices were busy, and that their work usually takes.

    Work is the largest share of a ceiling among the `amounts` (bytes and requests, read and written); `queue` is the
    mean number of requests. A device works faster with a longer queue, so the usual rate is that at the same queue
    while busy: a burst or a heavy load is no slowness. NaN where few requests waited.
    """
    with np.errstate(invalid="ignore"):
        busy = np.clip(np.fmax(busy_ratio, np.where(np.isfinite(busy_ratio), 0.0, np.minimum(queue, 1.0))), 0.01, 1.0)
        work = np.nan_to_num(np.max([np.nan_to_num(utilisation(each)) for each in amounts], axis=0))
        has_demand = queue >= _LEAST_QUEUE
    took, takes = np.full(queue.shape, np.nan), np.full(queue.shape, np.nan)
    queue, busy, work = queue[has_demand], busy[has_demand], work[has_demand]
    rate = np.log(np.maximum(work, 1e-4) / busy)
    classes = np.searchsorted(_LOADS, queue / (busy + queue))
    usual = np.full(len(_LOADS) + 1, np.nan)
    for each in np.unique(classes).tolist():
        mine = rate[classes == each]
        if len(mine) >= _LEAST_IN_CLASS:
            usual[each] = float(np.median(mine))
    known = np.flatnonzero(np.isfinite(usual))
    if not len(known):
        return took, takes
    # Of classes with few samples the nearest is used; a longer queue never slows a healthy device.
    usual = np.maximum.accumulate(usual[known])[np.abs(np.arange(len(usual))[:, None] - known).argmin(axis=1)]
    took[has_demand], takes[has_demand] = busy, work / np.exp(usual[classes])
    return took, takes


def work_observations(
    components: Sequence[str], starts_ns: Ints, amounts: Sequence[Floats], queue: Floats, busy_ratio: Floats
) -> Observations:
    """Busy time of devices over the usual in each sample, as observations (see `_busy_and_usual`)."""
    took, takes = _busy_and_usual(amounts, queue, busy_ratio)
    chosen = step, component = np.nonzero(np.isfinite(took))
    return Observations(
        source="service",
        components=tuple(components),
        component=component,
        start_ns=starts_ns[step],
        log_seconds=np.log((took[chosen] + _BUSY_PADDING) / (takes[chosen] + _BUSY_PADDING)),
        load=np.full(len(step), 0.5),  # in demand: the excess is relative to what is usual at the queue
        count=np.ones(len(step)),
        has_peers=len(components) > LEAST_PEERS,
    )


def shared_observations(observed: Observations, name: str, bins: Bins, load: Floats) -> Observations:
    """Common excess of most components, as observations of the network or the clients that they share.

    `load` is that of all components together in each bin.
    """
    place = (observed.start_ns - bins.start_ns) // bins.bin_ns
    rows = np.flatnonzero((place >= 0) & (place < bins.count) & np.isfinite(observed.log_seconds))
    component, columns = observed.component[rows], len(observed.components)
    excess = _subtract_usual(observed.log_seconds[rows], component, columns)
    median, seen = _medians(excess, place[rows], component, (bins.count, columns))
    chosen = np.flatnonzero(seen > max(LEAST_PEERS, columns // 2))
    return Observations(
        source="shared",
        components=(name,),
        component=np.zeros(len(chosen), np.int64),
        start_ns=bins.starts_ns[chosen],
        log_seconds=median[chosen],
        load=load[chosen],
        count=seen[chosen],
        has_peers=False,
        most=_MOST_SHARED,
        slower=_SLOWER_SHARED,
    )


def ceilings(amounts: Floats) -> Floats:
    """Nearly the highest amount of each component (column); NaN if it has none."""
    known = ~np.isnan(amounts).all(axis=0)
    found = np.full(amounts.shape[1], np.nan)
    if known.any():
        found[known] = np.nanquantile(amounts[:, known], CEILING_QUANTILE, axis=0)
    return found


def utilisation(amounts: Floats) -> Floats:
    """(step, component) amounts as shares of the component's ceiling, or of that of a typical peer if higher."""
    own = ceilings(amounts)
    if np.isnan(own).all():
        return np.full(amounts.shape, np.nan)
    ceiling = np.fmax(own, np.nanmedian(own))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(ceiling > 0, amounts / ceiling, np.nan))


# The likelihood.


def _subtract_usual(values: Floats, component: Ints, components: int) -> Floats:
    """Values less the median of their component."""
    usual = np.full(components, float(np.median(values)) if len(values) else 0.0)
    for each in range(components):
        own = values[component == each]
        if len(own) >= _LEAST_OWN:
            usual[each] = np.median(own)
    return np.asarray(values - usual[component])


def _medians(excess: Floats, place: Ints, component: Ints, shape: tuple[int, int]) -> tuple[Floats, Floats]:
    """(median over components, number of components) of each bin; 0 if none."""
    total, seen = np.zeros(shape), np.zeros(shape)
    np.add.at(total, (place, component), excess)
    np.add.at(seen, (place, component), 1.0)
    table = np.divide(total, seen, out=np.full(shape, np.nan), where=seen > 0)
    any_seen = (seen > 0).any(axis=1)
    median = np.zeros(shape[0])
    median[any_seen] = np.nanmedian(table[any_seen], axis=1)
    return median, np.sum(seen > 0, axis=1).astype(np.float64)


def _log_likelihood_ratio(excess: Floats, least_spread: float, shows: Floats, slower: tuple[float, float]) -> Floats:
    """log p(excess | sick) / p(excess | healthy).

    Healthy: Student's t, whose spread is that above the median of all, plus an exponential tail as heavy as that of all
    (a power law of times, as in don15, is an exponential law of their logarithms). Sick: with probability 1 - `shows`
    as healthy, else slower by a factor that is log-uniform in `slower`.
    """
    if not len(excess):
        return excess
    low, high = np.log(slower)
    middle, upper = np.quantile(excess, [0.5, 0.8413])
    spread = max(float(upper - middle), least_spread)
    beyond = excess[excess > low] - low
    share = max(len(beyond) / len(excess), _LEAST_TAIL)
    mean = max(float(beyond.mean()) if len(beyond) else 0.0, _LEAST_SPREAD)
    healthy = _STUDENT_SCALE / spread * (1.0 + (excess / spread) ** 2 / _STUDENT) ** (-(_STUDENT + 1) / 2)
    healthy = healthy + np.where(excess > low, share / mean * np.exp(-np.maximum(excess - low, 0.0) / mean), 0.0)
    sick = (ndtr((excess - low) / spread) - ndtr((excess - high) / spread)) / (high - low)
    # Slower than the range counts as its upper end.
    sick = np.where(excess > high - spread, np.maximum(sick, 0.5 / (high - low)), sick)
    return np.asarray(np.log((1 - shows) + shows * sick / np.maximum(healthy, 1e-300)))


Sickness: TypeAlias = Literal["slow", "stalled", "capped", "absent", "busy", "overloaded"]

# [ours] Four of five named incidents must be right.
NAMED: Final = 0.8
# Samples and probes are only partly independent, so a log-likelihood ratio counts half; different runs are independent.
_EVIDENCE_WEIGHT: Final = 0.5
_MOST_CERTAIN: Final = 0.99
# Stretches of one component closer than this, and than their own length, are one incident.
_MERGE_NS: Final = 6 * HOUR_NS
# A component is silent if it misses so many samples, and so many minutes, while most others report.
_LEAST_SILENT_STEPS: Final = 3
LEAST_SILENT_NS: Final = 3 * MINUTE_NS
_MOST_SILENT_NS: Final = 24 * HOUR_NS
# A component that was idle in most of so many samples before may have lost only its collector.
_STEPS_BEFORE: Final = 10
_ABSENT_PROBABILITY: Final = 0.95
_CAPPED_PROBABILITY: Final = 0.85
LEAST_REPORTING: Final = 3
_MOST_TARGETS: Final = 0.66
# A run is harmed if it takes 15% longer than usual, the least that counts as a slowdown.
_HARMED: Final = float(np.log(1.15))
OVERLOAD: Final = "storm"
# Sources that time requests at the component itself.
_LATENCY: Final = ("service", "served", "probe")
_KINDS: Final[Mapping[tuple[str, ...], Sickness]] = {(OVERLOAD,): "overloaded"}

# [ours] Limits of single targets: set on simulated weeks, plain and with noise of 10% and 20% on every minute. At 90
# minutes half of the named targets were healthy, at 180 none. Means over five minutes keep a noisy limit flat.
MIN_MINUTES: Final = 180
_FASTER: Final = 1.16  # a peer that exceeds the limit by this factor goes faster
_FASTER_PEERS: Final = 0.7
_STANDS_OUT: Final = 1.25  # times the minutes at the limit of any other target with the same limit
_SAME_LIMIT: Final = 0.1
LEAST_LIMITED: Final = 4
# [ours] Limits of all targets together: such a limit holds in most steps of so many minutes, while
# the parts change by a share of it in each step, and so many times as much as the sum.
STEP_NS: Final = 5 * MINUTE_NS
SHARED_MINUTES: Final = 60
HIGHEST_LEVEL: Final = 0.6
_LOWEST_LEVEL: Final = 0.05
_LEVEL_STEP: Final = 0.03
_NEAR: Final = 0.08
_MOSTLY, _LEAST_CHANGE, _COMPENSATED = 0.8, 0.05, 3.0
TOGETHER: Final = "all targets"


@dataclass(frozen=True)
class Incident:
    """[start, end) in which a component was unhealthy.

    `factor` is how many times longer its operations took than expected (of processors: how many times busier).
    `shown_by` are the sources of the evidence, `through` the targets of a server that showed it. `runs` used it at that
    time and lost `lost_seconds` together.
    """

    component: str
    kind: Sickness
    start_ns: int
    end_ns: int
    probability: float
    factor: float | None = None
    shown_by: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    runs: int | None = None
    lost_seconds: float | None = None

    @property
    def is_named(self) -> bool:
        """Whether it is certain enough to be named."""
        return self.probability >= NAMED

    def overlaps(self, other: Incident) -> bool:
        """Whether both have a time in common."""
        return self.start_ns < other.end_ns and other.start_ns < self.end_ns


@dataclass(frozen=True, eq=False)
class UsingRuns:
    """Runs whose targets are known.

    Times of their I/O, (run, component) bytes, the logarithm of their slowdown, and (run, component) how much longer
    they waited for each target than for their others.
    """

    components: tuple[str, ...] = ()
    first_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    last_ns: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    seconds: Floats = field(default_factory=lambda: np.zeros(0))
    slowdown: Floats = field(default_factory=lambda: np.zeros(0))
    own_bytes: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    contrast: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def using(self, incident: Incident, servers: Mapping[str, str]) -> Bools:
        """Runs with bytes on the component or on the targets of the server."""
        names = set(incident.through) or {incident.component}
        columns = [i for i, n in enumerate(self.components) if n in names or servers.get(n) in names]
        return np.asarray((self.own_bytes[:, columns] > 0).any(axis=1), np.bool_)

    def any_unharmed(self, incident: Incident, servers: Mapping[str, str]) -> bool:
        """Whether a run did all of its I/O during the incident, on the component, in its usual time."""
        inside = (self.first_ns >= incident.start_ns) & (self.last_ns <= incident.end_ns)
        return bool((inside & self.using(incident, servers) & (self.slowdown <= _HARMED)).any())

    def add_cost(self, incident: Incident, servers: Mapping[str, str]) -> Incident:
        """The incident with the number of runs on the component and the time they lost."""
        is_everywhere = incident.kind == "overloaded" or TOGETHER in incident.shown_by
        used = np.ones(len(self.seconds), np.bool_) if is_everywhere else self.using(incident, servers)
        hit = used & (self.first_ns < incident.end_ns) & (self.last_ns > incident.start_ns)
        if not len(hit):
            return incident
        lost = self.seconds[hit] * (1.0 - np.exp(-np.maximum(self.slowdown[hit], 0.0)))
        counted = np.nan_to_num(lost)[self.slowdown[hit] > _HARMED]
        return replace(incident, runs=int(hit.sum()), lost_seconds=float(counted.sum()))


def find_incidents(
    bins: Bins,
    observations: Sequence[Observations],
    facility: Facility,
    traffic: Matrix | None = None,
    servers: Mapping[str, str] | None = None,
    runs: UsingRuns | None = None,
    name: str = "",
) -> list[Incident]:
    """Return the incidents of one file system, merged into causes, with their cost; maintenance is left out.

    `traffic` are bytes of the targets in each step, `servers` the server of each target, `name` that of the file
    system.
    """
    servers, runs = servers or {}, runs or UsingRuns()
    evidence = [weigh(each, bins) for each in observations]
    slow = [each for each in detect_slow([part for part in evidence if part.source != OVERLOAD]) if each.is_named]
    slow += detect_stalled(observations, slow, bins)
    overloaded = [
        each
        for each in detect_slow([part for part in evidence if part.source == OVERLOAD])
        if not any(other.is_named and other.component == each.component and other.overlaps(each) for other in slow)
    ]
    silent: list[Incident] = []
    shared: list[Incident] = []
    capped: list[Incident] = []
    if traffic is not None:
        # If a run used a silent component at normal speed, only its collector failed.
        silent = [each for each in detect_silent(traffic, servers) if not runs.any_unharmed(each, servers)]
        rates = coarsen(traffic, STEP_NS)
        shared = [each for each in detect_shared_limit(rates, name) if _is_felt(each, observations, runs)]
        # If requests took their usual time, less was requested.
        capped = [each for each in detect_capped(rates, servers) if not has_usual_latency(each, evidence)]
    targets = () if traffic is None else traffic.components
    return [
        runs.add_cost(each, servers)
        for each in [*merge_causes([*slow, *overloaded, *capped], silent, targets, servers), *shared]
        if not any(window.start_ns <= each.start_ns < window.end_ns for window in facility.maintenance)
    ]


def _is_felt(limit: Incident, observations: Sequence[Observations], runs: UsingRuns) -> bool:
    """Whether most probes of targets, or most runs, took longer during a limit: one job may move no more by itself."""
    inside = (runs.first_ns >= limit.start_ns) & (runs.last_ns <= limit.end_ns)
    slowdowns = [(runs.slowdown[inside], _HARMED)]
    for each in observations:
        if each.source in ("probe", "served"):
            during = (each.start_ns >= limit.start_ns) & (each.start_ns < limit.end_ns)
            slowdowns.append((each.log_seconds[during], math.log(_SLOWER[0])))
    return any(len(each) >= LEAST_REPORTING and np.nanmedian(each) > least for each, least in slowdowns)


def coarsen(matrix: Matrix, step_ns: int) -> Matrix:
    """Amounts in longer steps; missing if one of the parts is."""
    factor = max(1, step_ns // matrix.step_ns)
    steps = matrix.steps // factor
    values = matrix.values[: steps * factor].reshape(steps, factor, len(matrix.components)).sum(axis=1)
    return replace(matrix, step_ns=matrix.step_ns * factor, values=values, coverage=np.ones(values.shape, np.float32))


def detect_slow(evidence: Sequence[Evidence]) -> list[Incident]:
    """Periods in which a component was most likely sick, with any probability."""
    components = sorted({name for part in evidence for name in part.components})
    if not components:
        return []
    bins = evidence[0].bins
    log_ratio, excess, by_source = combine(evidence, components)
    weight = 1.0 if {*by_source} == {"runs"} else _EVIDENCE_WEIGHT
    onset_penalty = float(np.log(max(1, int(np.count_nonzero(log_ratio)))))
    found = []
    for column, periods in enumerate(_sick_periods(log_ratio, onset_penalty)):
        for first, last in periods:
            score = float(log_ratio[first:last, column].sum()) - onset_penalty
            # The onset is between the last healthy and the first sick observation: take the middle.
            first += int(np.argmax(log_ratio[first:last, column] != 0)) // 2
            slow = excess[first:last, column]
            slow = slow[np.isfinite(slow)]
            sources = tuple(name for name, own in by_source.items() if own[first:last, column].sum() > 0)
            found.append(
                Incident(
                    component=components[column],
                    kind=_KINDS.get(sources, "slow"),
                    start_ns=bins.start_ns + first * bins.bin_ns,
                    end_ns=bins.start_ns + min(last, bins.count) * bins.bin_ns,
                    probability=float(min(_MOST_CERTAIN, 1.0 / (1.0 + np.exp(-weight * score)))),
                    factor=float(np.exp(np.median(slow))) if len(slow) else None,
                    shown_by=sources,
                )
            )
    return found


def least_slow_bins(observations: int) -> int:
    """Fewest bins of slowness that are named in a search of so many observations, if one source shows it clearly."""
    named_score = math.log(NAMED / (1.0 - NAMED)) / _EVIDENCE_WEIGHT
    return math.ceil((math.log(max(1, observations)) + named_score) / MOST_EVIDENCE)


def detect_stalled(observations: Sequence[Observations], sick: Sequence[Incident], bins: Bins) -> list[Incident]:
    """Servers that stall while their devices look healthy: a search without device times.

    Observations during known incidents are left out, since they do not show what is normal.
    """
    if not any(each.source == "service" for each in observations):
        return []
    evidence = [
        weigh(_without_incidents(each, sick), bins) for each in observations if each.source not in ("service", OVERLOAD)
    ]
    return [replace(each, kind="stalled") for each in detect_slow(evidence)]


def _without_incidents(observed: Observations, incidents: Sequence[Incident]) -> Observations:
    """The observations outside known incidents of their component."""
    names, outside = (
        np.array(observed.components, np.object_)[observed.component],
        np.ones(len(observed.load), np.bool_),
    )
    for each in incidents:
        during = (observed.start_ns >= each.start_ns) & (observed.start_ns < each.end_ns)
        outside &= (names != each.component) | ~during
    return observed.take(outside)


def _sick_periods(log_ratio: Floats, onset_penalty: float) -> list[list[tuple[int, int]]]:
    """[first, last) bins of sickness of each component: Viterbi decoding with two states, all components at once."""
    bins, columns = log_ratio.shape
    healthy, sick = np.zeros(columns), np.full(columns, -np.inf)
    recovers, begins = np.zeros((bins, columns), np.bool_), np.zeros((bins, columns), np.bool_)
    for row in range(bins):
        recovers[row] = recovered = sick > healthy
        begins[row] = begun = healthy - onset_penalty > sick
        healthy, sick = (
            np.where(recovered, sick, healthy),
            np.where(begun, healthy - onset_penalty, sick) + log_ratio[row],
        )
    state = sick > healthy
    states = np.zeros((bins, columns), np.bool_)
    for row in range(bins - 1, -1, -1):  # backtracking
        states[row] = state
        state = np.where(state, ~begins[row], recovers[row])
    return [_stretches_of_true(states[:, column]) for column in range(columns)]


def _stretches_of_true(chosen: Bools) -> list[tuple[int, int]]:
    """[first, last) of each stretch of true values."""
    padded = np.concatenate([[False], chosen, [False]])
    first = np.flatnonzero(~padded[:-1] & padded[1:])
    last = np.flatnonzero(padded[:-1] & ~padded[1:])
    return list(zip(first.tolist(), last.tolist(), strict=True))


def detect_silent(amounts: Matrix, servers: Mapping[str, str]) -> list[Incident]:
    """Components that stopped reporting while most others continued; idle ones are ignored."""
    reported = ~np.isnan(amounts.values)
    if reported.shape[1] < LEAST_REPORTING:
        return []
    most_report = reported.mean(axis=1) >= 0.5
    least = max(_LEAST_SILENT_STEPS, -(-LEAST_SILENT_NS // amounts.step_ns))
    most = _MOST_SILENT_NS // amounts.step_ns
    found = []
    for column, name in enumerate(amounts.components):
        own = np.flatnonzero(reported[:, column])
        if not len(own):
            continue
        silent = ~reported[:, column] & most_report
        silent[: own[0]] = False
        for first, last in _stretches_of_true(silent):
            before = amounts.values[own[own < first][-_STEPS_BEFORE:], column]
            if least <= last - first <= most and np.median(before) > 0:
                start, end = (amounts.start_ns + edge * amounts.step_ns for edge in (first, last))
                found.append(Incident(name, "absent", start, end, _ABSENT_PROBABILITY, None, ("silence",)))
    return _merge_by_server(found, amounts.components, servers, least_share=1.0)


def has_usual_latency(incident: Incident, evidence: Sequence[Evidence]) -> bool:
    """Whether requests on the component took their usual time during the incident."""
    total = 0.0
    for part in evidence:
        if part.source in _LATENCY and incident.component in part.components:
            first = max(0, (incident.start_ns - part.bins.start_ns) // part.bins.bin_ns)
            last = max(0, -(-(incident.end_ns - part.bins.start_ns) // part.bins.bin_ns))
            total += float(part.log_ratio[first:last, part.components.index(incident.component)].sum())
    return total < 0


def detect_capped(matrix: Matrix, servers: Mapping[str, str]) -> list[Incident]:
    """Capped targets from bytes moved (read and written) in steps of STEP_NS; the longest at its limit first."""
    values = np.asarray(matrix.values, dtype=np.float64)
    if values.shape[1] < LEAST_LIMITED or not np.any(values > 0):
        return []
    ceiling = np.nan_to_num(ceilings(values), nan=0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = np.nan_to_num(values / ceiling, nan=0.0, posinf=0.0)
    least = max(2, round(MIN_MINUTES * MINUTE_NS / matrix.step_ns))
    levels = np.exp(np.arange(np.log(_LOWEST_LEVEL), np.log(HIGHEST_LEVEL), _LEVEL_STEP))
    # Stretches at a limit: steps at it, column, first, last, level as a share of the ceiling.
    found: list[tuple[int, int, int, int, float]] = []
    for column in np.flatnonzero(ceiling > 0).tolist():
        own, peers = shares[:, column], shares[:, (ceiling > 0) & (np.arange(len(ceiling)) != column)]
        stretches = []
        for level in levels.tolist():
            below = own <= level * (1 + _NEAR)
            at_limit = below & (own >= level * (1 - _NEAR))
            if at_limit.sum() < least:
                continue
            for start, end in _stretches_of_true(below):
                places = np.flatnonzero(at_limit[start:end]) if end - start >= least else np.zeros(0, np.int64)
                if len(places) >= least:
                    first, last = start + int(places[0]), start + int(places[-1]) + 1
                    faster = peers[first:last].max(axis=0) > level * _FASTER
                    if len(faster) >= LEAST_LIMITED and faster.mean() >= _FASTER_PEERS:
                        stretches.append((len(places), column, first, last, level))
        # Neighbouring levels find the same stretch: the level with the most steps stays.
        kept: list[tuple[int, int, int, int, float]] = []
        for each in sorted(stretches, reverse=True):
            if all(each[3] <= other[2] or each[2] >= other[3] for other in kept):
                kept.append(each)
        found += kept
    homes = [servers.get(name, name) for name in matrix.components]

    def outdone(one: tuple[int, int, int, int, float]) -> bool:
        """Whether a target of another server had the same limit at the same time for about as long, or longer."""
        steps, column, first, last, level = one
        for other_steps, other, low, high, other_level in found:
            common = min(last, high) - max(first, low)
            ratio = np.log(other_level * ceiling[other] / (level * ceiling[column]))
            same = common > 0.5 * min(last - first, high - low) and abs(ratio) < _SAME_LIMIT
            if same and homes[column] != homes[other] and other_steps * _STANDS_OUT > steps:
                return True
        return False

    return [
        Incident(
            component=matrix.components[column],
            kind="capped",
            start_ns=matrix.start_ns + first * matrix.step_ns,
            end_ns=matrix.start_ns + last * matrix.step_ns,
            probability=_CAPPED_PROBABILITY,
            factor=1.0 / level,
            shown_by=("limit",),
        )
        for steps, column, first, last, level in sorted(found, key=lambda each: (-each[0], each[1]))
        if not outdone((steps, column, first, last, level))
    ]


def detect_shared_limit(matrix: Matrix, name: str) -> list[Incident]:
    """Limits of all targets together, such as the network, from bytes moved in steps of STEP_NS.

    Nothing is above the limit, and the sum stays at it while its parts change: what one job moves less, another one
    moves more. A job that works at a constant rate changes neither.
    """
    values = np.nan_to_num(np.asarray(matrix.values, dtype=np.float64))
    together = values.sum(axis=1)
    if values.shape[1] < LEAST_REPORTING or not np.any(together > 0):
        return []
    ceiling = float(ceilings(together[:, None])[0])
    shares, stretches = together / ceiling, []
    for level in np.exp(np.arange(np.log(_LOWEST_LEVEL), np.log(HIGHEST_LEVEL), _LEVEL_STEP)).tolist():
        at_limit = np.abs(shares / level - 1.0) <= _NEAR
        for start, end in _stretches_of_true(shares <= level * (1 + _NEAR)):
            places = start + np.flatnonzero(at_limit[start:end])
            if len(places) * matrix.step_ns >= SHARED_MINUTES * MINUTE_NS:
                stretches.append((len(places), int(places[0]), int(places[-1]) + 1, level))
    found: list[Incident] = []
    for steps, first, last, level in sorted(stretches, reverse=True):
        start, end = (matrix.start_ns + edge * matrix.step_ns for edge in (first, last))
        limit = Incident(name, "capped", start, end, _CAPPED_PROBABILITY, 1.0 / level, (TOGETHER,))
        changes, of_sum = (np.abs(np.diff(each[first:last], axis=0)).sum() for each in (values, together))
        is_compensated = changes >= max(_LEAST_CHANGE * level * ceiling * (last - first), _COMPENSATED * of_sum)
        # Neighbouring levels find the same stretch: the one with the most steps stays.
        if steps >= _MOSTLY * (last - first) and is_compensated and not any(limit.overlaps(each) for each in found):
            found.append(limit)
    return found


# Merging into causes.


def merge_causes(
    slow: Sequence[Incident], silent: Sequence[Incident], targets: Sequence[str], servers: Mapping[str, str]
) -> list[Incident]:
    """Named incidents, merged into the fewest causes, in order of time."""
    rest = [each for each in slow if each.is_named]
    named: list[Incident] = []
    for failed in silent:
        if failed.through:
            failed, rest = _add_consequences(failed, rest, servers)
        named.append(failed)
    named += _merge_by_server(_merge_in_time(rest), targets, servers, least_share=_MOST_TARGETS)
    return sorted(_merge_in_time(named), key=lambda each: (each.start_ns, each.component))


# Of an incident of several kinds, the last of these is stated.
_TELLING: Final[tuple[Sickness, ...]] = ("busy", "overloaded", "capped", "stalled", "slow", "absent")


def _merge(first: Incident, *others: Incident) -> Incident:
    """The first incident, extended to the time, the evidence and the targets of all."""
    members = (first, *others)
    return replace(
        first,
        start_ns=min(each.start_ns for each in members),
        end_ns=max(each.end_ns for each in members),
        probability=max(each.probability for each in members),
        factor=max((each.factor for each in members if each.factor is not None), default=None),
        shown_by=tuple(dict.fromkeys(name for each in members for name in each.shown_by)),
        through=tuple(sorted({name for each in members for name in each.through})),
    )


def _merge_by_server(
    found: Sequence[Incident], targets: Sequence[str], servers: Mapping[str, str], least_share: float
) -> list[Incident]:
    """Merge targets of one server that were unhealthy at one time into that server."""
    targets_of: dict[str, set[str]] = defaultdict(set)
    for name in targets:
        if name in servers:
            targets_of[servers[name]].add(name)
    merged, rest = [], sorted(found, key=lambda each: each.start_ns)
    while rest:
        each = rest.pop(0)
        home = servers.get(each.component)
        together = [other for other in rest if home and servers.get(other.component) == home and each.overlaps(other)]
        names = {each.component, *(other.component for other in together)}
        if home and len(targets_of[home]) > 1 and len(names) >= max(2, least_share * len(targets_of[home])):
            rest = [other for other in rest if other not in together]
            each = replace(_merge(each, *together), component=home, through=tuple(sorted(names)))
        merged.append(each)
    return merged


def _add_consequences(
    failed: Incident, slow: Sequence[Incident], servers: Mapping[str, str]
) -> tuple[Incident, list[Incident]]:
    """(the failure until its last consequence, other incidents).

    Consequences are on its own targets and on those of the server that took them over.
    """
    after = replace(failed, end_ns=failed.end_ns + _MERGE_NS)
    by_server: dict[str, list[Incident]] = defaultdict(list)
    for each in slow:
        # An incident that was mostly before the failure is another one.
        if each.overlaps(after) and each.start_ns + each.end_ns >= 2 * failed.start_ns:
            by_server[servers.get(each.component, each.component)].append(each)
    followers = by_server.pop(failed.component, [])
    counts = {home: len({each.component for each in incidents}) for home, incidents in by_server.items()}
    partner = max(counts, key=lambda home: counts[home], default=None)
    if partner is not None:
        followers += by_server[partner]
    if not followers:
        return failed, list(slow)
    whole = replace(
        _merge(failed, *followers),
        start_ns=failed.start_ns,
        probability=failed.probability,
        through=tuple(sorted({*failed.through, *(each.component for each in followers)})),
    )
    return whole, [each for each in slow if each not in followers]


def _merge_in_time(found: Sequence[Incident]) -> list[Incident]:
    """Merge close incidents of one component."""
    merged: list[Incident] = []
    for each in sorted(found, key=lambda each: (each.component, each.start_ns)):
        last = merged[-1] if merged else None
        longest = max(e.end_ns - e.start_ns for e in (each, last) if e)
        if last and last.component == each.component and each.start_ns - last.end_ns <= min(_MERGE_NS, longest):
            merged[-1] = replace(_merge(last, each), kind=max(last.kind, each.kind, key=_TELLING.index))
        else:
            merged.append(each)
    return merged
