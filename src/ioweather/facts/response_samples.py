"""Samples of response time (don15 section 4), head and tail fitted to them, and the time of a striped transfer.

A sample has all times of one file system, mode, operation and request size. The paper's *sample* has a read and a write
series; fits are per series, so each operation is a sample here.

The time of a transfer by stripe width n (don15 Eq. 1): S bytes over n targets are n requests of S/n, as slow as the
slowest. More targets make requests smaller, and a time from the tail more likely.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, starmap
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import Param, Params, Spread
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Indices, Ints, Text
from ioweather.core.results import Cell, Chart, Coverage, Estimate, Finding, Piece, ResultTable, exhibit
from ioweather.core.tables import EVENT_COLUMNS
from ioweather.core.units import MIB, NS, TARGET_PROBE_BYTES, format_bytes, format_seconds, names_of
from ioweather.stats.estimates import LEVEL, number, plain
from ioweather.stats.families import Mixture
from ioweather.stats.mixture import (
    Combination,
    MixtureFit,
    Selection,
    bootstrap_intervals,
    fit_mixture,
    refitted,
)
from ioweather.stats.order_statistics import BySize, check_maxima, independence, quantile_bound
from ioweather.stats.summary_tables import p_text
from ioweather.stats.tail_fits import sample_of

if TYPE_CHECKING:
    from ioweather.lake.lake import Snapshot
    from ioweather.topics.source import DataSource

# Requests with a size; metadata operations have none.
OPERATIONS: Final = ("read", "write", "write_sync")
_COLUMNS: Final = names_of("start_ns host target op request_bytes mode duration_ns system component status run_id")
FILESYSTEM: Final = Param("filesystem", "file system; default: all")
# Unlike the probe's requests (kun19: 1 MB), those of the sampler are whole pages, with a known OST.
_PAGE: Final = 4096
PROBE: Final = Param("probe", "include the probe's 1 MB requests in the samples", kind="flag", default=False)
TOO_FEW: Final = (
    "no request size has 100 response times in one mode from `ioweather probe --sizes` (plain probe requests do not "
    "count); --set minimum=N lowers the limit"
)
MINIMUM: Final = Param("minimum", "minimum number of response times in a sample", kind="int", default=100)


REQUEST_SIZE: Final = Param(
    "request_size", "request size of the sample to show (default: the most common)", kind="size"
)


@dataclass(frozen=True, eq=False)
class ResponseSample:
    """`rows` are positions in the frame, in time order."""

    filesystem: str
    mode: str
    op: str
    request_bytes: int
    rows: Indices
    frame: Frame = field(repr=False)

    @property
    def n(self) -> int:
        return len(self.rows)

    @property
    def seconds(self) -> Floats:
        return self.frame.ints("duration_ns")[self.rows] / NS

    @property
    def start_ns(self) -> Ints:
        return np.asarray(self.frame.array("start_ns")[self.rows], np.int64)

    @property
    def place(self) -> str:
        """File system and mode, like the paper's Edison-NoCache."""
        return f"{self.filesystem}-{self.mode}"

    @property
    def label(self) -> str:
        return f"{self.place} {self.op} {format_bytes(self.request_bytes)}"


@dataclass(frozen=True)
class Samples:
    """Samples that are large enough, in order, and counts of excluded times."""

    samples: tuple[ResponseSample, ...]
    coverage: tuple[Coverage, ...]

    def of_size(self, request_bytes: int) -> list[ResponseSample]:
        """Return the samples of one request size."""
        return [sample for sample in self.samples if sample.request_bytes == request_bytes]

    @property
    def places(self) -> list[str]:
        """The places that were sampled, such as Edison-NoCache."""
        return list(dict.fromkeys(sample.place for sample in self.samples))


def fetch_responses(source: DataSource, missing: str = "") -> Frame:
    """Return requests with a size, of the period. Raises DataUnavailable, which says `missing`, without any
    response."""
    return source.frame("responses", _COLUMNS, {"op": OPERATIONS}, missing=missing)


def fetch_incidents(source: DataSource) -> Frame:
    """Return events of unhealthy components, of all time."""
    return source.frame("events", EVENT_COLUMNS, {"kind": "component_health"}, optional=True, any_time=True)


