"""`now`: how slow storage is at this moment."""

from __future__ import annotations

from functools import partial

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import NowOutcome
from ioweather.core.results import Answer
from ioweather.diagnosis.now_answer import SeenNow, weather_answer


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    seen = data.of("status", SeenNow)
    ask = partial(weather_answer, stale=seen.stale, agents=seen.agents, notes=seen.notes)
    return ask(seen.operations, seen.hangs, now_ns=seen.now_ns, full=params["full"])


QUESTION = Question(
    name="now",
    result=NowOutcome,
    needs=(
        Need("recent", "response_rollups", shape="recent", also=("responses",), optional=True),
        Need("status", "", shape="status", after="recent"),
    ),
    answer=answer,
    params=(
        Param(
            "spool",
            "Spool of an agent; may be given several times (default: yours).",
            many=True,
            metavar="DIR",
            local=True,
        ),
        Param("exact", "From every operation in the lake, not from roll-ups.", "flag", default=False),
        Param("at", "As of this time (default: now).", "time", shown=False, local=True),
        Param("full", "All paths, and both tails of every operation.", "flag", default=True, shown=False),
    ),
    help="Say how slow storage is at this moment, as the agent's probe sees it, against what is usual.",
    epilog="""\b
Exit codes: 0 as usual; 1 slow, hanging, or nothing measured; 2 not done.

\b
Example: ioweather now --watch
""",
    seen_by="public",
    period=False,
    page=False,
    screen={"full": False},
)
