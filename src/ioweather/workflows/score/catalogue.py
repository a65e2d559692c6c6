"""Every question, by name: one function and one line add one."""

from __future__ import annotations

from ioweather.core.registry import Catalogue
from ioweather.workflows.score.items import Question

_HERE = "ioweather.workflows.score"

QUESTIONS: Catalogue[Question] = Catalogue(
    "question",
    {
        "accounting": f"{_HERE}.runs:accounting",
        "association": f"{_HERE}.runs:association",
        "attribution": f"{_HERE}.verdicts:attribution",
        "benchmark": f"{_HERE}.runs:benchmark",
        "correlations": f"{_HERE}.servers:correlations",
        "distributions": f"{_HERE}.responses:distributions",
        "episodes": f"{_HERE}.responses:episodes",
        "forecast": f"{_HERE}.responses:forecast",
        "growth": f"{_HERE}.runs:growth",
        "independence": f"{_HERE}.responses:independence",
        "io_time": f"{_HERE}.runs:io_time",
        "metadata": f"{_HERE}.servers:metadata",
        "night": f"{_HERE}.servers:night",
        "parallelism": f"{_HERE}.servers:parallelism",
        "phases": f"{_HERE}.servers:phases",
        "sick_components": f"{_HERE}.servers:sick_components",
        "slowdown": f"{_HERE}.responses:slowdown",
        "verdicts": f"{_HERE}.verdicts:verdicts",
        "volumes": f"{_HERE}.servers:volumes",
    },
)