def samples_of(frame: Frame, facility: Facility, params: Params) -> Samples:
    """Group the finished requests among rows of `responses`. Failed, pending and missed ones, and times of 0 or less,
    are only counted."""
    ok = frame.text("status").equals("ok")
    sized = frame.ints("request_bytes") > 0
    positive = frame.ints("duration_ns") > 0
    # Map raw system names to file systems.
    system = frame.text("system")
    names = [facility.filesystem_of(name) for name in system.categories]
    distinct = tuple(dict.fromkeys(names))
    lookup = np.array([distinct.index(name) for name in names] + [-1], np.int32)
    filesystem = Text(lookup[system.codes], distinct)
    wanted = np.ones(frame.rows, np.bool_)
    if params.get("filesystem"):
        wanted = filesystem.equals(str(params["filesystem"]))
    asked = frame.ints("request_bytes")
    probed = ((asked % _PAGE != 0) | (asked == TARGET_PROBE_BYTES)) & (not params.get("probe"))
    used = ok & positive & sized & wanted & ~probed
    samples = _group_times(frame, filesystem, np.flatnonzero(used))
    smallest = int(params["minimum"])
    large = tuple(sample for sample in samples if sample.n >= smallest)
    present = sum(sample.n for sample in large)
    excluded = {
        "not finished": int((wanted & ~ok).sum()),
        "no time, or a time of 0": int((wanted & ok & ~positive).sum()),
        "no size": int((wanted & ok & positive & ~sized).sum()),
        "by the probe": int((wanted & ok & positive & sized & probed).sum()),
        f"samples with fewer than {smallest} times": sum(sample.n for sample in samples) - present,
    }
    counted = {reason: count for reason, count in excluded.items() if count}
    return Samples(large, (Coverage(int(wanted.sum()), present, "response times", counted),))


def _group_times(frame: Frame, filesystem: Text, used: Indices) -> list[ResponseSample]:
    """Group response times by request size, operation, mode and file system, in time order."""
    if not len(used):
        return []
    mode, op = frame.text("mode"), frame.text("op")
    size = np.asarray(frame.array("request_bytes"))
    keys: list[NDArray[Any]] = [size[used], op.codes[used], mode.codes[used], filesystem.codes[used]]
    # Times of the same start by duration, so that the order of a lake's rows does not matter.
    order = np.lexsort([np.asarray(frame.array(name))[used] for name in ("duration_ns", "start_ns")] + keys)
    changes = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
    samples = []
    for part in np.split(used[order], np.flatnonzero(changes) + 1):
        name, kind, what = (text.categories[text.codes[part[0]]] for text in (filesystem, mode, op))
        samples.append(ResponseSample(name, kind, what, int(size[part[0]]), part, frame))
    return sorted(samples, key=lambda s: (s.filesystem, s.mode, s.op, s.request_bytes))


def shown_size(samples: Sequence[ResponseSample], params: Params) -> int:
    """Return the requested size if there are samples of it, else the one with most times; of ties the nearest to the
    paper's 64 MB."""
    asked = params.get("request_size")
    counts: dict[int, int] = {}
    for sample in samples:
        counts[sample.request_bytes] = counts.get(sample.request_bytes, 0) + sample.n
    if asked is not None and int(asked) in counts:
        return int(asked)
    return max(counts, key=lambda size: (counts[size], -abs(size - 64 * MIB)))


def largest_place(samples: Sequence[ResponseSample]) -> tuple[str, str, str]:
    """Return file system, mode and operation with most request sizes; of ties uncached ones, then most times."""
    totals: dict[tuple[str, str, str], tuple[int, bool, int]] = {}
    for sample in samples:
        key = (sample.filesystem, sample.mode, sample.op)
        sizes, uncached, n = totals.get(key, (0, sample.mode == "nocache", 0))
        totals[key] = (sizes + 1, uncached, n + sample.n)
    return max(totals, key=lambda key: totals[key])


COMBINATION: Final = Param(
    "combination",
    "combination of head and tail distances: weighted (by group size), sum or maximum",
    default="weighted",
)
REPLICATES: Final = Param("replicates", "bootstrap replicates for each fit; 0: no intervals", kind="int", default=40)

# Replicates per task of a worker. One of some thousand times costs about 10 ms, so a batch outweighs its transfer.
_BATCH: Final = 20

FAMILY_LABELS: Final = {
    **{name: name.capitalize() for name in names_of("uniform normal gamma cauchy weibull exponential")},
    "lognormal": "LogNormal",
    "power_law": "Power Law",
}


