"""Every study, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.contracts import Study
from ioweather.core.registry import Catalogue

STUDIES: Catalogue[Study] = Catalogue(
    "study",
    {
        "access_methods": "ioweather.studies.applications.access_methods:STUDY",
        "association": "ioweather.studies.association.study:STUDY",
        "association_coverage": "ioweather.studies.association.coverage:STUDY",
        "association_granularity": "ioweather.studies.association.granularity:STUDY",
        "benchmark_check": "ioweather.studies.applications.benchmark_check:STUDY",
        "benchmark_phases": "ioweather.studies.weather.benchmark_phases:STUDY",
        "climate": "ioweather.studies.climate.study:STUDY",
        "contents": "ioweather.studies.contents.study:STUDY",
        "daily_volume": "ioweather.studies.climate.daily_volume:STUDY",
        "instrumentation": "ioweather.studies.applications.instrumentation:STUDY",
        "node_ceiling": "ioweather.studies.applications.node_ceiling:STUDY",
        "overwriting": "ioweather.studies.contents.overwriting:STUDY",
        "probing": "ioweather.studies.weather.probing:STUDY",
        "project_io": "ioweather.studies.applications.project_io:STUDY",
        "project_performance": "ioweather.studies.applications.project_performance:STUDY",
        "project_signatures": "ioweather.studies.applications.project_signatures:STUDY",
        "response_tails": "ioweather.studies.responses.tails:STUDY",
        "response_times": "ioweather.studies.responses.times:STUDY",
        "slowdown": "ioweather.studies.weather.slowdown:STUDY",
        "slowdown_lengths": "ioweather.studies.weather.slowdown:TWO_LENGTHS",
        "striping": "ioweather.studies.responses.striping:STUDY",
        "tuning": "ioweather.studies.job.before_after:STUDY",
        "utilisation": "ioweather.studies.climate.utilisation:STUDY",
    },
)
