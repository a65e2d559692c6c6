"""`now`: how slow storage is at this moment."""

from __future__ import annotations

from pathlib import Path

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.errors import DataUnavailable
from ioweather.core.outcomes import NowOutcome
from ioweather.core.results import Answer
from ioweather.diagnosis.agent_status import History, lake_history, seen_now
from ioweather.diagnosis.now_answer import weather_answer
from ioweather.topics.source import DataSource


def run(source: DataSource, params: Params) -> Answer:
    """What the agents measure now, compared with the baseline of the lake."""
    source.reads_agents = True
    history = source.shared(recent_history, params)
    spools = [Path(spool) for spool in params["spool"]]
    seen = seen_now(spools, history, source.place.directory, params["at"])
    return weather_answer(
        seen.operations,
        seen.hangs,
        now_ns=seen.now_ns,
        full=params["full"],
        stale=seen.stale,
        agents=seen.agents,
        notes=seen.notes,
    )


def recent_history(source: DataSource, params: Params) -> History:
    """Baseline and last half hour of the lake; empty without one."""
    try:
        snapshot = source.place.snapshot_if_there()
        return History() if snapshot is None else lake_history(snapshot, params["at"], params["exact"])
    except DataUnavailable:
        return History()


QUESTION = Question(
    name="now",
    result=NowOutcome,
    run=run,
    tables=frozenset({"response_rollups", "responses"}),
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