@dataclass(frozen=True, eq=False)
class FittedSample:
    """The best fit of a sample. `laws` are its distributions in bootstrap replicates drawn with `seed`; there may be
    none."""

    sample: ResponseSample
    fit: MixtureFit
    laws: tuple[Mixture, ...]
    seed: int

    @property
    def shares(self) -> Floats:
        """The tail's share in each replicate."""
        return np.array([law.tail_share for law in self.laws])

    @property
    def pair_label(self) -> str:
        """Names of the fitted head and tail."""
        best = self.fit.best
        return f"{FAMILY_LABELS[best.head.name]} and {FAMILY_LABELS[best.tail.name]}"


def fit_samples(
    samples: Sequence[ResponseSample], params: Params, select: Selection = "ks", spread: Spread = starmap
) -> tuple[list[FittedSample], list[str]]:
    """Fit all pairs of families to every sample; also return a sentence for each sample that cannot be split."""
    fits = list(spread(_fit_or_reason, ((sample.seconds, params["combination"], select) for sample in samples)))
    split = [(seed, fit) for seed, fit in enumerate(fits) if isinstance(fit, MixtureFit)]
    batches = batches_of(int(params["replicates"]))
    orders = ((samples[seed].seconds, fit, batch, seed) for seed, fit in split for batch in batches)
    drawn = spread(_refit_replicates, orders)
    fitted = [
        FittedSample(samples[seed], fit, tuple(law for _ in batches for law in next(drawn)), seed)
        for seed, fit in split
    ]
    refused = [f"{sample.label}: {fit}." for sample, fit in zip(samples, fits, strict=True) if isinstance(fit, str)]
    return fitted, refused


def batches_of(replicates: int) -> list[range]:
    """Return batches of replicate numbers, one for each task of a worker."""
    return [range(first, min(first + _BATCH, replicates)) for first in range(0, replicates, _BATCH)]


def _fit_or_reason(seconds: Floats, combination: Combination, select: Selection) -> MixtureFit | str:
    """Return the fit, or the reason why there is none."""
    try:
        return fit_mixture(seconds, combination=combination, select=select)
    except ValueError as error:
        return str(error)


def _refit_replicates(seconds: Floats, fit: MixtureFit, replicates: range, seed: int) -> list[Mixture]:
    """Fit the families of `fit` again to bootstrap replicates with these numbers."""
    sample = sample_of(seconds)
    drawn = (sample.resampled(np.random.default_rng([seed, number])) for number in replicates)
    return [refitted(again, fit).distribution for again in drawn]


def choices(fit: MixtureFit) -> str:
    """Return a caveat on choices that the paper leaves open."""
    return (
        f"Every distinct time with at least {fit.minimum_group} times on either side is a candidate pivot. Ties at "
        "the pivot belong to the head, and the pivot is the lower bound of the tail. The distances of head and tail "
        f"are combined ({fit.combination}). A tail equivalent to the power law is excluded. The best pair of "
        f"families has the smallest {'distance' if fit.select == 'ks' else 'AIC'}."
    )


def spread_about(value: float, replicates: Floats) -> tuple[float, float]:
    """Return the interval of bootstrap replicates, scaled to be about the value itself.

    Resampled times have ties, which shift the result of the pivot search; the shift is an artefact of the bootstrap.
    """
    relative = np.quantile(replicates, ((1 - LEVEL) / 2, (1 + LEVEL) / 2)) / np.median(replicates)
    return value * float(relative[0]), value * float(relative[1])


def over_samples(estimate: Estimate) -> Estimate:
    """Reword the method of a mean over jobs for a mean over samples."""
    return replace(estimate, method=estimate.method.replace("jobs", "samples"))


def parameters_text(parameters: Mapping[str, float]) -> str:
    """Return the parameters of a distribution as text."""
    return ", ".join(f"{name} {value:.4g}" for name, value in parameters.items())


def parameter_estimates(item: FittedSample) -> tuple[Estimate, ...]:
    """Return the parameters of the fitted distribution, whose head ends at the pivot, with intervals.

    Intervals take several times as long as the fit, so they are computed only here.
    """
    fit, sample, replicates = item.fit, sample_of(item.sample.seconds), range(len(item.laws))
    intervals = bootstrap_intervals(sample, fit, replicates, seed=item.seed, level=LEVEL) if replicates else {}
    units = {"pivot": "seconds", "tail_share": "ratio", "head_location": "seconds", "head_scale": "seconds"}
    method = "no interval: the end of a Cauchy head is not identifiable" if intervals else "no interval requested"
    values = fit.distribution.parameters.items()
    found = {name: plain(name, value, "", n=fit.n, method=method) for name, value in values} | dict(intervals)
    return tuple(replace(each, unit=units.get(name, "")) for name, each in found.items())


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


