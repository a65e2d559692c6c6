"""Bytes of logs against bytes of servers."""

from __future__ import annotations

import numpy as np
import pytest
from planted_jobs import estimate

from ioweather.core.frames import Frame
from ioweather.studies.association_coverage import spread_evenly
from ioweather.studies.steps import Steps
from planted_association import made, planted_association


def test_bytes_are_spread_over_the_run():
    steps = Steps(1000, 10, {"read_bytes": np.zeros(5)})
    runs = Frame({
        "start_ns": np.array([1005, 1000, 990, 1048]), "end_ns": np.array([1025, 1000, 1010, 1058]),
        "read_bytes": np.array([100, 7, 50, 10]), "write_bytes": np.array([100, 0, 50, 10]),
    })  # fmt: skip
    assert spread_evenly(steps, runs).tolist() == [50.0 + 7 + 50, 100.0, 50.0, 0.0, 4.0]


def test_the_share_is_what_was_planted():
    data = planted_association(days=20)
    found = made("association_coverage", data)["mad17.fig13"]
    moved = data.frames["runs"].array("read_bytes").sum() + data.frames["runs"].array("write_bytes").sum()
    share = estimate(found, "covered_ratio")
    total = estimate(found, "system_volume").value
    assert share.value == pytest.approx(moved / total, rel=0.06)
    assert share.low <= share.value <= share.high
    assert estimate(found, "lost").value == 1000 * 60.0
    assert found.coverage[0].excluded == {"not recorded": 1000}
