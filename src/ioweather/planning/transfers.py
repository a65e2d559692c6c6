"""Duration of a transfer, and the stripe count for a file, from sampled response times.

The duration is a predictive distribution with its assumptions; the stripe count comes from the order statistics of
don15, as a command line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Outcome
from ioweather.core.results import Answer, Chart, Coverage, Estimate, Exhibit, Fact, FactGroup, Finding
from ioweather.core.units import MIB, format_bytes, format_seconds
from ioweather.facts.response_samples import (
    FittedSample,
    ResponseSample,
    Samples,
    choices,
    fit_samples,
    largest_place,
    samples_of,
)
from ioweather.facts.striped_transfers import (
    PROBABILITIES,
    WIDEST,
    WORTH_IT,
    BestWidth,
    WidthPrediction,
    best_width,
    independence_finding,
    predict_widths,
    striping_exhibit,
    targets_together,
)
from ioweather.stats.order_statistics import BySize, MaximumOf
from ioweather.stats.summary_tables import cdf_table


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
class StripeOutcome(Outcome):
    """`width` is the recommended stripe count, None where there is no advice; `widths` are all that were considered.
    Times are those of `piece_bytes` of the file where it is larger than what was sampled, else of the file."""

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
class PredictOutcome(Outcome):
    """Without quantiles there is no answer; the headline says why. `stripe`: the advice on striping, where asked."""

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


@dataclass(frozen=True)
class RequestTimes:
    """Fits by request size, smallest first; `known_targets` is the number of targets in the rows."""

    samples: Samples
    fitted: tuple[FittedSample, ...]
    known_targets: int
    caveats: tuple[str, ...]

    @property
    def place(self) -> str:
        return self.fitted[0].sample.place

    @property
    def op(self) -> str:
        return self.fitted[0].sample.op

    @property
    def range_text(self) -> str:
        sizes = [item.sample.request_bytes for item in self.fitted]
        return f"{format_bytes(sizes[0])} to {format_bytes(sizes[-1])}"


@dataclass(frozen=True)
class Lacking:
    """The reason why there is no answer, and a remedy, in a sentence."""

    reason: str
    coverage: tuple[Coverage, ...] = ()

    def answer(self, question: str, name: str, result: Outcome) -> Answer:
        return Answer(question, f"No answer: {self.reason}", coverage=self.coverage, name=name, result=result)


def request_times(
    responses: Frame,
    facility: Facility,
    *,
    op: str | None = None,
    filesystem: str | None = None,
    mode: str | None = None,
    replicates: int = REPLICATES,
) -> RequestTimes | Lacking:
    """Fit the samples of a file system, operation and mode; of None, the one with the most samples."""
    params: dict[str, Any] = {"filesystem": filesystem, "minimum": MINIMUM, "replicates": replicates}
    params["combination"] = "weighted"
    samples = samples_of(StudyData({"responses": responses}), facility, params)
    wanted = [s for s in samples.samples if _is(op, s.op) and _is(mode, s.mode)]
    if not wanted:
        asked = " ".join(part for part in (mode, op or "read or write") if part)
        where = f" on {filesystem}" if filesystem else ""
        others = samples_of(StudyData({"responses": responses}), facility, params | {"filesystem": None}).places
        known = f"There are: {', '.join(others)}." if others else "Take some with `ioweather probe PATH --sizes paper`."
        return Lacking(f"needs {MINIMUM} response times of one size for {asked}{where}. {known}", samples.coverage)
    place = largest_place(wanted)
    mine = [s for s in wanted if (s.filesystem, s.mode, s.op) == place]
    # For the far tail AIC is better: the distance favours families with more parameters.
    fitted, refused = fit_samples(mine, params, select="aic")
    if not fitted:
        return Lacking(f"no sample can be fitted: {refused[0]}", samples.coverage)
    targets = set().union(*(targets_of(item.sample) for item in fitted))
    return RequestTimes(samples, tuple(fitted), len(targets), (choices(fitted[0].fit), *refused))


def _is(wanted: str | None, value: str) -> bool:
    return wanted is None or value == wanted or (wanted == "write" and value == "write_sync")


def targets_of(sample: ResponseSample) -> set[str]:
    """Return the names of targets in the rows."""
    text = sample.frame.text("component")
    return {text.categories[code] for code in np.unique(text.codes[sample.rows]) if code >= 0}


_QUANTILES: Final = (0.05, 0.5, 0.9, 0.95, 0.99)
_LABELS: Final = {
    0.05: "fastest 5% within",
    0.5: "half within",
    0.9: "90% within",
    0.95: "95% within",
    0.99: "99% within",
}
# Maximum rounds of requests, which are drawn one by one; longer transfers need larger requests.
_MOST_ROUNDS: Final = 100_000
_DRAWS: Final = 20_000_000
_MOST_TRANSFERS: Final = 4_000


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
        raise ValueError("a transfer needs positive bytes, request size and width")
    times = request_times(responses, facility, op=op, filesystem=filesystem, mode=mode, replicates=replicates)
    size = request_bytes if request_bytes is not None else total_bytes / width
    if request_bytes is None and not isinstance(times, Lacking):
        size = min(size, max(item.sample.request_bytes for item in times.fitted))
    rounds = max(1, math.ceil(total_bytes / (size * width) - 1e-9))
    question = (
        f"How long does it take to {op} {format_bytes(total_bytes)} in requests of {format_bytes(size)}"
        f"{f', {width} at a time' if width > 1 else ''}?"
    )
    if rounds > _MOST_ROUNDS:
        raise ValueError(f"{rounds:,} rounds of requests: describe the transfer in larger requests")
    unanswered = PredictOutcome(op, total_bytes, size, width, rounds, filesystem)
    if isinstance(times, Lacking):
        return times.answer(question, "predict", unanswered)
    laws = _laws(times, replicates)
    if not laws[0].covers(size):
        reason = (
            f"requests of {format_bytes(size)} lie outside the sampled sizes ({times.range_text} on {times.place}). "
            "Sample that size; nothing is extrapolated."
        )
        return Lacking(reason, times.samples.coverage).answer(question, "predict", unanswered)
    # Each replicate of the fit draws the same number of transfers, to include its uncertainty.
    rng, used = np.random.default_rng(0), laws[1:] or laws
    each = max(5, min(_MOST_TRANSFERS, _DRAWS // rounds) // len(used))
    samples = (MaximumOf(law.at(size), width).sample(each * rounds, rng).reshape(each, rounds) for law in used)
    drawn = np.concatenate([sample.sum(axis=1) for sample in samples])
    asked = replace(unanswered, op=times.op, filesystem=times.fitted[0].sample.filesystem)
    return _answer(question, times, drawn, used, asked)


def _laws(times: RequestTimes, replicates: int) -> list[BySize]:
    """Return the fit, then its bootstrap replicates."""
    sizes = tuple(item.sample.request_bytes for item in times.fitted)
    laws = [BySize(sizes, tuple(item.fit.distribution for item in times.fitted))]
    laws += [BySize(sizes, tuple(item.laws[b] for item in times.fitted)) for b in range(replicates)]
    return laws


def _answer(question: str, times: RequestTimes, drawn: Floats, laws: list[BySize], asked: PredictOutcome) -> Answer:
    size, width, rounds = asked.request_bytes, asked.width, asked.rounds
    quantiles = {p: float(q) for p, q in zip(_QUANTILES, np.quantile(drawn, _QUANTILES), strict=True)}
    # Over the same replicates as the quantiles: infinite if the tail of one has no mean.
    mean = rounds * float(np.mean([MaximumOf(law.at(size), width).mean for law in laws]))
    headline = (
        f"About {format_seconds(quantiles[0.5])}; nine in ten such transfers take between "
        f"{format_seconds(quantiles[0.05])} and {format_seconds(quantiles[0.95])}."
    )
    facts = [Fact(f"q{round(100 * p)}_seconds", _LABELS[p], value, "seconds") for p, value in quantiles.items()]
    known = mean if math.isfinite(mean) else None
    note = "" if known is not None else "may be infinite: a tail of alpha <= 2 fits too; judge by quantiles"
    facts.append(Fact("mean_seconds", "mean", known, "seconds", note=note))
    basis = (
        Fact("place", "samples", f"{times.place}, {times.op}, {times.range_text}"),
        Fact("samples", "response times", sum(item.sample.n for item in times.fitted), "count"),
        Fact("request_bytes", "size of a request", size, "bytes"),
        Fact("rounds", "rounds of requests", rounds, "count"),
        Fact("width", "requests at a time", width, "count"),
    )
    table = cdf_table("predicted", {"predicted": drawn}, "time of the transfer", "seconds")
    chart = Chart.of("cdf", table, "x=value y=share", "Predicted time of one transfer", log="x")
    return Answer(
        question=question,
        headline=headline,
        facts=(FactGroup("time", "Time of one transfer", tuple(facts)), FactGroup("basis", "Rests on", basis)),
        exhibits=(Exhibit("predict", question, charts=(chart,)),),
        findings=(independence_finding(targets_together(times.fitted)[0]),) if width > 1 else (),
        caveats=tuple(_assumptions(times, rounds, width)),
        coverage=times.samples.coverage,
        name="predict",
        result=replace(asked, quantiles=tuple(Quantile(p, s) for p, s in quantiles.items()), mean_seconds=known),
    )


def _assumptions(times: RequestTimes, rounds: int, width: int) -> Iterator[str]:
    yield f"Assumes the same load as when sampled ({times.place}); the load during the transfer is unknown."
    if rounds > 1:
        yield "Rounds are assumed to be independent; slow periods make long transfers vary more than this."
    if width > 1:
        yield "Requests of a round go to different targets, assumed independent; a round ends with its slowest request."
    yield f"Request sizes between the sampled ones ({times.range_text}) are interpolated."


_WIDTH_LABELS: Final = {0.5: "half finish within", 0.9: "90% finish within", 0.99: "99% finish within"}
_NAMES: Final = {0.5: "q50_seconds", 0.9: "q90_seconds", 0.99: "q99_seconds"}
# Minimum share of common targets of two request sizes.
_SHARED_TARGETS: Final = 0.5
# Agreement of the bootstrap replicates from which advice is firm.
_FIRM: Final = 0.8


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
    of single targets at two sizes or more there is no advice, and the headline gives the reason.
    """
    question = f"Over how many targets should a file of {format_bytes(file_bytes)} be striped ({op})?"
    if file_bytes <= 0:
        raise ValueError(f"a file of {file_bytes} bytes cannot be striped")
    times = request_times(responses, facility, op=op, filesystem=filesystem, mode=mode, replicates=replicates)
    unanswered = StripeOutcome(op, file_bytes, filesystem)
    if isinstance(times, Lacking):
        return times.answer(question, "stripe", unanswered)
    single = replace(times, fitted=tuple(item for item in times.fitted if targets_of(item.sample)))
    if len(single.fitted) < 2:
        lacking = (
            f"per-target response times at two request sizes or more are needed; on {times.place} "
            f"{len(single.fitted)} of {len(times.fitted)} sizes name their target. "
            "Take them with `ioweather probe --sizes`."
        )
        return Lacking(lacking, times.samples.coverage).answer(question, "stripe", unanswered)
    if _is_confounded(single):
        lacking = (
            f"the sampled sizes of {single.place} are on different targets, so a slow target cannot be separated "
            "from a slow size. Sample every size on the same targets: "
            "`ioweather probe PATH --sizes paper --osts 0,1,2,3`."
        )
        return Lacking(lacking, single.samples.coverage).answer(question, "stripe", unanswered)
    widest = min(WIDEST, targets or WIDEST)
    sizes = [item.sample.request_bytes for item in single.fitted]
    piece_bytes = file_bytes
    predictions = predict_widths(single.fitted, file_bytes, widest=widest)
    if not predictions and file_bytes > sizes[-1]:
        # Even with all targets the requests are larger than sampled ones: the file moves in pieces of sampled size.
        piece_bytes = sizes[-1]
        predictions = predict_widths(single.fitted, piece_bytes, widest=widest)
    if not predictions:
        lacking = (
            f"with 1 to {widest} stripes, the requests of a {format_bytes(file_bytes)} file are outside the sampled "
            f"sizes ({single.range_text} on {single.place}). Only files of {format_bytes(sizes[0])} or more are "
            "supported; sample smaller requests for others. Nothing is extrapolated."
        )
        return Lacking(lacking, single.samples.coverage).answer(question, "stripe", unanswered)
    best = best_width(predictions)
    chosen = next(prediction for prediction in predictions if prediction.width == best.width)
    command = setstripe(best.width, chosen.request_bytes, directory)
    test, _ = targets_together(single.fitted)
    exhibit = striping_exhibit(single.samples, single.fitted, predictions, piece_bytes, single.caveats)
    headline = _stripe_headline(single, predictions, best, chosen, command)
    if piece_bytes < file_bytes:
        headline += (
            f" This is the time per {format_bytes(piece_bytes)}, the largest sampled size; the file has "
            f"{math.ceil(file_bytes / piece_bytes):,} such pieces, transferred in sequence."
        )
    return Answer(
        question=question,
        headline=headline,
        facts=tuple(_stripe_facts(single, predictions, best, chosen, command)),
        exhibits=(exhibit,),
        findings=(*_worth(predictions, best), independence_finding(test)),
        caveats=tuple(_stripe_assumptions(single, targets)),
        coverage=single.samples.coverage,
        name="stripe",
        result=StripeOutcome(
            op=single.op,
            file_bytes=file_bytes,
            piece_bytes=piece_bytes if piece_bytes < file_bytes else None,
            filesystem=single.fitted[0].sample.filesystem,
            width=best.width,
            request_bytes=chosen.request_bytes,
            command=command,
            agreement=best.agreement,
            quantiles=_quantiles(chosen),
            widths=tuple(WidthOutcome(p.width, p.request_bytes, _quantiles(p)) for p in predictions),
        ),
    )