def predict_widths(
    fitted: Sequence[FittedSample], total_bytes: int, *, overhead_seconds: float = 0.0, widest: int = WIDEST
) -> list[WidthPrediction]:
    """Predict for every power-of-two width whose request size is between sampled sizes; nothing is extrapolated."""
    ordered = sorted(fitted, key=lambda item: item.sample.request_bytes)
    sizes = tuple(item.sample.request_bytes for item in ordered)
    laws = BySize(sizes, tuple(item.fit.distribution for item in ordered))
    rounds = min(len(item.laws) for item in ordered)
    again = [BySize(sizes, tuple(item.laws[b] for item in ordered)) for b in range(rounds)]
    ends = [BySize(sizes, tuple(quantile_bound(item.sample.seconds, side) for item in ordered)) for side in (-1, 1)]
    upper, n = np.array([1 - p for p in PROBABILITIES]), sum(item.sample.n for item in ordered)
    found = []
    for width in (2**k for k in range(int(math.log2(widest)) + 1)):
        if not laws.covers(total_bytes / width):
            continue

        def quantiles_by(law: BySize, width: int = width) -> Floats:
            """Quantiles of the transfer in seconds, with the distributions of single requests in `law`."""
            return law.transfer(total_bytes, width, overhead_seconds).upper_quantile(upper)

        values, lows, highs = (quantiles_by(law) for law in (laws, *ends))
        replicates = np.array([quantiles_by(other) for other in again]).reshape(rounds, len(upper))
        quantiles = tuple(
            _quantile_estimate(f"{_NAMES[p]}[{width}]", float(value), float(low), float(high), n)
            for p, value, low, high in zip(PROBABILITIES, values, lows, highs, strict=True)
        )
        mean = laws.transfer(total_bytes, width, overhead_seconds).mean
        found.append(WidthPrediction(width, total_bytes / width, quantiles, mean, replicates))
    return found


def _quantile_estimate(name: str, value: float, low: float, high: float, n: int) -> Estimate:
    """Return a quantile with the interval of the measured times, if there are enough so far out."""
    if not low <= high:
        return Estimate(name, value, "seconds", n=n, method="fitted mixtures; too few slower times for an interval")
    method = "fitted mixtures, interval by order statistics"
    return Estimate(name, value, "seconds", min(low, value), max(high, value), LEVEL, n, method)


def best_width(predictions: Sequence[WidthPrediction]) -> tuple[WidthPrediction, int, float | None]:
    """Return the prediction of the narrowest width within 5% of the least q90, the width with the least q90, and the
    share of bootstrap replicates that choose the same width; None without replicates."""
    q90 = np.array([prediction.seconds(0.9) for prediction in predictions])
    chosen, fastest = _narrowest_good_width(q90), predictions[int(q90.argmin())].width
    replicates = np.array([prediction.replicates[:, PROBABILITIES.index(0.9)] for prediction in predictions])
    places = np.array([_narrowest_good_width(column) for column in replicates.T])
    return predictions[chosen], fastest, float(np.mean(places == chosen)) if replicates.size else None


def _narrowest_good_width(seconds: Floats) -> int:
    """Return the index of the first width within WORTH_IT of the least seconds."""
    return int(np.flatnonzero(seconds <= seconds.min() * (1 + WORTH_IT))[0])


def concurrent_rounds(sample: ResponseSample) -> Floats | None:
    """Return times of targets measured together: rounds x targets, complete rounds only; None with one target.

    A round is the usual time between requests to a target; of several requests in a round the first counts.
    """
    named = sample.frame.text("component")
    # Codes in alphabetical order, so that they do not depend on the order of a lake's rows.
    place_of = np.append(np.argsort(np.argsort(np.array(named.categories))), -1)
    component = place_of[named.codes[sample.rows]]
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


