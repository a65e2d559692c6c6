"""Head and tail of response times (don15 section 4.2): the split, the share in the tail, and which families win."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from scipy.special import ndtri

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Params, Spread, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_seconds
from ioweather.stats.mixture import fit_mixture, fits_no_better
from ioweather.stats.tails.families import Normal
from ioweather.stats.tails.gaps import largest_gap
from ioweather.stats.tails.sample import sample_of
from ioweather.stats.tails.splits import HEADS, TAILS
from ioweather.studies.responses.fits import (
    COMBINATION,
    FAMILY_LABELS,
    REPLICATES,
    FittedSample,
    batches_of,
    choices,
    fit_samples,
    over_samples,
    parameter_estimates,
    parameters_text,
    spread_about,
)
from ioweather.studies.responses.samples import (
    FILESYSTEM,
    MINIMUM,
    NEED,
    PROBE,
    REQUEST_SIZE,
    TOO_FEW,
    Samples,
    samples_of,
    shown_size,
)
from ioweather.studies.shared.intervals import LEVEL, plain
from ioweather.studies.shared.job_estimates import mean_estimate, share_estimate
from ioweather.studies.shared.presenting import cdf_table, cells

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
    sample, fit = item.sample, item.fit
    seconds = sample.seconds
    best = fit.best
    whole_end = float(np.quantile(seconds, 0.99))
    head, tail = seconds[seconds <= fit.pivot], seconds[seconds > fit.pivot]
    pivot = Reference("x", fit.pivot, "pivot")
    even = np.linspace(0.0, max(whole_end, fit.pivot * 1.05), 41)
    yield (
        _histogram(f"{sample.label}: all response times", seconds, even, (pivot,)),
        _part_chart(f"Head: {FAMILY_LABELS[best.head.name]}", head, item, 0.0, 1 - fit.tail_share),
        _part_chart(f"Tail: {FAMILY_LABELS[best.tail.name]}", tail, item, 1 - fit.tail_share, 1.0),
    )
    parts = (("head", best.head, head, best.head_ks), ("tail", best.tail, tail, best.tail_ks))
    rows: tuple[tuple[Cell, ...], ...] = tuple(
        (part, FAMILY_LABELS[law.name], len(times), len(times) / sample.n, ks, parameters_text(law.parameters))
        for part, law, times, ks in parts
    )
    yield (
        ResultTable.of(
            "partition",
            "part [text]; family [text]; n [count]; share [ratio]; ks: KS distance; parameters [text]",
            rows,
            sample.label,
        ),
        parameter_estimates(item),
    )
    yield Finding(
        f"{sample.label}: {fit.tail_share:.1%} of requests take longer than {format_seconds(fit.pivot)} and "
        f"belong to the tail; best pair {item.pair_label}.",
        name="tail",
    )
    yield caveats, samples.coverage


def _part_chart(title: str, times: Floats, item: FittedSample, below: float, up_to: float) -> Chart:
    """The measured distribution of one group, and the fitted one within it."""
    measured = cdf_table("measured", {"measured": times}, "response time", "seconds")
    grid = np.unique(np.quantile(times, np.linspace(0, 1, 200)))
    fitted = np.clip((item.fit.best.distribution.cdf(grid) - below) / (up_to - below), 0.0, 1.0)
    rows = zip(["fitted"] * len(grid), cells(grid), cells(fitted), strict=True)
    table = ResultTable(title.split(":")[0].lower(), measured.columns, (*measured.rows, *rows))
    return Chart.of("cdf", table, "x=value y=share series", title, log="x")


def _histogram(title: str, values: Floats, edges: Floats, references: tuple[Reference, ...] = ()) -> Chart:
    counts, edges = np.histogram(values, edges)
    rows = tuple(zip(cells(edges[:-1]), cells(edges[1:]), cells(counts / len(values)), strict=True))
    table = ResultTable.of(
        title.lower().replace(" ", "_"),
        "low: response time [seconds]; high [seconds]; share: share of requests [ratio]",
        rows,
    )
    encoding = {"low": "low", "high": "high", "y": "share"}
    return Chart("histogram", table, encoding, title, references=references)


@exhibit("don15.fig5")
def _shares(samples: Samples, fitted: Sequence[FittedSample], caveats: tuple[str, ...]) -> Iterator[Piece]:
    """Means over request sizes, by file system, mode and operation."""
    rows: list[tuple[Cell, ...]] = []
    groups = list(dict.fromkeys((item.sample.place, item.sample.op) for item in fitted))
    for place, op in groups:
        mine = [item for item in fitted if (item.sample.place, item.sample.op) == (place, op)]
        estimate = _mean_share(f"tail_ratio_{op}[{place}]", mine)
        beyond = float(np.mean([_beyond_two_sd(item.sample.seconds) for item in mine]))
        yield estimate
        numbers = (1 - (estimate.value or 0.0), estimate.value, estimate.low, estimate.high)
        rows.append((f"{place} {op}", len(mine), estimate.n, *numbers, beyond))
    mean = _mean_share("tail_ratio_mean", fitted)
    low, high = (None if end is None else 1 - end for end in (mean.high, mean.low))
    value = 1 - (mean.value or 0.0)
    head = Estimate("head_ratio_mean", value, "ratio", low, high, mean.level, mean.n, mean.method)
    control = _control(fitted)
    table = ResultTable.of(
        "shares",
        "where: file system, mode, operation [text]; samples [count]; n: times [count]; head: share in head [ratio]; "
        "tail: share in tail [ratio]; low: 90% from [ratio]; high: 90% to [ratio]; beyond: beyond mean + 2 sd [ratio]",
        rows,
    )
    yield table
    yield Chart.of(
        "bars",
        table,
        "x=where y=tail low high",
        "Share in the tail",
        references=(Reference("y", _NORMAL_SHARE, "Normal, beyond 2 sd"),),
    )
    yield mean, head
    yield plain("tail_ratio_normal", _NORMAL_SHARE, "ratio", method="beyond two standard deviations of a Normal")
    yield plain("tail_ratio_uniform", _UNIFORM_SHARE, "ratio", method="beyond two standard deviations of a Uniform")
    yield plain("tail_ratio_normal_searched", control, "ratio", method="the same search on a drawn Normal sample")
    yield _share_findings(mean), caveats
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


def _beyond_two_sd(seconds: Floats) -> float:
    return float(np.mean(seconds > seconds.mean() - ndtri(_NORMAL_SHARE) * seconds.std()))


def _control(fitted: Sequence[FittedSample]) -> float:
    """What the same search says of a Normal sample of the usual size: no tail is there to be found."""
    n = int(min(np.median([item.sample.n for item in fitted]), _CONTROL_MOST))
    drawn = np.random.default_rng(0).normal(10.0, 1.0, n)
    return fit_mixture(drawn, combination=fitted[0].fit.combination).tail_share


def _share_findings(mean: Estimate) -> Iterator[Finding]:
    if mean.value is None:
        return
    yield Finding(
        f"On average {mean.value:.1%} of requests belong to the tail; a Normal has {_NORMAL_SHARE:.1%} beyond 2 sd.",
        name="normal_share",
    )


def _goodness(items: Sequence[FittedSample], replicates: int, spread: Spread) -> list[Estimate]:
    if not replicates:
        return []
    batches = batches_of(replicates)
    worse = spread(fits_no_better, ((item.fit, batch) for item in items for batch in batches))
    method = f"parametric bootstrap, {replicates} replicates"
    return [
        plain(f"goodness_p[{item.sample.label}]", sum(next(worse) for _ in batches) / replicates, "",
              n=item.sample.n, method=method)
        for item in items
    ]  # fmt: skip


@exhibit("don15.fig6")
def _winners(
    samples: Samples,
    fitted: Sequence[FittedSample],
    shown: Sequence[FittedSample],
    goodness: Sequence[Estimate],
    caveats: tuple[str, ...],
) -> Iterator[Piece]:
    charts = tuple(_overlay(item) for item in shown[:_OVERLAYS])
    around = [_around(item) for item in fitted]
    n = len(fitted)
    by_ks = [(item.fit.best.head.name, item.fit.best.tail.name) for item in fitted]
    by_aic = [(item.fit.best_by_aic.head.name, item.fit.best_by_aic.tail.name) for item in fitted]
    yield [
        *(share_estimate(f"head_{name}_ratio", sum(head == name for head, _ in by_ks), n) for name in HEADS),
        *(share_estimate(f"tail_{name}_ratio", sum(tail == name for _, tail in by_ks), n) for name in TAILS),
        *(share_estimate(f"tail_{name}_ratio_by_aic", sum(tail == name for _, tail in by_aic), n) for name in TAILS),
        share_estimate("tail_weibull_gamma_ratio_by_aic", sum(tail in ("weibull", "gamma") for _, tail in by_aic), n),
        over_samples(mean_estimate("head_around_average_ratio", np.array([a for a, _ in around]), "ratio")),
        over_samples(mean_estimate("head_optimal_ratio", np.array([b for _, b in around]), "ratio")),
        over_samples(mean_estimate("ks_mean", np.array([item.fit.ks for item in fitted]))),
        *goodness,
    ]
    yield _winner_table(fitted), _distance_table(fitted), charts, _winner_findings(by_ks, by_aic)
    yield _distance_findings(fitted), caveats
    yield (
        "The distance alone does not separate families that come near the power law; AIC stands beside it. With "
        "very many times every family is ruled out by some small departure: the distance says how small."
    )
    yield samples.coverage


def _around(item: FittedSample) -> tuple[float, float]:
    """Shares of the head around its average, and on the fast side of that: 94% and 3% were the head Normal."""
    seconds = item.sample.seconds
    head = seconds[seconds <= item.fit.pivot]
    reach = float(ndtri((1 + _AROUND) / 2)) * head.std()
    return float(np.mean(np.abs(head - head.mean()) <= reach)), float(np.mean(head < head.mean() - reach))


def _overlay(item: FittedSample) -> Chart:
    """The share of requests that take longer, measured and by every family of tail: on logarithmic axes, where tails
    part."""
    seconds = item.sample.seconds
    n = len(seconds)
    grid = np.unique(
        np.quantile(seconds, np.concatenate([np.linspace(0.01, 0.99, 80), 1 - np.geomspace(0.01, 1 / n, 60)]))
    )
    families = {
        FAMILY_LABELS[pair.tail.name]: 1 - pair.distribution.cdf(grid)
        for pair in item.fit.pairs
        if pair.head.name == item.fit.best.head.name
    }
    measured = {"measured": 1 - np.searchsorted(np.sort(seconds), grid, side="right") / n}
    longer = measured | _one_line_each(families, 0.5 / n)
    rows = [
        (name, float(t), float(share))
        for name, shares in longer.items()
        for t, share in zip(grid, shares, strict=True)
        if share >= 0.5 / n  # below one request there is nothing to compare
    ]
    table = ResultTable.of(
        "overlay",
        "series [text]; value: response time [seconds]; share: share of requests that take longer [ratio]",
        rows,
    )
    return Chart.of(
        "timeline",
        table,
        "x=value y=share series",
        f"{item.sample.label}: {item.pair_label}",
        log="xy",
        references=(Reference("x", item.fit.pivot, "pivot"),),
    )


def _one_line_each(curves: Mapping[str, Floats], least: float) -> dict[str, Floats]:
    """Curves that nobody could tell apart, above `least`, under one name: fits of LogNormal and Weibull often end in
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


