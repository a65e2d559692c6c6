"""Every question, by name: one line adds one. What `ioweather --help` says of it stands here, so that the list needs no
question to be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ioweather.core.registry import Catalogue

if TYPE_CHECKING:
    from ioweather.core.contracts import Question

_HERE = "ioweather.questions"
_LINES = {
    "compare": (f"{_HERE}.compare:QUESTION", "Compare runs before and after a change, and say what changed."),
    "events": (f"{_HERE}.events:QUESTION", "List what happened: slow episodes, phases, incidents, gaps."),
    "forecast": (f"{_HERE}.forecast:QUESTION", "Say what the next two hours bring, and when to start."),
    "job": (f"{_HERE}.job:QUESTION", "Show the I/O of one job on one screen, from its log or its id."),
    "now": (f"{_HERE}.now:QUESTION", "Say how slow storage is at this moment."),
    "predict": (f"{_HERE}.predict:QUESTION", "Say how long a transfer will take, with an interval."),
    "project": (f"{_HERE}.project:QUESTION", "Show one project: volume, jobs, performance, findings."),
    "stripe": (f"{_HERE}.stripe:QUESTION", "Say over how many OSTs to stripe a file."),
    "why": (f"{_HERE}.why:QUESTION", "Was it me or the system? One run against its like."),
}
QUESTIONS: Catalogue[Question] = Catalogue("question", {name: place for name, (place, _) in _LINES.items()})
TITLES = {name: title for name, (_, title) in _LINES.items()}
