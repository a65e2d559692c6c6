"""Every question and every study, by name; then those of other packages, by entry points of the groups
`ioweather.questions` and `ioweather.studies`.

One line adds a question. Its text for `ioweather --help` is here, so that the list loads no question. A study is
registered where it is written: the papers' files name the study of each exhibit, and it is a module-level `Study` in a
module of `ioweather.studies.PAPER`.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

from ioweather.core.papers import exhibits
from ioweather.core.registry import Catalogue

if TYPE_CHECKING:
    from ioweather.core.contracts import Question, Study

TITLES: Final = {
    "claims": "Check the claims of five papers here and at other sites.",
    "compare": "Compare runs before and after a change.",
    "events": "List events: slow episodes, phases, incidents, gaps.",
    "forecast": "Forecast the next two hours and the best time to start.",
    "health": "List unhealthy servers and targets, and the delay that they cause.",
    "job": "Show the I/O of one job on one screen, from its log or its id.",
    "now": "Show how slow storage is now.",
    "predict": "Predict how long a transfer will take, with an interval.",
    "project": "Show one project: volume, jobs, performance, findings.",
    "relieve": "List the files to move off a busy OST.",
    "runs": "List the newest, slowest or largest runs.",
    "storage": "Show the activity of file systems, a server or a target.",
    "triage": "List the programs where a fix saves the most time.",
    "what_if": "Estimate the I/O time of other runs without a job.",
    "who": "Show which jobs and users slowed others, and who does the most I/O.",
    "why": "Was it my job or the storage system?",
}
_PLACES: Final = {
    "claims": "studies.claims:QUESTION",
    "compare": "job_io.compare:QUESTION",
    "forecast": "planning.forecast_model:QUESTION",
    "predict": "planning.transfers:QUESTION",
    "project": "studies.project:QUESTION",
    "relieve": "planning.relieve:QUESTION",
    "runs": "diagnosis.list_jobs:QUESTION",
    "storage": "diagnosis.file_systems:QUESTION",
    "what_if": "diagnosis.who:WHAT_IF",
}


QUESTIONS: Catalogue[Question] = Catalogue(
    "question",
    {name: f"ioweather.{_PLACES.get(name, f'diagnosis.{name}:QUESTION')}" for name in TITLES},
    group="ioweather.questions",
)


class _Studies(Catalogue["Study"]):
    """Our studies, loaded a paper at a time."""

    def _load(self, name: str, place: str) -> Study:
        package = import_module(f"ioweather.studies.{place}")
        parts = iter_modules(getattr(package, "__path__", ()))
        modules = [package, *(import_module(f"{package.__name__}.{part.name}") for part in parts)]
        found = [each for module in modules for each in vars(module).values() if type(each).__name__ == "Study"]
        self._loaded.update({study.name: study for study in found})
        return self._loaded[name]


STUDIES: Final = _Studies(
    "study",
    lambda: dict(sorted({entry.study: entry.paper for entry in exhibits()}.items())),
    group="ioweather.studies",
)
