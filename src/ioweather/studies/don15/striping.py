"""How long a striped transfer takes (don15 Eq. 1): the slowest of n requests, against the stripe width n.

A transfer of S bytes over n targets is n requests of S/n, and as slow as the slowest. More targets make each request
smaller, and make it likelier that one of them falls into the tail.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ioweather.core.contracts import Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Exhibit
from ioweather.core.units import NS
from ioweather.facts.incidents import without_incidents
from ioweather.facts.response_samples import (
    COMBINATION,
    FILESYSTEM,
    INCIDENTS,
    MINIMUM,
    NEED,
    REPLICATES,
    TOO_FEW,
    choices,
    fit_samples,
    largest_place,
    samples_of,
)
from ioweather.facts.striped_transfers import WIDEST, known_targets, predict_widths, striping_exhibit

TRANSFER_SIZE: Final = Param("transfer_size", "bytes of the striped transfer (default: largest sampled)", kind="size")
OVERHEAD: Final = Param("overhead", "time to put the parts together (psi of Eq. 1)", kind="duration", default="0s")


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    responses, left_out = without_incidents(data.frames[NEED.name], data.frames.get(INCIDENTS.name), facility)
    data = replace(data, frames={**data.frames, NEED.name: responses})
    samples = samples_of(data, facility, params)
    if not samples.samples:
        return
    filesystem, mode, op = largest_place(samples.samples)
    mine = [s for s in samples.samples if (s.filesystem, s.mode, s.op) == (filesystem, mode, op)]
    if len({sample.request_bytes for sample in mine}) < 2:
        return
    fitted, refused = fit_samples(mine, params, select="aic", spread=data.spread, laws=True)
    if len(fitted) < 2:
        return
    total = int(params["transfer_size"] or fitted[-1].sample.request_bytes)
    # A width beyond the targets there are is no advice.
    widest = int(params.get("targets") or WIDEST)
    predictions = predict_widths(fitted, total, overhead_seconds=params["overhead"] / NS, widest=widest)
    if predictions:
        yield striping_exhibit(samples, fitted, predictions, total, (choices(fitted[0].fit), *refused, *left_out))


TARGETS: Final = Param("targets", "OSTs there are; default: what the lake knows", kind="int", choose=known_targets)
STUDY = Study(
    "striping",
    ("don15.maxorder",),
    (NEED, INCIDENTS),
    run,
    (FILESYSTEM, MINIMUM, COMBINATION, REPLICATES, TRANSFER_SIZE, OVERHEAD, TARGETS),
    spreads=True,
    too_few=TOO_FEW,
)
