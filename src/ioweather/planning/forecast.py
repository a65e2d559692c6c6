"""`forecast`: what load or slowdown the next two hours bring, and when to start."""

from __future__ import annotations

from typing import Final

from ioweather.core import choices
from ioweather.core.contracts import Inventory, Param, Params, Question
from ioweather.core.errors import UsageError
from ioweather.core.outcomes import ForecastOutcome
from ioweather.core.results import Answer, Cell
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.planning.forecast_model import forecast_answer
from ioweather.planning.forecast_query import history
from ioweather.topics.source import DataSource

WINDOW_NS = 5 * MINUTE_NS
_TABLES: Final = {
    "load": frozenset({"files", "job_operations", "jobs", "series"}),
    "slowdown": frozenset({"response_rollups"}),
}


def run(source: DataSource, params: Params) -> Answer:
    """Forecast load or slowdown of one file system."""
    source.tables = _TABLES[params["of"]]
    seen = history(source.snapshot, params)
    horizon, duration = params["horizon"], params["duration"]
    if params["window"] < WINDOW_NS:
        raise UsageError(
            "--window must be 5 minutes or more.", hint="Shorter windows are noise that nothing forecasts."
        )
    if horizon is not None and not 0 < horizon <= 2 * HOUR_NS:
        raise UsageError("--horizon must be between 5 and 120 minutes.")
    if not 0 < duration <= DAY_NS:
        raise UsageError("--for must be at most 24 hours.")
    return forecast_answer(seen, source.facility, horizon_ns=horizon, duration_ns=duration)


def _load_or_slowdown(inventory: Inventory, _: Params) -> Cell:
    return "load" if choices.busiest_filesystem(inventory) is not None else "slowdown"


QUESTION = Question(
    name="forecast",
    result=ForecastOutcome,
    run=run,
    tables=_TABLES["load"] | _TABLES["slowdown"],
    params=(
        Param("filesystem", "Of this file system (default: the busiest).", metavar="NAME"),
        Param(
            "of",
            "What to forecast (default: load, if sampled).",
            choose=_load_or_slowdown,
            choices=("load", "slowdown"),
        ),
        Param("op", "read or write; of slowdown any operation of the probe.", metavar="OP"),
        Param("horizon", "The horizon of the headline, 5 to 120 min (default: 60min).", "duration", metavar="TIME"),
        Param("window", "Length of a window.", "duration", "5min", metavar="TIME"),
        Param("at", "As of this time (default: of the newest data).", "time", metavar="TIME"),
        Param("duration", "How long the job to be started does I/O.", "duration", "1h", option="for", metavar="TIME"),
    ),
    help="""Say what load or slowdown the next two hours bring, and when to start a job.

    Each forecast stands with its interval and with the skill that such forecasts
    had so far. Where that is not above zero, it says so.""",
    epilog="""\b
Load comes from the servers' samples, slowdown from the probe. Jobs that run
and wait are known where servers count jobs, or by accounting and logs. Skill
says how much smaller the errors were than of 'as now' and 'as usual'.

\b
Example: ioweather forecast --filesystem scratch --op write --for 2h
""",
    seen_by="public",
    period=False,
    table="forecast",
    brief={"expected": 8, "best_start": 1, "knows": 1},
)
