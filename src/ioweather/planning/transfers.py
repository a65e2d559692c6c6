"""Duration of a transfer, and the stripe count for a file, from sampled response times.

The duration is a predictive distribution with its assumptions; the stripe count comes from the order statistics of
don15, as a command line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np

from ioweather.core.choices import FILESYSTEM_SAMPLED, MODE
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Frame
from ioweather.core.results import Answer, Chart, Exhibit, Fact, FactGroup
from ioweather.core.units import MIB, format_bytes, format_seconds, parse_size
from ioweather.facts.response_samples import (
    PROBABILITIES,
    WIDEST,
    FittedSample,
    ResponseSample,
    Samples,
    WidthPrediction,
    best_width,
    choices,
    fetch_incidents,
    fetch_responses,
    fit_samples,
    independence_finding,
    known_targets,
    largest_place,
    predict_widths,
    samples_of,
    striping_exhibit,
    targets_together,
    without_incidents,
)
from ioweather.stats.order_statistics import BySize, slowest_of
from ioweather.stats.summary_tables import cdf_table
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class Quantile:
    """This share of transfers finishes within `seconds`."""

    probability: float
    seconds: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class WidthOutcome:
    width: int
    request_bytes: float
    quantiles: tuple[Quantile, ...]


@dataclass(frozen=True)
class StripeOutcome:
    """`width` is the recommended stripe count; `widths` are all that were considered. Times are those of `piece_bytes`
    of the file where it is larger than what was sampled, else of the file."""

    op: str
    file_bytes: int
    filesystem: str | None = None
    width: int | None = None
    request_bytes: float | None = None
    command: str | None = None
    agreement: float | None = None
    quantiles: tuple[Quantile, ...] = ()
    widths: tuple[WidthOutcome, ...] = ()
    piece_bytes: int | None = None


@dataclass(frozen=True)
class PredictOutcome:
    """`stripe` is the advice on striping, where that was requested."""

    op: str
    total_bytes: int
    request_bytes: float
    width: int
    rounds: int
    filesystem: str | None = None
    quantiles: tuple[Quantile, ...] = ()
    mean_seconds: float | None = None
    stripe: StripeOutcome | None = None


MINIMUM: Final = 100
REPLICATES: Final = 40
_QUANTILES: Final = {
    0.05: "fastest 5% within",
    0.5: "half within",
    0.9: "90% within",
    0.95: "95% within",
    0.99: "99% within",
}
_WIDTH_LABELS: Final = {0.5: "half finish within", 0.9: "90% finish within", 0.99: "99% finish within"}
# Maximum rounds of requests, which are drawn one by one; longer transfers need larger requests.
_MOST_ROUNDS: Final = 100_000
_DRAWS: Final = 20_000_000
_MOST_TRANSFERS: Final = 4_000
# Minimum share of common targets of two request sizes.
_SHARED_TARGETS: Final = 0.5
# Agreement of the bootstrap replicates from which advice is firm.
_FIRM: Final = 0.8


class _RequestTimes(NamedTuple):
    """Fits by request size, smallest first, all of one place and operation."""

    samples: Samples
    fitted: Sequence[FittedSample]
    caveats: tuple[str, ...]

    @property
    def example(self) -> ResponseSample:
        """The sample of the smallest size: its file system, mode and operation are those of all."""
        return self.fitted[0].sample

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(item.sample.request_bytes for item in self.fitted)

    @property
    def range_text(self) -> str:
        return f"{format_bytes(self.sizes[0])} to {format_bytes(self.sizes[-1])}"


def fit_request_times(
    responses: Frame, facility: Facility, *, op: str, filesystem: str | None, mode: str | None, replicates: int
) -> _RequestTimes:
    """Fit the samples of a file system, operation and mode; of None, the one with the most samples."""
    params: dict[str, Any] = {"minimum": MINIMUM, "replicates": replicates, "combination": "weighted"}
    samples = samples_of(responses, facility, params | {"filesystem": filesystem})
    ops = ("write", "write_sync") if op == "write" else (op,)
    wanted = [sample for sample in samples.samples if sample.op in ops and mode in (None, sample.mode)]
    if not wanted:
        asked = " ".join(part for part in (mode, op) if part)
        where = f" on {filesystem}" if filesystem else ""
        others = samples_of(responses, facility, params).places
        known = f"Available: {', '.join(others)}." if others else "Measure with `ioweather probe PATH --sizes paper`."
        raise DataUnavailable(f"No answer: needs {MINIMUM} response times of one size for {asked}{where}. {known}")
    place = largest_place(wanted)
    mine = [sample for sample in wanted if (sample.filesystem, sample.mode, sample.op) == place]
    # For the far tail AIC is better: the distance favours families with more parameters.
    fitted, refused = fit_samples(mine, params, select="aic")
    if not fitted:
        raise DataUnavailable(f"No answer: no sample can be fitted: {refused[0]}")
    return _RequestTimes(samples, fitted, (choices(fitted[0].fit), *refused))


def list_targets(sample: ResponseSample) -> set[str]:
    """Return the names of targets in the rows."""
    text = sample.frame.text("component")
    return {text.categories[code] for code in np.unique(text.codes[sample.rows]) if code >= 0}


def _draw_transfers(
    times: _RequestTimes, size: float, width: int, rounds: int, replicates: int
) -> tuple[Floats, float]:
    """Return simulated times of transfers, and their mean: infinite if the tail of a replicate has no mean.

    The fit, or each of its bootstrap replicates, draws the same number of transfers, to include its uncertainty.
    """
    fits = [[item.laws[b] for item in times.fitted] for b in range(replicates)]
    laws = [BySize(times.sizes, tuple(fit)) for fit in fits or [[i.fit.distribution for i in times.fitted]]]
    rng, each = np.random.default_rng(0), max(5, min(_MOST_TRANSFERS, _DRAWS // rounds) // len(laws))
    slowest = [slowest_of(law.at(size), width) for law in laws]
    drawn = [law.sample(each * rounds, rng).reshape(each, rounds).sum(axis=1) for law in slowest]
    return np.concatenate(drawn), rounds * float(np.mean([law.mean for law in slowest]))


def predict_transfer(
    responses: Frame,
    facility: Facility,
    *,
    total_bytes: int,
    request_bytes: int | None = None,
    width: int = 1,
    op: str = "read",
    filesystem: str | None = None,
    mode: str | None = None,
    replicates: int = REPLICATES,
) -> Answer:
    """Predict the time of `total_bytes` moved in successive rounds of `width` concurrent requests of `request_bytes`.

    Without `request_bytes` each of `width` requests moves its part of the whole, or the largest sampled size. The
    intervals are those of single transfers, and include the uncertainty of the fits.
    """
    if total_bytes <= 0 or width < 1 or (request_bytes is not None and request_bytes <= 0):
        raise ValueError("a transfer needs a positive size, request size and width")
    times = fit_request_times(responses, facility, op=op, filesystem=filesystem, mode=mode, replicates=replicates)
    size = request_bytes or min(total_bytes / width, times.sizes[-1])
    rounds = max(1, math.ceil(total_bytes / (size * width) - 1e-9))
    if rounds > _MOST_ROUNDS:
        raise ValueError(f"too many rounds of requests ({rounds:,}); use larger requests")
    place = times.example.place
    if not times.sizes[0] <= size <= times.sizes[-1]:
        raise DataUnavailable(
            f"No answer: requests of {format_bytes(size)} are outside the sampled sizes ({times.range_text} on "
            f"{place}). Values are not extrapolated, so sample that size."
        )
    drawn, mean = _draw_transfers(times, size, width, rounds, replicates)
    seconds = dict(zip(_QUANTILES, np.quantile(drawn, [*_QUANTILES]).tolist(), strict=True))
    known = mean if math.isfinite(mean) else None
    note = "" if known is not None else "may be infinite, because a tail with alpha <= 2 also fits; use the quantiles"
    facts = [Fact(f"q{round(100 * p)}_seconds", _QUANTILES[p], value, "seconds") for p, value in seconds.items()]
    facts.append(Fact("mean_seconds", "mean", known, "seconds", note=note))
    at_a_time = f", {width} at a time" if width > 1 else ""
    question = (
        f"How long does it take to {op} {format_bytes(total_bytes)} in requests of {format_bytes(size)}{at_a_time}?"
    )
    caveats = [f"The prediction assumes the load of the samples ({place}). The load during the transfer is unknown."]
    if rounds > 1:
        caveats += ["Rounds are assumed to be independent. Slow periods make long transfers vary more than predicted."]
    if width > 1:
        text = "The requests of a round go to different targets, which are assumed to be independent. "
        caveats += [f"{text}A round ends with its slowest request."]
    caveats += [f"Request sizes between the sampled sizes ({times.range_text}) are interpolated."]
    table = cdf_table("predicted", {"predicted": drawn}, "time per transfer", "seconds")
    chart = Chart.of("cdf", table, "x=value y=share", "Predicted transfer time", log="x")
    quantiles = tuple(Quantile(p, value) for p, value in seconds.items())
    return Answer(
        question=question,
        headline=f"About {format_seconds(seconds[0.5])}; 90% of such transfers take between "
        f"{format_seconds(seconds[0.05])} and {format_seconds(seconds[0.95])}.",
        facts=(FactGroup("time", "Time of one transfer", tuple(facts)),),
        exhibits=(Exhibit("predict", question, charts=(chart,)),),
        findings=(independence_finding(targets_together(times.fitted)[0]),) if width > 1 else (),
        caveats=tuple(caveats),
        coverage=times.samples.coverage,
        name="predict",
        result=PredictOutcome(
            times.example.op, total_bytes, size, width, rounds, times.example.filesystem, quantiles, known
        ),
    )


def recommend_stripe(
    responses: Frame,
    facility: Facility,
    *,
    file_bytes: int,
    op: str = "write",
    filesystem: str | None = None,
    mode: str | None = None,
    targets: int | None = None,
    directory: str = "DIRECTORY",
    replicates: int = REPLICATES,
) -> Answer:
    """Recommend a stripe count for a file of `file_bytes` that is read or written at once, from sampled response times.

    `responses` are rows of that table; `targets` is the number of targets of the file system, if known. Without samples
    of single targets at two sizes or more it raises DataUnavailable with the reason.
    """
    if file_bytes <= 0:
        raise ValueError(f"a file of {file_bytes} bytes cannot be striped")
    times = fit_request_times(responses, facility, op=op, filesystem=filesystem, mode=mode, replicates=replicates)
    times = _require_same_targets(times)
    predictions, piece_bytes = _predict_pieces(times, file_bytes, min(WIDEST, targets or WIDEST))
    chosen, _, agreement = best_width(predictions)
    sample, first, command = times.example, predictions[0], format_setstripe(chosen, directory)
    headline = f"{command}: 90% of such {sample.op}s finish within {format_seconds(chosen.seconds(0.9))}"
    if first is not chosen:
        stripes = f"{first.width} stripe{'s' if first.width > 1 else ''}"
        headline += f", {first.seconds(0.9) / chosen.seconds(0.9):.2g}x faster than with {stripes}"
    is_firm = agreement is not None and agreement >= _FIRM
    headline += "." if is_firm else "; other stripe counts fit the data about as well."
    if piece_bytes < file_bytes:
        headline += (
            f" This is the time per {format_bytes(piece_bytes)}, the largest sampled size. The file has "
            f"{math.ceil(file_bytes / piece_bytes):,} such pieces, which are transferred in sequence."
        )
    caveats = [
        "The model moves the file at once: each of n targets serves one request of 1/n of the file, like the "
        f"probe's requests on {sample.place}. The client's network limit is not modelled.",
        "Targets are assumed to be independent. The findings show whether the samples agree.",
        f"Request sizes between the sampled sizes ({times.range_text}) are interpolated. Nothing is extrapolated.",
    ]
    if targets is None:
        caveats.append(f"The number of targets is unknown (set --targets). Counts up to {WIDEST} were considered.")
    facts = [
        Fact("command", "command", command),
        Fact("width", "stripe count", chosen.width, "count"),
        Fact("request_bytes", "each target gets", round(chosen.request_bytes), "bytes"),
    ]
    for p, estimate in zip(PROBABILITIES, chosen.quantiles, strict=True):
        note = ""
        if estimate.low is not None and estimate.high is not None:
            note = f"{format_seconds(estimate.low)} to {format_seconds(estimate.high)} ({estimate.level:.0%} interval)"
        facts.append(Fact(f"q{round(100 * p)}_seconds", _WIDTH_LABELS[p], estimate.value, "seconds", note=note))
    by_width = {
        each: tuple(Quantile(p, q.value, q.low, q.high) for p, q in zip(PROBABILITIES, each.quantiles, strict=True))
        for each in predictions
    }
    return Answer(
        question=f"Over how many targets should a file of {format_bytes(file_bytes)} be striped ({op})?",
        headline=headline,
        facts=(FactGroup("recommended", "Recommended", tuple(facts)),),
        exhibits=(striping_exhibit(times.samples, times.fitted, predictions, piece_bytes, times.caveats),),
        findings=(independence_finding(targets_together(times.fitted)[0]),),
        caveats=tuple(caveats),
        coverage=times.samples.coverage,
        name="stripe",
        result=StripeOutcome(
            op=sample.op,
            file_bytes=file_bytes,
            piece_bytes=piece_bytes if piece_bytes < file_bytes else None,
            filesystem=sample.filesystem,
            width=chosen.width,
            request_bytes=chosen.request_bytes,
            command=command,
            agreement=agreement,
            quantiles=by_width[chosen],
            widths=tuple(WidthOutcome(p.width, p.request_bytes, quantiles) for p, quantiles in by_width.items()),
        ),
    )


def _require_same_targets(times: _RequestTimes) -> _RequestTimes:
    """Return the samples that name their targets; effects of size and target can be separated only if any two sizes
    share most of them."""
    named = {index: targets for index, item in enumerate(times.fitted) if (targets := list_targets(item.sample))}
    if len(named) < 2:
        raise DataUnavailable(
            "No answer: the model needs response times per target at two or more request sizes. On "
            f"{times.example.place}, {len(named)} of {len(times.fitted)} sizes have response times per target. Measure "
            "with `ioweather probe --sizes`."
        )
    pairs = itertools.combinations(named.values(), 2)
    if any(len(one & other) < _SHARED_TARGETS * len(one | other) for one, other in pairs):
        raise DataUnavailable(
            f"No answer: the sampled sizes of {times.example.place} are on different targets, so a slow target cannot "
            "be separated from a slow size. Sample every size on the same targets: "
            "`ioweather probe PATH --sizes paper --osts 0,1,2,3`."
        )
    return times._replace(fitted=[times.fitted[index] for index in named])


def _predict_pieces(times: _RequestTimes, file_bytes: int, widest: int) -> tuple[list[WidthPrediction], int]:
    """Return predictions by width, and the bytes they are of: the file, or pieces of the largest sampled size if its
    requests are larger than sampled ones even with all targets."""
    for piece_bytes in (file_bytes, min(file_bytes, times.sizes[-1])):
        if predictions := predict_widths(times.fitted, piece_bytes, widest=widest):
            return predictions, piece_bytes
    raise DataUnavailable(
        f"No answer: with 1 to {widest} stripes, the requests of a {format_bytes(file_bytes)} file are outside the "
        f"sampled sizes ({times.range_text} on {times.example.place}). Only files of at least "
        f"{format_bytes(times.sizes[0])} are supported. For smaller files, sample smaller requests."
    )


def format_setstripe(chosen: WidthPrediction, directory: str) -> str:
    """Return the command for one object per target: a stripe size of file/width in whole MiB, at least 1 MiB."""
    size = "" if chosen.request_bytes < MIB else f" -S {min(math.ceil(chosen.request_bytes / MIB), 4095)}M"
    return f"lfs setstripe -c {chosen.width}{size} {directory}"


def run(source: DataSource, params: Params) -> Answer:
    """Predict the time of a transfer, or recommend a stripe count."""
    missing = "No response times in the lake. Measure some with `ioweather probe --sizes`."
    facility, measured = source.facility, fetch_responses(source, missing)
    responses, left_out = without_incidents(measured, fetch_incidents(source), facility)
    op = params["op"] or ("write" if params["stripe"] else "read")
    common: dict[str, Any] = {"op": op} | {name: params[name] for name in ("filesystem", "mode")}
    try:
        total_bytes = parse_size(str(params["size"]))
        if not params["stripe"]:
            asked = {"total_bytes": total_bytes, "request_bytes": params["request"], "width": params["width"]}
            found = predict_transfer(responses, facility, **asked, **common)
            return replace(found, caveats=(*found.caveats, *left_out))
        asked = {"file_bytes": total_bytes, "targets": params["targets"], "directory": params["directory"]}
        found = recommend_stripe(responses, facility, **asked, **common)
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    stripe = found.result
    assert isinstance(stripe, StripeOutcome)
    outcome = PredictOutcome(
        stripe.op,
        total_bytes,
        request_bytes=stripe.request_bytes or 0,
        width=stripe.width or 0,
        rounds=-(-total_bytes // (stripe.piece_bytes or total_bytes)),
        filesystem=stripe.filesystem,
        quantiles=stripe.quantiles,
        stripe=stripe,
    )
    return replace(found, name="predict", result=outcome, caveats=(*found.caveats, *left_out))


QUESTION = Question(
    name="predict",
    result=PredictOutcome,
    run=run,
    tables=frozenset({"events", "responses"}),
    params=(
        Param("size", "Transfer size.", required=True),
        FILESYSTEM_SAMPLED,
        MODE,
        Param(
            "op",
            "Read or write SIZE (default: read; with --stripe: write).",
            choices=("read", "write"),
            option="read/write",
        ),
        Param(
            "request",
            "Size of one request (default: SIZE / width, at most the largest sampled size).",
            "size",
            metavar="SIZE",
        ),
        Param("width", "Number of requests in flight.", "int", 1, least=1),
        Param("stripe", "Recommend a stripe count for a file of SIZE.", "flag", default=False),
        Param(
            "targets",
            "With --stripe: number of OSTs (default: as recorded in the lake).",
            "int",
            choose=known_targets,
            least=1,
        ),
        Param("directory", "With --stripe: directory for the lfs setstripe line.", default="DIRECTORY"),
    ),
    help="Predict the duration of a SIZE transfer, with an interval, from sampled response times.",
    epilog="""\b
Example: ioweather predict 1TiB --request 16MiB --width 8 --read
Example: ioweather predict 64GiB --stripe --directory /scratch/run7
""",
    seen_by="public",
)
