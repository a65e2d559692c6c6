"""What targets can do, by what is kept of sealed days: against numpy's quantile over all samples of the days."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.diagnosis.job_loads import Capacity
from ioweather.diagnosis.job_records import read_capacity
from ioweather.lake.lake import Lake, open_lake
from planted_association import START_NS

DAYS, TARGETS, A_DAY = 5, 3, 1440
FIRST_NS = START_NS - START_NS % DAY_NS


def samples(day: int) -> Any:
    return np.random.default_rng(day).gamma(1.5, 1e9, (A_DAY, TARGETS))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = open_lake(tmp_path / "lake", create=True)
    for day in range(DAYS):
        rows = series_frame(samples(day), start_ns=FIRST_NS + day * DAY_NS, metric="read_bytes")
        made.append("series", rows, source="lmt")
    return made


def found(lake: Lake, moment_ns: int = FIRST_NS) -> tuple[tuple[str, ...], Capacity]:
    with lake.snapshot() as snapshot:
        (filesystem,) = {group.filesystem for group in snapshot.series()}
        components, capacity = read_capacity(snapshot, filesystem, moment_ns)
    assert capacity is not None
    return components, capacity


def expected(*days: int) -> Any:
    """The first, middle and last day; what a quantile of all their rates is, and of 3 targets the better ones'."""
    rates = np.concatenate([samples(day) for day in days]) / (MINUTE_NS / 1e9)
    most = np.sort(rates, axis=0)[::-1][int(len(rates) * 0.001)]
    return np.maximum(most, np.quantile(most, 0.9))


def test_highest_rates_of_three_days_of_a_month(lake: Lake) -> None:
    fresh = found(lake)
    np.testing.assert_allclose(fresh[1].per_second["read_bytes"][:-1], expected(0, 2, 4), rtol=0.01)
    for moment in (FIRST_NS, FIRST_NS + DAY_NS, FIRST_NS + 400 * DAY_NS):  # the same all month, or of the nearest one
        again = found(lake, moment)[1].per_second["read_bytes"]
        np.testing.assert_array_equal(again, fresh[1].per_second["read_bytes"])


def test_a_late_file_counts(lake: Lake) -> None:
    before = found(lake)[1].per_second["read_bytes"]
    late = series_frame(np.full((A_DAY, TARGETS), 1e13), start_ns=FIRST_NS + (DAYS - 1) * DAY_NS, metric="write_bytes")
    lake.append("series", late, source="lmt")
    after = found(lake)[1].per_second
    assert after["write_bytes"][0] == pytest.approx(1e13 / 60)
    assert after["read_bytes"][0] >= before[0]
