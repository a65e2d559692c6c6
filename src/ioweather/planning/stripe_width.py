"""The stripe count for a file, from the order statistics of don15, as a command line."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import Quantile, StripeOutcome, WidthOutcome
from ioweather.core.results import Answer, Estimate, Fact, FactGroup, Finding
from ioweather.core.units import MIB, format_bytes, format_seconds
from ioweather.facts.striped_transfers import (
    PROBABILITIES,
    WORTH_IT,
    BestWidth,
    WidthPrediction,
    best_width,
    independence_finding,
    predict_widths,
    striping_exhibit,
    targets_together,
)
from ioweather.planning.transfer_times import REPLICATES, Lacking, RequestTimes, request_times, targets_of

_WIDEST: Final = 256
_LABELS: Final = {0.5: "half finish within", 0.9: "90% finish within", 0.99: "99% finish within"}
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
            f"the sampled sizes of {single.place} lie on different targets, so that a slow target cannot be told "
            "from a slow size. Sample every size on the same targets: "
            "`ioweather probe PATH --sizes paper --osts 0,1,2,3`."
        )
        return Lacking(lacking, single.samples.coverage).answer(question, "stripe", unanswered)
    widest = min(_WIDEST, targets or _WIDEST)
    sizes = [item.sample.request_bytes for item in single.fitted]
    piece_bytes = file_bytes
    predictions = predict_widths(single.fitted, file_bytes, widest=widest)
    if not predictions and file_bytes > sizes[-1]:
        # Even with all targets the requests are larger than sampled ones: the file moves in pieces of sampled size.
        piece_bytes = sizes[-1]
        predictions = predict_widths(single.fitted, piece_bytes, widest=widest)
    if not predictions:
        lacking = (
            f"with 1 to {widest} stripes the requests of a file of {format_bytes(file_bytes)} lie outside the sampled "
            f"sizes ({single.range_text} on {single.place}). Files of {format_bytes(sizes[0])} or more can be "
            "answered; for others sample their requests too. Nothing is extrapolated."
        )
        return Lacking(lacking, single.samples.coverage).answer(question, "stripe", unanswered)
    best = best_width(predictions)
    chosen = next(prediction for prediction in predictions if prediction.width == best.width)
    command = setstripe(best.width, chosen.request_bytes, directory)
    test, _ = targets_together(single.fitted)
    exhibit = striping_exhibit(single.samples, single.fitted, predictions, piece_bytes, single.caveats)
    return Answer(
        question=question,
        headline=_headline(single, predictions, best, chosen, command) + _in_pieces(file_bytes, piece_bytes),
        facts=tuple(_facts(single, predictions, best, chosen, command)),
        exhibits=(exhibit,),
        findings=(*_worth(predictions, best), independence_finding(test)),
        caveats=tuple(_assumptions(single, targets)),
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


def _in_pieces(file_bytes: int, piece_bytes: int) -> str:
    if piece_bytes == file_bytes:
        return ""
    return (
        f" That is for each {format_bytes(piece_bytes)}, the largest size that was sampled; the file has "
        f"{math.ceil(file_bytes / piece_bytes):,} such pieces, one after the other."
    )


def _quantiles(prediction: WidthPrediction) -> tuple[Quantile, ...]:
    return tuple(Quantile(p, q.value, q.low, q.high) for p, q in zip(PROBABILITIES, prediction.quantiles, strict=True))


def _facts(
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
        *(_fact(_NAMES[p], _LABELS[p], chosen.quantiles[i]) for i, p in enumerate(PROBABILITIES)),
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


def _headline(
    times: RequestTimes, predictions: Sequence[WidthPrediction], best: BestWidth, chosen: WidthPrediction, command: str
) -> str:
    first = predictions[0]
    gain = first.seconds(0.9) / chosen.seconds(0.9)
    text = f"{command}: 90% of such {times.op}s finish within {format_seconds(chosen.seconds(0.9))}"
    if first.width != chosen.width:
        text += f", {gain:.2g}x sooner than with {first.width} stripe{'s' if first.width > 1 else ''}"
    firm = best.agreement is not None and best.agreement >= _FIRM
    return text + ("." if firm else "; the data do not fix the count firmly.")


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
            f"From {wider[0]} stripes on the slowest target makes the rare slow transfers slower again.",
            name="wider_is_slower",
        )


def _assumptions(times: RequestTimes, targets: int | None) -> Iterator[str]:
    yield (
        f"The file moves at once, each of n targets serving one request of 1/n of it, as the sampler's requests on "
        f"{times.place} did; the client's own network limit is not in the model."
    )
    yield "Targets are taken as independent; what the samples say to that stands in the findings."
    yield f"Request sizes between the sampled ones ({times.range_text}) are interpolated; nothing is extrapolated."
    if targets is None:
        yield f"How many targets the file system has was not said; counts up to {_WIDEST} were considered."