def _is_confounded(times: RequestTimes) -> bool:
    """Whether two sizes have too few targets in common to separate the effects of size and target."""
    sets = [targets_of(item.sample) for item in times.fitted]
    return any(len(one & other) < _SHARED_TARGETS * len(one | other) for one, other in itertools.combinations(sets, 2))


def _quantiles(prediction: WidthPrediction) -> tuple[Quantile, ...]:
    return tuple(Quantile(p, q.value, q.low, q.high) for p, q in zip(PROBABILITIES, prediction.quantiles, strict=True))


def _stripe_facts(
    times: RequestTimes,
    predictions: Sequence[WidthPrediction],
    best: BestWidth,
    chosen: WidthPrediction,
    command: str,
) -> Iterator[FactGroup]:
    recommended = [
        Fact("command", "command", command),
        Fact("width", "stripe count", chosen.width, "count"),
        Fact("request_bytes", "each target gets", round(chosen.request_bytes), "bytes"),
        *(_fact(_NAMES[p], _WIDTH_LABELS[p], chosen.quantiles[i]) for i, p in enumerate(PROBABILITIES)),
    ]
    yield FactGroup("recommended", "Recommended", tuple(recommended))
    q90 = PROBABILITIES.index(0.9)
    others = (_fact(f"width_{p.width}", str(p.width), p.quantiles[q90]) for p in predictions if p.width != best.width)
    yield FactGroup("other_widths", "Other stripe counts, 90% finish within", tuple(others))
    note = "no bootstrap asked for" if best.agreement is None else "of bootstrap replicates choose this count"
    sureness = (
        Fact("agreement", "agreement", best.agreement, "ratio", share=best.agreement, note=note),
        Fact("samples", "response times", sum(item.sample.n for item in times.fitted), "count"),
        Fact("sampled_sizes", "sampled sizes", times.range_text),
        Fact("sampled_targets", "targets sampled", times.known_targets, "count"),
    )
    yield FactGroup("sureness", "How sure", sureness)


