"""Sealed days of roll-ups hold each row once; what comes later still replaces it."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import DAY

from ioweather.core.tables import RESPONSES
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS
from ioweather.facts.slowdown import all_intervals
from ioweather.lake.delta_tables import is_one_per_key
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact


def rolled(seconds: float, day: int = 0):
    starts = DAY + day * DAY_NS + np.arange(0, 2 * HOUR_NS, 10 * NS)
    return all_intervals(
        RESPONSES.frame(
            start_ns=starts, host="h", target="/p", op="read", request_bytes=1, mode="cache", system="mount:/",
            duration_ns=round(seconds * NS), status="ok", rows=len(starts),
        )
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    for seconds in (0.1, 0.2, 0.3):
        lake.append("response_rollups", rolled(seconds), source="rollup")
    lake.append("response_rollups", rolled(0.5, day=1), source="rollup")
    return lake


def maxima(lake, **options):
    with lake.snapshot() as snapshot:
        frame = snapshot.frame("response_rollups", ("start_ns", "max_seconds"), {"interval_ns": HOUR_NS}, **options)
    return sorted(zip(frame.array("start_ns").tolist(), frame.array("max_seconds").tolist(), strict=True))


def test_a_sealed_day_forgets_what_was_replaced(lake):
    before = maxima(lake)
    assert [seconds for _, seconds in before] == [0.3, 0.3, 0.5, 0.5]
    done = {(table, day): counts for table, day, *counts in compact(lake, everything=True)}
    assert done["response_rollups", "2024-10-04"][0] == 3
    assert maxima(lake) == before
    with lake.snapshot() as snapshot:
        assert all(is_one_per_key(uri) for uri in snapshot.pinned["response_rollups"].uris)
    assert compact(lake, everything=True) == []


def test_a_late_revision_counts_and_is_sealed_again(lake):
    compact(lake, everything=True)
    assert lake.append("response_rollups", rolled(0.7), source="rollup") > 0
    assert lake.append("response_rollups", rolled(0.7), source="rollup") == 0
    assert [seconds for _, seconds in maxima(lake)] == [0.7, 0.7, 0.5, 0.5]
    compact(lake, everything=True)
    assert [seconds for _, seconds in maxima(lake)] == [0.7, 0.7, 0.5, 0.5]


def test_a_period_is_read_from_the_files_of_its_days(lake):
    compact(lake, everything=True)
    assert [seconds for _, seconds in maxima(lake, period_ns=(DAY, DAY + HOUR_NS))] == [0.3]
    across = (DAY + HOUR_NS, DAY + DAY_NS + MINUTE_NS)
    assert [seconds for _, seconds in maxima(lake, period_ns=across)] == [0.3, 0.5]
    assert maxima(lake, period_ns=(DAY + 40 * DAY_NS, DAY + 41 * DAY_NS)) == []
