"""Head and tail of response times (don15 section 4.2): the split, the share in the tail, and which families win."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
from scipy.special import ndtri

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Spread, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_seconds
from ioweather.facts.response_samples import (
    COMBINATION,
    FAMILY_LABELS,
    FILESYSTEM,
    MINIMUM,
    NEED,
    PROBE,
    REPLICATES,
    REQUEST_SIZE,
    TOO_FEW,
    FittedSample,
    Samples,
    batches_of,
    choices,
    fit_samples,
    over_samples,
    parameter_estimates,
    parameters_text,
    samples_of,
    shown_size,
    spread_about,
)
from ioweather.stats.intervals import LEVEL, plain
from ioweather.stats.job_estimates import mean_estimate, share_estimate
from ioweather.stats.mixture import fit_mixture, fits_no_better
from ioweather.stats.summary_tables import cdf_table, cells
from ioweather.stats.tails.families import Normal
from ioweather.stats.tails.gaps import largest_gap
from ioweather.stats.tails.sample import sample_of
from ioweather.stats.tails.splits import HEADS, TAILS

# What lies beyond two standard deviations of a Normal, and of a Uniform, on the upper side (don15 section 1).
_NORMAL_SHARE, _UNIFORM_SHARE = 0.025, 0.0
# The paper's 94% around the average leave 3% on either side.
_AROUND: Final = 0.94
_CONTROL_MOST: Final = 5000
_OVERLAYS: Final = 6
# Shares that differ by less lie within the width of a line, on a logarithmic axis of a few decades.
_SAME: Final = 0.05


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    samples = samples_of(data, facility, params)
    fitted, refused = fit_samples(samples.samples, params, spread=data.spread)
    if not fitted:
        return
    size = shown_size([item.sample for item in fitted], params)
    shown = [item for item in fitted if item.sample.request_bytes == size]
    caveats = (choices(fitted[0].fit), *refused)
    yield _partition(samples, example(shown), caveats)
    yield _shares(samples, fitted, caveats)
    goodness = _goodness(shown[:_OVERLAYS], int(params["replicates"]), data.spread)
    yield _winners(samples, fitted, shown, goodness, caveats)


def example(shown: Sequence[FittedSample]) -> FittedSample:
    """The one sample that is shown in full: uncached writes, as in the paper, where there are any; else the largest."""
    return max(shown, key=lambda item: (item.sample.mode == "nocache", item.sample.op != "read", item.sample.n))


@exhibit("don15.fig4")
def _partition(samples: Samples, item: FittedSample, caveats: tuple[str, ...]) -> Iterator[Piece]:
    sample, fit, seconds = item.sample, item.fit, item.sample.seconds
    edges = np.linspace(0.0, max(float(np.quantile(seconds, 0.99)), fit.pivot * 1.05), 41)
    title = f"{sample.label}: all response times"
    shares = np.histogram(seconds, edges)[0] / sample.n
    binned = ResultTable.of(
        title.lower().replace(" ", "_"),
        "low: response time [seconds]; high [seconds]; share: share of requests [ratio]",
        zip(cells(edges[:-1]), cells(edges[1:]), cells(shares), strict=True),
    )
    pivot = Reference("x", fit.pivot, "pivot")
    yield Chart.of("histogram", binned, "low high y=share", title, references=(pivot,))
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
        f"{sample.label}: {fit.tail_share:.1%} of requests take longer than {format_seconds(fit.pivot)} and "
        f"belong to the tail; best pair {item.pair_label}.",
        name="tail",
    )
    yield caveats, samples.coverage


@exhibit("don15.fig5")
def _shares(samples: Samples, fitted: Sequence[FittedSample], caveats: tuple[str, ...]) -> Iterator[Piece]:
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
    line = Reference("y", _NORMAL_SHARE, "Normal, beyond 2 sd")
    yield listed, Chart.of("bars", listed, "x=where y=tail low high", "Share in the tail", references=(line,))
    mean = _mean_share("tail_ratio_mean", fitted)
    low, high = (None if end is None else 1 - end for end in (mean.high, mean.low))
    value = mean.value or 0.0
    yield mean, Estimate("head_ratio_mean", 1 - value, "ratio", low, high, mean.level, mean.n, mean.method)
    # What the same search says of a Normal sample of the usual size: no tail is there to be found.
    n = int(min(np.median([item.sample.n for item in fitted]), _CONTROL_MOST))
    drawn = np.random.default_rng(0).normal(10.0, 1.0, n)
    control = fit_mixture(drawn, combination=fitted[0].fit.combination).tail_share
    yield plain("tail_ratio_normal", _NORMAL_SHARE, "ratio", method="beyond two standard deviations of a Normal")
    yield plain("tail_ratio_uniform", _UNIFORM_SHARE, "ratio", method="beyond two standard deviations of a Uniform")
    yield plain("tail_ratio_normal_searched", control, "ratio", method="the same search on a drawn Normal sample")
    text = f"On average {value:.1%} of requests belong to the tail; a Normal has {_NORMAL_SHARE:.1%} beyond 2 sd."
    yield Finding(text, name="normal_share"), caveats
    yield (
        "The share is where the search puts the pivot, and the search puts one into any sample: into a drawn "
        f"Normal one too, at {control:.1%}. Read the share together with the tail's family and its distance."
    )
    yield samples.coverage


def _mean_share(name: str, items: Sequence[FittedSample]) -> Estimate:
    """Mean over samples; replicates of all samples are averaged, so the interval is that of these samples' mean."""
    value = float(np.mean([item.fit.tail_share for item in items]))
    times = sum(item.sample.n for item in items)
    if not all(item.shares.size for item in items):
        return Estimate(name, value, "ratio", n=times, method="mean over samples; no interval asked for")
    replicates = np.mean([item.shares for item in items], axis=0)
    low, high = spread_about(value, replicates)
    method = f"mean over {len(items)} samples, spread of {len(replicates)} bootstrap replicates of each"
    return Estimate(name, value, "ratio", low, high, LEVEL, times, method)


