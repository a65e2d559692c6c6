"""Does a run's I/O time follow the system's activity (mad17)? Groups of similar runs, and one run on the system's time
line; association of I/O time with the system's activity (tables III and IV), with intervals and nulls, and how coarser
sampling weakens it (mad17 VI-B).

Symbols of the paper: D is a run's time in I/O calls, D_U_M that in metadata calls, D_J its run time, D_D the length of
the sampling intervals in which it did I/O. Psi is what the system moved during the run, PsiD during its I/O, PsiI the
same with only files on monitored mounts; PsiO counts operations. _R and _W are reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import chdtri

from ioweather.core.contracts import Params, Study
from ioweather.core.errors import UsageError
from ioweather.core.frames import Floats, Frame, Ints
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import format_bytes, format_ratio, format_seconds, names_of, pairs_of
from ioweather.facts.job_metrics import own_bytes
from ioweather.facts.runs import LEAST_RUNS
from ioweather.facts.system_activity import Stretches, io_ends, io_steps, job_system, volume
from ioweather.facts.system_grid import Steps
from ioweather.stats.dependence import midranks, spearman
from ioweather.stats.estimates import LEVEL, known, mean_estimate, number, plain
from ioweather.stats.summary_tables import p_text, shaded, thin, timeline_table
from ioweather.studies.mad17.coefficients import (
    MIN_PAIRS,
    Association,
    ShiftNull,
    above_resolution,
    associate,
    best_excess_p,
    best_shift_p,
    coefficients,
    complete_pairs,
    shift_null,
    spearman_change,
    spearman_interval,
    time_shifts,
)
from ioweather.studies.mad17.curves import curve_exhibits
from ioweather.studies.mad17.explained_traffic import (
    HALF_WIDTH_SD,
    IN_TIME_ORDER,
    MEASURES,
    NEEDS,
    NO_STEPS_OR_RUNS,
    PARAMS,
    SHARED_STEPS,
    TIME,
    AssociationData,
    association_data,
)
from ioweather.topics.source import DataSource

_LEAST_MOVED: Final = 19  # moves, for a 90% range
COARSEST: Final = 20
# Share of the variance of I/O time that a longer sampling interval may lose. [ours]
WORTH_IT: Final = 0.05
# Of each rank correlation by interval; there are more than a hundred of them.
_REPLICATES: Final = 100
SURE: Final = 0.05
# What a coefficient is called; mad17 calls .55 strong, .2 to .35 mild. [ours]
STRONG: Final = 0.4
MILD: Final = 0.15
NORMAL_90: Final = 1.6449  # half width of the central 90% of a normal distribution, in sd
ALMOST_1: Final = 0.999999  # Fisher's z of a coefficient of 1 is infinite
_WAYS: Final = ("read", "write")
BIASED: Final = (
    "Distance correlation and mutual information are never negative and exceed 0 even by chance. Check "
    "their p, the share of time-shifted pairings with at least the same value."
)


@dataclass(frozen=True, eq=False)
class Pairing:
    """Coefficients of the system's volume and rate with the times of one group's runs, reads or writes.

    `nulls` are the distributions for runs moved in time.
    """

    group: str
    way: str
    volumes: Floats
    times: Floats
    found: dict[str, Association]
    rate: dict[str, float]
    nulls: dict[str, ShiftNull]


def table_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    """Make Tables III and IV and the exhibit on monitored mounts."""
    by_volume = [_pair_volume_with_time(data, group, way, "psid", "d_d") for group in data.shown for way in _WAYS]
    yield _during_io_table(data, by_volume)
    yield _metadata_table(data)
    yield _monitored_table(data)


def _pair_volume_with_time(data: AssociationData, group: int, way: str, prefix: str, time: str) -> Pairing:
    """Return the coefficients of one group's I/O times (`time`) with the system's volume during its I/O (`prefix`)."""
    rows = data.members(group)
    volumes, times = data.of(f"{prefix}_{way}_bytes")[rows], above_resolution(data.of(f"{time}_seconds")[rows])
    found = _pairing(data.name(group), way, volumes, times, times)
    observed = {name: one.value for name, one in found.found.items()}
    moved = _volumes_moved_in_time(data, rows, f"{way}_bytes", monitored=prefix == "psii")
    return replace(found, nulls=shift_null(times, observed, moved))


def _pairing(group: str, way: str, volumes: Floats, times: Floats, length: Floats) -> Pairing:
    """Return the coefficients of `volumes`, and of the volumes per `length`, with `times`."""
    rates = np.divide(volumes, length, out=np.full(len(length), np.nan), where=length > 0)
    return Pairing(group, way, volumes, times, associate(volumes, times), coefficients(rates, times), {})


def _volumes_moved_in_time(
    data: AssociationData,
    rows: Ints,
    metric: str,
    *,
    monitored: bool = False,
    grid: Steps | None = None,
    shifts: Ints | None = None,
) -> Iterator[Floats]:
    """Yield PsiD of the same runs, all shifted in time by the same number of steps, around the end of the period.

    A shift preserves the number of steps and the autocorrelation, and destroys the interaction of runs and system.
    """
    spans = data.spans.of_runs(rows)
    spans = spans.only_monitored() if monitored else spans
    grid = grid or data.grid
    stretches = io_steps(grid, spans)
    first, last = io_ends(spans)
    count, step = grid.count, grid.step_ns
    usable = stretches.steps > 0
    for shift in (time_shifts(grid) if shifts is None else shifts).tolist():
        # A run goes around the end as a whole; one that would be cut there reaches outside and is left out.
        move = np.where(grid.closed(first) + shift >= count, shift - count, shift)
        here = Stretches(
            stretches.run, stretches.first + move[stretches.run], stretches.last + move[stretches.run], stretches.runs
        )
        yield volume(grid, metric, here, first + move * step, last + move * step, usable)[0]


def _rank_correlations_moved_in_time(data: AssociationData, fine: Level, coarse: Level, way: str) -> Floats:
    """Return the rank correlations of the same runs moved in time, in fine and in coarse steps: (moves, 2).

    D_D and PsiD share their steps, which alone correlates them; coarser steps remove that. Moves are whole coarse
    steps, so that D_D does not change.
    """
    rows, grid = data.members(fine.group), data.grid.coarsened(coarse.factor)
    shifts, metric = time_shifts(grid), f"{way}_bytes"
    before = _volumes_moved_in_time(data, rows, metric, shifts=shifts * (coarse.factor // fine.factor))
    after = _volumes_moved_in_time(data, rows, metric, grid=grid, shifts=shifts)
    d_d = [level.system.floats("d_d_seconds") for level in (fine, coarse)]
    pairs = [
        [complete_pairs(volumes, times) for volumes, times in zip(both, d_d, strict=True)]
        for both in zip(before, after, strict=True)
    ]
    ranks = [[spearman(*pair) if len(pair[0]) >= MIN_PAIRS else np.nan for pair in both] for both in pairs]
    return np.array(ranks, np.float64).reshape(-1, 2)


def _strongest_change(observed: Floats, moved: Floats, halves: Floats) -> tuple[float, float, int]:
    """Return by how much more the strongest association falls than that of moved runs, half its interval, and its
    index.

    The strongest of several falls by regression to the mean, so it is selected in every move as in the data. `observed`
    (pairs, 2) and `moved` (pairs, moves, 2) are in fine and in coarse steps.
    """
    usual = np.nanmedian(moved[..., 0], axis=1)
    chosen = int(np.argmax(observed[:, 0] - usual))
    beyond = np.where(np.isfinite(moved).all(axis=-1), moved[..., 0] - usual[:, None], -np.inf)
    places = beyond.argmax(axis=0)
    picked = moved[places, np.arange(moved.shape[1])]
    change = (picked[:, 1] - picked[:, 0])[np.isfinite(beyond.max(axis=0))]
    least, middle, most = np.quantile(change, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]).tolist()
    value = float(observed[chosen, 1] - observed[chosen, 0]) - middle
    return value, max(float(halves[chosen]), (most - least) / 2), chosen


@exhibit("mad17.table3")
def _during_io_table(data: AssociationData, pairs: list[Pairing]) -> Iterator[Piece]:
    """Association between I/O time (D_D) and the system's volume in the same steps (PsiD)."""
    yield SHARED_STEPS, data.span_caveat(data.members(data.asked)), _coefficients(data, pairs, "D_D", "PsiD")