def _winner_table(fitted: Sequence[FittedSample]) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for item in fitted:
        best = item.fit.best
        power = next((pair for pair in item.fit.pairs if pair.tail.name == "power_law"), None)
        rows.append(
            (item.sample.label, item.sample.n, best.pivot, best.tail_share, FAMILY_LABELS[best.head.name],
             FAMILY_LABELS[best.tail.name], best.ks, best.head_ks, best.tail_ks,
             FAMILY_LABELS[item.fit.best_by_aic.tail.name], power.tail.parameters["alpha"] if power else None)
        )  # fmt: skip
    return ResultTable.of(
        "winners",
        "sample [text]; n [count]; pivot [seconds]; tail_share: share in tail [ratio]; head [text]; tail [text]; "
        "ks: combined KS; head_ks: KS of head; tail_ks: KS of tail; tail_aic: tail by AIC [text]; "
        "alpha: alpha, if a power law",
        rows,
    )


def _distance_table(fitted: Sequence[FittedSample]) -> ResultTable:
    """Mean combined distance of every pair."""
    rows: list[tuple[Cell, ...]] = []
    for head in HEADS:
        for tail in TAILS:
            pairs = [
                pair for item in fitted for pair in item.fit.pairs if (pair.head.name, pair.tail.name) == (head, tail)
            ]
            collapsed = sum(pair.collapsed for pair in pairs)
            distance = float(np.mean([pair.ks for pair in pairs]))
            rows.append((FAMILY_LABELS[head], FAMILY_LABELS[tail], distance, collapsed))
    return ResultTable.of(
        "pairs",
        "head [text]; tail [text]; ks: mean combined KS; collapsed: samples where it became the power law [count]",
        sorted(rows, key=lambda row: float(row[2] or math.inf)),
    )


