"""What single requests take (don15 sections 3 and 4.1): the samples, over time, as histograms, and single fits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Exhibit, Finding, Piece, ResultTable, columns_of, exhibit
from ioweather.core.units import format_bytes
from ioweather.stats.dependence import midranks
from ioweather.stats.normality import moments
from ioweather.stats.resampling import independent
from ioweather.stats.tails import fit_whole
from ioweather.stats.tails.whole import WHOLE_FAMILIES
from ioweather.studies.responses.fits import FAMILY_LABELS, over_samples, parameters_text
from ioweather.studies.responses.samples import (
    FILESYSTEM,
    MINIMUM,
    NEED,
    PROBE,
    REQUEST_SIZE,
    TOO_FEW,
    ResponseSample,
    Samples,
    samples_of,
    shown_size,
)
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import mean_estimate, median_estimate, share_estimate
from ioweather.studies.shared.presenting import MAX_ROWS, cells, thin

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
    """don15.table2. A job of the paper is a run of the sampler here."""
    rows: list[tuple[Cell, ...]] = []
    for place in samples.places:
        mine = [sample for sample in samples.samples if sample.place == place]
        runs = len(set().union(*(_runs(sample) for sample in mine))) or None
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
    yield [
        plain("jobs_all", sum(known) if known else None, "count"),
        plain("request_sizes", len(sizes), "count"),
        plain("request_low", min(sizes), "bytes"),
        plain("request_high", max(sizes), "bytes"),
        plain("samples", len(pairs), "count", method="exact count of file system, mode and size"),
    ]
    yield ResultTable.of(
        "sampling",
        "place: file system and mode [text]; jobs: runs [count]; observations [count]; sizes: request sizes [count]; "
        "smallest [bytes]; largest [bytes]; operations [text]; first [time_ns]; last [time_ns]",
        rows,
    )
    yield () if known else ("The rows do not name their runs, so runs cannot be counted.",), samples.coverage


def _runs(sample: ResponseSample) -> set[str]:
    text = sample.frame.text("run_id")
    codes = np.unique(text.codes[sample.rows])
    return {text.categories[code] for code in codes if code >= 0}


@exhibit("don15.fig1")
def _over_time(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    buckets = max(1, MAX_ROWS // (2 * len(shown)))
    rows: list[tuple[Cell, ...]] = []
    for sample in shown:
        seconds = sample.seconds
        kept = thin(seconds, buckets)
        times, values = cells(sample.start_ns[kept]), cells(seconds[kept])
        panel = f"{sample.place} {sample.op}"
        rows += zip(
            times, [sample.place] * len(kept), [sample.op] * len(kept), values, [panel] * len(kept), strict=True
        )
    table = ResultTable.of(
        "over_time", "time [time_ns]; place [text]; op [text]; seconds: response time [seconds]; panel [text]", rows
    )
    yield [median_estimate(f"median[{s.place} {s.op}]", s.seconds, "seconds") for s in shown]
    spreads = [
        plain(f"variation[{s.place} {s.op}]", _variation(s.seconds), "percent", n=s.n, method="sd / mean")
        for s in shown
    ]
    yield _summary(shown)
    yield Chart.of(
        "scatter",
        table,
        "x=time y=seconds",
        f"Requests of {format_bytes(shown[0].request_bytes)}",
        facet="panel",
        log="y",
    )
    yield spreads, _cache_findings(shown)
    yield "The chart keeps the fastest and the slowest request of each stretch of time; the table counts all."
    yield _PERSISTENCE, samples.coverage


def _variation(seconds: Floats) -> float:
    return float(seconds.std() / seconds.mean() * 100)


def _summary(shown: Sequence[ResponseSample]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for sample in shown:
        seconds = sample.seconds
        quantiles = [float(q) for q in np.quantile(seconds, (0.0, 0.5, 0.9, 0.99, 1.0))]
        rows.append((sample.label, sample.n, *quantiles, _variation(seconds)))
    return ResultTable.of(
        "samples",
        "sample [text]; n [count]; fastest [seconds]; median [seconds]; q90 [seconds]; q99 [seconds]; "
        "slowest [seconds]; variation: variation (CoV) [percent]",
        rows,
    )


def _cache_findings(shown: Sequence[ResponseSample]) -> Iterator[Finding]:
    """The paper: the cache smooths and shortens reads, and does little for the variability of writes."""
    by_key = {(s.filesystem, s.op, s.mode): s for s in shown}
    for (filesystem, op, mode), uncached in by_key.items():
        cached = by_key.get((filesystem, op, "cache"))
        if mode != "nocache" or cached is None:
            continue
        before, after = (median_estimate("median", s.seconds, "seconds") for s in (uncached, cached))
        if not (before.low and before.high and after.low and after.high and before.value and after.value):
            continue
        shorter = after.value < before.value
        apart = after.high < before.low if shorter else before.high < after.low
        change = (
            f"{before.value / after.value:.3g}x shorter" if shorter else f"{after.value / before.value:.3g}x longer"
        )
        told = (
            f"the cache makes the median {op} {change}"
            if apart
            else f"the cache does not surely change the median {op}"
        )
        yield Finding(
            f"On {filesystem} the cache {told}; variation goes from {_variation(uncached.seconds):.0f}% to "
            f"{_variation(cached.seconds):.0f}%.",
            name="cache",
        )


@exhibit("don15.fig2")
def _histograms(samples: Samples, shown: Sequence[ResponseSample]) -> Iterator[Piece]:
    rows: list[tuple[Cell, ...]] = []
    estimates, findings = [], []
    # The same bins for all, so that panels can be read against each other.
    ends = [max(float(np.quantile(s.seconds, _SHOWN)), float(s.seconds.min()) * 1.01) for s in shown]
    bins = np.linspace(0.0, max(ends, default=1.0), _BINS + 1)
    for sample in shown:
        seconds = sample.seconds
        density, edges = np.histogram(seconds, bins=bins)
        share = density / sample.n
        panel = f"{sample.place} {sample.op}"
        rows += zip([panel] * _BINS, cells(edges[:-1]), cells(edges[1:]), cells(share), strict=True)
        shape = moments(seconds)
        if shape is None:
            equal = seconds.min() == seconds.max()
            words = "all times are equal" if equal else "too few times are independent to tell their shape"
            findings.append(Finding(f"{sample.label}: {words}.", name="equal_times" if equal else "few_times"))
            continue
        skew = shape.skewness
        estimates.append(plain(f"skewness[{sample.label}]", skew, "", n=sample.n, method="third standardised moment"))
        # Twice the standard error that a Normal sample of this size would have.
        certain = abs(skew) > 2 * shape.skewness_error
        side = f"has its long side to the {'right' if skew > 0 else 'left'}" if certain else "may be symmetrical"
        findings.append(Finding(f"{sample.label}: the histogram {side} (skewness {skew:.3g}).", name="skewness"))
    yield _summary(shown)
    table = ResultTable.of(
        "histogram",
        "panel [text]; low: response time [seconds]; high [seconds]; share: share of requests [ratio]",
        rows,
    )
    yield Chart.of(
        "histogram", table, "low high y=share", f"Requests of {format_bytes(shown[0].request_bytes)}", facet="panel"
    )
    yield estimates, findings
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
    bars = ResultTable.of(
        "distances",
        "family [text]; ks: mean KS distance",
        ((FAMILY_LABELS[name], float(np.mean(ks))) for name, ks in distances.items() if ks),
    )
    yield [over_samples(mean_estimate(f"ks_mean[{name}]", np.array(ks))) for name, ks in distances.items() if ks]
    shares = [share_estimate(f"wins_ratio[{name}]", wins[name], fitted) for name in WHOLE_FAMILIES]
    yield ResultTable.of(
        "single_fits",
        "sample [text]; n [count]; family [text]; rank [count]; ks: KS distance; aic: AIC; parameters [text]",
        rows,
    )
    yield Chart.of("bars", bars, "x=family y=ks", "Mean distance of single families"), shares
    yield share_estimate("rejected_ratio", rejected, fitted)
    yield Finding(
        f"In {rejected} of {fitted} samples even the best family is further away than chance at 5% or less.",
        name="no_family_fits",
    )
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
    share = share_estimate("not_normal_ratio", away, considered)
    median = median_estimate("kurtosis_median", np.array([row[3] for row in rows], np.float64))
    yield ResultTable("moments", columns, tuple(rows))
    yield Chart.of(
        "scatter",
        ResultTable("plane", columns, (*rows, *marks)),
        "x=skewness y=kurtosis series=place",
        "Each sample, with Normal and Uniform",
        log="y",
    )
    yield share, share_estimate("right_skewed_ratio", skewed, considered), median
    yield Finding(
        f"{away} of {considered} samples are further from a Normal than chance allows (Jarque-Bera, 1%).",
        name="normality",
    )
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
