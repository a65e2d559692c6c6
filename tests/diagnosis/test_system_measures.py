"""Others' rate is that of whole sampling intervals less the run's own bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.diagnosis.verdict_wording import measure_system
from ioweather.studies.mad17.explained_traffic import association_data
from planted_association import PARAMS, planted_association, site


def measures(data, system):
    return {each.name: each.values for each in measure_system(data.runs.frame, system)}


def test_measures_follow_the_planted_load():
    data = association_data(replace(planted_association(days=10), facility=site()), PARAMS)
    found = measures(data, data.system)
    rows = data.members(data.asked)
    others = data.of("others_io_high_read_bytes") / data.of("d_d_seconds")
    assert found["others_read"][rows] == pytest.approx(np.maximum(others, 0.0)[rows])
    assert np.isfinite(found["others_operations"][rows]).all()


def test_load_on_targets_is_shown_only_if_known_for_all_runs():
    data = association_data(replace(planted_association(days=4), facility=site()), PARAMS)
    rate = np.linspace(1.0, 2.0, data.runs.rows)
    found = measures(data, data.system.with_columns(target_bytes_per_s=rate))
    assert found["own_targets"] == pytest.approx(rate)
    rate[np.flatnonzero(np.isfinite(found["others_read"]))[0]] = np.nan
    assert "own_targets" not in measures(data, data.system.with_columns(target_bytes_per_s=rate))
