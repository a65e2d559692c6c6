"""Hours and weekdays against a plain walk over local times, across the change of clocks."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from ioweather.core.results import Exhibit
from ioweather.core.units import ns_to_datetime
from judging import stands

STEP_NS = 300 * 10**9


def slow_volumes(planted: Any, metric: str, weekly: bool) -> dict[int, list[float]]:
    """Volumes of each hour (of a day) or weekday (of a week), by walking the steps one by one."""
    zone = ZoneInfo(planted.zone)
    cells: dict[tuple[Any, int], list[float]] = defaultdict(list)
    for i, amount in enumerate(planted.values[metric].sum(axis=1).tolist()):
        local = ns_to_datetime(planted.start_ns + i * STEP_NS, zone)
        if weekly:
            cells[local.isocalendar()[:2], local.weekday()].append(amount)
        else:
            cells[local.date(), local.hour].append(amount)
    full = 288 if weekly else 12
    out: dict[int, list[float]] = defaultdict(list)
    for (_, place), amounts in cells.items():
        if len(amounts) >= 0.9 * full:
            out[place].append(sum(amounts) / len(amounts) * full)
    return out


@pytest.mark.parametrize(("exhibit", "weekly"), [("pat19.fig5", False), ("pat19.fig6", True)])
def test_means_and_variations(
    planted_climate: Any, climate_exhibits: dict[str, Exhibit], exhibit: str, weekly: bool
) -> None:
    made = climate_exhibits[exhibit].tables[0]
    places = 7 if weekly else 24
    for block, metric in enumerate(("read_bytes", "write_bytes")):
        want = slow_volumes(planted_climate, metric, weekly)
        for place in range(places):
            row = made.rows[block * places + place]
            volumes = np.array(want[place])
            assert row[2] == pytest.approx(volumes.mean())
            assert row[5] == pytest.approx(volumes.std() / volumes.mean())
            assert row[8] == len(volumes)
            assert row[3] <= row[2] <= row[4]


def test_the_spike_and_the_restless_evenings_are_found(climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    five, six = climate_exhibits["pat19.fig5"], climate_exhibits["pat19.fig6"]
    assert estimate_of(five, "spike_hour").value == 2
    assert estimate_of(five, "evening_variation_difference_write").low > 0
    assert estimate_of(six, "sunday_variation_difference_write").low > 0
    assert estimate_of(five, "evening_variation_difference_read").low < 0
    assert any("America/Los_Angeles" in caveat for caveat in five.caveats)
    assert stands(five, "hours_flat_read") == "supported"
    assert estimate_of(five, "evening_variation_difference_write").low > 0
    assert stands(six, "sunday_writes") == "supported"
    assert stands(five, "peak_hour") == "supported"
