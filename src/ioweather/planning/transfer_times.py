"""How long a transfer will take: a predictive distribution from sampled response times, with what it assumes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import PredictOutcome, Quantile
from ioweather.core.results import Answer, Chart, Coverage, Exhibit, Fact, FactGroup, ResultTable
from ioweather.core.run_outcomes import Outcome
from ioweather.core.units import format_bytes, format_seconds
from ioweather.facts.response_fits import FittedSample, choices, fit_samples
from ioweather.facts.response_samples import ResponseSample, Samples, largest_place, samples_of
from ioweather.facts.striping import independence_finding, targets_together
from ioweather.stats.order_statistics import BySize, MaximumOf
from ioweather.stats.summary_tables import cdf_table

MINIMUM: Final = 100
REPLICATES: Final = 40


@dataclass(frozen=True)
class RequestTimes:
    """Fits by request size, smallest first; `known_targets` counts the targets that the rows name."""

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
    """Why there can be no answer, in a sentence, and how to get what is missing."""

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
    """The samples of the wanted file system, operation and mode; what is not said is the best sampled one."""
    params: dict[str, Any] = {"filesystem": filesystem, "minimum": MINIMUM, "replicates": replicates}
    params["combination"] = "weighted"
    samples = samples_of(StudyData({"responses": responses}), facility, params)
    wanted = [s for s in samples.samples if _is(op, s.op) and _is(mode, s.mode)]
    if not wanted:
        asked = " ".join(part for part in (mode, op or "read or write") if part)
        where = f" on {filesystem}" if filesystem else ""
        others = samples_of(StudyData({"responses": responses}), facility, params | {"filesystem": None}).places
        known = f"There are: {', '.join(others)}." if others else "Take some with `ioweather probe PATH --sizes paper`."
        return Lacking(
            f"there are not {MINIMUM} response times of one size for {asked}{where}. {known}", samples.coverage
        )
    place = largest_place(wanted)
    mine = [s for s in wanted if (s.filesystem, s.mode, s.op) == place]
    # Far out in the tail AIC is the better guide: the distance favours the family with one parameter more.
    fitted, refused = fit_samples(mine, params, select="aic", laws=True)
    if not fitted:
        return Lacking(f"no sample can be fitted: {refused[0]}", samples.coverage)
    targets = set().union(*(targets_of(item.sample) for item in fitted))
    return RequestTimes(samples, tuple(fitted), len(targets), (choices(fitted[0].fit), *refused))


def _is(wanted: str | None, value: str) -> bool:
    return wanted is None or value == wanted or (wanted == "write" and value == "write_sync")


def targets_of(sample: ResponseSample) -> set[str]:
    """Targets that the rows name."""
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
# Rounds of requests that are drawn one by one; a longer transfer should be described in larger requests.
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
    seed: int = 0,
) -> Answer:
    """Time of `total_bytes` moved in rounds of `width` concurrent requests of `request_bytes`, one round after another.

    Without `request_bytes` each of `width` requests takes its part of the whole, or as much as the largest that was
    sampled. The spread shown is that of single transfers, the uncertainty of the fits included.
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
    drawn = _transfers(laws, size, width, rounds, np.random.default_rng(seed))
    asked = replace(unanswered, op=times.op, filesystem=times.fitted[0].sample.filesystem)
    return _answer(question, times, drawn, laws[1:] or laws, asked)


def _laws(times: RequestTimes, replicates: int) -> list[BySize]:
    """The fit itself first, then its bootstrap replicates."""
    sizes = tuple(item.sample.request_bytes for item in times.fitted)
    laws = [BySize(sizes, tuple(item.fit.distribution for item in times.fitted))]
    laws += [BySize(sizes, tuple(item.laws[b] for item in times.fitted)) for b in range(replicates)]
    return laws


def _transfers(laws: list[BySize], size: float, width: int, rounds: int, rng: np.random.Generator) -> Floats:
    """Times of whole transfers: each replicate of the fit draws its share of them, so its uncertainty is inside."""
    used = laws[1:] or laws
    each = max(5, min(_MOST_TRANSFERS, _DRAWS // rounds) // len(used))
    drawn = [MaximumOf(law.at(size), width).sample(each * rounds, rng).reshape(each, rounds) for law in used]
    return np.concatenate([part.sum(axis=1) for part in drawn])


def _answer(question: str, times: RequestTimes, drawn: Floats, laws: list[BySize], asked: PredictOutcome) -> Answer:
    size, width, rounds = asked.request_bytes, asked.width, asked.rounds
    quantiles = {p: float(q) for p, q in zip(_QUANTILES, np.quantile(drawn, _QUANTILES), strict=True)}
    # Of the same laws as the quantiles: one whose tail has no mean leaves none to the whole.
    mean = rounds * float(np.mean([MaximumOf(law.at(size), width).mean for law in laws]))
    headline = (
        f"About {format_seconds(quantiles[0.5])}; nine in ten such transfers take between "
        f"{format_seconds(quantiles[0.05])} and {format_seconds(quantiles[0.95])}."
    )
    facts = [Fact(f"q{round(100 * p)}_seconds", _LABELS[p], value, "seconds") for p, value in quantiles.items()]
    known = mean if math.isfinite(mean) else None
    note = "" if known is not None else "may be infinite: a tail of alpha <= 2 fits too; judge by quantiles"
    facts.append(Fact("mean_seconds", "mean", known, "seconds", note=note))
    test, _ = targets_together(times.fitted) if width > 1 else (None, ())
    return Answer(
        question=question,
        headline=headline,
        facts=(
            FactGroup("time", "Time of one transfer", tuple(facts)),
            FactGroup("basis", "Rests on", (
                Fact("place", "samples", f"{times.place}, {times.op}, {times.range_text}"),
                Fact("samples", "response times", sum(item.sample.n for item in times.fitted), "count"),
                Fact("request_bytes", "size of a request", size, "bytes"),
                Fact("rounds", "rounds of requests", rounds, "count"),
                Fact("width", "requests at a time", width, "count"),
            )),
        ),
        exhibits=(_exhibit(drawn, question),),
        findings=(independence_finding(test),) if width > 1 else (),
        caveats=tuple(_assumptions(times, rounds, width)),
        coverage=times.samples.coverage,
        name="predict",
        result=replace(asked, quantiles=tuple(Quantile(p, s) for p, s in quantiles.items()), mean_seconds=known),
    )  # fmt: skip


def _exhibit(drawn: Floats, title: str) -> Exhibit:
    table: ResultTable = cdf_table("predicted", {"predicted": drawn}, "time of the transfer", "seconds")
    chart = Chart.of("cdf", table, "x=value y=share", "Predicted time of one transfer", log="x")
    return Exhibit("predict", title, charts=(chart,))


def _assumptions(times: RequestTimes, rounds: int, width: int) -> Iterator[str]:
    yield f"The system is as it was when sampled ({times.place}); load at the time of the transfer is not known."
    if rounds > 1:
        yield "Rounds are taken as independent of each other; a slow spell makes long transfers vary more than this."
    if width > 1:
        yield "Requests of a round go to different targets, taken as independent, and the slowest ends the round."
    yield f"Request sizes between the sampled ones ({times.range_text}) are interpolated."