@exhibit("mad17.table4")
def _metadata_table(data: AssociationData) -> Iterator[Piece]:
    """Association between metadata time (D_U_M) and the system's operations (PsiO)."""
    pairs = []
    for group in data.shown:
        rows = data.members(group)
        times, length = above_resolution(data.of("d_u_m_seconds")[rows]), data.of("run_seconds")[rows]
        for way in _WAYS:
            counts = data.of(f"psi_{way}_ops_count")[rows]
            pairs.append(_pairing(data.name(group), way, counts, times, length))
    yield "A longer run overlaps more operations, so the rate PsiO/D_J is shown too."
    if not any(name in data.grid.values for name in ("read_ops", "write_ops")):
        yield "The server samples contain no operation counts (read_ops, write_ops)."
    yield _coefficients(data, pairs, "D_U_M", "PsiO")


@exhibit("mad17.monitored")
def _monitored_table(data: AssociationData) -> Iterator[Piece]:
    """Association for files on monitored mounts only, and whether this restriction helps.

    If all files of a group are on monitored mounts, PsiI and D_I equal PsiD and D_D.
    """
    if not data.mounts_known:
        text = f"It is unknown which files are on {data.params['filesystem']}. Set `mounts` in facility.toml."
        yield Finding(text, "undecided", name="mounts_unknown"), data.caveats, data.coverage
        return
    changes: list[Finding] = []
    for group in data.shown:
        rows, name = data.members(group), data.name(group)
        files, all_files = data.of("monitored_file_count")[rows].sum(), data.of("file_count")[rows].sum()
        moved, all_moved = (
            float(sum(own[rows].sum() for own in own_bytes(data.spans, monitored=only))) for only in (True, False)
        )
        if len(rows) and all_files:
            shares = {"files": float(files / all_files), "bytes": moved / all_moved}
            for what, share in shares.items():
                method = f"share of {what}"
                yield plain(f"{what}_monitored_ratio[{name}]", share, "ratio", n=len(rows), method=method)
            of_files, of_bytes = (f"{share:.0%} of the {what}" for what, share in shares.items())
            yield Finding(f"{name}: {of_files} and {of_bytes} are on monitored mounts.", name="monitored_share")
        # The effect of restricting to monitored mounts; the same runs are resampled for both.
        columns = ("psid_read_bytes", "d_d_seconds", "psii_read_bytes", "d_i_seconds")
        change = spearman_change(*(data.of(column)[rows] for column in columns), least=20)
        if change is not None:
            value, low, high, _ = change
            words = "helps" if low > 0 else "lowers the coefficient" if high < 0 else "makes no detectable difference"
            by = f"(Spearman with reads changes by {value:+.2f}, {low:+.2f} to {high:+.2f})"
            text = f"{name}: restricting to monitored mounts {words} {by}."
            changes.append(Finding(text, name="monitored_change"))
    pairs = [_pair_volume_with_time(data, group, way, "psii", "d_i") for group in data.shown for way in _WAYS]
    yield changes, SHARED_STEPS, _coefficients(data, pairs, "D_I", "PsiI")


