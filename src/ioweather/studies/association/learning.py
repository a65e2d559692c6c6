"""How many runs a model of I/O time needs, and under which conditions it is good (mad17 VII); a part of mad17.fig6."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Param
from ioweather.core.results import Cell, Chart, Estimate, Finding, Reference, ResultTable
from ioweather.core.units import format_value
from ioweather.stats.learning import FAR, LEAST_RUNS, SHARE, LearningCurve, learning_curve
from ioweather.studies.association.data import AssociationData
from ioweather.studies.shared.intervals import LEVEL
from ioweather.studies.shared.presenting import table

ERROR: Final = Param(
    "error", "say how many runs a model of I/O time needs for an error of this share", kind="float", default=0.1
)
CAVEAT: Final = (
    f"Runs needed: a model's error is what {SHARE:.0%} of new runs stay within. It is measured by fitting straight "
    "lines between logarithms to some of the runs and trying them on runs of another time; more runs than there are "
    "follow from the curve. Other models may need more, and may have less error in the end."
)
_BY_VOLUME: Final = "by system volume (PsiD)"
_BY_RATE: Final = "by system rate (PsiD/D_D)"
_BY_NOTHING: Final = "by nothing: the mean"
_THIRDS: Final = ("quiet", "usual", "busy")


@dataclass(frozen=True)
class Learning:
    """What mad17.fig6 has of it."""

    tables: tuple[ResultTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    findings: tuple[Finding, ...] = ()


def learning(data: AssociationData) -> Learning:
    """Of the runs of the group asked for."""
    rows = data.members(data.asked)
    seconds = data.of("d_d_seconds")[rows]
    volumes = np.column_stack([data.of(f"psid_{way}_bytes")[rows] for way in ("read", "write")])
    rates = volumes / np.where(seconds > 0, seconds, np.nan)[:, None]
    known = np.isfinite(volumes).all(axis=1) & (seconds > 0)
    seconds, volumes, rates = seconds[known], volumes[known], rates[known]
    measures = {_BY_VOLUME: volumes, _BY_RATE: rates, _BY_NOTHING: np.zeros((len(seconds), 0))}
    curves = {name: curve for name, x in measures.items() if (curve := learning_curve(x, seconds)) is not None}
    error = float(data.params.get("error") or ERROR.default or 0.1)
    if not curves:
        words = f"How many runs a model needs cannot be told from {len(seconds)}: {LEAST_RUNS} are needed for that."
        return Learning(findings=(Finding(words, "undecided", name="runs_needed"),))
    named = {_BY_VOLUME: "volume", _BY_RATE: "rate", _BY_NOTHING: "nothing"}
    return Learning(
        (_needed(curves, error), _conditions(curves[_BY_VOLUME], rates)),
        (_chart(curves, error),),
        tuple(e for name, curve in curves.items() for e in _estimates(named[name], curve, error)),
        tuple(_findings(curves, error)),
    )


def _needed(curves: dict[str, LearningCurve], error: float) -> ResultTable:
    rows = [
        (name, curve.runs, curve.error_at(curve.runs), *curve.limit(), *map(_count, curve.runs_for(error)))
        for name, curve in curves.items()
    ]
    percent = format_value(error, "ratio")
    labels = ("model", "runs", "error with these", "with endless runs", "90% from", "90% to",
              f"runs for {percent}", "90% from", "90% to")  # fmt: skip
    names = ("model", "runs", "error", "limit", "limit_low", "limit_high", "needed", "needed_low", "needed_high")
    units = ("text", "count", *["ratio"] * 4, *["count"] * 3)
    parts = zip(names, labels, units, zip(*rows, strict=True), strict=True)
    columns = {name: (label, unit, column) for name, label, unit, column in parts}
    return table("runs_needed", columns, "Runs that a model of I/O time needs; empty: no number of them is known")


def _count(runs: float) -> int | None:
    return int(runs) if np.isfinite(runs) else None


def _conditions(curve: LearningCurve, rates: Floats) -> ResultTable:
    """The error of the same model in the quiet, the usual and the busy third of the runs."""
    load = rates.sum(axis=1)[-curve.runs :]
    third = np.argsort(np.argsort(load, kind="stable"), kind="stable") * len(_THIRDS) // len(load)
    rows: list[tuple[Cell, ...]] = [
        (name, float(load[own].min()), float(load[own].max()), int(own.sum()),
         float(np.expm1(np.quantile(curve.residuals[own], SHARE))))
        for number, name in enumerate(_THIRDS) if (own := third == number).any()
    ]  # fmt: skip
    return ResultTable.of(
        "conditions",
        "system [text]; from [bytes_per_s]; to [bytes_per_s]; n: runs [count]; error [ratio]",
        rows,
        f"Error of the model {_BY_VOLUME}, by what the system moved",
    )


def _chart(curves: dict[str, LearningCurve], error: float) -> Chart:
    """What was measured, and the curve on to three times the runs there are."""
    rows: list[tuple[Cell, ...]] = []
    for name, curve in curves.items():
        beyond = np.unique(np.geomspace(curve.sizes[-1], 3 * curve.runs, 8).astype(np.int64))[1:]
        rows += [(int(size), name, float(np.expm1(e))) for size, e in zip(curve.sizes, curve.errors, strict=True)]
        rows += [(size, name, curve.error_at(size)) for size in beyond.tolist()]
    most = max(curve.runs for curve in curves.values())
    table = ResultTable.of(
        "learning",
        f"runs: runs that a model was fitted to [count]; model [text]; error: error of {SHARE:.0%} of new runs [ratio]",
        rows,
    )
    return Chart.of(
        "timeline",
        table,
        "x=runs y=error series=model",
        "Error of a model by the runs it was fitted to",
        log="x",
        references=(Reference("y", error, "asked for"), Reference("x", most, "runs there are")),
    )


def _estimates(name: str, curve: LearningCurve, error: float) -> Iterator[Estimate]:
    method = f"learning curve of {curve.runs} runs, blocks of them resampled"
    value, low, high = curve.limit()
    yield Estimate(f"error_limit_{name}", value, "ratio", low, high, LEVEL, curve.runs, method)
    runs, low, high = curve.runs_for(error)
    if high > FAR * curve.runs:  # an interval without an end is none, and neither is one that lies far from all data
        yield Estimate(f"runs_needed_{name}", None, "count", n=curve.runs, method=f"not told by {curve.runs} runs")
    else:
        yield Estimate(f"runs_needed_{name}", runs, "count", low, high, LEVEL, curve.runs, method)


def _findings(curves: dict[str, LearningCurve], error: float) -> Iterator[Finding]:
    curve, percent = curves[_BY_VOLUME], format_value(error, "ratio")
    runs, low, high = curve.runs_for(error)
    _, least, most = curve.limit()
    if np.isinf(low):
        span = f"{format_value(least, 'ratio')} to {format_value(most, 'ratio')}"
        text = f"No number of runs brings a model {_BY_VOLUME} to an error of {percent}: endless runs have {span}."
        yield Finding(text, name="runs_needed")
    elif low > FAR * curve.runs:
        text = f"An error of {percent} needs more than {FAR} times the {curve.runs} runs there are."
        yield Finding(text, name="runs_needed")
    elif np.isinf(high):
        yield Finding(
            f"These {curve.runs} runs do not decide whether any number of runs brings a model {_BY_VOLUME} to an error "
            f"of {percent}; it needs {low:,.0f} at least.", "undecided", name="runs_needed")  # fmt: skip
    else:
        enough = f"; {curve.runs} are there" if high <= curve.runs else f", and there are {curve.runs}"
        yield Finding(
            f"A model {_BY_VOLUME} needs {runs:,.0f} runs ({low:,.0f} to {high:,.0f}) for an error of {percent}"
            f"{enough}.", name="runs_needed")  # fmt: skip
    nothing = curves[_BY_NOTHING].limit()
    if most < nothing[1]:
        yield Finding("Knowing what the system does makes the model better.", name="system_helps")
    else:
        yield Finding(
            "These runs do not show that knowing what the system does makes a model better.", "undecided",
            name="system_helps")  # fmt: skip
