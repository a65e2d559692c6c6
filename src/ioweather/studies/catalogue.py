"""Every study, by name: one line adds one."""

from __future__ import annotations

from ioweather.core.contracts import Study
from ioweather.core.registry import Catalogue

STUDIES: Catalogue[Study] = Catalogue(
    "study",
    {
        "access_methods": "ioweather.studies.access_methods:STUDY",
        "association": "ioweather.studies.association:STUDY",
        "association_coverage": "ioweather.studies.association_coverage:STUDY",
        "association_granularity": "ioweather.studies.association_granularity:STUDY",
        "benchmark_check": "ioweather.studies.benchmark_check:STUDY",
        "benchmark_phases": "ioweather.studies.benchmark_phases:STUDY",
        "climate": "ioweather.studies.climate:STUDY",
        "contents": "ioweather.studies.contents:STUDY",
        "daily_volume": "ioweather.studies.daily_volume:STUDY",
        "instrumentation": "ioweather.studies.instrumentation:STUDY",
        "node_ceiling": "ioweather.studies.node_ceiling:STUDY",
        "overwriting": "ioweather.studies.overwriting:STUDY",
        "probing": "ioweather.studies.probing:STUDY",
        "project_io": "ioweather.studies.project_io:STUDY",
        "project_performance": "ioweather.studies.project_performance:STUDY",
        "project_signatures": "ioweather.studies.project_signatures:STUDY",
        "response_tails": "ioweather.studies.response_tails:STUDY",
        "response_times": "ioweather.studies.response_times:STUDY",
        "slowdown": "ioweather.studies.slowdown:STUDY",
        "slowdown_lengths": "ioweather.studies.slowdown:TWO_LENGTHS",
        "striping": "ioweather.studies.striping:STUDY",
        "tuning": "ioweather.studies.tuning:STUDY",
        "utilisation": "ioweather.studies.utilisation:STUDY",
    },
)

# Studies say themselves what they make. For exhibits that people ask for while they wait it stands here too: the other
# studies, and all that they import, need not be loaded to find out.
KNOWN_MAKERS = {
    "kun19.bands": "probing",
    "kun19.episodes": "slowdown",
    "kun19.fig1": "probing",
    "kun19.fig2": "probing",
    "kun19.fig3": "benchmark_phases",
    "kun19.fig4": "slowdown",
    "kun19.fig5": "slowdown",
    "kun19.fig6": "slowdown_lengths",
}
