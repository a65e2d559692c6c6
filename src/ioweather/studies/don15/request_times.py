"""What single requests take (don15 sections 3 and 4.1): the samples, over time, as histograms, and single fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Exhibit, Finding, Piece, ResultTable, columns_of, exhibit
from ioweather.core.units import format_bytes
from ioweather.facts.response_samples import (
    FAMILY_LABELS,
    FILESYSTEM,
    MINIMUM,
    NEED,
    PROBE,
    REQUEST_SIZE,
    TOO_FEW,
    ResponseSample,
    Samples,
    over_samples,
    parameters_text,
    samples_of,
    shown_size,
)
from ioweather.stats.dependence import midranks
from ioweather.stats.intervals import plain
from ioweather.stats.job_estimates import mean_estimate, median_estimate, share_estimate
from ioweather.stats.normality import moments
from ioweather.stats.resampling import independent
from ioweather.stats.summary_tables import MAX_ROWS, cells, thin
from ioweather.stats.tails import fit_whole
from ioweather.stats.tails.whole import WHOLE_FAMILIES

_BINS: Final = 40
# Beyond this share of the times a histogram's axis would show little else than emptiness.
_SHOWN: Final = 0.99
# The 5% point of the Kolmogorov distribution. Fitted parameters only make a true family's distance smaller.
_KS_LIMIT: Final = 1.358
_PERSISTENCE: Final = (
    "Intervals take the times as independent. Times close together are often alike, which makes the intervals too "
    "narrow for cached runs of repeated requests."
)


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    samples = samples_of(data, facility, params)
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
    """A job of the paper is a run of the sampler here."""
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
    yield () if known else ("The rows do not name their runs, so runs cannot be counted.",), samples.coverage


def _summary(shown: Sequence[ResponseSample]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for sample in shown:
        quantiles = [float(q) for q in np.quantile(sample.seconds, (0.0, 0.5, 0.9, 0.99, 1.0))]
        rows.append((sample.label, sample.n, *quantiles, _variation(sample)))
    return ResultTable.of(
        "samples",
        "sample [text]; n [count]; fastest [seconds]; median [seconds]; q90 [seconds]; q99 [seconds]; "
        "slowest [seconds]; variation: variation (CoV) [percent]",
        rows,
    )


def _variation(sample: ResponseSample) -> float:
    return float(sample.seconds.std() / sample.seconds.mean() * 100)


@exhibit("don15.fig1")
def _over_time(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    medians = {}
    for sample in shown:
        panel, seconds = f"{sample.place} {sample.op}", sample.seconds
        kept = thin(seconds, max(1, MAX_ROWS // (2 * len(shown))))
        points = zip(cells(sample.start_ns[kept]), cells(seconds[kept]), strict=True)
        rows += [(time, sample.place, sample.op, value, panel) for time, value in points]
        medians[sample.filesystem, sample.op, sample.mode] = median_estimate(f"median[{panel}]", seconds, "seconds")
    yield list(medians.values())
    for sample in shown:
        name = f"variation[{sample.place} {sample.op}]"
        yield plain(name, _variation(sample), "percent", n=sample.n, method="sd / mean")
    columns = "time [time_ns]; place [text]; op [text]; seconds: response time [seconds]; panel [text]"
    title = f"Requests of {format_bytes(shown[0].request_bytes)}"
    drawn = ResultTable.of("over_time", columns, rows)
    yield _summary(shown), Chart.of("scatter", drawn, "x=time y=seconds", title, facet="panel", log="y")
    # The paper: the cache smooths and shortens reads, and does little for the variability of writes.
    by_key = {(s.filesystem, s.op, s.mode): s for s in shown}
    for (filesystem, op, mode), uncached in by_key.items():
        before, after = medians[filesystem, op, mode], medians.get((filesystem, op, "cache"))
        if mode != "nocache" or after is None:
            continue
        if not (before.low and before.high and after.low and after.high and before.value and after.value):
            continue
        told = f"the cache does not surely change the median {op}"
        if after.high < before.low:
            told = f"the cache makes the median {op} {before.value / after.value:.3g}x shorter"
        elif before.high < after.low:
            told = f"the cache makes the median {op} {after.value / before.value:.3g}x longer"
        first, last = (f"{_variation(each):.0f}%" for each in (uncached, by_key[filesystem, op, "cache"]))
        yield Finding(f"On {filesystem} the cache {told}; variation goes from {first} to {last}.", name="cache")
    yield "The chart keeps the fastest and the slowest request of each stretch of time; the table counts all."
    yield _PERSISTENCE, samples.coverage


@exhibit("don15.fig2")
def _histograms(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    # The same bins for all, so that panels can be read against each other.
    ends = [max(float(np.quantile(s.seconds, _SHOWN)), float(s.seconds.min()) * 1.01) for s in shown]
    edges = np.linspace(0.0, max(ends, default=1.0), _BINS + 1)
    for sample in shown:
        seconds = sample.seconds
        panel, share = f"{sample.place} {sample.op}", np.histogram(seconds, bins=edges)[0] / sample.n
        rows += zip([panel] * _BINS, cells(edges[:-1]), cells(edges[1:]), cells(share), strict=True)
        shape = moments(seconds)
        if shape is None:
            equal = seconds.min() == seconds.max()
            words = "all times are equal" if equal else "too few times are independent to tell their shape"
            yield Finding(f"{sample.label}: {words}.", name="equal_times" if equal else "few_times")
            continue
        skew = shape.skewness
        yield plain(f"skewness[{sample.label}]", skew, "", n=sample.n, method="third standardised moment")
        # Twice the standard error that a Normal sample of this size would have.
        certain = abs(skew) > 2 * shape.skewness_error
        side = f"has its long side to the {'right' if skew > 0 else 'left'}" if certain else "may be symmetrical"
        yield Finding(f"{sample.label}: the histogram {side} (skewness {skew:.3g}).", name="skewness")
    columns = "panel [text]; low: response time [seconds]; high [seconds]; share: share of requests [ratio]"
    drawn, title = ResultTable.of("histogram", columns, rows), f"Requests of {format_bytes(shown[0].request_bytes)}"
    yield _summary(shown), Chart.of("histogram", drawn, "low high y=share", title, facet="panel")
    yield f"The histograms end at the largest {_SHOWN:.0%} quantile; the table says how slow the slowest are."
    yield samples.coverage


@exhibit("don15.singlefits")
def _single_fits(samples: Samples) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    distances: dict[str, list[float]] = {family: [] for family in WHOLE_FAMILIES}
    wins = dict.fromkeys(WHOLE_FAMILIES, 0)
    fitted = rejected = 0
    skipped: list[str] = []
    for sample in samples.samples:
        try:
            fits = fit_whole(sample.seconds)
        except ValueError as error:
            skipped.append(f"{sample.label}: {error}.")
            continue
        fitted += 1
        wins[fits[0].family] += 1
        known = independent(midranks(sample.seconds)).count
        rejected += fits[0].ks is not None and fits[0].ks * math.sqrt(known) > _KS_LIMIT
        for rank, fit in enumerate(fits, 1):
            told = parameters_text(fit.distribution.parameters) if fit.distribution else fit.problem
            rows.append((sample.label, sample.n, FAMILY_LABELS[fit.family], rank, fit.ks, fit.aic, told))
            if fit.ks is not None:
                distances[fit.family].append(fit.ks)
    means = ((FAMILY_LABELS[name], float(np.mean(ks))) for name, ks in distances.items() if ks)
    bars = ResultTable.of("distances", "family [text]; ks: mean KS distance", means)
    yield [over_samples(mean_estimate(f"ks_mean[{name}]", np.array(ks))) for name, ks in distances.items() if ks]
    shares = [share_estimate(f"wins_ratio[{name}]", wins[name], fitted) for name in WHOLE_FAMILIES]
    yield ResultTable.of(
        "single_fits",
        "sample [text]; n [count]; family [text]; rank [count]; ks: KS distance; aic: AIC; parameters [text]",
        rows,
    )
    yield Chart.of("bars", bars, "x=family y=ks", "Mean distance of single families"), shares
    yield share_estimate("rejected_ratio", rejected, fitted)
    text = f"In {rejected} of {fitted} samples even the best family is further away than chance at 5% or less."
    yield Finding(text, name="no_family_fits")
    yield (
        "By maximum likelihood; Gamma, Weibull, LogNormal and Exponential start at 0, the Power Law at the "
        "fastest time. The distance is the two-sided Kolmogorov-Smirnov one. A family whose parameters were fitted "
        "is further away than chance gives less often than in 5% of the samples it is true of."
    )
    yield skipped, samples.coverage


@exhibit("don15.fig3")
def _moment_plane(samples: Samples) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    away = skewed = considered = 0
    for sample in samples.samples:
        found = moments(sample.seconds)
        if found is None:
            continue
        considered += 1
        away += found.p_value < 0.01
        skewed += found.skewness > 2 * found.skewness_error
        rows.append((sample.label, sample.place, found.skewness, found.kurtosis, sample.n, found.statistic))
    columns = columns_of("sample [text]; place [text]; skewness; kurtosis; n [count]; statistic: Jarque-Bera")
    marks = (("Normal", "Normal", 0.0, 3.0, None, None), ("Uniform", "Uniform", 0.0, 1.8, None, None))
    yield ResultTable("moments", columns, tuple(rows))
    drawn, title = ResultTable("plane", columns, (*rows, *marks)), "Each sample, with Normal and Uniform"
    yield Chart.of("scatter", drawn, "x=skewness y=kurtosis series=place", title, log="y")
    yield share_estimate("not_normal_ratio", away, considered)
    yield share_estimate("right_skewed_ratio", skewed, considered)
    yield median_estimate("kurtosis_median", np.array([row[3] for row in rows], np.float64))
    text = f"{away} of {considered} samples are further from a Normal than chance allows (Jarque-Bera, 1%)."
    yield Finding(text, name="normality")
    yield "Where the tail has no fourth moment kurtosis grows with the number of times: compare like sizes."
    yield samples.coverage


STUDY = Study(
    "response_times",
    ("don15.table2", "don15.fig1", "don15.fig2", "don15.singlefits", "don15.fig3"),
    (NEED,),
    run,
    (FILESYSTEM, REQUEST_SIZE, MINIMUM, PROBE),
    too_few=TOO_FEW,
)
