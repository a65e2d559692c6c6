"""Single measurements of the probe (kun19 4.3 to 4.5): ten minutes, bands, hosts side by side, and a benchmark with its
phases."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrc, stdtrit

from ioweather.core.contracts import Param, Params, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import (
    Cell,
    Chart,
    Coverage,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultTable,
    exhibit,
)
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS, format_ratio, format_seconds
from ioweather.facts.slowdown import RELATIVE_ERROR, ROLLUP_COLUMNS, operation_series
from ioweather.lake.lake import Snapshot
from ioweather.stats.estimates import (
    LEVEL,
    MIN_BLOCKS,
    effective_sample,
    median_estimate,
    number,
    plain,
    quantiles,
    share_estimate,
)
from ioweather.stats.summary_tables import relabelled, table
from ioweather.studies.kun19.perceived_slowdown import expected_note
from ioweather.topics.source import DataSource

# [ours] Ten minutes with this slowdown of the median, and at least this many operations, are an episode.
_EPISODE: Final = 2.0
_LEAST_OF_EPISODE: Final = 3
_POINTS: Final = 1500
_STRETCHES: Final = 24  # of time in which hosts are compared
COLUMNS: Final = ("start_ns", "host", "op", "request_bytes", "mode", "duration_ns", "cached", "status", "system")
_BOXES: Final = "q05: 5% [seconds]; q25: 25% [seconds]; q50: {} [seconds]; q75: 75% [seconds]; q95: 95% [seconds]"
_LEAST_OF_PHASE: Final = 5  # measurements
TOO_FEW: Final = (
    "Bands cannot be found with fewer than 20 operations of each kind. A longer window (--set bands_window=7d) may "
    "contain more."
)


@dataclass(frozen=True, eq=False)
class Measured:
    """Finished operations of a stretch of time."""

    start_ns: Ints
    seconds: Floats
    op: NDArray[Any]
    host: NDArray[Any]
    filesystem: NDArray[Any]
    request_bytes: Ints
    mode: NDArray[Any]
    cached: Bools
    failed: int
    other: int  # operations of another size or mode than most of their kind

    def kinds(self) -> list[tuple[str, str]]:
        """Return the pairs of file system and operation."""
        return sorted(set(zip(self.filesystem.tolist(), self.op.tolist(), strict=True)))

    def of(self, filesystem: str, op: str) -> Bools:
        """Return which measurements are of a file system and operation."""
        return np.asarray((self.filesystem == filesystem) & (self.op == op), np.bool_)


def finished_operations(responses: Frame, facility: Facility) -> Measured:
    """Return the finished operations of the most frequent size and mode of each file system and operation.

    The table also has the requests of the sampler (don15), of many sizes.
    """
    ended = responses.text("status").equals("ok") & responses.known("duration_ns")
    systems, ops, modes = (responses.text(name) for name in ("system", "op", "mode"))
    names = np.array([facility.filesystem_of(name) for name in systems.categories] or [""], object)
    filesystem = names[systems.codes] if responses.rows else np.empty(0, object)
    columns = (filesystem, ops.codes.tolist(), responses.ints("request_bytes").tolist(), modes.codes.tolist())
    requests = list(zip(*columns, strict=True))
    counts = Counter(requests)
    most = {kind[:2]: kind for kind in sorted(counts, key=lambda kind: (counts[kind], kind))}
    usual = np.array([most[kind[:2]] == kind for kind in requests], np.bool_)
    kept = np.flatnonzero(ended & usual)
    kept = kept[np.lexsort(np.stack([ops.codes, systems.codes, responses.ints("start_ns")])[:, kept])]
    frame = responses.take(kept)
    op, host, mode = (np.array(frame.text(name).tolist(), object) for name in ("op", "host", "mode"))
    return Measured(
        start_ns=frame.ints("start_ns"),
        seconds=frame.ints("duration_ns") / NS,
        op=op,
        host=host,
        filesystem=filesystem[kept],
        request_bytes=frame.ints("request_bytes"),
        mode=mode,
        cached=frame.bools("cached"),
        failed=int((~ended & usual).sum()),
        other=int((~usual).sum()),
    )


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 1, the bands and fig. 2."""
    last_ns = params["last_ns"]
    window, day = (_measured(source, last_ns - params[name], last_ns) for name in ("window", "bands_window"))
    if len(window.seconds):
        yield _every_measurement(window, int(params["window"]))
    if len(day.seconds):
        yield _bands(day)
        yield _hosts(day)


