"""Matrices reduced by stretches against the same statistics of the whole, with gaps, excess and maintenance."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility, _FileSystem, _Window
from ioweather.core.frames import Matrix
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.stats.series import window_sums
from ioweather.studies.pat19.matrices import (
    LAGS,
    PAIRS,
    Limits,
    Targets,
    covered_rows,
    reduce_targets,
)
from ioweather.studies.pat19.parallelism import count_clusters, sort_activity
from lagged_correlations import lagged_correlation

TARGETS, DAYS = 11, 23
ROWS = DAYS * 1440
METRICS = ("read_bytes", "write_bytes")


def matrices(values: dict[str, np.ndarray]) -> dict[str, Matrix]:
    names = tuple(f"OST{i:04x}" for i in range(TARGETS))
    return {
        metric: Matrix(metric, 0, MINUTE_NS, names, array, np.broadcast_to(np.float32(1), array.shape))
        for metric, array in values.items()
    }


@pytest.fixture(scope="module")
def planted() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(19)
    values = {metric: rng.lognormal(20, 1, (ROWS, TARGETS)) for metric in METRICS}
    for array in values.values():
        array[rng.random(array.shape) < 0.1] = 0
        array[20_000:20_100] = np.nan
        array[rng.random(array.shape) < 1e-4] = np.nan
        array[5000:5003, :2] = np.nan
    values["read_bytes"][:, 4] = np.nan  # one target of eleven: 9% are missing, the steps still count
    return values


@pytest.fixture(scope="module")
def passed(planted: dict[str, np.ndarray]) -> Targets:
    return reduce_targets(matrices(planted), Limits())


def usable(planted: dict[str, np.ndarray]) -> np.ndarray:
    """At least 90% of the targets that the day knows."""
    present = []
    for metric in METRICS:
        there = ~np.isnan(planted[metric])
        known = there.reshape(DAYS, 1440, TARGETS).any(axis=1).sum(axis=1)
        present.append(there.sum(axis=1) / np.repeat(known, 1440))
    return np.min(present, axis=0) >= 0.9 - 1e-9


def test_system_sums_and_exclusions(planted: dict[str, np.ndarray], passed: Targets) -> None:
    keep = usable(planted)
    for metric in METRICS:
        want = np.where(keep, np.nansum(planted[metric], axis=1), np.nan)
        np.testing.assert_allclose(passed.system.values[metric], want)
    assert passed.system.excluded["not recorded"] == 100
    assert passed.system.excluded["less than 90% recorded"] == (~keep).sum() - 100
    assert passed.unit == 1440


@pytest.mark.parametrize("window", [1, 5, 25])
def test_lagged_correlations(planted: dict[str, np.ndarray], passed: Targets, window: int) -> None:
    keep = usable(planted)[:, None]
    for pair, (x, y) in PAIRS.items():
        left, right = (window_sums(np.where(keep, planted[m], np.nan), window) for m in (x, y))
        for target in range(TARGETS):
            want = lagged_correlation(left[:, target], right[:, target], LAGS)
            np.testing.assert_allclose(passed.lags[pair, window][:, target], want, atol=1e-9, equal_nan=True)


def test_degrees(planted: dict[str, np.ndarray], passed: Targets) -> None:
    keep = usable(planted)[:, None]
    for (metric, tolerance, window), found in passed.degrees.items():
        activity = sort_activity(window_sums(np.where(keep, planted[metric], np.nan), window))
        counts = count_clusters(activity, tolerance)
        assert np.array_equal(found.histogram, counts.histogram)
        assert np.array_equal(found.per_interval, counts.per_interval)


def test_excess_and_maintenance_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(3)
    values = {metric: rng.lognormal(20, 0.3, (3000, TARGETS)) for metric in METRICS}
    values["read_bytes"][7, 2] = 1e15  # one cell: 1 of 11 is missing then, the step stays
    values["write_bytes"][9] *= 50  # the whole system above its peak
    facility = Facility(
        filesystems=(_FileSystem("scratch", component_limit_bytes_per_s=1e12, peak_bytes_per_s=2e9),),
        maintenance=(_Window(100 * MINUTE_NS, 160 * MINUTE_NS, "work"),),
    )
    found = reduce_targets(matrices(values), Limits.of(facility, "scratch", MINUTE_NS))
    assert found.over_limit_cells == 1
    assert dict(found.system.excluded) == {"maintenance": 60, "above the system peak": 1}
    assert np.isnan(found.system.values["write_bytes"][9])
    assert not np.isnan(found.system.values["read_bytes"][7])
    assert found.system.values["read_bytes"][7] < 1e12
    assert Limits.of(Facility(), "scratch", MINUTE_NS) == Limits()


def test_long_silence_of_many_targets_is_a_shutdown() -> None:
    rng = np.random.default_rng(5)
    values = {metric: rng.lognormal(20, 0.3, (3000, TARGETS)) for metric in METRICS}
    for array in values.values():
        array[500:620] = 0
        array[900:905] = 0  # too short
    found = reduce_targets(matrices(values), Limits())
    assert dict(found.system.excluded) == {"no data moved for 10 min": 120}
    assert np.isnan(found.system.values["read_bytes"][500:620]).all()
    at_midnight = {metric: np.concatenate([array, array]) for metric, array in values.items()}
    for array in at_midnight.values():
        array[1435:1447] = 0  # five minutes of one day and seven of the next
    crossing = reduce_targets(matrices(at_midnight), Limits())
    assert np.isnan(crossing.system.values["read_bytes"][1435:1447]).all()
    assert dict(crossing.system.excluded) == {"no data moved for 10 min": 252}
    few = {m: Matrix(m, 0, MINUTE_NS, ("a",), v[:, :1], np.ones((3000, 1), np.float32)) for m, v in values.items()}
    assert not reduce_targets(few, Limits()).system.excluded, "one disk may rest"


def test_targets_that_came_later_are_no_gap_before() -> None:
    values = {metric: np.random.default_rng(6).lognormal(20, 0.3, (30 * 1440, TARGETS)) for metric in METRICS}
    for array in values.values():
        array[: 15 * 1440, 7:] = np.nan
        array[100, :3] = np.nan  # three of the seven that there were
    found = reduce_targets(matrices(values), Limits())
    assert dict(found.system.excluded) == {"less than 90% recorded": 1}


def grid_matrix(start_hours: int, names: str, hours: int, coverage: float = 1.0) -> Matrix:
    values = np.arange(hours * len(names), dtype=float).reshape(hours, len(names))
    covered = np.broadcast_to(np.float32(coverage), values.shape)
    return Matrix("read_bytes", start_hours * HOUR_NS, HOUR_NS, tuple(names), values, covered)


def test_cells_that_are_half_recorded_are_missing() -> None:
    whole = grid_matrix(0, "xy", 24)
    covered = np.ones(whole.values.shape, np.float32)
    covered[3, 1] = 0.5
    part = Matrix("read_bytes", 0, HOUR_NS, whole.components, whole.values, covered)
    values = covered_rows(part, 0, 24)
    assert np.isnan(values[3, 1])
    assert np.isnan(values).sum() == 1
    half = grid_matrix(0, "x", 24, coverage=0.5)
    assert np.isnan(covered_rows(half, 0, 24)).all()
