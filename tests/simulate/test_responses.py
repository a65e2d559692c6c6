"""Response times follow the planted law: checked with counts and Hill's estimator, not with our own fits."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.simulate.facility_files import (
    draw_response_seconds,
    mean_response_seconds,
    window_responses,
    with_slow_service,
)
from ioweather.simulate.fluid import Incident
from ioweather.simulate.presets import ResponseLaw, for_days, preset_named
from ioweather.simulate.world import World


def test_head_and_tail_are_as_planted():
    law = ResponseLaw()
    seconds, tail = draw_response_seconds(law, 0.01, 200_000, np.random.default_rng(1))
    pivot = 0.01 * (1 + law.pivot_sds * law.sd_ratio)
    assert np.mean(seconds > pivot) == pytest.approx(law.tail_ratio, abs=0.003)
    assert np.array_equal(seconds > pivot, tail)
    hill = 1 + 1 / np.mean(np.log(seconds[tail] / pivot))
    assert hill == pytest.approx(law.alpha, abs=0.03)
    head = seconds[~tail]
    assert head.mean() == pytest.approx(0.01, rel=0.01)
    assert head.std() == pytest.approx(0.0012, rel=0.03)


def test_larger_requests_take_longer_and_writes_more_than_reads():
    law = ResponseLaw()
    assert mean_response_seconds(law, 1 << 20, "read") == pytest.approx(law.mean_seconds)
    assert mean_response_seconds(law, 1 << 30, "read") > 100 * law.mean_seconds
    assert mean_response_seconds(law, 1 << 20, "write") > mean_response_seconds(law, 1 << 20, "read")


def test_a_sick_target_serves_every_request_slower():
    preset = for_days(preset_named("laptop-noisy"), 1)
    world = World(preset, 5)
    (window,) = world.windows()
    readings = window.readings
    sick = Incident("incident-001", "slow_ost", 0.0, readings.times[-1] + 1, 0.2, (3,), world.resources.ost_name(3))
    plain = list(window_responses(readings, preset, world.resources, 5))
    served = list(window_responses(with_slow_service(readings, world.resources, [sick]), preset, world.resources, 5))
    for before, after in zip(plain, served, strict=True):
        factor = np.median(after.seconds / before.seconds)
        assert factor == (pytest.approx(5.0, rel=0.2) if before.component == world.resources.ost_name(3) else 1.0)
