"""Bytes of logs against bytes of servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_jobs import estimate

from ioweather.core.frames import Frame
from ioweather.studies.association.coverage import spread_evenly
from ioweather.studies.shared.rollup_steps import Steps
from ioweather.tables import encode_text
from planted_association import made, planted_association, site


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


def test_runs_on_other_file_systems_do_not_count():
    data = planted_association(days=20)
    runs = data.frames["runs"]
    elsewhere = np.arange(runs.rows) % 2 == 0
    mounts = encode_text(["/home" if other else "/scratch" for other in elsewhere])
    moved = replace(data, frames={**data.frames, "runs": runs.with_columns(main_mount=mounts)})
    found = made("association_coverage", moved)["mad17.fig13"]
    kept = runs.take(~elsewhere)
    total = estimate(found, "system_volume").value
    own = kept.array("read_bytes").sum() + kept.array("write_bytes").sum()
    assert estimate(found, "covered_ratio").value == pytest.approx(own / total, rel=0.06)
    assert found.coverage[1].excluded == {"mostly on other file systems": int(elsewhere.sum())}
    unknown = made("association_coverage", moved, site(mounts=()))["mad17.fig13"]
    assert estimate(unknown, "covered_ratio").value > estimate(found, "covered_ratio").value
