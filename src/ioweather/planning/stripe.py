"""`stripe`: the former name of `predict` with `stripe`; it works for one release more."""

from __future__ import annotations

from dataclasses import replace

from ioweather.core.contracts import Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import PredictOutcome, StripeOutcome
from ioweather.core.results import Answer
from ioweather.planning import predict


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    found = predict.answer(data, facility, {"stripe": True, **params})
    assert isinstance(found.result, PredictOutcome)
    return replace(found, name="stripe", result=found.result.stripe)


QUESTION = Question(
    name="stripe",
    result=StripeOutcome,
    needs=predict.QUESTION.needs,
    answer=answer,
    params=tuple(param for param in predict.QUESTION.params if param.name not in ("request", "width", "stripe")),
    help="Say over how many OSTs to stripe a file of SIZE: `predict SIZE --stripe` says the same.",
    epilog="Example: ioweather stripe 64GiB --write --directory /scratch/run7",
    seen_by="public",
)
