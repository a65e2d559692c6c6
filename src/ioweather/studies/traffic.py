"""Bytes read and written by a file system, in steps: what several studies look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ioweather.core.choices import TRAFFIC
from ioweather.facts.system_grid import Steps, steps_of, without_impossible

if TYPE_CHECKING:
    from ioweather.core.contracts import Params
    from ioweather.topics.source import DataSource

TRAFFIC_NEEDS: Final = f"series:{','.join(TRAFFIC)}"


def traffic_steps(source: DataSource, params: Params) -> Steps:
    """Bytes per step over all components, as TRAFFIC_PARAMS choose them; steps above the peak are not usable."""
    filesystem, step_ns = str(params["filesystem"]), int(params["resolution"])
    rollup = source.rollup(filesystem, params["component_kind"], TRAFFIC, step_ns)
    return without_impossible(steps_of(rollup, TRAFFIC, step_ns, source.period_ns), source.facility, filesystem)
