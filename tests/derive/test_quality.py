"""Flags of a period, and what is left out because of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lmt_files import Read

from ioweather.core.contracts import ReadContext
from ioweather.derive.quality import (
    EXCLUDED,
    MARGIN,
    SUPPORT,
    LimitLearner,
    flag_over_limit,
    flag_shutdown,
    learned_limit,
    leave_out,
    quiet_steps,
    shutdown_steps,
)
from ioweather.tables.series import Quality

OVER = int(Quality.OVER_LIMIT)


def test_cells_above_a_component_and_steps_above_the_system():
    amounts = np.array([[1.0, 2.0, np.nan], [9.0, 1.0, 1.0], [4.0, 4.0, 4.0], [5.0, 5.0, 1.0]])
    flags = flag_over_limit(amounts, component=5.0, system=11.5)
    assert flags.tolist() == [[0, 0, 0], [OVER, 0, 0], [OVER, OVER, OVER], [0, 0, 0]]
    assert not flag_over_limit(amounts).any()


def test_a_limit_is_what_was_reached_often_enough():
    rng = np.random.default_rng(5)
    amounts = rng.uniform(0, 100, (500, 8))
    amounts[rng.random(amounts.shape) < 0.1] = np.nan
    plain = learned_limit(amounts)
    assert plain == MARGIN * np.sort(amounts[~np.isnan(amounts)])[-SUPPORT]
    amounts[rng.integers(0, 500, SUPPORT // 2), 3] = 1e9  # a few broken values teach nothing
    assert learned_limit(amounts) < 1.01 * plain
    assert (flag_over_limit(amounts, component=plain) > 0).sum() == len(np.unique(np.argwhere(amounts == 1e9), axis=0))


def test_blocks_teach_the_same_limit():
    amounts = np.random.default_rng(6).lognormal(3, 2, (1000, 5))
    learner = LimitLearner()
    for first in range(0, 1000, 77):
        learner.update(amounts[first : first + 77])
    assert learner.limit == learned_limit(amounts)


def test_too_little_teaches_nothing():
    assert learned_limit(np.zeros((100, 4))) == np.inf
    assert learned_limit(np.full((5, 2), np.nan)) == np.inf
    assert learned_limit(np.ones((1, 3))) == np.inf
    assert learned_limit(np.empty((0, 2))) == np.inf


def test_a_shutdown_is_long_silence_of_all():
    read, write = np.ones((40, 2)), np.ones((40, 2))
    read[5:20] = write[5:20] = 0
    read[10:12] = np.nan
    read[30:36] = write[30:36] = 0  # too short
    write[22:39, 0] = 0  # one of them only
    quiet = quiet_steps(read, write)
    closed = shutdown_steps(quiet, 60.0)
    assert np.flatnonzero(closed).tolist() == list(range(5, 20))
    assert np.flatnonzero(shutdown_steps(quiet, 60.0, at_least_seconds=360)).tolist() == [*range(5, 20), *range(30, 36)]
    flags = flag_shutdown(quiet, 2, 60.0)
    assert flags.shape == (40, 2)
    assert (flags[5:20] == Quality.SHUTDOWN).all()
    assert not flags[20:].any()


def test_shutdowns_at_the_ends_and_nothing_at_all():
    assert shutdown_steps(np.ones(10, bool), 60.0).all()
    assert not shutdown_steps(np.ones(9, bool), 60.0).any()
    assert len(shutdown_steps(np.zeros(0, bool), 60.0)) == 0


def test_what_is_left_out_is_counted_once():
    values = np.array([[1.0, 2.0, 3.0, 4.0, np.nan]])
    flags = np.array([[Quality.LATE, Quality.RESET | Quality.PARTIAL, Quality.OVER_LIMIT, 0, Quality.RESET]], np.uint8)
    kept = leave_out(values, flags)
    assert kept.excluded == {"reset": 1, "over_limit": 1}
    assert np.nan_to_num(kept.values).tolist() == [[1.0, 0.0, 0.0, 4.0, 0.0]]
    assert leave_out(values, flags, Quality.OK).excluded == {}
    assert not EXCLUDED & Quality.LATE


@pytest.mark.shared
@pytest.mark.parametrize("metric", ["read_bytes", "write_bytes"])
def test_no_minute_of_the_real_half_day_is_impossible(shared_data: Path, metric: str):
    """At 5 s one step is three times the system's peak; its minute is fine."""
    from ioweather.sources.lmt.tts import SOURCE

    rows = Read(SOURCE.read(shared_data / "lmt" / "snx11025_2018-02-09T12.hdf5", ReadContext())).rows(metric)
    targets = sorted({name for _, name in rows})
    start = min(begin for begin, _ in rows)
    minutes = np.full((720, 24), np.nan)
    for (begin, name), (value, _) in rows.items():
        minutes[(begin - start) // 60, targets.index(name)] = value
    limit = learned_limit(minutes)
    assert np.isfinite(limit)
    assert not flag_over_limit(minutes, component=limit, system=48e9 * 60).any()
    assert not shutdown_steps(quiet_steps(minutes), 60.0).any()
