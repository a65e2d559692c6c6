"""What several pages and the API show, made once for each state of the lake."""

from __future__ import annotations

import pickle
import re
import zlib
from typing import Final

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.results import Answer
from ioweather.core.run_outcomes import JobOutcome
from ioweather.topics.analyse import Availability, availability, catalogue_only
from ioweather.topics.source import SharedResults
from ioweather.ui.web.visible import View

JOB_ID: Final = r"[0-9]{1,18}([_+][0-9]{1,9})?"


def job_answers(view: View, job_id: str) -> tuple[Answer | None, Answer]:
    """Why it took so long, which a job without a log leaves open, and what it did. Only ids: a path would be read from
    the server's own disk. Both parts of the job's page and its JSON show them; as bytes they take a twentieth of the
    room."""
    if re.fullmatch(JOB_ID, job_id) is None:
        raise UsageError(f"{job_id!r} is not a job id.", hint="Expected a number, such as 4711 or 22_1.")

    def make() -> bytes:
        shared = SharedResults()  # the job is looked up once
        facts = view.ask("job", {"job": job_id}, shared=shared)
        has_log = not isinstance(facts.result, JobOutcome) or facts.result.logs > 0
        reason = view.ask("why", {"job": job_id}, shared=shared) if has_log else None
        return zlib.compress(pickle.dumps((reason, facts)), 1)

    made = view.facilities.answered(view.name, ("job", view.key, job_id), make, queued=False)
    found: tuple[Answer | None, Answer] = pickle.loads(zlib.decompress(made))
    return found


def available(view: View) -> tuple[list[Availability], IoweatherError | None]:
    """What can be made, and what is wrong."""

    def look() -> list[Availability]:
        with view.lake.snapshot() as snapshot:
            return availability(snapshot)

    if view.name not in view.facilities.lakes:
        return [], None
    try:
        return view.facilities.answered(view.name, ("available", view.key), look, queued=False), None
    except IoweatherError as error:
        return catalogue_only(), error
