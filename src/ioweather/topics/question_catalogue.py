"""Every question, by name: one line adds one, and so does an entry point `ioweather.questions` of another package.

What `ioweather --help` says of ours stands here, so that the list needs no question to be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ioweather.core.registry import Catalogue

if TYPE_CHECKING:
    from ioweather.core.contracts import Question

_LINES = {
    "claims": (
        "ioweather.studies.claims:QUESTION",
        "Check the claims of five papers here and at other sites.",
    ),
    "compare": ("ioweather.job_io.compare:QUESTION", "Compare runs before and after a change, and say what changed."),
    "events": ("ioweather.diagnosis.events:QUESTION", "List what happened: slow episodes, phases, incidents, gaps."),
    "forecast": ("ioweather.planning.forecast:QUESTION", "Forecast the next two hours and the best time to start."),
    "health": (
        "ioweather.diagnosis.health:QUESTION",
        "List unhealthy servers and targets, and what they cost.",
    ),
    "job": ("ioweather.diagnosis.job:QUESTION", "Show the I/O of one job on one screen, from its log or its id."),
    "now": ("ioweather.diagnosis.now:QUESTION", "Show how slow storage is now."),
    "predict": ("ioweather.planning.predict:QUESTION", "Predict how long a transfer will take, with an interval."),
    "predictability": (
        "ioweather.studies.predictability:QUESTION",
        "Show how predictable run times are.",
    ),
    "project": ("ioweather.studies.project:QUESTION", "Show one project: volume, jobs, performance, findings."),
    "relieve": ("ioweather.planning.relieve:QUESTION", "List the files to move off a full or busy OST."),
    "runs": (
        "ioweather.diagnosis.list_jobs:QUESTION",
        "List runs: the newest, the slowest against similar ones, the largest.",
    ),
    "storage": (
        "ioweather.diagnosis.file_systems:QUESTION",
        "Show what file systems, a server or a target did.",
    ),
    "stripe": ("ioweather.planning.predict:STRIPE", "Recommend a stripe count for a file."),
    "triage": (
        "ioweather.diagnosis.triage:QUESTION",
        "List the programs where a fix saves most, and recent fixes.",
    ),
    "what_if": ("ioweather.diagnosis.who:WHAT_IF", "Estimate how long others' I/O would have taken without a job."),
    "who": ("ioweather.diagnosis.who:QUESTION", "Show which jobs and users slowed others, and who does most I/O."),
    "why": ("ioweather.diagnosis.why:QUESTION", "Was it my job or the storage system?"),
}
TITLES = {name: title for name, (_, title) in _LINES.items()}


def _fault(name: str, question: Any) -> str:
    """Why an object of another package is not a question; empty if it is one."""
    from ioweather.core.contracts import Question

    if not isinstance(question, Question):
        return f"it is a {type(question).__name__}, not an ioweather.core.contracts.Question"
    if question.name != name:
        return f"it calls itself {question.name!r}"
    return "" if question.help else "its `help` does not say what it answers"


QUESTIONS: Catalogue[Question] = Catalogue(
    "question", {name: place for name, (place, _) in _LINES.items()}, group="ioweather.questions", fault=_fault
)


def title_of(name: str) -> str:
    """One-line description; for a plug-in the first line of its help."""
    return TITLES[name] if name in TITLES else QUESTIONS[name].help.partition("\n")[0]
