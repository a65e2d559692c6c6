"""Questions as tests put them: in Python, by name, with the lake first."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from ioweather.core.results import Answer
from ioweather.diagnosis.events import EventOutcome, EventsOutcome
from ioweather.diagnosis.now import NowOutcome
from ioweather.job_io.view import JobView, find_job
from ioweather.lake.lake import Lake
from ioweather.topics.source import DataSource, ask

Where = Lake | str | PathLike[str] | None


def why(job: object, lake: Where = None, **params: Any) -> Answer:
    return ask("why", lake, {"job": str(job), **params})


def job_view(target: object, lake: Where = None, period_ns: tuple[int, int] = (0, 2**62), **values: Any) -> JobView:
    with ExitStack() as until:
        return find_job(DataSource(lake, until, period_ns), values, str(target))


def describe_job(target: object, lake: Where = None, *, detail: bool = False, **params: Any) -> Answer:
    return ask("job", lake, {"job": str(target), "detail": detail, **params})


def compare_jobs(targets: Sequence[object], lake: Where = None) -> Answer:
    return ask("compare", lake, {"runs": tuple(map(str, targets))})


def events(lake: Where, kind: str) -> Sequence[EventOutcome]:
    """Those that are stored."""
    result = ask("events", lake, {"kind": kind}).result
    assert isinstance(result, EventsOutcome)
    return result.events


def weather_now(spools: Sequence[Path], lake: Where = None, *, at_ns: int | None = None) -> tuple[Answer, bool]:
    """Of no other agent than these, and of those that push to the lake."""
    asked = {"spool": spools or [Path("/nonexistent")], "at": at_ns}
    answer = ask("now", lake, asked)
    assert isinstance(answer.result, NowOutcome)
    return answer, answer.result.wrong


def forecast(lake: Where, **params: Any) -> Answer:
    return ask("forecast", lake, params)
