"""`stripe`: the former name of `predict` with `stripe`; it works for one release more."""

from __future__ import annotations

from dataclasses import replace

from ioweather.core.contracts import Params, Question
from ioweather.core.outcomes import PredictOutcome, StripeOutcome
from ioweather.core.results import Answer
from ioweather.planning import predict
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """The answer of `predict --stripe`, with the result that `stripe` had."""
    found = predict.run(source, {"stripe": True, **params})
    assert isinstance(found.result, PredictOutcome)
    return replace(found, name="stripe", result=found.result.stripe)


QUESTION = Question(
    name="stripe",
    result=StripeOutcome,
    run=run,
    tables=predict.QUESTION.tables,
    params=tuple(param for param in predict.QUESTION.params if param.name not in ("request", "width", "stripe")),
    help="Say over how many OSTs to stripe a file of SIZE: `predict SIZE --stripe` says the same.",
    epilog="Example: ioweather stripe 64GiB --write --directory /scratch/run7",
    seen_by="public",
)