def targets_together(
    fitted: Sequence[FittedSample],
) -> tuple[tuple[float, float, int, int] | None, list[tuple[Cell, ...]]]:
    """Test independence across targets on the sample with most of them, and compare predicted and measured maxima."""
    tables = [(item, table) for item in fitted if (table := concurrent_rounds(item.sample)) is not None and table.size]
    if not tables:
        return None, []
    item, table = max(tables, key=lambda pair: (pair[1].shape[1], pair[1].shape[0]))
    return independence(table), [*check_maxima(table, item.fit.distribution)]


def independence_finding(test: tuple[float, float, int, int] | None) -> Finding:
    """Word the test of independence across targets."""
    name = "independent_targets"
    if test is None:
        return Finding(
            "There are too few joint samples of two targets to test whether targets are slow independently. The "
            "prediction assumes that they are.",
            "undecided",
            name,
        )
    correlation, p_value, rounds, targets = test
    evidence = (
        f"(mean rank correlation {correlation:.2f} over {targets} targets and {rounds} rounds, {p_text(p_value)})"
    )
    if p_value > 0.05:
        return Finding(f"The data are consistent with independently slow targets {evidence}.", name=name)
    text = f"Targets are not independent {evidence}."
    if correlation > 0:
        text = f"Targets are slow together {evidence}: wide stripes are faster than predicted."
    return Finding(text, "note" if p_value <= 0.01 else "undecided", name)


def collective_decision(
    predictions: Sequence[WidthPrediction], op: str, link_bytes_per_s: float | None = None
) -> Iterator[Piece]:
    """Decide whether many processes that each wait for a request of their own finish later than fewer aggregators.

    The most processes whose prediction has an interval are compared with each smaller number, at the 90% quantile.
    Shipping brings each aggregator the bytes that it does not have, at the speed of a node's link; without a link speed
    the answer is the speed from which aggregators save time.
    """
    at = PROBABILITIES.index(0.9)
    times = {one.width: one.quantiles[at] for one in predictions if one.quantiles[at].low is not None}
    *fewer, most = [one for one in predictions if one.width in times] or predictions[-1:]
    if not fewer:
        text = "Too few response times to decide whether collective I/O pays."
        yield Finding(text, "undecided", name="collective")
        return

    def shipped(one: WidthPrediction) -> float:
        """Seconds in which an aggregator receives the data of others; 0 without a link speed."""
        return (one.request_bytes - most.request_bytes) / (link_bytes_per_s or math.inf)

    best = min(fewer, key=lambda one: one.seconds(0.9) + shipped(one))
    saved, sent = most.seconds(0.9) - best.seconds(0.9) - shipped(best), best.request_bytes - most.request_bytes
    # The interval of a difference of two independent estimates follows from theirs (MOVER, Zou & Donner 2008).
    (a, low_a, high_a), (b, low_b, high_b) = (
        (each.value or 0.0, each.low or 0.0, each.high or 0.0) for each in (times[most.width], times[best.width])
    )
    low, high = saved - math.hypot(a - low_a, high_b - b), saved + math.hypot(high_a - a, b - low_b)
    method = f"90% quantile of {most.width} processes minus that of {best.width} aggregators"
    yield Estimate("collective_saving", saved, "seconds", low, high, LEVEL, times[most.width].n, method)
    who = f"{most.width} {'readers' if op == 'read' else 'writers'}"
    over = "" if link_bytes_per_s else ", not counting data shipping"
    ends = " to ".join(format_seconds(abs(each)) for each in sorted((low, high), key=abs))
    if low > 0 and link_bytes_per_s:
        text = f"Collective I/O pays: {best.width} aggregators finish {format_seconds(saved)} ({ends}) before {who}."
    elif low > 0:
        speeds = [f"{format_bytes(sent / each)}/s" for each in (saved, high, low)]
        text = (
            f"Waiting for the slowest of {who} costs {format_seconds(saved)} ({ends}) more than {best.width} "
            f"aggregators. Ship the data to them if a node receives more than {speeds[0]} ({speeds[1]} to {speeds[2]})."
        )
        yield plain(
            "collective_break_even", sent / saved, "bytes_per_s", method="bytes shipped divided by the time saved"
        )
    elif high < 0:
        ratio = (best.seconds(0.9) + shipped(best)) / most.seconds(0.9)
        text = (
            f"Collective I/O does not pay: {best.width} aggregators finish {format_seconds(-saved)} ({ends}) after "
            f"{who}{over}. It would if the slowest of {who} took {ratio:.2g}x as long."
        )
    else:
        text = (
            f"These data do not decide whether {best.width} aggregators finish before {who}{over}: "
            f"{format_seconds(abs(saved))} {'earlier' if saved > 0 else 'later'} "
            f"({format_seconds(-low)} later to {format_seconds(high)} earlier)."
        )
    decided = low > 0 or high < 0
    yield Finding(text, "note" if decided else "undecided", name="collective")