def _goodness(items: Sequence[FittedSample], replicates: int, spread: Spread) -> Iterator[Estimate]:
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
    n = len(fitted)
    heads, tails = ([getattr(item.fit.best, part).name for item in fitted] for part in ("head", "tail"))
    tails_by_aic = [item.fit.best_by_aic.tail.name for item in fitted]
    yield [share_estimate(f"head_{name}_ratio", heads.count(name), n) for name in HEADS]
    yield [share_estimate(f"tail_{name}_ratio", tails.count(name), n) for name in TAILS]
    yield [share_estimate(f"tail_{name}_ratio_by_aic", tails_by_aic.count(name), n) for name in TAILS]
    either = tails_by_aic.count("weibull") + tails_by_aic.count("gamma")
    yield share_estimate("tail_weibull_gamma_ratio_by_aic", either, n)
    around, optimal, gains = [], [], []
    winners: list[tuple[Cell, ...]] = []
    for item in fitted:
        best, fit, seconds = item.fit.best, item.fit, item.sample.seconds
        # Shares of the head around its average, and on the fast side of that: 94% and 3% were the head Normal.
        head = seconds[seconds <= fit.pivot]
        reach = float(ndtri((1 + _AROUND) / 2)) * head.std()
        around.append(float(np.mean(np.abs(head - head.mean()) <= reach)))
        optimal.append(float(np.mean(head < head.mean() - reach)))
        # Distance from all times of the single Normal that others assume, and of the mixture.
        laws = (Normal(float(seconds.mean()), float(seconds.std())), fit.distribution)
        one, both = (largest_gap(sample_of(seconds), law).distance for law in laws)
        gains.append(one / both)
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
    distances: list[tuple[Cell, ...]] = []
    every = [pair for item in fitted for pair in item.fit.pairs]
    for head_name, tail_name in product(HEADS, TAILS):
        pairs = [pair for pair in every if (pair.head.name, pair.tail.name) == (head_name, tail_name)]
        distance, collapsed = float(np.mean([pair.ks for pair in pairs])), sum(pair.collapsed for pair in pairs)
        distances.append((FAMILY_LABELS[head_name], FAMILY_LABELS[tail_name], distance, collapsed))
    yield ResultTable.of(
        "pairs",
        "head [text]; tail [text]; ks: mean combined KS; collapsed: samples where it became the power law [count]",
        sorted(distances, key=lambda row: float(row[2] or math.inf)),
    )
    yield [_overlay(item) for item in shown[:_OVERLAYS]]
    text = f"A Normal head fits better than a Cauchy one in {heads.count('normal')} of {n} samples."
    yield Finding(text, name="head_family")
    # The distance favours the families that contain the power law as a limit; AIC charges for their parameter.
    aic, power = tails_by_aic.count("power_law"), tails.count("power_law")
    text = f"The Power Law is the best tail in {aic} of {n} samples by AIC, in {power} by distance."
    yield Finding(text, name="tail_family")
    text = f"Head and tail together come {np.median(gains):.2g}x nearer to the data than one Normal (median)."
    yield Finding(text, name="distance"), caveats
    yield (
        "The distance alone does not separate families that come near the power law; AIC stands beside it. With "
        "very many times every family is ruled out by some small departure: the distance says how small."
    )
    yield samples.coverage