def _coverage(part: Measured, cached: int = 0) -> Coverage:
    """Count the operations used and those left out, by reason."""
    left_out = {"failed_or_missed": part.failed, "of_another_size_or_mode": part.other, "answered_by_the_cache": cached}
    total = len(part.seconds) + part.failed + part.other
    return Coverage(total, len(part.seconds) - cached, "operations", {why: n for why, n in left_out.items() if n})


def select_points(seconds: Floats) -> Ints:
    """Return the indices of every n-th measurement and of the 200 slowest, so that a chart shows all outliers."""
    step = max(1, -(-len(seconds) // _POINTS))
    return np.unique(np.concatenate([np.arange(0, len(seconds), step), np.argsort(seconds)[-200:]]))


def selection_note(shown: Ints, seconds: Floats) -> Iterator[str]:
    """Yield a note on the measurements that are not drawn."""
    if len(shown) != len(seconds):
        yield f"{len(shown):,} of {len(seconds):,} measurements are shown, including the slowest."


@exhibit("kun19.fig1")
def _every_measurement(part: Measured, length_ns: int) -> Iterator[Piece]:
    """All response times in a short window."""
    shown = select_points(part.seconds)
    rows = zip(
        *(column[shown].tolist() for column in (part.start_ns, part.seconds, part.op, part.filesystem)), strict=True
    )
    columns = "time [time_ns]; seconds: response time [seconds]; op: operation [text]; filesystem [text]"
    drawn = ResultTable.of("measurements", columns, rows)
    title = f"All measurements in {format_seconds(length_ns / NS)}"
    yield Chart.of("scatter", drawn, "x=time y=seconds series=op", title, facet="filesystem", log="y")
    for filesystem, op in part.kinds():
        mine = part.seconds[part.of(filesystem, op)]
        middle = float(np.median(mine))
        slower, slow = float(mine.max()) / middle if middle else None, float((mine >= 10 * middle).mean())
        yield median_estimate(f"{op}_median[{filesystem}]", mine, "seconds", in_time=True)
        yield plain(f"slower[{op} {filesystem}]", slower, "factor", n=len(mine), method="slowest divided by median")
        if slow > 0:
            text = f"{filesystem} {op}: {format_ratio(slow)} of operations took at least ten times the median."
            yield Finding(text, name="slow_operations")
    yield selection_note(shown, part.seconds), _coverage(part)


_GRID: Final = 512
# A valley must fall to this share of the lower of its two peaks, and a band must have this share of all values.
_VALLEY: Final = 0.5
_LEAST_SHARE: Final = 0.02
# Least factor between the centres of two bands; smaller differences are noise of the sample.
_LEAST_RATIO: Final = 3.0


@dataclass(frozen=True)
class Band:
    """A cluster of response times in [low, high) seconds around `centre`, with its share of all times."""

    low: float
    high: float
    centre: float
    share: float
    n: int


def find_bands(times: Floats) -> list[Band]:
    """Return the modes of a Gaussian kernel density of log10(time), cut at the valleys between them.

    The bandwidth is Silverman's rule with the robust spread.
    """
    values = np.log10(times[np.isfinite(times) & (times > 0)])
    n = len(values)
    if n < 20:
        return []
    quartiles = np.quantile(values, (0.25, 0.75))
    # Half of Silverman's width: the rule is made for one mode and smears two into one.
    spread = min(float(values.std()), float(quartiles[1] - quartiles[0]) / 1.34) or float(values.std())
    width = 0.45 * spread * n**-0.2
    if width <= 0:
        return [Band(0.0, np.inf, float(10 ** values[0]), 1.0, n)]
    # Binned, then smoothed: 10^6 times cost what 10^3 do.
    edges = np.linspace(values.min() - 4 * width, values.max() + 4 * width, _GRID + 1)
    step = edges[1] - edges[0]
    reach = max(1, int(np.ceil(4 * width / step)))
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) * step / width) ** 2)
    density = np.convolve(np.histogram(values, edges)[0], kernel / kernel.sum(), mode="same")
    peaks = np.flatnonzero((density[1:-1] > density[:-2]) & (density[1:-1] >= density[2:])) + 1
    cuts, last = [], int(peaks[0]) if len(peaks) else 0
    for peak in peaks[1:].tolist():
        valley = last + int(np.argmin(density[last : peak + 1]))
        if density[valley] <= _VALLEY * min(density[last], density[peak]):
            cuts.append(valley)
            last = peak
        elif density[peak] > density[last]:
            last = peak
    merged: list[tuple[float, float, Floats]] = []
    for low, high in pairwise([-np.inf, *((edges[:-1] + edges[1:]) / 2)[cuts].tolist(), np.inf]):
        inside = values[(values >= low) & (values < high)]
        if merged and len(inside):
            # A band with few values, or one close to its neighbour, is part of that neighbour.
            begin, _, before = merged[-1]
            small = min(len(inside), len(before)) < _LEAST_SHARE * n
            if small or float(np.median(inside) - np.median(before)) < np.log10(_LEAST_RATIO):
                merged[-1] = (begin, high, np.concatenate([before, inside]))
                continue
        if len(inside):
            merged.append((low, high, inside))
    return [
        Band(float(10**low), float(10**high), float(10 ** np.median(inside)), len(inside) / n, len(inside))
        for low, high, inside in merged
    ]


