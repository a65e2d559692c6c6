"""Planted sickness is found where and when it was planted; healthy systems raise no alarm."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.derive.system.health import component_health, health_events

STEP_NS = 10 * MINUTE_NS
TARGETS, DAYS = 24, 30
ROWS = DAYS * 144


def healthy(seed: int) -> np.ndarray:
    """Shared busy and idle times, targets of different size, and noise of their own."""
    rng = np.random.default_rng(seed)
    shared = np.exp(1.5 * np.repeat(rng.standard_normal(DAYS * 4), 36))[:, None]
    return 1e9 * shared * np.linspace(1, 3, TARGETS) * rng.gamma(2.0, size=(ROWS, TARGETS))


def matrix(values: np.ndarray, metric: str = "read_bytes") -> Matrix:
    names = tuple(f"OST{i:04x}" for i in range(values.shape[1]))
    return Matrix(metric, 0, STEP_NS, names, values, np.broadcast_to(np.float32(1), values.shape))


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_system_raises_no_alarm(seed: int) -> None:
    found = component_health(matrix(healthy(seed)))
    assert len(found) == TARGETS
    assert all(not health.episodes for health in found)
    biggest = next(h for h in found if h.component == "OST0017")
    assert biggest.level == pytest.approx(1.5, rel=0.1)


def test_planted_episodes_are_found() -> None:
    values = healthy(1)
    values[600:672, 3] *= 0.05  # twelve hours nearly silent
    values[1200:1236, 9] *= 30  # six hours far too busy
    values[2000:2144, 15] = np.nan  # a day without a word
    values[3000:3006, 20] *= 0.01  # one hour: too short to speak of
    found = {health.component: health for health in component_health(matrix(values))}
    sick = {name: health.episodes for name, health in found.items() if health.episodes}
    assert set(sick) == {"OST0003", "OST0009", "OST000f"}
    (slow,), (busy,), (gone,) = sick["OST0003"], sick["OST0009"], sick["OST000f"]
    assert (slow.direction, slow.start_ns, slow.end_ns) == ("below", 100 * HOUR_NS, 112 * HOUR_NS)
    assert 0.04 < slow.factor < 0.1
    assert (busy.direction, busy.start_ns, busy.end_ns) == ("above", 200 * HOUR_NS, 206 * HOUR_NS)
    assert busy.factor == pytest.approx(30, rel=0.5)
    assert gone.direction == "absent"
    assert gone.factor is None
    assert abs(gone.start_ns - 2000 * STEP_NS) <= HOUR_NS
    ranked = [health.component for health in component_health(matrix(values))][:3]
    assert ranked[0] in ("OST0003", "OST0009")
    assert found["OST000f"].missing_ratio == pytest.approx(1 / 30, rel=0.1)


def test_a_gap_of_all_and_an_idle_night_are_nobodys_sickness() -> None:
    values = healthy(2)
    values[500:700] = np.nan
    values[1000:1100] = 0
    assert all(not health.episodes for health in component_health(matrix(values)))


def test_events_have_an_identity_and_can_be_written() -> None:
    values = healthy(1)
    values[600:672, 3] *= 0.05
    values[2000:2144, 15] = np.nan
    healths = component_health(matrix(values))
    events = health_events(healths, "scratch")
    assert events.rows == 2
    rows = sorted(events.records(), key=lambda row: row["start_ns"])
    assert rows[0]["kind"] == "component_health"
    assert rows[0]["event_id"] == f"component_health:scratch:OST0003:read_bytes:{100 * HOUR_NS}"
    assert "times its usual share" in rows[0]["label"]
    assert json.loads(rows[0]["details"])["direction"] == "below"
    assert rows[1]["strength_ratio"] is None
    assert health_events((), "scratch").rows == 0


def test_few_or_no_components_are_not_judged() -> None:
    assert component_health(matrix(np.ones((50, 3)))) == ()
    assert component_health(matrix(np.ones((0, 8)))) == ()
    assert all(not h.episodes for h in component_health(matrix(np.zeros((500, 8)))))
    assert all(not h.episodes for h in component_health(matrix(np.full((500, 8), np.nan))))