def _coefficients(data: AssociationData, pairs: list[Pairing], time: str, symbol: str) -> Iterator[Piece]:
    """Coefficients of all pairs as a table, estimates, a matrix and findings."""
    rows: list[tuple[Cell, ...]] = []
    cells: list[tuple[Cell, ...]] = []
    for pair in pairs:
        for name, found in pair.found.items():
            null, value = pair.nulls.get(name), number(found.value)
            moved = (null.median, null.p) if null else (None, None)
            rate = number(pair.rate.get(name, float("nan")))
            interval = (value, found.low, found.high)
            rows.append((pair.group, pair.way, MEASURES[name], *interval, found.p, rate, *moved, found.n))
            cells.append((f"{pair.group} {pair.way}", MEASURES[name], value))
            level = LEVEL if found.low is not None else None
            named = f"{name}_{pair.way}[{pair.group}]"
            yield Estimate(named, value, "", found.low, found.high, level, found.n, found.method)
    yield [_pool_groups(pairs, way) for way in _WAYS]
    yield ResultTable.of(
        "coefficients",
        "group [text]; way [text]; measure [text]; value; low: 90% from; high: 90% to; p: p by chance; "
        "rate: of the rate; null: time-shifted, median; null_p: p of time-shifted; n [count]",
        rows,
    )
    if any(value is not None for *_, value in cells):
        matrix = ResultTable.of("matrix", "pair [text]; measure [text]; value", cells)
        yield Chart.of("matrix", matrix, "x=measure y=pair value", f"Coefficients of {symbol} with {time}")
    elif not pairs:
        yield Finding("No group has enough runs.", "undecided", name="no_groups")
    yield association_findings(pairs, time, symbol), BIASED, IN_TIME_ORDER, data.caveats, data.coverage