@exhibit("kun19.bands")
def _bands(part: Measured) -> Iterator[Piece]:
    """Response-time bands by operation."""
    rows: list[tuple[Cell, ...]] = []
    boxes: list[tuple[Cell, ...]] = []
    several, most = False, 0
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op)
        # Without slow episodes of ten minutes.
        rows_of, stretch = np.flatnonzero(mine), part.start_ns[mine] // (10 * MINUTE_NS)
        usual = float(np.median(part.seconds[rows_of]))
        for own in (rows_of[stretch == each] for each in np.unique(stretch)):
            mine[own] = np.median(part.seconds[own]) < _EPISODE * usual or len(own) < _LEAST_OF_EPISODE
        bands = find_bands(part.seconds[mine])
        parts = [mine & (part.seconds >= band.low) & (part.seconds < band.high) for band in bands]
        shares = [float(part.cached[inside].mean()) if inside.any() else 0.0 for inside in parts]
        for i, (band, inside, cached) in enumerate(zip(bands, parts, shares, strict=True), 1):
            # Only where one band is known to come from a cache do the others come from storage.
            label = "cache" if cached > 0.5 else "storage" if max(shares) > 0.5 else f"band {i}"
            rows.append((filesystem, op, i, label, band.centre, band.share, cached, band.n))
            boxes.append((filesystem, op, label, *quantiles(part.seconds[inside])))
            name = f"{op}_band{i}[{filesystem}]"
            yield plain(name, band.centre, "seconds", n=band.n, method="median of the band")
        if len(bands) > 1:
            several = True
            listed = ", ".join(f"{format_seconds(b.centre)} ({b.share:.0%})" for b in bands)
            yield Finding(f"{filesystem} {op} has {len(bands)} bands: {listed}.", name="bands")
        most = max(most, len(bands)) if op == "read" else most
    if most:
        yield plain("most_read_bands", most, "count", method="largest number on any file system")
    kind = "filesystem: file system [text]; op: operation [text]"
    columns = f"{kind}; band [count]; label [text]; centre [seconds]; share [ratio]; cached: known as cached [ratio]"
    yield ResultTable.of("bands", f"{columns}; n [count]", rows)
    if rows:
        drawn = ResultTable.of("boxes", f"{kind}; label [text]; {_BOXES.format('response time')}", boxes)
        encoding = "x=op q05 q25 q50 q75 q95 series=label"
        yield Chart.of("box", drawn, encoding, "Bands of response time", facet="filesystem", log="y")
    if not several:
        yield Finding("Every operation has one band." if rows else TOO_FEW, name="bands")
    yield (
        "A band is called cache if the probe found its data in the client cache; the other bands are then storage. "
        "Without this check, the source of a band is unknown."
    )
    yield (
        f"Ten-minute intervals with a median of at least {_EPISODE:g} times the overall median are excluded, because "
        "a slow episode is not a band."
    )
    yield _coverage(part)


