"""Others' rate is that of whole sampling intervals less the run's own bytes."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.advice.group_states import BYTES, OPERATIONS, group_states
from ioweather.studies.association_data import association_data
from planted_association import PARAMS, planted_association, site


def test_states_follow_the_planted_load():
    data = association_data(planted_association(days=10), site(), PARAMS)
    states = group_states(data.runs.frame, data.system)
    rows = data.members(data.asked)
    whole = data.of("others_io_high_read_bytes") + data.of("others_io_high_write_bytes")
    assert states.states[BYTES][rows] == pytest.approx((whole / data.of("d_d_seconds"))[rows])
    assert np.isfinite(states.states[OPERATIONS][rows]).all()
    assert ((states.inside_ratio[rows] > 0.8) & (states.inside_ratio[rows] <= 1)).all()
