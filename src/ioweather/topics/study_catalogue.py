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
        "access_methods": "ioweather.studies.car11.access_methods:STUDY",
        "association": "ioweather.studies.mad17.exhibits:STUDY",
        "association_coverage": "ioweather.studies.mad17.coverage:STUDY",
        "association_granularity": "ioweather.studies.mad17.tables:GRANULARITY",
        "benchmark_check": "ioweather.studies.car11.benchmark_check:STUDY",
        "benchmark_phases": "ioweather.studies.kun19.probing:BENCHMARK_PHASES",
        "climate": "ioweather.studies.pat19.exhibits:STUDY",
        "contents": "ioweather.studies.car11.contents:STUDY",
        "daily_volume": "ioweather.studies.car11.volume:DAILY_VOLUME",
        "instrumentation": "ioweather.studies.car11.coverage:STUDY",
        "node_ceiling": "ioweather.studies.car11.node_ceiling:STUDY",
        "overwriting": "ioweather.studies.car11.contents:OVERWRITING",
        "probing": "ioweather.studies.kun19.probing:STUDY",
        "project_io": "ioweather.studies.car11.projects:IO",
        "project_performance": "ioweather.studies.car11.projects:PERFORMANCE",
        "project_signatures": "ioweather.studies.car11.project_signatures:STUDY",
        "response_tails": "ioweather.studies.don15.tails:STUDY",
        "response_times": "ioweather.studies.don15.request_times:STUDY",
        "slowdown": "ioweather.studies.kun19.slowdown:STUDY",
        "slowdown_lengths": "ioweather.studies.kun19.slowdown:TWO_LENGTHS",
        "striping": "ioweather.studies.don15.striping:STUDY",
        "tuning": "ioweather.job_io.compare:STUDY",
        "utilisation": "ioweather.studies.car11.volume:STUDY",
    },
    group="ioweather.studies",
    fault=_fault,
)