@dataclass(frozen=True)
class _Pair:
    """Logarithm of the ratio of two hosts' medians, with its standard error over stretches of time."""

    kind: str
    slow: str
    fast: str
    log_ratio: float
    error: float
    stretches: int

    def end(self, tests: int, sign: int) -> float:
        """Return one end of the interval of the ratio, adjusted for this number of tests (Bonferroni)."""
        reach = -float(stdtrit(self.stretches - 1, (1 - LEVEL) / 2 / tests))
        return math.exp(self.log_ratio + sign * reach * self.error)


def _pairs_of_hosts(part: Measured) -> Iterator[_Pair]:
    """Yield the comparison of every two hosts by medians of the same stretches of time.

    What the system does in a stretch affects all hosts, so it cancels.
    """
    first_ns = int(part.start_ns.min())
    stretch = (part.start_ns - first_ns) // max(1, (int(part.start_ns.max() - first_ns) + 1) // _STRETCHES + 1)
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op)
        hosts = sorted(set(part.host[mine].tolist()))
        medians = np.full((_STRETCHES, len(hosts)), np.nan)
        for place, name in enumerate(hosts):
            own = mine & (part.host == name)
            for each in np.unique(stretch[own]).tolist():
                times = part.seconds[own & (stretch == each)]
                if len(times) >= _LEAST_OF_PHASE:
                    medians[each, place] = math.log(float(np.median(times)))
        medians = medians[np.isfinite(medians).all(axis=1)]
        for first, second in combinations(range(len(hosts)), 2) if len(medians) >= MIN_BLOCKS else ():
            difference = medians[:, first] - medians[:, second]
            mean, error = float(difference.mean()), float(effective_sample(difference).error)
            slow, fast = (hosts[first], hosts[second]) if mean >= 0 else (hosts[second], hosts[first])
            yield _Pair(f"{filesystem} {op}", slow, fast, abs(mean), error, len(medians))


@exhibit("kun19.fig2")
def _hosts(part: Measured) -> Iterator[Piece]:
    """Response times by host, and the difference between their medians."""
    rows: list[tuple[Cell, ...]] = []
    for filesystem, op in part.kinds():
        mine = part.of(filesystem, op)
        for host in sorted(set(part.host[mine].tolist())):
            values = part.seconds[mine & (part.host == host)]
            rows.append((filesystem, op, host, *quantiles(values), len(values)))
    columns = f"filesystem: file system [text]; op: operation [text]; host [text]; {_BOXES.format('median')}; n [count]"
    listed = ResultTable.of("hosts", columns, rows)
    drawn, encoding = relabelled(listed, q50="response time"), "x=host q05 q25 q50 q75 q95 series=op"
    yield listed, Chart.of("box", drawn, encoding, "Response times by host", facet="filesystem", log="y")
    hosts = len(set(part.host.tolist()))
    yield plain("hosts", hosts, "count")
    fewest = min((int(row[-1] or 0) for row in rows), default=0)
    yield plain("measurements_per_host", fewest, "count", method="fewest of any operation and host")
    length = float(part.start_ns.max() - part.start_ns.min()) / NS
    yield plain("length", length, "seconds", method="first to last")
    pairs = list(_pairs_of_hosts(part))
    if not pairs:
        words = "All measurements come from one host, so there is nothing to compare."
        if hosts > 1:
            words = "Hosts cannot be compared, because too few time steps have measurements from all hosts."
        yield Finding(words, "undecided", name="one_host" if hosts == 1 else "hosts")
    else:
        # Equality is shown by an upper end that is small, not by a test that finds nothing.
        largest = max(pairs, key=lambda pair: pair.log_ratio)
        low, high = (max(1.0, max(pair.end(len(pairs), sign) for pair in pairs)) for sign in (-1, 1))
        method = f"ratio of medians in the same time steps; largest of {len(pairs)} pairs, simultaneous interval"
        value = math.exp(largest.log_ratio)
        yield Estimate("largest_host_ratio", value, "factor", low, high, LEVEL, largest.stretches, method)
        text = (
            f"The largest difference between two hosts is {value:.2f}x ({low:.2f}x to {high:.2f}x): {largest.slow} "
            "is slower than "
        )
        yield Finding(f"{text}{largest.fast}, {largest.kind}.", name="hosts")
    yield f"Hosts are compared in the same {_STRETCHES} time steps, so the system state is the same for all hosts."
    yield _coverage(part)


