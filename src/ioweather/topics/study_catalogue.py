"""Every study, by name: the `Study` objects in the package of a paper, and entry points `ioweather.studies`.

The papers' own files name the study of each exhibit, so a study is registered where it is written: any module-level
`Study` in a module of `ioweather.studies.PAPER` counts. Nothing is imported before a study of that paper is used.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from ioweather.core.contracts import Study
from ioweather.core.papers import PAPERS, exhibits
from ioweather.core.registry import Catalogue


class StudyCatalogue(Catalogue[Study]):
    """Our studies by name, loaded a paper at a time; then those of other packages."""

    def __getitem__(self, name: str) -> Study:
        if self.is_ours(name) and name not in self._loaded:
            self._loaded.update(studies_of(self._places[name]))
        return super().__getitem__(name)


def studies_of(paper: str) -> dict[str, Study]:
    """Return the studies of a paper by name."""
    package = import_module(f"ioweather.studies.{paper}")
    parts = iter_modules(getattr(package, "__path__", ()))
    modules = [package, *(import_module(f"{package.__name__}.{part.name}") for part in parts)]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Study)]
    return {study.name: study for study in found}


def _fault(name: str, study: Any) -> str:
    """What makes an object of another package no study."""
    if not isinstance(study, Study):
        return f"it is a {type(study).__name__}, not an ioweather.core.contracts.Study"
    if study.name != name:
        return f"it calls itself {study.name!r}"
    of_papers = [exhibit for exhibit in study.exhibits if exhibit.partition(".")[0] in PAPERS]
    if of_papers:
        return f"{', '.join(of_papers)} would be an exhibit of a paper of ours"
    untitled = [exhibit for exhibit in study.exhibits if not study.titles.get(exhibit)]
    return f"its `titles` do not say what {', '.join(untitled)} shows" if untitled else ""


STUDIES = StudyCatalogue(
    "study",
    dict(sorted({entry.study: entry.id.partition(".")[0] for entry in exhibits()}.items())),
    group="ioweather.studies",
    fault=_fault,
)
