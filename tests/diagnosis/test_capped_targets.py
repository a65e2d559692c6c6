"""A planted limit is found where and when it was planted; uneven work and slow jobs are not taken for it."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.units import HOUR_NS
from ioweather.diagnosis.health_incidents import STEP_NS, Incident
from ioweather.diagnosis.health_incidents import detect_capped as detect

TARGETS, STEPS = 16, 7 * 288
CEILING = 3e11


def work(seed: int) -> np.ndarray:
    """Jobs on a few targets each, many at the ceiling, and so many that no target idles for hours."""
    rng = np.random.default_rng(seed)
    demand = np.zeros((STEPS, TARGETS))
    for _ in range(4000):
        start, length = rng.integers(0, STEPS - 60), rng.integers(1, 7)
        chosen = rng.choice(TARGETS, rng.integers(1, 6), replace=False)
        demand[start : start + length, chosen] += rng.uniform(0.3, 1.2)
    return demand


def moved(demand: np.ndarray, seed: int = 0, noise: float = 0.02) -> Matrix:
    rng = np.random.default_rng(seed)
    values = CEILING * np.minimum(demand, 1.0) * np.exp(noise * rng.standard_normal(demand.shape))
    names = tuple(f"OST{i:04x}" for i in range(demand.shape[1]))
    return Matrix("bytes_moved", 0, STEP_NS, names, values, np.broadcast_to(np.float32(1), values.shape))


def capped(matrix: Matrix) -> list[Incident]:
    return detect(matrix, {})


def with_limit(demand: np.ndarray, column: int, first: int, last: int, level: float) -> np.ndarray:
    """What cannot be done at once waits."""
    done, waiting = demand.copy(), 0.0
    for step in range(first, last):
        waiting += demand[step, column]
        done[step, column] = min(level, waiting)
        waiting -= done[step, column]
    return done


@pytest.mark.parametrize("seed", range(4))
def test_uneven_work_is_no_sickness(seed: int) -> None:
    assert capped(moved(work(seed), seed)) == []


@pytest.mark.parametrize(("seed", "level"), [(0, 0.1), (1, 0.3), (2, 0.5)])
def test_a_limit_is_found_with_its_time_and_level(seed: int, level: float) -> None:
    matrix = moved(with_limit(work(seed), 5, 600, 800, level), seed)
    (found,) = capped(matrix)
    assert found.component == "OST0005"
    assert found.factor == pytest.approx(1 / level, rel=0.2)
    assert found.start_ns == pytest.approx(600 * STEP_NS, abs=3 * HOUR_NS)
    assert found.end_ns == pytest.approx(800 * STEP_NS, abs=3 * HOUR_NS)


def test_a_job_that_is_slow_by_itself_is_not_the_targets_fault() -> None:
    demand = work(3)
    demand[600:700, :4] = 0.2  # eight hours at the same rate, on four targets
    assert capped(moved(demand)) == []


def test_the_targets_of_one_server_may_share_a_limit() -> None:
    demand = work(1)
    for column in (6, 7):
        demand = with_limit(demand, column, 600, 850, 0.2)
    servers = {f"OST{i:04x}": f"oss{i // 2}" for i in range(TARGETS)}
    assert {c.component for c in detect(moved(demand), servers)} == {"OST0006", "OST0007"}


def test_nothing_few_gaps_and_silence_say_nothing() -> None:
    empty = np.zeros((STEPS, TARGETS))
    assert capped(moved(empty)) == []
    assert capped(moved(empty[:0])) == []
    assert capped(moved(work(1)[:, :3])) == []
    gaps = moved(with_limit(work(2), 5, 600, 800, 0.5), 2)
    gaps.values[:, 0] = np.nan
    gaps.values[100:200] = np.nan
    assert [c.component for c in capped(gaps)] == ["OST0005"]