def _pool_groups(pairs: list[Pairing], way: str) -> Iterator[Estimate]:
    """Yield Spearman's coefficient over all groups, and the heterogeneity of groups.

    Groups are pooled by Fisher's z, weighted by n - 3. The coefficient of runs shifted in time, which share their steps
    with D_D in the same way, is subtracted; without one, the coefficient of the rate is used, which a longer run does
    not raise. Heterogeneity is Cochran's Q per degree of freedom, 1 by chance.
    """
    known = []
    for pair in pairs:
        null, n = pair.nulls.get("spearman"), pair.found["spearman"].n
        rho = pair.found["spearman"].value if null else pair.rate.get("spearman", np.nan)
        if pair.way == way and n > MIN_PAIRS and np.isfinite(rho):
            beyond = np.arctanh(np.clip(rho, -ALMOST_1, ALMOST_1)) - np.arctanh(null.median if null else 0.0)
            known.append((float(beyond), n - 3))
    name, differ = f"spearman_{way}_all_groups", f"spearman_{way}_heterogeneity"
    if known:
        z, weight = (np.array(each, np.float64) for each in zip(*known, strict=True))
        mean = float((z * weight).sum() / weight.sum())
        reach, n = NORMAL_90 * float(np.sqrt(1.06 / weight.sum())), int(weight.sum()) + 3 * len(known)
        low, high = float(np.tanh(mean - reach)), float(np.tanh(mean + reach))
        method = f"Fisher's z over {len(known)} groups, minus that of time-shifted runs (D_D) or of the rate (D_U_M)"
        yield Estimate(name, float(np.tanh(mean)), "", low, high, LEVEL, n, method)
    else:
        yield plain(name, None, "", n=0, method="no group has enough runs")
    freedom = len(known) - 1
    if freedom < 1:
        yield plain(differ, None, "factor", n=len(known), method="needs two groups")
    else:
        q = float((weight / 1.06 * (z - mean) ** 2).sum())
        low, high = (q / float(chdtri(freedom, tail)) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        method = "Cochran's Q per degree of freedom"
        yield Estimate(differ, q / freedom, "factor", low, high, LEVEL, len(known), method)


def association_findings(pairs: list[Pairing], time: str, symbol: str) -> Iterator[Finding]:
    """Yield a sentence per group, on the direction whose rank correlation exceeds that of moved runs most.

    The selection is repeated in every shift, so p accounts for it.
    """
    for group in dict.fromkeys(pair.group for pair in pairs):
        mine = [pair for pair in pairs if pair.group == group]
        own = [pair for pair in mine if np.isfinite(pair.found["spearman"].value)]
        if not own:
            text = f"{group}: no estimate ({mine[0].found['spearman'].method})."
            yield Finding(text, "undecided", name="association")
            continue

        def beyond_null(pair: Pairing) -> float:
            null, value = pair.nulls.get("spearman"), pair.found["spearman"].value
            return value - null.median if null else abs(value)

        pair = max(own, key=beyond_null)
        found, null = pair.found["spearman"], pair.nulls.get("spearman")
        strength = "strong" if abs(found.value) >= STRONG else "mild" if abs(found.value) >= MILD else "no"
        words = f"{group}: {strength} association of {time} with the system's {pair.way}s ({symbol}"
        between = f", {found.low:.2f} to {found.high:.2f}" if found.low is not None and found.high is not None else ""
        words += f"; Spearman {found.value:.2f}{between}, n {found.n})"
        chance = best_shift_p([each.volumes for each in own], pair.times)
        nulled = [each for each in own if "spearman" in each.nulls]
        values, nulls = [each.found["spearman"].value for each in nulled], [each.nulls["spearman"] for each in nulled]
        moved = best_excess_p(values, nulls) if null is not None else 0.0
        if not chance <= SURE:
            yield Finding(f"{words}: not above chance.", "undecided", name="association")
        elif null is not None and moved > SURE:
            too = f"but time-shifted runs also reach {null.median:.2f} ({p_text(moved)}): perhaps due to shared steps"
            yield Finding(f"{words}, {too}.", "undecided", name="association")
        else:
            beyond = f", and above time-shifted runs ({null.median:.2f}, {p_text(moved)})" if null else ""
            yield Finding(f"{words}: above chance{beyond}.", name="association")


@dataclass(frozen=True)
class Level:
    """The system during one group's runs, with `factor` samples in one."""

    group: int
    factor: int
    step_seconds: float
    system: Frame

    def pair(self, way: str) -> tuple[Floats, Floats]:
        """Return PsiD and D_D."""
        return self.system.floats(f"psid_{way}_bytes"), self.system.floats("d_d_seconds")

    @property
    def load(self) -> Floats:
        """Bytes per second that others moved in the steps with a run's I/O."""
        others = sum(self.system.floats(f"others_io_high_{way}_bytes") for way in _WAYS)
        return others / self.system.floats("d_d_seconds")


def run_granularity(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Steps used and coefficients with k samples in one, k = 1 to 20."""
    found = association_data(source, params)
    if found is not None:
        levels = [level for group in found.shown for level in _levels(found, group)]
        yield _steps_used(found, levels)
        yield _weakening(found, levels)


def _levels(data: AssociationData, group: int) -> Iterator[Level]:
    """Yield the system during the group's runs at 1 to COARSEST samples in one."""
    rows = data.members(group)
    spans = data.spans.of_runs(rows)
    start, end = (data.runs.ints(name)[rows] for name in ("start_ns", "end_ns"))
    for factor in range(1, COARSEST + 1):
        grid = data.grid.coarsened(factor)
        if grid.count < 2:
            return
        yield Level(group, factor, grid.step_seconds, job_system(grid, start, end, spans))


@exhibit("mad17.fig9")
def _steps_used(data: AssociationData, levels: list[Level]) -> Iterator[Piece]:
    """Steps with I/O per run, by sampling interval."""
    rows: list[tuple[float, str, float, int]] = []
    for level in levels:
        steps = known(level.system.floats("d_d_steps"))
        if len(steps):
            rows.append((level.step_seconds, data.name(level.group), float(steps.mean()), len(steps)))
    columns = "interval: sampling interval [seconds]; group [text]; steps: steps with I/O, mean [count]; n [count]"
    made = ResultTable.of("steps", columns, rows)
    yield made
    if rows:
        yield Chart.of("timeline", made, "x=interval y=steps series=group", "Sampling intervals with I/O")
    yield data.caveats, data.coverage


@exhibit("mad17.fig10")
def _weakening(data: AssociationData, levels: list[Level]) -> Iterator[Piece]:
    """Coefficients by sampling interval, and the decrease of the strongest association."""
    every: list[tuple[Cell, ...]] = []
    ranks: list[tuple[Cell, ...]] = []
    metadata: list[tuple[Cell, ...]] = []
    for level in levels:
        asked = level.group == data.asked
        for way in _WAYS:
            found = coefficients(*level.pair(way)) if asked else {}
            every += [(level.step_seconds, way, MEASURES[name], number(value)) for name, value in found.items()]
            pairs = complete_pairs(*level.pair(way))
            rank = spearman_interval(*pairs, _REPLICATES) or (None, None, None)  # a gap in the line
            ranks.append((level.step_seconds, f"{data.name(level.group)} {way}", *rank, len(pairs[0])))
        if asked:
            times = above_resolution(data.of("d_u_m_seconds")[data.members(level.group)])
            found = coefficients(level.system.floats("psi_read_ops_count"), times)
            metadata += [(level.step_seconds, MEASURES[name], number(value)) for name, value in found.items()]
    interval, encoding = "interval: sampling interval [seconds]", "x=interval y=value series=measure"
    drawn = ResultTable.of("all", f"{interval}; way [text]; measure [text]; value: coefficient", every)
    yield Chart.of("timeline", drawn, encoding, f"D_D with PsiD: {data.name(data.asked)}", facet="way")
    if any(row[2] is not None for row in ranks):
        columns = f"{interval}; series [text]; value: Spearman; low: 90% from; high: 90% to; n [count]"
        drawn = ResultTable.of("ranks", columns, ranks)
        title = "Spearman correlation of D_D and PsiD, and its 90% interval"
        yield Chart.of("band", drawn, "x=interval y=value low high", title, facet="series")
    if any(row[2] is not None for row in metadata):
        drawn = ResultTable.of("metadata", f"{interval}; measure [text]; value: coefficient", metadata)
        yield Chart.of("timeline", drawn, encoding, "D_U_M with PsiO_R")
    # Finest against coarsest, with the same resampled runs.
    strongest: list[tuple[list[float], Floats, float, int]] = []
    for group in data.shown:
        own = [level for level in levels if level.group == group]
        for way in _WAYS if len(own) > 1 else ():
            fine, coarse = own[0], own[-1]
            change = spearman_change(*fine.pair(way), *coarse.pair(way))
            if change is None:
                continue
            value, low, high, n = change
            name, method = f"spearman_change_{way}[{data.name(group)}]", "same resampled runs for both granularities"
            yield Estimate(name, value, "", low, high, LEVEL, n, method)
            steps = f"from {format_seconds(fine.step_seconds)} to {format_seconds(coarse.step_seconds)}"
            by = f"changes by {value:+.2f} ({low:+.2f} to {high:+.2f})"
            moved = _rank_correlations_moved_in_time(data, fine, coarse, way)
            gone = (moved[:, 1] - moved[:, 0])[np.isfinite(moved).all(axis=1)]
            if len(gone) >= _LEAST_MOVED:
                least, usual, most = np.quantile(gone, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]).tolist()
                sides = [spearman(*complete_pairs(*level.pair(way))) for level in (fine, coarse)]
                strongest.append((sides, moved, (high - low) / 2, n))
                by += f"; for time-shifted runs, by {usual:+.2f} ({least:+.2f} to {most:+.2f})"
            text = f"{data.name(group)}: {steps} the rank correlation with {way}s {by}."
            yield Finding(text, name="change_with_interval")
    if strongest:
        fewest = min(len(moved) for _, moved, _, _ in strongest)
        moves = np.stack([moved[:fewest] for _, moved, _, _ in strongest])
        observed, halves = np.array([sides for sides, *_ in strongest]), np.array([half for *_, half, _ in strongest])
        value, half, chosen = _strongest_change(observed, moves, halves)
        method = "of the strongest association, minus that of the strongest in time-shifted runs"
        n = strongest[chosen][3]
        yield Estimate("spearman_change_beyond_moved", value, "", value - half, value + half, LEVEL, n, method)
    yield (
        "With longer steps, fewer runs lie completely in monitored steps, and each coefficient uses only these "
        "runs. D_D also has fewer distinct values, which alone limits the coefficients."
    )
    yield _sampling_interval(data, levels), IN_TIME_ORDER, data.caveats, data.coverage


def _sampling_interval(data: AssociationData, levels: list[Level]) -> Iterator[Piece]:
    """Recommend a sampling interval: the longest up to which the load surely explains little less of the variance of
    I/O time than at the finest.

    The load is what others moved per second in the steps with a run's I/O. Whole steps contain all of the run's own
    bytes, so the load does not depend on the run's own time. Intervals are tried from fine to coarse, so the level
    needs no correction.
    """
    members = [data.members(group) for group in data.shown]
    rows, group = np.concatenate(members), np.repeat(data.shown, [len(own) for own in members])
    steps = [[level for level in levels if level.factor == factor] for factor in range(1, COARSEST + 1)]
    steps = [each for each in steps if each]
    ranks = np.stack([data.of("io_seconds")[rows], *(np.concatenate([one.load for one in each]) for each in steps)])
    # The same runs at all intervals, in time order.
    same = np.flatnonzero(np.isfinite(ranks).all(axis=0))
    same = same[np.argsort(data.runs.ints("start_ns")[rows[same]], kind="stable")]
    ranks, group, n = ranks[:, same], group[same], len(same)
    for own in (group == each for each in data.shown):
        ranks[:, own] = midranks(ranks[:, own]) / max(1, own.sum())
    y, *x = ranks
    found = spearman_interval(x[0], y) if len(x) > 1 else None
    if found is None or not found[1] > 0:
        by = "explains their I/O time no better than chance" if found else "is known for too few runs"
        text = f"These {n} runs do not show how often to sample: the load of other jobs during their I/O {by}."
        yield Finding(text, "undecided", name="sampling_interval")
        return
    rho, low, high = found
    method = "squared rank correlation, within groups"
    yield Estimate("explained_ratio", rho**2, "ratio", low**2, high**2, LEVEL, n, method)
    changes = [spearman_change(x[0], y, each, y, explained=True) for each in x[1:]]
    enough = [*(change is not None and change[1] >= -WORTH_IT for change in changes), False]
    best = enough.index(False)
    seconds = [format_seconds(each[0].step_seconds) for each in steps]
    method = f"longest interval before one that may lose {WORTH_IT:.0%} or more"
    yield plain("sampling_interval", steps[best][0].step_seconds, "seconds", n=n, method=method)
    # The finest interval against the recommended one, or against the next one.
    change, text = changes[max(best, 1) - 1], f"Sample every {seconds[best]}{'' if best else ' or more often'}"
    if change is not None:
        value, low, high = (-end for end in (change[0], change[2], change[1]))
        more, method = "" if best else f" than {seconds[1]}", "finest minus recommended (or next longer) interval"
        yield Estimate("explained_gain_ratio", value, "ratio", low, high, LEVEL, n, method)
        amount = f"{format_ratio(value)} ({format_ratio(low)} to {format_ratio(high)}) more"
        text += f": samples every {seconds[0]} explain {amount} of the variance of I/O time{more}"
    longer = f" The next longer interval may lose {WORTH_IT:.0%} or more of it." if best < len(changes) else ""
    yield Finding(f"{text}.{longer}", name="sampling_interval")


GRANULARITY = Study(
    name="association_granularity",
    exhibits=names_of("mad17.fig9 mad17.fig10"),
    needs=NEEDS,
    run=run_granularity,
    params=PARAMS,
    too_few=NO_STEPS_OR_RUNS,
)


_MOST_GROUPS: Final = 12
_SHADES: Final = 20
_MOST_FILES: Final = 800
TIMES: Final = pairs_of("""
    D_U_M=d_u_m_seconds D_U_RW=d_u_rw_seconds D_S=d_s_span_seconds D_D=d_d_seconds D_F_R=d_f_r_seconds
    D_F_W=d_f_w_seconds D_J=run_seconds
""")
_COUNTS: Final = (
    ("processes", "nprocs", "count"),
    ("unique_files", "unique_file_count", "count"),
    ("shared_files", "shared_file_count", "count"),
    ("read", "read_bytes", "bytes"),
    ("written", "write_bytes", "bytes"),
)


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the exhibits of one group of similar runs."""
    found = association_data(source, params)
    if found is None:
        return
    row = _choose_run(found)
    if row is not None:
        yield _time_line(found, row)
        yield _files(found, row)
    yield _largest_groups(found)
    yield _mean_times(found)
    yield _histograms(found)
    yield from table_exhibits(found)
    yield from curve_exhibits(found)


def _choose_run(data: AssociationData) -> int | None:
    """Return the row of the chosen run, else of the slowest complete one of the group."""
    asked = data.params.get("job")
    if asked:
        digests = data.runs.frame.text("log_digest").tolist()
        jobs = zip(data.runs.ints("job_id").tolist(), digests, strict=True)
        for row, (job, digest) in enumerate(jobs):
            if str(job) == str(asked) or str(digest).startswith(str(asked)):
                return row
        raise UsageError(f"Run {str(asked)!r} does not exist.", hint="Specify a job ID or the start of a log digest.")
    members = data.members(data.asked)
    times = data.of("io_seconds")[members]
    return int(members[np.nanargmax(times)]) if len(members) and np.isfinite(times).any() else None


def _run_label(data: AssociationData, row: int) -> str:
    """Return the job id and the group of a run."""
    return f"job {int(data.runs.ints('job_id')[row])} of {data.name(int(data.groups.of_run[row]))}"


@exhibit("mad17.fig1")
def _time_line(data: AssociationData, row: int) -> Iterator[Piece]:
    """The system's throughput around one run, and the steps with its I/O."""
    grid = data.grid

    def of(column: str) -> float:
        return float(data.of(column)[row])

    start, end = (int(data.runs.ints(name)[row]) for name in ("start_ns", "end_ns"))
    margin = max(5 * grid.step_ns, (end - start) // 4)
    first, last = ((t - grid.start_ns) // grid.step_ns for t in (start - margin, end + margin))
    piece = slice(max(0, first), max(0, last + 1))
    times = grid.stamp(np.arange(grid.count)[piece])
    rates = {verb: grid.values[f"{verb}_bytes"][piece] / grid.step_seconds for verb in ("read", "write")}
    stretches = io_steps(grid, data.spans.of_runs(np.array([row])))
    ends = list(zip(stretches.first, stretches.last, strict=True))[:_SHADES]
    shades = (shaded(int(grid.stamp(a)), int(grid.stamp(b + 1)), "its I/O: PsiD") for a, b in ends)
    yield Chart.of(
        "timeline",
        timeline_table("throughput", times, rates, "system throughput", "bytes_per_s"),
        "x=time y=value series",
        f"The system while {_run_label(data, row)} ran",
        references=(shaded(start, end, "the run: Psi"), *shades),
    )
    for verb in ("read", "write"):
        letter, own, value = verb[0].upper(), of(f"own_{verb}_bytes"), of(f"psid_{verb}_bytes")
        yield plain(f"Psi_{letter}", of(f"psi_{verb}_bytes"), "bytes", method="Eq. 2")
        low, high = (of(f"others_io_{side}_{verb}_bytes") + own for side in ("low", "high"))
        name, method = f"PsiD_{letter}", "Eq. 4; low and high: without and with the first and last step"
        if np.isfinite(value):
            yield Estimate(name, value, "bytes", low, high, 1.0, method=method)
        else:
            yield Estimate(name, None, "bytes", method=method)
        yield plain(f"own_{verb}", own, "bytes", method="the log")
    yield plain("D_D", of("d_d_seconds"), "seconds", method="Eq. 5")
    yield plain("D", of("io_seconds"), "seconds", method="Eq. 1")
    state = data.system.text("state").tolist()[row]
    if state == "complete":
        moved = of("psi_read_bytes") + of("psi_write_bytes")
        share = f"{(of('own_read_bytes') + of('own_write_bytes')) / moved:.0%}" if moved > 0 else "none"
        yield Finding(
            f"During the {format_seconds(of('run_seconds'))} of the run, the system moved {format_bytes(moved)}; "
            f"the run itself moved {share} of that. Its I/O covers {format_seconds(of('d_d_seconds'))} of sampling "
            "intervals.",
            name="volume_during_run",
        )
    else:
        yield Finding(f"System samples cover only part of this run ({state}).", "undecided", name="not_sampled")
    yield (
        "Amounts are assumed to be evenly distributed within the first and last step (mad17 Eq. 2 to 4). The "
        "interval ends assume that all or none of the amount falls into the run."
    )
    yield data.caveats, data.coverage


@exhibit("mad17.fig3")
def _files(data: AssociationData, row: int) -> Iterator[Piece]:
    """First and last access to each file in one run."""
    spans, name = data.spans.of_runs(np.array([row])), data.name(int(data.groups.of_run[row]))
    start = int(data.runs.ints("start_ns")[row])
    rows: list[tuple[Cell, ...]] = []
    for verb, word, reading in (("read", "read", True), ("write", "written", False)):
        chosen = np.flatnonzero(spans.read == reading)
        order = chosen[np.argsort(spans.first_ns[chosen], kind="stable")]
        yield plain(f"files_{word}[{name}]", len(order), "count")
        first, last = ((t[order] - start) / 1e9 for t in (spans.first_ns, spans.last_ns))
        for i in thin(last - first, _MOST_FILES // 2).tolist():
            ends = (
                (i + 1, word, float(t), None) for word, t in ((f"first {verb}", first[i]), (f"last {verb}", last[i]))
            )
            line = ((i + 1, None, float(t), "from the first to the last") for t in (first[i], last[i]))
            rows += [*ends, *line, (None, None, None, "from the first to the last")]
    for letter in ("R", "W"):
        longest = data.of(f"d_f_{letter.lower()}_seconds")[row]
        yield plain(f"D_F_{letter}[{name}]", longest, "seconds", method="Eq. 6")
    if rows:
        columns = (
            "file: file, by first access [count]; series; time: since the start of the run [seconds]; curve [text]"
        )
        title = f"First and last access to each file: {_run_label(data, row)}"
        yield Chart.of("scatter", ResultTable.of("files", columns, rows), "x=time y=file series curve", title)
    else:
        yield Finding("This run moved no data.", "undecided", name="no_io")
    yield data.caveats, data.coverage


@exhibit("mad17.table1")
def _largest_groups(data: AssociationData) -> Iterator[Piece]:
    """Median processes, files and data of the largest groups of similar runs."""
    listed = sorted(dict.fromkeys([data.asked, *range(min(_MOST_GROUPS, len(data.groups.names)))]))
    rows: list[tuple[Cell, ...]] = []
    for group in listed:
        members, complete, name = data.groups.members(group), len(data.members(group)), data.name(group)
        cells = [float(np.median(data.runs.floats(column)[members])) for _, column, _ in _COUNTS]
        on_mounts: list[Cell] = [None, None, None]
        if data.mounts_known:
            files = number(np.nanmedian(data.of("monitored_file_count")[members]))
            own = (float(np.median(data.of(f"own_{verb}_bytes")[members])) for verb in ("read", "write"))
            on_mounts = [files, *own]
        rows.append((name, *cells, len(members), complete, *on_mounts))
        if group in data.shown:
            for (what, _, unit), value in zip(_COUNTS, cells, strict=True):
                yield plain(f"{what}[{name}]", value, unit, n=len(members), method="median of the group")
            yield plain(f"runs[{name}]", complete, "count")
    columns = (
        ResultColumn("group", "", "text"),
        *(ResultColumn(name, "", unit) for name, _, unit in _COUNTS),
        *columns_of(
            "runs [count]; monitored_runs: runs with samples [count]; "
            "files_monitored: files on monitored mounts [count]; read_monitored: read there [bytes]; "
            "written_monitored: written there [bytes]"
        ),
    )
    yield ResultTable("groups", columns, tuple(rows), f"Medians of the {len(rows)} largest groups")
    large = data.groups.large
    of_all = int(data.groups.sizes[large].sum()) / max(1, data.runs.rows)
    text = f"{len(large)} groups have at least {LEAST_RUNS} runs; together they contain {of_all:.0%} of all runs."
    yield Finding(text, name="group_sizes")
    if not data.mounts_known:
        yield (
            f"The mount point of {data.params['filesystem']} is unknown. Set `mounts` in facility.toml to identify "
            "files on monitored file systems."
        )
    yield data.caveats, data.coverage


@exhibit("mad17.table2")
def _mean_times(data: AssociationData) -> Iterator[Piece]:
    """Mean and standard deviation of seven measures of time, by group."""
    rows: list[tuple[Cell, ...]] = []
    for group in data.shown:
        members, name = data.members(group), data.name(group)
        cells: list[Cell] = [name, len(members)]
        for symbol, column in TIMES.items():
            values = known(data.of(column)[members])
            deviation = float(values.std(ddof=1)) if len(values) > 1 else None
            mean = mean_estimate(f"{symbol}_mean[{name}]", values, "seconds")
            yield mean
            yield plain(f"{symbol}_sd[{name}]", deviation, "seconds", n=len(values), method="standard deviation")
            cells += [mean.value, deviation]
        rows.append(tuple(cells))
        times = known(data.of("io_seconds")[members])
        if len(times) > 1 and times.mean():
            low, high, spread = float(times.min()), float(times.max()), times.std(ddof=1) / times.mean()
            yield Finding(
                f"{name}: the same I/O took {format_seconds(low)} to {format_seconds(high)} (standard deviation "
                f"{spread:.0%} of the mean, {len(times)} runs).",
                name="time_range",
            )
    columns = "; ".join(f"{symbol}: {symbol} [seconds]; {symbol}_sd: {symbol} sd [seconds]" for symbol in TIMES)
    yield ResultTable.of("times", f"group [text]; runs [count]; {columns}", rows)
    yield "As in the paper, D_S is the time from the first open to the last I/O on any shared file."
    yield data.span_caveat(data.members(data.asked)), data.caveats, data.coverage


@exhibit("mad17.fig2")
def _histograms(data: AssociationData) -> Iterator[Piece]:
    """Histogram of D_D by group, with mean and 1.645 sd."""
    step = data.grid.step_seconds
    for group in data.shown:
        values, name = known(data.of("d_d_seconds")[data.members(group)]), data.name(group)
        if not len(values):
            continue
        mean, deviation = float(values.mean()), float(values.std())
        low, high = mean - HALF_WIDTH_SD * deviation, mean + HALF_WIDTH_SD * deviation
        # Bins of whole steps, as D_D comes in them; at most 40.
        first, last = np.floor(values.min() / step) - 0.5, np.floor(values.max() / step) + 0.5
        width = max(1.0, np.ceil((last - first) / 40))
        edges = np.arange(first, last + width, width) * step
        rows = zip(edges[:-1].tolist(), edges[1:].tolist(), np.histogram(values, edges)[0].tolist(), strict=True)
        binned = ResultTable.of("histogram", f"low: {TIME} [seconds]; high [seconds]; runs [count]", rows)
        lines = tuple(Reference("x", x, word) for x, word in ((mean, "mean"), (low, "-1.645 sd"), (high, "+1.645 sd")))
        yield Chart.of("histogram", binned, "low high y=runs", f"D_D of {name}", references=lines)
        outside = float(np.mean((values < low) | (values > high)))
        skew = float(np.mean(((values - mean) / deviation) ** 3)) if deviation else None
        yield plain(f"skewness[{name}]", skew, "", n=len(values), method="third standardised moment")
        method = "share outside mean ± 1.645 sd"
        yield plain(f"outside_ratio[{name}]", outside, "ratio", n=len(values), method=method)
        side = "a long tail of slow runs" if (skew or 0) > 0.5 else "no long tail of slow runs"
        text = f"{name}: skewness {skew or 0:.2f}, {side}; {outside:.0%} of runs are outside the lines."
        yield Finding(text, name="skewness")
    yield "The lines at mean ± 1.645 sd contain 90% of the runs only if times are normally distributed."
    yield data.caveats, data.coverage


STUDY = Study(
    name="association",
    exhibits=names_of("""
        mad17.fig1 mad17.table1 mad17.table2 mad17.fig2 mad17.fig3 mad17.table3 mad17.table4 mad17.monitored
        mad17.fig6 mad17.fig7
    """),
    needs=NEEDS,
    run=run,
    params=PARAMS,
    too_few=NO_STEPS_OR_RUNS,
)
