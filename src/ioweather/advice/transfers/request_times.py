"""Which response times an answer rests on: one file system, mode and operation, fitted at each sampled size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.results import Answer, Coverage
from ioweather.core.run_outcomes import Outcome
from ioweather.core.units import format_bytes
from ioweather.studies.responses.fits import FittedSample, choices, fit_samples
from ioweather.studies.responses.samples import ResponseSample, Samples, largest_place, samples_of

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
        known = f"There are: {', '.join(others)}." if others else "Take some with `ioweather sample PATH`."
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
