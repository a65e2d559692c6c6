"""`predict`: how long a transfer will take."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ioweather.advice.transfers.predict import predict_transfer
from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.outcomes import PredictOutcome
from ioweather.core.results import Answer
from ioweather.derive.system.health import without_incidents
from ioweather.questions.parameters import FILESYSTEM_SAMPLED, MODE
from ioweather.studies.responses.samples import INCIDENTS, NEED

RESPONSES: Final[Need] = replace(NEED, missing="The lake has no response times. Take some: ioweather sample PATH")


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    responses, left_out = without_incidents(data.frames["responses"], data.frames.get("events"), facility)
    try:
        found = predict_transfer(
            responses,
            facility,
            total_bytes=params["size"],
            request_bytes=params["request"],
            width=params["width"],
            op=params["op"],
            filesystem=params["filesystem"],
            mode=params["mode"],
        )
        return replace(found, caveats=(*found.caveats, *left_out))
    except ValueError as error:
        raise UsageError(f"{error}.") from None


QUESTION = Question(
    name="predict",
    result=PredictOutcome,
    needs=(RESPONSES, INCIDENTS),
    answer=answer,
    params=(
        Param("size", "Bytes to move.", "size", required=True),
        FILESYSTEM_SAMPLED,
        MODE,
        Param("op", "Whether SIZE is read or written.", default="read", choices=("read", "write"), option="read/write"),
        Param(
            "request",
            "Size of one request (default: SIZE over width, at most the largest sampled).",
            "size",
            metavar="SIZE",
        ),
        Param("width", "Requests in flight at a time.", "int", 1, least=1),
    ),
    help="Say how long moving SIZE will take, with an interval, from sampled response times.",
    epilog="Example: ioweather predict 1TiB --request 16MiB --width 8 --read",
    seen_by="public",
)
