"""How many targets work alike at the same time (pat19 section 6): fig11, table1, and the sensitivity of both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.results import Cell, Chart, Estimate, Finding, Piece, ResultTable, columns_of, exhibit
from ioweather.stats.parallelism import DEGREES, PAPER_TARGETS, TOLERANCE, ParallelismCounts, scaled
from ioweather.stats.phases import members, thresholds
from ioweather.stats.resampling import sums_by_unit
from ioweather.studies.climate.context import WAYS, Climate, span
from ioweather.studies.climate.targets_in_one_pass import WIDE_TOLERANCE, WINDOWS
from ioweather.studies.shared.choices import TRAFFIC
from ioweather.studies.shared.intervals import Intervals, directed, plain
from ioweather.studies.shared.presenting import table

TABLE_DEGREES = (10, 25, 50, 75, 100)
WIDTH = 2 + 2 * len(DEGREES)  # of the counts of an interval
LEAST_TARGETS = 50  # [ours] of fewer, 8% is hardly more than one
_CAVEAT = (
    "Targets that move similar amounts in the same step are counted as working together; by chance alone busy targets "
    "fall together too, so a degree is an upper bound of what applications stripe."
)


def _counts(climate: Climate, way: str, tolerance: float = TOLERANCE, window: int = 1) -> ParallelismCounts:
    return climate.targets.degrees[TRAFFIC[WAYS.index(way)], tolerance, window]


def _sums(climate: Climate, counts: ParallelismCounts, chosen: Bools | None = None) -> Floats:
    """Clusters, targets in clusters, clusters of at least each degree, by unit of time."""
    rows = counts.per_interval()
    if chosen is not None:
        rows = rows * chosen[:, None]
    return sums_by_unit(rows, climate.intervals.unit)


def _high(climate: Climate, way: str) -> Bools:
    return members(climate.way(way), thresholds(climate.way(way))[1], "high")


def _mean_degree(sums: Floats) -> Floats:
    return np.asarray(sums[:, 1] / sums[:, 0])


@exhibit("pat19.fig11")
def degree_distribution(climate: Climate) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    estimates: list[Estimate] = []
    both = np.zeros((climate.intervals.units, WIDTH))
    for way in WAYS:
        counts = _counts(climate, way)
        sums = _sums(climate, counts)
        both += sums
        n = int(counts.histogram.sum())
        estimates.append(climate.intervals.estimate(f"mean_{way}", "count", sums, _mean_degree, n=n))
        estimates += [_below(climate, sums, degree, f"below_ratio_{way}[{degree}]", n) for degree in (10, 20)]
        degree, share = counts.cdf()
        last = int(np.flatnonzero(counts.histogram).max(initial=1))
        rows += [(way, int(d), float(s)) for d, s in zip(degree[:last], share[:last], strict=True)]
    total = int(both[:, 0].sum())
    estimates += [_below(climate, both, degree, f"below_ratio[{degree}]", total) for degree in (10, 20)]
    targets = len(climate.targets.components)
    if targets >= LEAST_TARGETS:
        estimates.append(_below(climate, both, 20, "few_targets_ratio", total, here=True))
    estimates += [plain("targets", targets, "count"), plain("tolerance", TOLERANCE, "ratio", method="as set")]
    table = ResultTable.of(
        "degrees", "series [text]; degree: targets working alike [count]; share: share of clusters [ratio]", rows
    )
    chart = Chart.of("cdf", table, "x=degree y=share series", "Degree of parallelism", log="x")
    yield chart, estimates, _degree_findings(climate, estimates), climate.caveats, _CAVEAT, climate.coverage()


def _place(degree: int, *, here: bool = False) -> int:
    """Where the counts of an interval have this degree; `here`: scaled to the targets of this site."""
    return 2 + DEGREES.index(degree) + (len(DEGREES) if here else 0)


def _below(climate: Climate, sums: Floats, degree: int, name: str, n: int, *, here: bool = False) -> Estimate:
    place = _place(degree, here=here)
    return climate.intervals.estimate(name, "ratio", sums, lambda s: 1 - s[:, place] / s[:, 0], n=n)


def _degree_findings(climate: Climate, estimates: list[Estimate]) -> list[Finding]:
    by_name = {estimate.name: estimate for estimate in estimates}
    read, write = by_name["mean_read"], by_name["mean_write"]
    targets = len(climate.targets.components)
    text = (
        f"On average {read.value or 0.0:.2f} of {targets} targets are read alike and {write.value or 0.0:.2f} are "
        f"written alike in the same step."
    )
    return [Finding(text, name="degree")]


_COLUMNS = columns_of(
    "degree: degree of parallelism [text]; read: clusters, reads [count]; write: clusters, writes [count]; "
    "difference: difference (W-R)/R [ratio]; low: 90% from [ratio]; high: 90% to [ratio]"
)


def _counted(climate: Climate, both: Floats, place: int, key: str) -> tuple[Estimate, Estimate, Estimate]:
    """Clusters when reading, clusters when writing, and the difference."""
    pair = both[:, [place, WIDTH + place]]
    read, write = (int(part) for part in pair.sum(axis=0))
    return (
        Estimate(f"clusters_read[{key}]", read, "count", n=climate.n, method="exact count"),
        Estimate(f"clusters_write[{key}]", write, "count", n=climate.n, method="exact count"),
        climate.intervals.estimate(
            f"difference[{key}]", "ratio", pair, lambda s: (s[:, 1] - s[:, 0]) / s[:, 0], n=read + write
        ),
    )


def _row(label: str, counted: tuple[Estimate, Estimate, Estimate]) -> tuple[Cell, ...]:
    read, write, difference = counted
    return label, read.value, write.value, difference.value, difference.low, difference.high


@exhibit("pat19.table1")
def high_phase_counts(climate: Climate) -> Iterator[Piece]:
    """Clusters, not minutes. Where there are too few targets for its degrees, the same shares of them."""
    sums = {way: _sums(climate, _counts(climate, way), _high(climate, way)) for way in WAYS}
    both = np.concatenate([sums["read"], sums["write"]], axis=1)
    targets = len(climate.targets.components)
    possible = tuple(degree for degree in TABLE_DEGREES if degree <= targets)
    left_out = [f"{degree}" for degree in TABLE_DEGREES if degree not in possible]
    counted = {degree: _counted(climate, both, _place(degree), f">={degree}") for degree in possible}
    here = {
        degree: _counted(climate, both, _place(degree, here=True), f"{degree} of {PAPER_TARGETS}")
        for degree in (TABLE_DEGREES if left_out else ())
    }
    yield ResultTable("degrees", _COLUMNS, tuple(_row(f"≥ {d}", three) for d, three in counted.items()))
    if here:
        rows = tuple(_row(f"≥ {scaled(d, targets)} ({d} of {PAPER_TARGETS})", three) for d, three in here.items())
        yield ResultTable("scaled_degrees", _COLUMNS, rows, f"The same shares of {targets} targets")
    # The lowest degree is the paper's claim; the others only say more of it.
    yield [
        directed(
            e,
            0.0,
            f"In high phases writes reach a degree {e.name[11:-1]} more often than reads, by {e.value or 0.0:.0%}.",
            f"In high phases writes reach a degree {e.name[11:-1]} less often than reads, by {-(e.value or 0.0):.0%}.",
        )
        for _, _, e in tuple(counted.values())[1:]
        if e.value is not None
    ]
    small = (
        f"There are {targets} targets: degrees of {', '.join(left_out)} or more cannot be. The paper's counts stand "
        f"beside those of the same shares of the targets."
    )
    yield [e for three in (*counted.values(), *here.values()) for e in three], climate.caveats, _CAVEAT
    yield [small] if left_out else [], climate.coverage()


@exhibit("pat19.sensitivity")
def sensitivity(climate: Climate) -> Iterator[Piece]:
    """Mean degree by tolerance, by length of the interval, and in high phases."""
    estimates: list[Estimate] = []
    labels: list[str] = []
    for way in WAYS:
        plain_sums, high_sums = (
            _sums(climate, _counts(climate, way)),
            _sums(climate, _counts(climate, way), _high(climate, way)),
        )
        wide_sums = _sums(climate, _counts(climate, way, WIDE_TOLERANCE))
        step = span(1, climate.system.step_ns)
        for name, label, sums in (
            (f"mean_{way}", f"{step}, {TOLERANCE:.0%}", plain_sums),
            (f"mean_high_phases_{way}", f"{step}, {TOLERANCE:.0%}, high phases", high_sums),
            (f"mean_{way}[{WIDE_TOLERANCE:.0%}]", f"{step}, {WIDE_TOLERANCE:.0%}", wide_sums),
        ):
            estimates.append(climate.intervals.estimate(name, "count", sums, _mean_degree, n=int(sums[:, 0].sum())))
            labels.append(label)
        for window in WINDOWS[1:]:
            word = span(window, climate.system.step_ns)
            estimates.append(_windowed(climate, way, window, f"mean_{way}[{word}]"))
            labels.append(f"{word}, {TOLERANCE:.0%}")
    difference = _high_difference(climate)
    half = len(labels) // 2
    made = table(
        "sensitivity",
        {
            "variant": ("interval and tolerance", "text", labels[:half]),
            "read": ("mean degree, reads", "count", [e.value for e in estimates[:half]]),
            "write": ("mean degree, writes", "count", [e.value for e in estimates[half:]]),
        },
    )
    yield made, estimates, difference, plain("targets", len(climate.targets.components), "count")
    yield _sensitivity_findings(estimates), climate.caveats, _CAVEAT, climate.coverage()


def _windowed(climate: Climate, way: str, window: int, name: str) -> Estimate:
    rows = _counts(climate, way, TOLERANCE, window).per_interval()
    unit = max(1, round(climate.intervals.unit / window))
    step_ns, of = climate.system.step_ns * window, climate.intervals
    own = Intervals(rows[:, 0] > 0, step_ns, on=of.on, unit=unit, unit_name=of.unit_name)
    sums = sums_by_unit(rows, unit) if len(rows) else np.zeros((1, 2))
    return own.estimate(name, "count", sums, _mean_degree, n=int(sums[:, 0].sum()))


def _high_difference(climate: Climate) -> Estimate:
    read, write = (_sums(climate, _counts(climate, way), _high(climate, way)) for way in WAYS)
    both = np.concatenate([read[:, :2], write[:, :2]], axis=1)
    n = int(both[:, 0].sum() + both[:, 2].sum())
    return climate.intervals.estimate(
        "mean_high_phases_write_minus_read", "count", both, lambda s: s[:, 3] / s[:, 2] - s[:, 1] / s[:, 0], n=n
    )


def _sensitivity_findings(estimates: list[Estimate]) -> Iterator[Finding]:
    by_name = {estimate.name: estimate.value or 0.0 for estimate in estimates}
    for way in WAYS:
        usual, wide = by_name[f"mean_{way}"], by_name[f"mean_{way}[{WIDE_TOLERANCE:.0%}]"]
        high = by_name[f"mean_high_phases_{way}"]
        yield Finding(
            f"The mean {way} degree is {usual:.2f}; with a tolerance of {WIDE_TOLERANCE:.0%} {wide:.2f}, in high "
            f"phases {high:.2f}.",
            name="tolerance",
        )