def setstripe(width: int, request_bytes: float, directory: str) -> str:
    """Return the command for one object per target: a stripe size of file/width in whole MiB, at least 1 MiB."""
    size = "" if request_bytes < MIB else f" -S {min(math.ceil(request_bytes / MIB), 4095)}M"
    return f"lfs setstripe -c {width}{size} {directory}"


def _stripe_headline(
    times: RequestTimes, predictions: Sequence[WidthPrediction], best: BestWidth, chosen: WidthPrediction, command: str
) -> str:
    first = predictions[0]
    gain = first.seconds(0.9) / chosen.seconds(0.9)
    text = f"{command}: 90% of such {times.op}s finish within {format_seconds(chosen.seconds(0.9))}"
    if first.width != chosen.width:
        text += f", {gain:.2g}x sooner than with {first.width} stripe{'s' if first.width > 1 else ''}"
    firm = best.agreement is not None and best.agreement >= _FIRM
    return text + ("." if firm else "; other stripe counts fit the data about as well.")


def _fact(name: str, label: str, estimate: Estimate) -> Fact:
    note = ""
    if estimate.low is not None and estimate.high is not None:
        note = f"{format_seconds(estimate.low)} to {format_seconds(estimate.high)} ({estimate.level:.0%} interval)"
    return Fact(name, label, estimate.value, "seconds", note=note)


def _worth(predictions: Sequence[WidthPrediction], best: BestWidth) -> Iterator[Finding]:
    if best.fastest != best.width:
        yield Finding(
            f"{best.fastest} stripes would be less than {WORTH_IT:.0%} faster at the 90% point, and take more targets.",
            name="wider_not_worth_it",
        )
    rare = next(p.seconds(0.99) for p in predictions if p.width == best.width)
    wider = [p.width for p in predictions if p.width > best.width and p.seconds(0.99) > 1.1 * rare]
    if wider:
        yield Finding(
            f"With {wider[0]} or more stripes, slow transfers get slower again: each waits for the slowest target.",
            name="wider_is_slower",
        )


def _stripe_assumptions(times: RequestTimes, targets: int | None) -> Iterator[str]:
    yield (
        f"The file moves at once, each of n targets serving one request of 1/n of it, as the sampler's requests on "
        f"{times.place} did; the client's own network limit is not in the model."
    )
    yield "Targets are assumed to be independent; the findings show whether the samples agree."
    yield f"Request sizes between the sampled ones ({times.range_text}) are interpolated; nothing is extrapolated."
    if targets is None:
        yield f"The number of targets is unknown (set --targets); counts up to {WIDEST} were considered."
