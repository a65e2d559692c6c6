"""Every question, by name: one line adds one, and so does an entry point `ioweather.questions` of another package.

What `ioweather --help` says of ours stands here, so that the list needs no question to be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ioweather.core.registry import Catalogue

if TYPE_CHECKING:
    from ioweather.core.contracts import Question

_HERE = "ioweather.questions"
_LINES = {
    "claims": (f"{_HERE}.claims:QUESTION", "Hold this site against what five papers state, and against other sites."),
    "compare": (f"{_HERE}.compare:QUESTION", "Compare runs before and after a change, and say what changed."),
    "events": (f"{_HERE}.events:QUESTION", "List what happened: slow episodes, phases, incidents, gaps."),
    "forecast": (f"{_HERE}.forecast:QUESTION", "Say what the next two hours bring, and when to start."),
    "health": (f"{_HERE}.health:QUESTION", "Say which servers and targets were unhealthy, and what it cost."),
    "job": (f"{_HERE}.job:QUESTION", "Show the I/O of one job on one screen, from its log or its id."),
    "now": (f"{_HERE}.now:QUESTION", "Say how slow storage is at this moment."),
    "predict": (f"{_HERE}.predict:QUESTION", "Say how long a transfer will take, with an interval."),
    "predictability": (f"{_HERE}.predictability:QUESTION", "Say how well any model could foretell a run's I/O time."),
    "project": (f"{_HERE}.project:QUESTION", "Show one project: volume, jobs, performance, findings."),
    "relieve": (f"{_HERE}.relieve:QUESTION", "Say which files to move off a full or busy OST."),
    "runs": (f"{_HERE}.runs:QUESTION", "List runs: the newest, the slowest against similar ones, the largest."),
    "storage": (f"{_HERE}.storage:QUESTION", "Show what file systems, one server or one target did."),
    "stripe": (f"{_HERE}.stripe:QUESTION", "Say over how many OSTs to stripe a file."),
    "triage": (f"{_HERE}.triage:QUESTION", "List the programs where a fix wins most, and what was fixed since."),
    "what_if": (f"{_HERE}.what_if:QUESTION", "Say how long others' I/O would have taken without a job."),
    "who": (f"{_HERE}.who:QUESTION", "Say which jobs and users slowed others, and who does most I/O."),
    "why": (f"{_HERE}.why:QUESTION", "Was it my job or the storage system?"),
}
TITLES = {name: title for name, (_, title) in _LINES.items()}


def _fault(name: str, question: Any) -> str:
    """What makes an object of another package no question."""
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
    """One line; of a question of another package the first of its help."""
    return TITLES[name] if name in TITLES else QUESTIONS[name].help.partition("\n")[0]