def _overlay(item: FittedSample) -> Chart:
    """The share of requests that take longer, measured and by every family of tail: on logarithmic axes, where tails
    part."""
    seconds = item.sample.seconds
    n = len(seconds)
    levels = np.concatenate([np.linspace(0.01, 0.99, 80), 1 - np.geomspace(0.01, 1 / n, 60)])
    grid = np.unique(np.quantile(seconds, levels))
    families = {
        FAMILY_LABELS[pair.tail.name]: 1 - pair.distribution.cdf(grid)
        for pair in item.fit.pairs
        if pair.head.name == item.fit.best.head.name
    }
    measured = {"measured": 1 - np.searchsorted(np.sort(seconds), grid, side="right") / n}
    rows = [
        (name, float(t), float(share))
        for name, shares in (measured | _one_line_each(families, 0.5 / n)).items()
        for t, share in zip(grid, shares, strict=True)
        if share >= 0.5 / n  # below one request there is nothing to compare
    ]
    columns = "series [text]; value: response time [seconds]; share: share of requests that take longer [ratio]"
    drawn, title = ResultTable.of("overlay", columns, rows), f"{item.sample.label}: {item.pair_label}"
    pivot = Reference("x", item.fit.pivot, "pivot")
    return Chart.of("timeline", drawn, "x=value y=share series", title, log="xy", references=(pivot,))


def _one_line_each(curves: Mapping[str, Floats], least: float) -> dict[str, Floats]:
    """Curves that look the same above `least`, under one name: fits of LogNormal and Weibull often end in
    the Power Law."""
    drawn: dict[str, Floats] = {}
    for name, curve in curves.items():
        here = np.maximum(curve, least)
        same = next(
            (other for other, known in drawn.items() if np.abs(np.log(here / np.maximum(known, least))).max() < _SAME),
            None,
        )
        if same is None:
            drawn[name] = curve
        else:
            drawn = {f"{key}, {name}" if key == same else key: known for key, known in drawn.items()}
    return drawn


STUDY = Study(
    "response_tails",
    ("don15.fig4", "don15.fig5", "don15.fig6"),
    (NEED,),
    run,
    (FILESYSTEM, REQUEST_SIZE, MINIMUM, COMBINATION, REPLICATES, PROBE),
    spreads=True,
    too_few=TOO_FEW,
)