@exhibit("don15.maxorder")
def striping_exhibit(
    samples: Samples,
    fitted: Sequence[FittedSample],
    predictions: Sequence[WidthPrediction],
    total: int,
    caveats: tuple[str, ...],
    link_bytes_per_s: float | None = None,
) -> Iterator[Piece]:
    """Yield the parts of the exhibit: quantiles and means by width, the best width, collective I/O, and the tests."""
    sample = fitted[0].sample
    title = f"{sample.op.capitalize()} of {format_bytes(total)} on {sample.place}"
    best, _, agreement = best_width(predictions)
    test, checks = targets_together(fitted)
    yield [quantile for prediction in predictions for quantile in prediction.quantiles]
    yield plain("best_width", best.width, "count", method="narrowest width within 5% of the lowest q90")
    if agreement is not None:
        yield plain("best_width_agreement", agreement, "ratio", method="share of bootstrap replicates")
    if test is not None:
        correlation, p_value, rounds, _ = test
        method = "mean pairwise Spearman correlation; null by shifting each target in time"
        yield plain("target_correlation", correlation, "", n=rounds, method=method)
        yield plain("independence_p", p_value, "", n=rounds, method=method)
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
            checks,
            "Predicted and measured slowest request of jointly measured targets",
        )
    by_width = ResultTable.of(
        "by_width",
        "width: stripe width [count]; quantile [text]; seconds: time of the transfer [seconds]; low [seconds]; "
        "high [seconds]",
        drawn,
    )
    yield Chart.of("band", by_width, "x=width y=seconds low high series=quantile", title, log="xy")
    half, most = (format_seconds(best.seconds(p)) for p in (0.5, 0.99))
    text = f"{title}: {best.width} is the best of these widths if there are enough targets; half finish within "
    sure = agreement is None or agreement >= 0.8
    yield Finding(f"{text}{half}, 99% within {most}.", "note" if sure else "undecided", name="best_width")
    yield independence_finding(test)
    yield collective_decision(predictions, sample.op, link_bytes_per_s)
    yield (
        "A transfer has the distribution F(S/n)^n. Request sizes between sampled sizes are interpolated. Widths "
        "whose requests are outside the sampled sizes are excluded."
    )
    if any(math.isinf(prediction.mean) for prediction in predictions):
        yield "A missing mean is infinite, because the tail has alpha <= 2. Compare quantiles instead."
    yield caveats, samples.coverage


def known_targets(snapshot: Snapshot, _: Params) -> Cell:
    """Return the number of OSTs in the lake."""
    return max((group.components for group in snapshot.series() if group.component_kind == "ost"), default=None)


def without_incidents(responses: Frame, events: Frame, facility: Facility) -> tuple[Frame, tuple[str, ...]]:
    """Return response times without those of components that were unhealthy at the time, and a caveat where any
    were: an incident of one target is no law."""
    hit = in_incidents(responses, events, facility)
    if not hit.any():
        return responses, ()
    return responses.take(~hit), (f"{int(hit.sum()):,} response times of unhealthy components were left out.",)


def in_incidents(responses: Frame, events: Frame, facility: Facility) -> Bools:
    """Operations of probes and samplers on components that were unhealthy at that time; of what all targets share, and
    of metadata servers, all of that file system."""
    start = responses.ints("start_ns")
    component, system = responses.text("component"), responses.text("system")
    homes = [facility.filesystem_of(name) for name in system.categories]
    hit = np.zeros(responses.rows, np.bool_)
    for event in events.records():
        names = {event["component"], *json.loads(event["details"] or "{}").get("through", [])}
        known = [code for code, name in enumerate(component.categories) if name in names]
        home = facility.filesystem_of(event["system"]) if event["system"] else None
        here = np.isin(system.codes, [code for code, name in enumerate(homes) if home in (None, name)])
        end = np.iinfo(np.int64).max if event["end_ns"] is None else event["end_ns"]
        during = here & (start >= event["start_ns"]) & (start < end)
        hit |= during & np.isin(component.codes, known) if known else during
    return hit
