"""Every study, by name: one line adds one, and so does an entry point `ioweather.studies` of another package."""

from __future__ import annotations

from typing import Any

from ioweather.core.contracts import Study
from ioweather.core.papers import PAPERS
from ioweather.core.registry import Catalogue


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


STUDIES: Catalogue[Study] = Catalogue(
    "study",
    {
        "access_methods": "ioweather.studies.applications.access_methods:STUDY",
        "association": "ioweather.studies.association.study:STUDY",
        "association_coverage": "ioweather.studies.association.coverage:STUDY",
        "association_granularity": "ioweather.studies.association.tables:GRANULARITY",
        "benchmark_check": "ioweather.studies.applications.benchmark_check:STUDY",
        "benchmark_phases": "ioweather.studies.weather.probing:BENCHMARK_PHASES",
        "climate": "ioweather.studies.climate.study:STUDY",
        "contents": "ioweather.studies.contents.study:STUDY",
        "daily_volume": "ioweather.studies.climate.utilisation:DAILY_VOLUME",
        "instrumentation": "ioweather.studies.applications.instrumentation:STUDY",
        "node_ceiling": "ioweather.studies.applications.node_ceiling:STUDY",
        "overwriting": "ioweather.studies.contents.study:OVERWRITING",
        "probing": "ioweather.studies.weather.probing:STUDY",
        "project_io": "ioweather.studies.applications.projects:IO",
        "project_performance": "ioweather.studies.applications.projects:PERFORMANCE",
        "project_signatures": "ioweather.studies.applications.project_signatures:STUDY",
        "response_tails": "ioweather.studies.responses.tails:STUDY",
        "response_times": "ioweather.studies.responses.times:STUDY",
        "slowdown": "ioweather.studies.weather.slowdown:STUDY",
        "slowdown_lengths": "ioweather.studies.weather.slowdown:TWO_LENGTHS",
        "striping": "ioweather.studies.responses.striping:STUDY",
        "tuning": "ioweather.studies.job.before_after:STUDY",
        "utilisation": "ioweather.studies.climate.utilisation:STUDY",
    },
    group="ioweather.studies",
    fault=_fault,
)