def run_phases(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Yield the slowdown of the probe during a benchmark, against the usual time of the whole period."""
    facility = source.facility
    phases = source.frame("events", ("label", "start_ns", "end_ns"), {"kind": "phase"})
    records = sorted(phases.records(), key=lambda row: row["start_ns"])
    ended = [row for row in records if row["end_ns"] is not None]
    if not ended:
        return
    # Those of the newest day, and an hour on either side.
    newest = [row for row in ended if row["start_ns"] // DAY_NS == ended[-1]["start_ns"] // DAY_NS]
    first_ns, last_ns = newest[0]["start_ns"] - HOUR_NS, max(row["end_ns"] for row in newest) + HOUR_NS
    records = [row for row in records if first_ns <= row["start_ns"] < last_ns]
    part = _measured(source, first_ns, last_ns)
    if not len(part.seconds):
        return
    rollups = source.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": HOUR_NS}, optional=True)
    usual: dict[tuple[str, str, int, str], float] = {}
    names = {system: facility.filesystem_of(system) for system in rollups.text("system").categories}
    for series in operation_series(rollups, names, HOUR_NS):
        seconds, _ = series.expected(facility.baseline_ns, records[0]["start_ns"])
        if seconds:
            usual[series.filesystem, series.op, series.request_bytes, series.mode] = seconds
    yield _benchmark(part, records, usual, facility)


@exhibit("kun19.fig3")
def _benchmark(
    part: Measured,
    phases: list[dict[str, Any]],
    usual: Mapping[tuple[str, str, int, str], float],
    facility: Facility,
) -> Iterator[Piece]:
    """All measurements (3a, 3b), and 60-second means (3c)."""
    stored = ~part.cached  # the usual times do not include cached ones either
    slowdown = np.full(len(part.seconds), np.nan)
    means: list[tuple[Cell, ...]] = []
    boxes: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    unknown = []
    visible: dict[str, bool] = defaultdict(bool)
    during = [(part.start_ns >= phase["start_ns"]) & (part.start_ns < (phase["end_ns"] or 2**62)) for phase in phases]
    for filesystem, op in part.kinds():
        # All measurements of an operation have one size and mode.
        first = int(np.argmax(part.of(filesystem, op)))
        seconds = usual.get((filesystem, op, int(part.request_bytes[first]), str(part.mode[first])))
        if seconds is None:
            unknown.append(f"{filesystem} {op}")
            continue
        mine = part.of(filesystem, op) & stored
        slowdown[mine] = part.seconds[mine] / seconds
        minute, place = np.unique(part.start_ns[mine] // MINUTE_NS, return_inverse=True)
        values = np.bincount(place, weights=slowdown[mine]) / np.bincount(place)
        means += [(int(m) * MINUTE_NS, number(v), op, filesystem) for m, v in zip(minute, values.tolist(), strict=True)]
        for phase, inside in zip(phases, during, strict=True):
            if (inside & mine).sum() >= _LEAST_OF_PHASE:
                name = f"slowdown[{phase['label']}, {filesystem} {op}]"
                made = median_estimate(name, slowdown[inside & mine], "factor", in_time=True)
                estimates.append(replace(made, method=f"{made.method}; divided by the usual time"))
                # A sign test of every operation, at a level shared among them: its median surely above the usual one.
                above = int((slowdown[inside & mine] > 1).sum())
                chance = float(bdtrc(above - 1, (inside & mine).sum(), 0.5))
                visible[str(phase["label"])] |= chance < (1 - LEVEL) / len(part.kinds())
    for phase, inside in zip(phases, during, strict=True):
        for filesystem, op in part.kinds():
            own = slowdown[inside & part.of(filesystem, op)]
            own = own[np.isfinite(own)]
            if len(own) >= _LEAST_OF_PHASE:
                boxes.append((str(phase["label"]), op, filesystem, *quantiles(own)))
    shown = np.flatnonzero(stored)[select_points(part.seconds[stored])]
    shown = shown[np.argsort(part.op[shown], kind="stable")]  # the order, and so the colours, of the means
    columns = (
        "time [time_ns]; seconds: response time [seconds]; slowdown: slowdown [factor]; op: operation [text]; "
        "filesystem [text]"
    )
    measures = (part.start_ns, part.seconds, slowdown, part.op, part.filesystem)
    points = table("measurements", columns, *(each[shown] for each in measures))
    # Nine phases without a pause are one grey block: lines with names where they begin, and a box of each below.
    begins = tuple(Reference("x", float(p["start_ns"]), str(p["label"])) for p in phases if p["end_ns"])
    chart = partial(Chart.of, facet="filesystem", log="y", references=begins)
    yield chart("scatter", points, "x=time y=seconds series=op", "All measurements during a benchmark")
    if means:
        yield chart("scatter", points, "x=time y=slowdown series=op", "Slowdown of all measurements")
        columns = "time [time_ns]; slowdown: slowdown, means of 60 s [factor]; op: operation [text]; filesystem [text]"
        title = "Slowdown, 60-second means; lines mark the start of each phase"
        yield chart("timeline", ResultTable.of("run", columns, means), "x=time y=slowdown series=op", title)
        yield estimates
    if boxes:
        columns = "phase [text]; op [text]; filesystem [text]; q05 [factor]; q25 [factor]; q50: slowdown [factor]"
        drawn = ResultTable.of("phases", f"{columns}; q75 [factor]; q95 [factor]", boxes)
        encoding = "x=phase series=op q05 q25 q50 q75 q95"
        yield Chart.of("box", drawn, encoding, "Slowdown in each phase", facet="filesystem", log="y")
    if visible:
        yield share_estimate("visible_phases_ratio", sum(visible.values()), len(visible))
    text = f"No phase has {_LEAST_OF_PHASE} measurements of an operation with a baseline."
    if estimates:
        worst = max(estimates, key=lambda e: e.value or 0.0)
        where = worst.name.removeprefix("slowdown[").removesuffix("]")
        text = f"The slowest phase was {where}: {worst.value or 0.0:.1f} times the usual time."
    yield Finding(text, name="slowest_phase")
    if unknown:
        yield f"No baseline yet for {', '.join(unknown)}."
    exact = f"The baseline comes from roll-ups and is accurate to {RELATIVE_ERROR:.0%}."
    yield f"{expected_note(facility)} {exact}", selection_note(shown, part.seconds[stored])
    yield _coverage(part, int((~stored).sum()))


def _end_of_newest(snapshot: Snapshot, _: Params) -> Cell:
    """Default of `last_ns`: just after the newest operation began."""
    last = snapshot.scalar("SELECT max(start_ns) FROM responses WHERE status = 'ok'")
    return int(last) + 1 if isinstance(last, int) else 0


def _measured(source: DataSource, first_ns: int, last_ns: int) -> Measured:
    """Return the operations that began in [first_ns, last_ns)."""
    between = {"start_ns >=": first_ns, "start_ns <": last_ns}
    return finished_operations(source.frame("responses", COLUMNS, between), source.facility)


STUDY = Study(
    name="probing",
    exhibits=("kun19.fig1", "kun19.bands", "kun19.fig2"),
    needs="responses",
    run=run,
    params=(
        Param("window", "length of fig1", "duration", default="10min"),
        Param("last_ns", "end of fig1 and fig2 (UTC ns); default: the newest operation", "int", choose=_end_of_newest),
        Param("bands_window", "length of the period for bands and hosts", "duration", default="24h"),
    ),
)
BENCHMARK_PHASES = Study(
    name="benchmark_phases",
    exhibits=("kun19.fig3",),
    needs="responses events response_rollups?",
    run=run_phases,
)