def _winner_findings(by_ks: Sequence[tuple[str, str]], by_aic: Sequence[tuple[str, str]]) -> Iterator[Finding]:
    n = len(by_ks)
    normal = sum(head == "normal" for head, _ in by_ks)
    yield Finding(f"A Normal head fits better than a Cauchy one in {normal} of {n} samples.", name="head_family")
    power, aic = (sum(tail == "power_law" for _, tail in found) for found in (by_ks, by_aic))
    # The distance favours the families that contain the power law as a limit; AIC charges for their parameter.
    yield Finding(
        f"The Power Law is the best tail in {aic} of {n} samples by AIC, in {power} by distance.", name="tail_family"
    )


def _distance_findings(fitted: Sequence[FittedSample]) -> Iterator[Finding]:
    """How far the mixture comes from the single Normal that others assume: distances of both from all times."""
    gains = []
    for item in fitted:
        sample = sample_of(item.sample.seconds)
        normal = Normal(float(item.sample.seconds.mean()), float(item.sample.seconds.std()))
        one, both = (largest_gap(sample, law).distance for law in (normal, item.fit.distribution))
        gains.append(one / both)
    yield Finding(
        f"Head and tail together come {np.median(gains):.2g}x nearer to the data than one Normal (median).",
        name="distance",
    )


STUDY = Study(
    "response_tails",
    ("don15.fig4", "don15.fig5", "don15.fig6"),
    (NEED,),
    run,
    (FILESYSTEM, REQUEST_SIZE, MINIMUM, COMBINATION, REPLICATES, PROBE),
    spreads=True,
    too_few=TOO_FEW,
)
