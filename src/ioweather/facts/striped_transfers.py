"""Time of a striped transfer by stripe width n (don15 Eq. 1): the slowest of n requests.

A transfer of S bytes over n targets is n requests of S/n, as slow as the slowest. More targets make requests smaller,
and a time from the tail more likely."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import Inventory, Params
from ioweather.core.results import Cell, Chart, Estimate, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_seconds
from ioweather.facts.response_samples import (
    FittedSample,
    ResponseSample,
    Samples,
    spread_about,
)
from ioweather.stats.estimates import LEVEL, number, plain
from ioweather.stats.order_statistics import BySize, IndependenceTest, MaximaCheck, check_maxima, independence
from ioweather.stats.summary_tables import p_text

PROBABILITIES: Final = (0.5, 0.9, 0.99)
_NAMES: Final = {0.5: "median", 0.9: "q90", 0.99: "q99"}
WIDEST: Final = 256
# A wider stripe must save more than this at q90, since it uses more targets. [ours]
WORTH_IT: Final = 0.05


@dataclass(frozen=True, eq=False)
class WidthPrediction:
    """Seconds of the transfer over `width` targets: estimates by quantile, and the mean (infinite for alpha <= 2)."""

    width: int
    request_bytes: float
    quantiles: tuple[Estimate, ...]
    mean: float
    replicates: Floats

    def seconds(self, probability: float) -> float:
        value = self.quantiles[PROBABILITIES.index(probability)].value
        assert value is not None
        return value


@dataclass(frozen=True)
class BestWidth:
    """`width`: the narrowest within 5% of the least q90. `agreement`: share of bootstrap replicates that choose the
    same width; None without replicates."""

    width: int
    fastest: int
    agreement: float | None


def predict_widths(
    fitted: Sequence[FittedSample], total_bytes: int, *, overhead_seconds: float = 0.0, widest: int = WIDEST
) -> list[WidthPrediction]:
    """Predict for every power-of-two width whose request size is between sampled sizes; nothing is extrapolated."""
    ordered = sorted(fitted, key=lambda item: item.sample.request_bytes)
    sizes = tuple(item.sample.request_bytes for item in ordered)
    laws = BySize(sizes, tuple(item.fit.distribution for item in ordered))
    rounds = min(len(item.laws) for item in ordered)
    again = [BySize(sizes, tuple(item.laws[b] for item in ordered)) for b in range(rounds)]
    upper = np.array([1 - p for p in PROBABILITIES])
    n = sum(item.sample.n for item in ordered)
    found = []
    for width in (2**k for k in range(int(math.log2(widest)) + 1)):
        if not laws.covers(total_bytes / width):
            continue
        law = laws.transfer(total_bytes, width, overhead_seconds)
        values = law.upper_quantile(upper)
        replicates = np.array(
            [other.transfer(total_bytes, width, overhead_seconds).upper_quantile(upper) for other in again]
        ).reshape(rounds, len(upper))
        quantiles = tuple(
            _quantile(f"{_NAMES[p]}[{width}]", float(values[i]), replicates[:, i], n)
            for i, p in enumerate(PROBABILITIES)
        )
        found.append(WidthPrediction(width, total_bytes / width, quantiles, law.mean, replicates))
    return found


def _quantile(name: str, value: float, replicates: Floats, n: int) -> Estimate:
    if not replicates.size:
        return Estimate(name, value, "seconds", n=n, method="fitted mixtures; no interval asked for")
    low, high = spread_about(value, replicates)
    method = f"fitted mixtures, spread of {len(replicates)} bootstrap replicates"
    return Estimate(name, value, "seconds", low, high, LEVEL, n, method)


def best_width(predictions: Sequence[WidthPrediction]) -> BestWidth:
    """Return the narrowest width within 5% of the least q90, and the agreement of the replicates."""
    q90 = PROBABILITIES.index(0.9)
    widths = [prediction.width for prediction in predictions]
    chosen = _narrowest(np.array([prediction.seconds(0.9) for prediction in predictions]))
    fastest = widths[int(np.argmin([prediction.seconds(0.9) for prediction in predictions]))]
    replicates = np.array([prediction.replicates[:, q90] for prediction in predictions])
    if not replicates.size:
        return BestWidth(widths[chosen], fastest, None)
    places = np.array([_narrowest(column) for column in replicates.T])
    return BestWidth(widths[chosen], fastest, float(np.mean(places == chosen)))


def _narrowest(seconds: Floats) -> int:
    return int(np.flatnonzero(seconds <= seconds.min() * (1 + WORTH_IT))[0])


def concurrent_rounds(sample: ResponseSample) -> Floats | None:
    """Return times of targets measured together: rounds x targets, complete rounds only; None with one target.

    A round is the usual time between requests to a target; of several requests in a round the first counts.
    """
    component = sample.frame.text("component").codes[sample.rows]
    targets = np.unique(component[component >= 0])
    start, seconds = sample.start_ns, sample.seconds
    if len(targets) < 2:
        return None
    gaps = [np.median(np.diff(start[component == target])) for target in targets if (component == target).sum() > 1]
    if not gaps or max(gaps) <= 0:
        return None
    length = int(np.median(gaps)) or 1
    place = (start - int(start[0])) // length
    table = np.full((int(place.max()) + 1, len(targets)), np.nan)
    known = np.flatnonzero(component >= 0)[::-1]  # backwards, so that the first of a round is written last
    table[place[known], np.searchsorted(targets, component[known])] = seconds[known]
    often = np.mean(~np.isnan(table), axis=0) >= 0.5 * np.max(np.mean(~np.isnan(table), axis=0))
    table = table[:, often]
    return np.asarray(table[~np.isnan(table).any(axis=1)], np.float64)


def targets_together(fitted: Sequence[FittedSample]) -> tuple[IndependenceTest | None, tuple[MaximaCheck, ...]]:
    """Test independence across targets on the sample with most of them, and compare predicted and measured maxima."""
    tables = [(item, table) for item in fitted if (table := concurrent_rounds(item.sample)) is not None and table.size]
    if not tables:
        return None, ()
    item, table = max(tables, key=lambda pair: (pair[1].shape[1], pair[1].shape[0]))
    return independence(table), check_maxima(table, item.fit.distribution)


def independence_finding(test: IndependenceTest | None) -> Finding:
    """Word the test of independence across targets."""
    name = "independent_targets"
    if test is None:
        return Finding(
            "Whether targets are slow independently cannot be tested: no two targets were sampled together often "
            "enough. The prediction assumes it.",
            "undecided",
            name,
        )
    over = f"over {test.targets} targets and {test.rounds} rounds, {p_text(test.p_value)}"
    evidence = f"(mean rank correlation {test.correlation:.2f} {over})"
    if test.p_value > 0.05:
        return Finding(f"The data are consistent with targets that are slow independently {evidence}.", name=name)
    if test.p_value > 0.01:
        return Finding(f"Targets may not be slow independently {evidence}.", "undecided", name)
    if test.correlation > 0:
        return Finding(f"Targets are slow together {evidence}: wide stripes are less slow than predicted.", name=name)
    return Finding(f"Targets are not independent {evidence}.", name=name)


@exhibit("don15.maxorder")
def striping_exhibit(
    samples: Samples,
    fitted: Sequence[FittedSample],
    predictions: Sequence[WidthPrediction],
    total: int,
    caveats: tuple[str, ...],
) -> Iterator[Piece]:
    """Yield the parts of the exhibit: quantiles and means by width, the best width, and the tests."""
    sample = fitted[0].sample
    title = f"{sample.op.capitalize()} of {format_bytes(total)} on {sample.place}"
    best = best_width(predictions)
    test, checks = targets_together(fitted)
    yield [quantile for prediction in predictions for quantile in prediction.quantiles]
    yield plain("best_width", best.width, "count", method="narrowest within 5% of the least q90")
    if best.agreement is not None:
        yield plain("best_width_agreement", best.agreement, "ratio", method="share of bootstrap replicates")
    if test is not None:
        yield plain("target_correlation", test.correlation, "", n=test.rounds, method=test.method)
        yield plain("independence_p", test.p_value, "", n=test.rounds, method=test.method)
    rows: list[tuple[Cell, ...]] = []
    drawn: list[tuple[Cell, ...]] = []
    for prediction in predictions:
        intervals = [(quantile.value, quantile.low, quantile.high) for quantile in prediction.quantiles]
        request, mean = round(prediction.request_bytes), number(prediction.mean)
        rows.append((prediction.width, request, *chain(*intervals), mean))
        drawn += [(prediction.width, name, *of) for name, of in zip(_NAMES.values(), intervals, strict=True)]
    columns = "; ".join(
        f"{name} [seconds]; {name}_low: 90% from [seconds]; {name}_high: 90% to [seconds]" for name in _NAMES.values()
    )
    columns = f"width: stripe width [count]; request: each request [bytes]; {columns}; mean: mean [seconds]"
    yield ResultTable.of("widths", columns, rows)
    if checks:
        yield ResultTable.of(
            "maxima",
            "requests: slowest of [count]; probability: quantile [ratio]; predicted [seconds]; measured [seconds]; "
            "ratio: predicted / measured [factor]; rounds [count]",
            ((c.requests, c.probability, c.predicted, c.observed, c.ratio, c.rounds) for c in checks),
            "Predicted and measured slowest request, targets measured together",
        )
    by_width = ResultTable.of(
        "by_width",
        "width: stripe width [count]; quantile [text]; seconds: time of the transfer [seconds]; low [seconds]; "
        "high [seconds]",
        drawn,
    )
    yield Chart.of("band", by_width, "x=width y=seconds low high series=quantile", title, log="xy")
    chosen = next(prediction for prediction in predictions if prediction.width == best.width)
    half, most = (format_seconds(chosen.seconds(p)) for p in (0.5, 0.99))
    text = f"{title}: {best.width} is the best of these widths, where there are so many targets; half finish within "
    sure = best.agreement is None or best.agreement >= 0.8
    yield Finding(f"{text}{half}, 99% within {most}.", "note" if sure else "undecided", name="best_width")
    yield independence_finding(test)
    yield (
        "F of the transfer is F(S/n)^n; request sizes between sampled ones are interpolated, and widths whose "
        "requests would lie outside the sampled sizes are left out."
    )
    if any(math.isinf(prediction.mean) for prediction in predictions):
        yield "Where no mean is given it is infinite: the tail has alpha <= 2. Judge by quantiles."
    yield caveats, samples.coverage


def known_targets(inventory: Inventory, _: Params) -> Cell:
    """Return the number of OSTs in the lake."""
    return max((group.components for group in inventory.series() if group.component_kind == "ost"), default=None)
