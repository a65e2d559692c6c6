"""I/O time as a function of the system's volume: a forest's curve and how many runs a model needs (mad17 fig. 6, VII),
and the joint density (fig. 7, 8)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, cast

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Param
from ioweather.core.errors import UsageError
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_seconds, format_value
from ioweather.stats.dependence import complete_pairs
from ioweather.stats.estimates import LEVEL, plain
from ioweather.stats.regression import (
    FAR,
    LEAST_LEAF,
    LEAST_RUNS,
    MIN_POINTS,
    SHARE,
    TREES,
    Band,
    LearningCurve,
    conformal_folds,
    density,
    forest_curve,
    learning_curve,
)
from ioweather.studies.mad17.run_groups import HALF_WIDTH_SD, SHARED_STEPS, TIME, VOLUME, AssociationData

ERROR: Final = Param(
    "error", "say how many runs a model of I/O time needs for an error of this share", kind="float", default=0.1
)
_POINTS: Final = 60
_SHIFTED: Final = 39
_LEAST_SHIFTED: Final = 19  # pairings, for a 90% range
_CELLS: Final = 40
# Models of I/O time: by volume (PsiD), by rate (PsiD/D_D), by the mean alone.
_MODELS: Final = {
    "volume": "by system volume (PsiD)",
    "rate": "by system rate (PsiD/D_D)",
    "nothing": "by nothing: the mean",
}
_THIRDS: Final = ("quiet", "usual", "busy")


def curve_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    """Make fig. 6 and fig. 7 of the chosen group; --set group=NAME shows another (the paper's fig. 8)."""
    rows = data.members(data.asked)
    if len(rows) < MIN_POINTS:
        words = f"{data.name(data.asked)} has {len(rows)} runs with samples; a curve needs {MIN_POINTS}."
        too_few = Finding(words, "undecided", name="too_few_runs")
        for name in ("mad17.fig6", "mad17.fig7"):
            yield Exhibit(name, findings=(too_few,), caveats=data.caveats, coverage=data.coverage)
        return
    try:
        yield replace(_forest_curves(data), title=f"Random-forest curve: {data.name(data.asked)}")
    except UsageError as error:
        missing = Finding(str(error), "undecided", name="missing_package")
        yield Exhibit("mad17.fig6", findings=(missing,), caveats=data.caveats, coverage=data.coverage)
    title = f"Density of I/O time and system volume: {data.name(data.asked)}"
    yield replace(_conditional_density(data), title=title)


def _pairs(data: AssociationData, way: str) -> tuple[Floats, Floats]:
    """Return system volume and I/O time of the runs of the chosen group."""
    rows = data.members(data.asked)
    return complete_pairs(data.of(f"psid_{way}_bytes")[rows], data.of("d_d_seconds")[rows])


@exhibit("mad17.fig6")
def _forest_curves(data: AssociationData) -> Iterator[Piece]:
    for way in ("read", "write"):
        x, y = _pairs(data, way)
        least, most = np.quantile(x, (0.01, 0.99))
        at = np.linspace(float(least), float(most), _POINTS)
        band = cast(Band, conformal_folds(x, y, at))
        middle, explained = forest_curve(x, y, at)
        drawn = _overlay(x, y, at, {"forest": middle, "5% of new runs": band.low, "95% of new runs": band.high})
        title = f"D_D of each run against PsiD, {way}s: forest, and 90% of new runs"
        yield Chart.of("scatter", drawn, "x=volume y=time series", title)
        rise = float(middle[-1] / middle[0] - 1) if middle[0] else 0.0
        yield plain(f"rise_{way}", rise, "ratio", n=len(x), method="forest, from the 1% to the 99% volume")
        yield plain(f"explained_{way}", explained, "ratio", n=len(x), method="variance explained out of bag")
        low, high = (format_seconds(float(middle[at])) for at in (0, -1))
        text = f"From little to much system volume of {way}s, D_D goes from {low} to {high} ({rise:+.0%})."
        yield Finding(text, name="time_with_volume")
    yield f"The forest has {TREES} trees with leaves of at least {LEAST_LEAF} runs; the paper does not name its own."
    yield "The band is conformal: 90% of new runs of this group fall inside.", SHARED_STEPS
    yield (
        f"Runs needed: a model's error is what {SHARE:.0%} of new runs stay within. It is measured by fitting straight "
        "lines between logarithms to some of the runs and trying them on runs of another time; more runs than there "
        "are follow from the curve. Other models may need more, and may have less error in the end."
    )
    yield _learning(data), data.caveats, data.coverage


def _overlay(x: Floats, y: Floats, at: Floats, curves: Mapping[str, Floats]) -> ResultTable:
    """Return the runs and curves over the same axes."""
    rows = [(float(v), float(t), "run") for v, t in zip(x, y, strict=True)]
    for name, curve in curves.items():
        rows += [(float(v), float(t), name) for v, t in zip(at, curve, strict=True) if np.isfinite(t) and t > 0]
    return ResultTable.of("overlay", f"volume: {VOLUME} [bytes]; time: {TIME} [seconds]; series [text]", rows)


def _learning(data: AssociationData) -> Iterator[Piece]:
    """How many runs a model of I/O time needs, and under which conditions it is good."""
    rows = data.members(data.asked)
    seconds = data.of("d_d_seconds")[rows]
    volumes = np.column_stack([data.of(f"psid_{way}_bytes")[rows] for way in ("read", "write")])
    rates = volumes / np.where(seconds > 0, seconds, np.nan)[:, None]
    known = np.isfinite(volumes).all(axis=1) & (seconds > 0)
    seconds, volumes, rates = seconds[known], volumes[known], rates[known]
    measures = {"volume": volumes, "rate": rates, "nothing": np.zeros((len(seconds), 0))}
    curves = {name: curve for name, x in measures.items() if (curve := learning_curve(x, seconds)) is not None}
    if not curves:
        words = f"How many runs a model needs cannot be told from {len(seconds)}: {LEAST_RUNS} are needed for that."
        yield Finding(words, "undecided", name="runs_needed")
        return
    error = float(data.params.get("error") or ERROR.default or 0.1)
    percent = format_value(error, "ratio")
    needed: list[tuple[Cell, ...]] = []
    drawn: list[tuple[Cell, ...]] = []
    for name, curve in curves.items():
        limit, runs_needed = curve.limit(), curve.runs_for(error)
        counts = (int(runs) if np.isfinite(runs) else None for runs in runs_needed)
        needed.append((_MODELS[name], curve.runs, curve.error_at(curve.runs), *limit, *counts))
        measured = zip(curve.sizes, curve.errors, strict=True)
        drawn += [(int(size), _MODELS[name], float(np.expm1(e))) for size, e in measured]
        # The curve on to three times the runs there are.
        beyond = np.unique(np.geomspace(curve.sizes[-1], 3 * curve.runs, 8).astype(np.int64))[1:]
        drawn += [(size, _MODELS[name], curve.error_at(size)) for size in beyond.tolist()]
        method = f"learning curve of {curve.runs} runs, blocks of them resampled"
        yield Estimate(f"error_limit_{name}", limit[0], "ratio", *limit[1:], LEVEL, curve.runs, method)
        # No estimate with an unbounded interval, or far beyond the data.
        if runs_needed[2] > FAR * curve.runs:
            yield Estimate(f"runs_needed_{name}", None, "count", n=curve.runs, method=f"not told by {curve.runs} runs")
        else:
            value, low, high = runs_needed
            yield Estimate(f"runs_needed_{name}", value, "count", low, high, LEVEL, curve.runs, method)
    yield ResultTable.of(
        "runs_needed",
        "model: model [text]; runs: runs [count]; error: error with these [ratio]; limit: with endless runs [ratio]; "
        f"limit_low: 90% from [ratio]; limit_high: 90% to [ratio]; needed: runs for {percent} [count]; "
        "needed_low: 90% from [count]; needed_high: 90% to [count]",
        needed,
        "Runs that a model of I/O time needs; empty: no number of them is known",
    )
    # The error of the same model in the quiet, the usual and the busy third of the runs.
    load = rates.sum(axis=1)[-curves["volume"].runs :]
    third = np.argsort(np.argsort(load, kind="stable"), kind="stable") * len(_THIRDS) // len(load)
    conditions: list[tuple[Cell, ...]] = []
    for number, name in enumerate(_THIRDS):
        own = third == number
        if own.any():
            off = float(np.expm1(np.quantile(curves["volume"].residuals[own], SHARE)))
            conditions.append((name, float(load[own].min()), float(load[own].max()), int(own.sum()), off))
    yield ResultTable.of(
        "conditions",
        "system [text]; from [bytes_per_s]; to [bytes_per_s]; n: runs [count]; error [ratio]",
        conditions,
        f"Error of the model {_MODELS['volume']}, by what the system moved",
    )
    columns = (
        f"runs: runs that a model was fitted to [count]; model [text]; error: error of {SHARE:.0%} of new runs [ratio]"
    )
    most = max(curve.runs for curve in curves.values())
    yield Chart.of(
        "timeline",
        ResultTable.of("learning", columns, drawn),
        "x=runs y=error series=model",
        "Error of a model by the runs it was fitted to",
        log="x",
        references=(Reference("y", error, "asked for"), Reference("x", most, "runs there are")),
    )
    yield _runs_needed(curves["volume"], error, percent)
    if curves["volume"].limit()[2] < curves["nothing"].limit()[1]:
        yield Finding("Knowing what the system does makes the model better.", name="system_helps")
    else:
        text = "These runs do not show that knowing what the system does makes a model better."
        yield Finding(text, "undecided", name="system_helps")


def _runs_needed(curve: LearningCurve, error: float, percent: str) -> Finding:
    model, there = f"a model {_MODELS['volume']}", curve.runs
    runs, low, high = curve.runs_for(error)
    if np.isinf(low):
        span = " to ".join(format_value(end, "ratio") for end in curve.limit()[1:])
        text = f"No number of runs brings {model} to an error of {percent}: endless runs have {span}."
    elif low > FAR * there:
        text = f"An error of {percent} needs more than {FAR} times the {there} runs there are."
    elif np.isinf(high):
        text = f"These {there} runs do not decide whether any number of runs brings {model} to an error of {percent}"
        return Finding(f"{text}; it needs {low:,.0f} at least.", "undecided", name="runs_needed")
    else:
        enough = f"; {there} are there" if high <= there else f", and there are {there}"
        text = f"A{model[1:]} needs {runs:,.0f} runs ({low:,.0f} to {high:,.0f}) for an error of {percent}{enough}."
    return Finding(text, name="runs_needed")


def _narrowing(x: Floats, y: Floats, way: str) -> Estimate:
    """Return the mean width of the conditional interval over that of pairings shifted in time: below 1 it is narrower
    because of the volume, not because any curve narrows it."""

    def width(times: Floats) -> float:
        joint = density(x, times)
        if joint is None:
            return float("nan")
        low, high = joint.conditional_quantiles(((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        of_run = np.clip(np.searchsorted(joint.x, x), 0, len(joint.x) - 1)
        return float(np.nanmean((high - low)[of_run]))

    shifts = np.unique(np.linspace(len(y) // 10 + 1, len(y) - len(y) // 10 - 1, _SHIFTED).astype(np.int64))
    chance = np.array([width(np.roll(y, shift)) for shift in shifts.tolist()])
    chance, own = chance[np.isfinite(chance)], width(y)
    name, method = f"conditional_width_{way}", f"mean width over that of {len(chance)} pairings shifted in time"
    if len(chance) < _LEAST_SHIFTED or not np.isfinite(own):
        return plain(name, None, "factor", n=len(x), method="too few pairings")
    least, usual, most = np.quantile(chance, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]).tolist()
    return Estimate(name, own / usual, "factor", own / most, own / least, LEVEL, len(x), method)


@exhibit("mad17.fig7")
def _conditional_density(data: AssociationData) -> Iterator[Piece]:
    group, drawn = data.name(data.asked), 0
    for way in ("read", "write"):
        x, y = _pairs(data, way)
        joint = density(x, y) if len(x) >= MIN_POINTS else None
        if joint is None:
            continue
        drawn += 1
        symbol, mean, sd = f"PsiD_{way[0].upper()}", float(y.mean()), float(y.std())
        low, median, high = joint.conditional_quantiles(((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
        inside = np.flatnonzero((joint.x >= x.min()) & (joint.x <= x.max()))
        picked = inside[:: max(1, len(inside) // _POINTS)]
        lines = ((0, "mean"), (-1, "-1.645 sd"), (1, "+1.645 sd"))
        # As the paper overlays them: the runs, and what is conditional on the volume.
        curves = {"median": median[picked], "5%": low[picked], "95%": high[picked]}
        yield Chart.of(
            "scatter",
            _overlay(x, y, joint.x[picked], curves),
            "x=volume y=time series",
            f"{group}: D_D of each run, median and central 90% given {symbol}, against mean ± 1.645 sd of all",
            references=tuple(Reference("y", mean + k * HALF_WIDTH_SD * sd, words) for k, words in lines),
        )
        factor = len(joint.x) // _CELLS
        count = factor * _CELLS
        cells = joint.values[:count, :count].reshape(_CELLS, factor, _CELLS, factor).mean(axis=(1, 3))
        xs, ys = (axis[:count].reshape(_CELLS, factor).mean(axis=1) for axis in (joint.x, joint.y))
        share = cells / cells.sum()
        # Kernels reach below zero; bytes and seconds do not.
        shown = np.argwhere((share > 1e-5) & (xs >= 0)[:, None] & (ys >= 0))
        columns = f"volume: {VOLUME} [bytes]; time: {TIME} [seconds]; density: share [ratio]"
        cells_shown = ((float(xs[i]), float(ys[j]), float(share[i, j])) for i, j in shown)
        heat = ResultTable.of("density", columns, cells_shown)
        yield Chart.of("heatmap", heat, "x=volume y=time value=density", f"Joint density, {way}s")
        yield Estimate(f"example_volume_{way}", float(np.median(x)), "bytes", n=len(x), method="median volume")
        place = np.clip(np.searchsorted(joint.x, np.quantile(x, (0.1, 0.5, 0.9))), 0, len(joint.x) - 1)
        for words, level, i in zip(("low", "median", "high"), (0.1, 0.5, 0.9), place, strict=True):
            if np.isfinite(median[i]):
                at = f"{symbol} = {format_bytes(float(np.quantile(x, level)))}"
                method = f"conditional median and central interval at {at}"
                values = (float(median[i]), "seconds", float(low[i]), float(high[i]))
                yield Estimate(f"D_D_given_{words}_volume_{way}", *values, LEVEL, len(x), method)
        yield _narrowing(x, y, way)
        of_run = np.clip(np.searchsorted(joint.x, x), 0, len(joint.x) - 1)
        top = x >= np.quantile(x, 0.9)
        conditional = ((y >= low[of_run]) & (y <= high[of_run]))[top].mean()
        normal = (np.abs(y - y.mean()) <= HALF_WIDTH_SD * y.std())[top].mean()
        yield Finding(
            f"{group}: in the top tenth of {way} volume, mean ± 1.645 sd holds {normal:.0%} of the runs, the "
            f"conditional interval {conditional:.0%} (of the runs it was made from).",
            name="normal_interval",
        )
        little, much = (format_seconds(float(median[i])) for i in (place[0], place[2]))
        text = f"{group}: the median D_D is {little} at little {way} volume (10%) and {much} at much (90%)."
        yield Finding(text, name="median_by_volume")
    if drawn:
        yield Estimate("credible_level", LEVEL, "ratio", method="as the paper has it")
        yield Estimate("interval_half_width_sd", HALF_WIDTH_SD, "", method="as the paper has it")
    else:
        yield Finding("Volume or time does not vary.", "undecided", name="nothing_varies")
    yield "Gaussian kernels on a grid, bandwidth by Scott.", SHARED_STEPS
    yield data.caveats, data.coverage
