"""Response times of single requests (Dong et al. 2015).

- Sections 3 and 4.1: the samples, over time, as histograms, and fits of single families.
- Section 4.2: head and tail: the split, the share in the tail, and the best families.
- Eq. 1: duration of a striped transfer. A transfer of S bytes over n targets is n requests of S/n, and as slow as the
  slowest. More targets make each request smaller, and make it likelier that one of them falls into the tail.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import ndtri

from ioweather.core.contracts import Param, Params, Spread, Study
from ioweather.core.frames import Floats
from ioweather.core.results import (
    Cell,
    Chart,
    Estimate,
    Exhibit,
    Finding,
    Piece,
    Reference,
    ResultTable,
    columns_of,
    exhibit,
)
from ioweather.core.units import NS, format_bytes, format_ratio, format_seconds, names_of
from ioweather.facts.response_samples import (
    COMBINATION,
    FAMILY_LABELS,
    FILESYSTEM,
    MINIMUM,
    PROBE,
    REPLICATES,
    REQUEST_SIZE,
    TOO_FEW,
    WIDEST,
    FittedSample,
    ResponseSample,
    Samples,
    batches_of,
    choices,
    fetch_incidents,
    fetch_responses,
    fit_samples,
    known_targets,
    largest_place,
    over_samples,
    parameter_estimates,
    parameters_text,
    predict_widths,
    samples_of,
    shown_size,
    spread_about,
    striping_exhibit,
    without_incidents,
)
from ioweather.stats.dependence import midranks
from ioweather.stats.estimates import LEVEL, effective_sample, grouped_share, mean_estimate, median_estimate, plain
from ioweather.stats.mixture import HEADS, TAILS, fit_mixture, fits_no_better
from ioweather.stats.summary_tables import MAX_ROWS, cdf_table, cells, thin
from ioweather.stats.tail_fits import WHOLE_FAMILIES, fit_whole
from ioweather.topics.source import DataSource

_BINS: Final = 40
# [ours] With fewer independent values the statistic is far from its law: of 50 of AR(0.8) it refused .025 at .05.
_LEAST_INDEPENDENT: Final = 25
# Beyond this share of the times a histogram's axis would show little else than emptiness.
_SHOWN: Final = 0.99
# The 5% point of the Kolmogorov distribution. Fitted parameters only make a true family's distance smaller.
_KS_LIMIT: Final = 1.358


def run_response_times(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make Table 2, fig. 1 to 3 and the single fits."""
    samples = samples_of(fetch_responses(source), source.facility, params)
    if not samples.samples:
        return
    shown = samples.of_size(shown_size(samples.samples, params))
    yield _sampling(samples)
    yield _over_time(samples, shown)
    yield _histograms(samples, shown)
    yield _single_fits(samples)
    yield _moment_plane(samples)


@exhibit("don15.table2")
def _sampling(samples: Samples) -> Iterator[Piece]:
    """Runs, observations and request sizes by file system and mode. A job in the paper is a sampler run here."""
    rows: list[tuple[Cell, ...]] = []
    for place in samples.places:
        mine = [sample for sample in samples.samples if sample.place == place]
        codes = np.unique(np.concatenate([sample.frame.text("run_id").codes[sample.rows] for sample in mine]))
        runs = int((codes >= 0).sum()) or None
        observations = sum(sample.n for sample in mine)
        sizes = {sample.request_bytes for sample in mine}
        starts = [sample.start_ns for sample in mine]
        first, last = min(int(s[0]) for s in starts), max(int(s[-1]) for s in starts)
        operations = ", ".join(sorted({sample.op for sample in mine}))
        rows.append((place, runs, observations, len(sizes), min(sizes), max(sizes), operations, first, last))
        yield [plain(f"jobs[{place}]", runs, "count"), plain(f"observations[{place}]", observations, "count")]
    sizes = {sample.request_bytes for sample in samples.samples}
    pairs = {(sample.place, sample.request_bytes) for sample in samples.samples}
    known = [row[1] for row in rows if isinstance(row[1], int)]
    yield plain("jobs_all", sum(known) if known else None, "count"), plain("request_sizes", len(sizes), "count")
    yield plain("request_low", min(sizes), "bytes"), plain("request_high", max(sizes), "bytes")
    yield plain("samples", len(pairs), "count", method="exact count of file system, mode and size")
    yield ResultTable.of(
        "sampling",
        "place: file system and mode [text]; jobs: runs [count]; observations [count]; sizes: request sizes [count]; "
        "smallest [bytes]; largest [bytes]; operations [text]; first [time_ns]; last [time_ns]",
        rows,
    )
    yield () if known else ("The rows contain no run names, so runs cannot be counted.",), samples.coverage


def _variation_percent(sample: ResponseSample) -> float:
    """Standard deviation over mean, in percent."""
    return float(sample.seconds.std() / sample.seconds.mean() * 100)


@exhibit("don15.fig1")
def _over_time(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    """Response times in chronological order, and the effect of the client cache."""
    rows: list[tuple[Cell, ...]] = []
    medians = {}
    for sample in shown:
        panel, seconds = f"{sample.place} {sample.op}", sample.seconds
        kept = thin(seconds, max(1, MAX_ROWS // (2 * len(shown))))
        points = zip(cells(sample.start_ns[kept]), cells(seconds[kept]), strict=True)
        rows += [(time, sample.place, sample.op, value, panel) for time, value in points]
        medians[sample.filesystem, sample.op, sample.mode] = median_estimate(
            f"median[{panel}]", seconds, "seconds", in_time=True
        )
    yield list(medians.values())
    for sample in shown:
        name = f"variation[{sample.place} {sample.op}]"
        yield plain(name, _variation_percent(sample), "percent", n=sample.n, method="sd / mean")
    columns = "time [time_ns]; place [text]; op [text]; seconds: response time [seconds]; panel [text]"
    title = f"Requests of {format_bytes(shown[0].request_bytes)}"
    drawn = ResultTable.of("over_time", columns, rows)
    yield Chart.of("scatter", drawn, "x=time y=seconds", title, facet="panel", log="y")
    # The paper: the cache smooths and shortens reads, and does little for the variability of writes.
    by_key = {(s.filesystem, s.op, s.mode): s for s in shown}
    paired: set[str] = set()
    for (filesystem, op, mode), uncached in by_key.items():
        before, after = medians[filesystem, op, mode], medians.get((filesystem, op, "cache"))
        if mode != "nocache" or after is None:
            continue
        if not (before.low and before.high and after.low and after.high and before.value and after.value):
            continue
        effect = f"does not significantly change the median {op}"
        if after.high < before.low:
            effect = f"makes the median {op} {before.value / after.value:.3g}x shorter"
        elif before.high < after.low:
            effect = f"makes the median {op} {after.value / before.value:.3g}x longer"
        lasting = f"cache_shortens_{op}"
        if lasting not in paired:
            paired.add(lasting)
            ends = before.low / after.high, before.high / after.low
            yield Estimate(lasting, before.value / after.value, "factor", *ends, LEVEL, uncached.n, "ratio of medians")
        first, last = (f"{_variation_percent(each):.0f}%" for each in (uncached, by_key[filesystem, op, "cache"]))
        yield Finding(f"On {filesystem}, the cache {effect}; variation changes from {first} to {last}.", name="cache")
    yield "The chart shows the fastest and the slowest request of each time step."
    yield samples.coverage


@exhibit("don15.fig2")
def _histograms(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    """Histogram and skewness of each sample, with the same bins for all samples."""
    rows: list[tuple[Cell, ...]] = []
    # The same bins for all, so that panels can be read against each other; equal on a logarithmic axis, because cached
    # times are a tenth of others.
    least = min(float(s.seconds.min()) for s in shown)
    most = max(max(float(np.quantile(s.seconds, _SHOWN)), float(s.seconds.min()) * 1.01) for s in shown)
    edges = np.geomspace(least * 0.999, most, _BINS + 1)
    for sample in shown:
        seconds = sample.seconds
        panel, share = f"{sample.place} {sample.op}", np.histogram(seconds, bins=edges)[0] / sample.n
        rows += zip([panel] * _BINS, cells(edges[:-1]), cells(edges[1:]), cells(share), strict=True)
        shape = moments(seconds)
        if shape is None:
            equal = seconds.min() == seconds.max()
            words = "all times are equal" if equal else "too few independent times to estimate the shape"
            yield Finding(f"{sample.label}: {words}.", name="equal_times" if equal else "few_times")
            continue
        skew = shape.skewness
        yield plain(f"skewness[{sample.label}]", skew, "", n=sample.n, method="third standardised moment")
    columns = "panel [text]; low: response time [seconds]; high [seconds]; share: share of requests [ratio]"
    drawn, title = ResultTable.of("histogram", columns, rows), f"Requests of {format_bytes(shown[0].request_bytes)}"
    yield Chart.of("histogram", drawn, "low high y=share", title, facet="panel", log="x")
    yield f"The histograms end at the largest {_SHOWN:.0%} quantile."
    yield samples.coverage


@exhibit("don15.singlefits")
def _single_fits(samples: Samples) -> Iterator[Piece]:
    """Distances between every sample and eight single families."""
    rows: list[tuple[Cell, ...]] = []
    distances: dict[str, list[float]] = {family: [] for family in WHOLE_FAMILIES}
    winners: list[str] = []
    rejected: list[bool] = []
    used: list[ResponseSample] = []
    skipped: list[str] = []
    for sample in samples.samples:
        try:
            fits = fit_whole(sample.seconds)
        except ValueError as error:
            skipped.append(f"{sample.label}: {error}.")
            continue
        used.append(sample)
        best, least, *_ = fits[0]
        winners.append(best)
        independent = effective_sample(midranks(sample.seconds)).count
        rejected.append(least is not None and least * math.sqrt(independent) > _KS_LIMIT)
        for rank, (family, ks, aic, parameters, problem) in enumerate(fits, 1):
            found = problem or parameters_text(parameters)
            rows.append((sample.label, sample.n, FAMILY_LABELS[family], rank, ks, aic, found))
            if ks is not None:
                distances[family].append(ks)
    means = ((FAMILY_LABELS[name], float(np.mean(ks))) for name, ks in distances.items() if ks)
    bars = ResultTable.of("distances", "family [text]; ks: mean KS distance", means)
    yield [over_samples(mean_estimate(f"ks_mean[{name}]", np.array(ks))) for name, ks in distances.items() if ks]
    shares = [
        _share_of_samples(f"wins_ratio[{name}]", [who == name for who in winners], used) for name in WHOLE_FAMILIES
    ]
    yield ResultTable.of(
        "single_fits",
        "sample [text]; n [count]; family [text]; rank [count]; ks: KS distance; aic: AIC; parameters [text]",
        rows,
    )
    yield Chart.of("bars", bars, "x=family y=ks", "Mean distance of single families"), shares
    yield _share_of_samples("rejected_ratio", rejected, used)
    text = f"In {sum(rejected)} of {len(used)} samples even the best family is rejected at the 5% level."
    yield Finding(text, name="no_family_fits")
    yield (
        "Families are fitted by maximum likelihood. Gamma, Weibull, LogNormal and Exponential start at 0; the Power "
        "Law starts at the fastest time. The distance is the two-sided Kolmogorov-Smirnov distance. Because "
        "parameters are fitted, a true family is rejected in less than 5% of samples."
    )
    yield skipped, samples.coverage


@exhibit("don15.fig3")
def _moment_plane(samples: Samples) -> Iterator[Piece]:
    """Skewness and kurtosis of every sample, and the test of normality."""
    rows: list[tuple[Cell, ...]] = []
    away: list[bool] = []
    skewed: list[bool] = []
    used: list[ResponseSample] = []
    for sample in samples.samples:
        found = moments(sample.seconds)
        if found is None:
            continue
        used.append(sample)
        away.append(math.exp(-found.statistic / 2) < 0.01)
        skewed.append(found.skewness > 2 * found.skewness_error)
        rows.append((sample.label, sample.place, found.skewness, found.kurtosis, sample.n, found.statistic))
    columns = columns_of("sample [text]; place [text]; skewness; kurtosis; n [count]; statistic: Jarque-Bera")
    marks = (("Normal", "Normal", 0.0, 3.0, None, None), ("Uniform", "Uniform", 0.0, 1.8, None, None))
    yield ResultTable("moments", columns, tuple(rows))
    drawn, title = ResultTable("plane", columns, (*rows, *marks)), "Each sample, with Normal and Uniform"
    yield Chart.of("scatter", drawn, "x=skewness y=kurtosis series=place", title, log="y")
    yield _share_of_samples("not_normal_ratio", away, used)
    yield _share_of_samples("right_skewed_ratio", skewed, used)
    kurtosis = np.array([row[3] for row in rows], np.float64)
    yield _median_of_groups("kurtosis_median", kurtosis, used)
    text = f"{sum(away)} of {len(used)} samples are not Normal (Jarque-Bera, 1%)."
    yield Finding(text, name="normality")
    yield (
        "If the fourth moment does not exist, kurtosis grows with the sample size. Compare only samples of similar "
        "size."
    )
    yield samples.coverage


@dataclass(frozen=True)
class Moments:
    """`statistic` is chi-square with two degrees of freedom where the values are Normal."""

    skewness: float
    kurtosis: float
    skewness_error: float
    statistic: float


def moments(values: Floats) -> Moments | None:
    """Return skewness and kurtosis of values in the order of time, and the test of normality by them (Jarque & Bera
    1987).

    None where values do not vary, or too few are independent. Skewness and kurtosis of n autocorrelated values vary as
    those of n over the sums of the third and fourth powers of the autocorrelations (Lobato & Velasco 2004, Eq. 2). Mean
    and variances are the exact ones of small samples (Urzua 1996), not those of the limit.
    """
    if not len(values) or values.min() == values.max():
        return None
    away = values - values.mean()
    variance = float(np.mean(away**2))
    skewness, kurtosis = float(np.mean(away**3)) / variance**1.5, float(np.mean(away**4)) / variance**2
    n = len(values)
    correlations = np.array([float(away[k:] @ away[: n - k]) / (n * variance) for k in range(1, math.isqrt(n) + 1)])
    # Chance correlations are small, and their powers next to nothing; a sum below 1 would be chance.
    third, fourth = (n / max(1.0, 1 + 2 * float((correlations**power).sum())) for power in (3, 4))
    if third < _LEAST_INDEPENDENT:
        return None
    skewness_variance = 6 * (third - 2) / ((third + 1) * (third + 3))
    usual = 3 * (fourth - 1) / (fourth + 1)
    kurtosis_variance = 24 * fourth * (fourth - 2) * (fourth - 3) / ((fourth + 1) ** 2 * (fourth + 3) * (fourth + 5))
    statistic = skewness**2 / skewness_variance + (kurtosis - usual) ** 2 / kurtosis_variance
    return Moments(skewness, kurtosis, math.sqrt(skewness_variance), statistic)


RESPONSE_TIMES = Study(
    name="response_times",
    exhibits=names_of("don15.table2 don15.fig1 don15.fig2 don15.singlefits don15.fig3"),
    needs="responses",
    run=run_response_times,
    params=(FILESYSTEM, REQUEST_SIZE, MINIMUM, PROBE),
    too_few=TOO_FEW,
)


# Share beyond two standard deviations of a Normal, on the upper side (don15 section 1).
_NORMAL_SHARE: Final = 0.025
# The paper's 94% around the average leave 3% on either side.
_AROUND: Final = 0.94
_CONTROL_MOST: Final = 5000
_OVERLAYS: Final = 6


def run_response_tails(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make fig. 4 to 6."""
    samples = samples_of(fetch_responses(source), source.facility, params)
    fitted, refused = fit_samples(samples.samples, params, spread=source.spread)
    if not fitted:
        return
    size = shown_size([item.sample for item in fitted], params)
    shown = [item for item in fitted if item.sample.request_bytes == size]
    caveats = (choices(fitted[0].fit), *refused)
    yield _partition(samples, example(shown), caveats)
    yield _tail_shares(samples, fitted, caveats)
    goodness = _goodness(shown[:_OVERLAYS], int(params["replicates"]), source.spread)
    yield _winners(samples, fitted, shown, goodness, caveats)


def example(shown: Sequence[FittedSample]) -> FittedSample:
    """Return the sample that is shown in full: uncached writes, as in the paper, where there are any; else the
    largest."""
    return max(shown, key=lambda item: (item.sample.mode == "nocache", item.sample.op != "read", item.sample.n))


@exhibit("don15.fig4")
def _partition(samples: Samples, item: FittedSample, caveats: tuple[str, ...]) -> Iterator[Piece]:
    """Head and tail of one sample, each with its fitted distribution."""
    sample, fit, seconds = item.sample, item.fit, item.sample.seconds
    edges = np.geomspace(seconds.min() * 0.999, seconds.max() * 1.001, 41)
    title = f"{sample.label}: all response times"
    shares = np.histogram(seconds, edges)[0] / sample.n
    binned = ResultTable.of(
        title.lower().replace(" ", "_"),
        "low: response time [seconds]; high [seconds]; share: share of requests [ratio]",
        zip(cells(edges[:-1]), cells(edges[1:]), cells(shares), strict=True),
    )
    pivot = Reference("x", fit.pivot, "pivot")
    yield Chart.of("histogram", binned, "low high y=share", title, log="x", references=(pivot,))
    rows: list[tuple[Cell, ...]] = []
    for part, law, ks, inside, below, up_to in (
        ("head", fit.best.head, fit.best.head_ks, seconds <= fit.pivot, 0.0, 1 - fit.tail_share),
        ("tail", fit.best.tail, fit.best.tail_ks, seconds > fit.pivot, 1 - fit.tail_share, 1.0),
    ):
        # The measured distribution of the part, and the fitted one within it.
        times, family = seconds[inside], FAMILY_LABELS[law.name]
        measured = cdf_table(part, {"measured": times}, "response time", "seconds")
        grid = np.unique(np.quantile(times, np.linspace(0, 1, 200)))
        fitted = np.clip((fit.best.distribution.cdf(grid) - below) / (up_to - below), 0.0, 1.0)
        drawn = zip(["fitted"] * len(grid), cells(grid), cells(fitted), strict=True)
        both = replace(measured, rows=(*measured.rows, *drawn))
        yield Chart.of("cdf", both, "x=value y=share series", f"{part.capitalize()}: {family}", log="x")
        rows.append((part, family, len(times), len(times) / sample.n, ks, parameters_text(law.parameters)))
    columns = "part [text]; family [text]; n [count]; share [ratio]; ks: KS distance; parameters [text]"
    yield ResultTable.of("partition", columns, rows, sample.label), parameter_estimates(item)
    yield Finding(
        f"{sample.label}: {format_ratio(fit.tail_share)} of requests take longer than {format_seconds(fit.pivot)} "
        f"and form the tail. The best pair is {item.pair_label}.",
        name="tail",
    )
    yield caveats, samples.coverage


@exhibit("don15.fig5")
def _tail_shares(samples: Samples, fitted: Sequence[FittedSample], caveats: tuple[str, ...]) -> Iterator[Piece]:
    """Means over request sizes, by file system, mode and operation."""
    rows: list[tuple[Cell, ...]] = []
    for place, op in dict.fromkeys((item.sample.place, item.sample.op) for item in fitted):
        mine = [item for item in fitted if (item.sample.place, item.sample.op) == (place, op)]
        estimate = _mean_share(f"tail_ratio_{op}[{place}]", mine)
        times = [item.sample.seconds for item in mine]
        beyond = [np.mean(each > each.mean() - ndtri(_NORMAL_SHARE) * each.std()) for each in times]
        yield estimate
        numbers = (1 - (estimate.value or 0.0), estimate.value, estimate.low, estimate.high)
        rows.append((f"{place} {op}", len(mine), estimate.n, *numbers, float(np.mean(beyond))))
    listed = ResultTable.of(
        "shares",
        "where: file system, mode, operation [text]; samples [count]; n: times [count]; head: share in head [ratio]; "
        "tail: share in tail [ratio]; low: 90% from [ratio]; high: 90% to [ratio]; beyond: beyond mean + 2 sd [ratio]",
        rows,
    )
    # Like with like: what a Normal is expected to have is beyond two standard deviations, not beyond a pivot.
    line = Reference("y", _NORMAL_SHARE, "a Normal")
    yield listed, Chart.of("bars", listed, "x=where y=tail low high", "Share beyond the pivot")
    yield Chart.of("bars", listed, "x=where y=beyond", "Share beyond mean + 2 sd", references=(line,))
    mean = _mean_share("tail_ratio_mean", fitted)
    low, high = (None if end is None else 1 - end for end in (mean.high, mean.low))
    value = mean.value or 0.0
    yield mean, Estimate("head_ratio_mean", 1 - value, "ratio", low, high, mean.level, mean.n, mean.method)
    yield _beyond_bulk(fitted)
    # What the same search says of a Normal sample of the usual size: no tail is there to be found.
    n = int(min(np.median([item.sample.n for item in fitted]), _CONTROL_MOST))
    drawn = np.random.default_rng(0).normal(10.0, 1.0, n)
    control = fit_mixture(drawn, combination=fitted[0].fit.combination).tail_share
    yield plain("tail_ratio_normal_searched", control, "ratio", method="the same search on a random Normal sample")
    share = float(np.mean([row[7] for row in rows]))
    text = (
        f"On average {format_ratio(value)} of requests belong to the tail. {format_ratio(share)} are beyond mean + 2 "
        f"sd; a Normal would have {format_ratio(_NORMAL_SHARE)}."
    )
    yield Finding(text, name="normal_share"), caveats
    yield (
        f"The search finds a pivot in any sample, even in a random Normal sample (share: {format_ratio(control)}). "
        "Read the share together with the tail's family and its distance."
    )
    yield samples.coverage


def _groups(samples: Sequence[ResponseSample]) -> list[str]:
    """Return the group of each sample: those of one file system, mode and operation are measured together."""
    return [f"{sample.place} {sample.op}" for sample in samples]


def _share_of_samples(name: str, which: Sequence[bool], samples: Sequence[ResponseSample]) -> Estimate:
    """Share of samples for which `which` is true; file system, mode and operation make a group."""
    what = "combination of file system, mode and operation"
    return grouped_share(name, np.array(which, np.float64), np.ones(len(which)), np.array(_groups(samples)), what)


def _median_of_groups(name: str, values: Floats, samples: Sequence[ResponseSample]) -> Estimate:
    """Median over samples; its interval takes groups as independent."""
    groups = np.array(_groups(samples))
    medians = np.array([np.median(values[groups == group]) for group in np.unique(groups)])
    found = median_estimate(name, medians)
    value = float(np.median(values)) if len(values) else None
    return replace(found, value=value, method=f"{found.method}; groups of file system, mode and operation")


def _beyond_bulk(items: Sequence[FittedSample]) -> Estimate:
    """Share of requests beyond the 97.5% point of the Exponential that has the bulk's 5% point and median.

    An Exponential sample has 2.5% there, a Normal or a Uniform one none: unlike the pivot search, this can come out
    either way. Series of one file system share their incidents, so their errors are taken to add up.
    """
    parts = [beyond_parts(item.sample.seconds) for item in items]
    errors = np.array([effective_sample(each).error for each in parts])
    places, value = np.array([item.sample.place for item in items]), float(np.mean([each.mean() for each in parts]))
    together = [float(np.sum(errors[places == place])) / len(items) for place in np.unique(places)]
    reach = -float(ndtri((1 - LEVEL) / 2)) * math.hypot(*together)
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    n = sum(item.sample.n for item in items)
    method = f"mean over {len(items)} samples; beyond the 97.5% point of the fitted Exponential"
    return Estimate("beyond_bulk_ratio_mean", value, "ratio", low, high, LEVEL, n, method)


def beyond_parts(seconds: Floats) -> Floats:
    """Return for each time what it contributes to the share beyond the bulk; their mean is this share.

    The end of the bulk is estimated too: each time moves it by the influence that it has on the two quantiles.
    """
    at, step = (0.05, 0.5), 0.025
    early, middle = (float(each) for each in np.quantile(seconds, at))
    if early == middle:
        return np.asarray(seconds > middle, np.float64)
    stretch = math.log(at[1] / _NORMAL_SHARE) / math.log((1 - at[0]) / at[1])
    end = middle + stretch * (middle - early)
    nearby = (middle - early) / 2
    density = float(np.mean(np.abs(seconds - end) <= nearby)) / (2 * nearby)
    moved = np.zeros(len(seconds))
    for place, quantile, factor in zip(at, (early, middle), (-stretch, 1 + stretch), strict=True):
        spacing = float(np.subtract(*np.quantile(seconds, (place + step, place - step)))) / (2 * step)
        influence = (place - (seconds <= quantile)) * spacing
        moved += factor * (influence - influence.mean())
    return (seconds > end) - density * moved


def _mean_share(name: str, items: Sequence[FittedSample]) -> Estimate:
    """Mean over samples; replicates of all samples are averaged, so the interval is that of these samples' mean."""
    value = float(np.mean([item.fit.tail_share for item in items]))
    times = sum(item.sample.n for item in items)
    if not all(item.shares.size for item in items):
        return Estimate(name, value, "ratio", n=times, method="mean over samples; no interval")
    replicates = np.mean([item.shares for item in items], axis=0)
    low, high = spread_about(value, replicates)
    method = f"mean over {len(items)} samples, spread of {len(replicates)} bootstrap replicates of each"
    return Estimate(name, value, "ratio", low, high, LEVEL, times, method)


def _goodness(items: Sequence[FittedSample], replicates: int, spread: Spread) -> Iterator[Estimate]:
    """Yield the p-value of each fit: the share of samples drawn from it that fit no better."""
    batches = batches_of(replicates)
    worse = spread(fits_no_better, ((item.fit, batch) for item in items for batch in batches))
    method = f"parametric bootstrap, {replicates} replicates"
    for item in items if replicates else ():
        p = sum(next(worse) for _ in batches) / replicates
        yield plain(f"goodness_p[{item.sample.label}]", p, "", n=item.sample.n, method=method)


@exhibit("don15.fig6")
def _winners(
    samples: Samples,
    fitted: Sequence[FittedSample],
    shown: Sequence[FittedSample],
    goodness: Iterable[Estimate],
    caveats: tuple[str, ...],
) -> Iterator[Piece]:
    """The families that fit heads and tails best, by distance and by AIC."""
    n, used = len(fitted), [item.sample for item in fitted]
    heads, tails = ([getattr(item.fit.best, part).name for item in fitted] for part in ("head", "tail"))
    tails_by_aic = [item.fit.best_by_aic.tail.name for item in fitted]
    for kind, names, found in (("head_{}_ratio", HEADS, heads), ("tail_{}_ratio", TAILS, tails)):
        yield [_share_of_samples(kind.format(name), [each == name for each in found], used) for name in names]
    for name in TAILS:
        yield _share_of_samples(f"tail_{name}_ratio_by_aic", [each == name for each in tails_by_aic], used)
    either = [each in ("weibull", "gamma") for each in tails_by_aic]
    yield _share_of_samples("tail_weibull_gamma_ratio_by_aic", either, used)
    around, optimal = [], []
    winners: list[tuple[Cell, ...]] = []
    for item in fitted:
        best, fit, seconds = item.fit.best, item.fit, item.sample.seconds
        # Shares of the head around its average, and on the fast side of that: 94% and 3% were the head Normal.
        head = seconds[seconds <= fit.pivot]
        reach = float(ndtri((1 + _AROUND) / 2)) * head.std()
        around.append(float(np.mean(np.abs(head - head.mean()) <= reach)))
        optimal.append(float(np.mean(head < head.mean() - reach)))
        alpha = next((pair.tail.parameters["alpha"] for pair in fit.pairs if pair.tail.name == "power_law"), None)
        families = (FAMILY_LABELS[best.head.name], FAMILY_LABELS[best.tail.name])
        by_aic = FAMILY_LABELS[fit.best_by_aic.tail.name]
        split = (item.sample.n, best.pivot, best.tail_share)
        winners.append((item.sample.label, *split, *families, best.ks, best.head_ks, best.tail_ks, by_aic, alpha))
    yield over_samples(mean_estimate("head_around_average_ratio", np.array(around), "ratio"))
    yield over_samples(mean_estimate("head_optimal_ratio", np.array(optimal), "ratio"))
    yield over_samples(mean_estimate("ks_mean", np.array([item.fit.ks for item in fitted]))), goodness
    yield ResultTable.of(
        "winners",
        "sample [text]; n [count]; pivot [seconds]; tail_share: share in tail [ratio]; head [text]; tail [text]; "
        "ks: combined KS; head_ks: KS of head; tail_ks: KS of tail; tail_aic: tail by AIC [text]; "
        "alpha: alpha, if a power law",
        winners,
    )
    yield [_overlay(item) for item in shown[:_OVERLAYS]]
    text = f"A Normal head fits better than a Cauchy one in {heads.count('normal')} of {n} samples."
    yield Finding(text, name="head_family")
    # The distance favours the families that contain the power law as a limit; AIC charges for their parameter.
    aic, power = tails_by_aic.count("power_law"), tails.count("power_law")
    text = f"The Power Law is the best tail in {aic} of {n} samples by AIC, and in {power} samples by distance."
    yield Finding(text, name="tail_family"), caveats
    yield (
        "The distance alone does not separate families that are close to the power law, so AIC is shown too. In "
        "very large samples, small departures rule out every family. The distance shows how small they are."
    )
    yield samples.coverage


def _overlay(item: FittedSample) -> Chart:
    """Draw the share of requests that take longer, measured and by each family of tail, on logarithmic axes."""
    seconds = item.sample.seconds
    n = len(seconds)
    levels = np.concatenate([np.linspace(0.01, 0.99, 80), 1 - np.geomspace(0.01, 1 / n, 60)])
    grid = np.unique(np.quantile(seconds, levels))
    families = {
        FAMILY_LABELS[pair.tail.name]: 1 - pair.distribution.cdf(grid)
        for pair in sorted(item.fit.pairs, key=lambda pair: FAMILY_LABELS[pair.tail.name])
        if pair.head.name == item.fit.best.head.name
    }
    measured = {"measured": 1 - np.searchsorted(np.sort(seconds), grid, side="right") / n}
    rows = [
        (name, float(t), float(share))
        for name, shares in (measured | families).items()
        for t, share in zip(grid, shares, strict=True)
        if share >= 0.5 / n  # less than one request
    ]
    columns = "series [text]; value: response time [seconds]; share: share of requests that take longer [ratio]"
    drawn, title = ResultTable.of("overlay", columns, rows), f"{item.sample.label}: {item.pair_label}"
    pivot = Reference("x", item.fit.pivot, "pivot")
    return Chart.of("timeline", drawn, "x=value y=share series", title, log="xy", references=(pivot,))


RESPONSE_TAILS = Study(
    name="response_tails",
    exhibits=names_of("don15.fig4 don15.fig5 don15.fig6"),
    needs="responses",
    run=run_response_tails,
    params=(FILESYSTEM, REQUEST_SIZE, MINIMUM, COMBINATION, REPLICATES, PROBE),
    spreads=True,
    too_few=TOO_FEW,
)


TRANSFER_SIZE: Final = Param(
    "transfer_size", "size of the striped transfer in bytes (default: largest sampled)", kind="size"
)
OVERHEAD: Final = Param("overhead", "time to assemble the parts (psi in Eq. 1)", kind="duration", default="0s")


def run_striping(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the exhibit on striped transfers, with at least two request sizes."""
    responses, left_out = without_incidents(fetch_responses(source), fetch_incidents(source), source.facility)
    samples = samples_of(responses, source.facility, params)
    if not samples.samples:
        return
    filesystem, mode, op = largest_place(samples.samples)
    mine = [s for s in samples.samples if (s.filesystem, s.mode, s.op) == (filesystem, mode, op)]
    if len({sample.request_bytes for sample in mine}) < 2:
        return
    fitted, refused = fit_samples(mine, params, select="aic", spread=source.spread)
    if len(fitted) < 2:
        return
    total = int(params["transfer_size"] or fitted[-1].sample.request_bytes)
    # Do not recommend more targets than there are.
    widest = int(params.get("targets") or WIDEST)
    predictions = predict_widths(fitted, total, overhead_seconds=params["overhead"] / NS, widest=widest)
    if predictions:
        caveats = (choices(fitted[0].fit), *refused, *left_out)
        link = source.facility.node_limit_bytes_per_s
        yield striping_exhibit(samples, fitted, predictions, total, caveats, link)


TARGETS: Final = Param("targets", "number of OSTs; default: number in the lake", kind="int", choose=known_targets)
STRIPING = Study(
    name="striping",
    exhibits=("don15.maxorder",),
    needs="responses events?",
    run=run_striping,
    params=(FILESYSTEM, MINIMUM, COMBINATION, REPLICATES, TRANSFER_SIZE, OVERHEAD, TARGETS),
    spreads=True,
    too_few=TOO_FEW,
)
