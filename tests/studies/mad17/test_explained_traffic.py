"""Bytes of logs against bytes of servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_jobs import estimate

from ioweather.core.tables import encode_text
from planted_association import made, planted_association, site


def test_the_share_is_what_was_planted():
    data = planted_association(days=20)
    found = made("association_coverage", data)["mad17.fig13"]
    moved = data.frames["job_io"].array("read_bytes").sum() + data.frames["job_io"].array("write_bytes").sum()
    share = estimate(found, "covered_ratio")
    total = estimate(found, "system_volume").value
    assert share.value == pytest.approx(moved / total, rel=0.06)
    assert share.low <= share.value <= share.high
    assert estimate(found, "lost").value == 1000 * 60.0
    assert found.coverage[0].excluded == {"not recorded": 1000}


def test_runs_on_other_file_systems_do_not_count():
    data = planted_association(days=20)
    runs = data.frames["job_io"]
    elsewhere = np.arange(runs.rows) % 2 == 0
    mounts = encode_text(["/home" if other else "/scratch" for other in elsewhere])
    moved = replace(data, frames={**data.frames, "job_io": runs.with_columns(main_mount=mounts)})
    found = made("association_coverage", moved)["mad17.fig13"]
    kept = runs.take(~elsewhere)
    total = estimate(found, "system_volume").value
    own = kept.array("read_bytes").sum() + kept.array("write_bytes").sum()
    assert estimate(found, "covered_ratio").value == pytest.approx(own / total, rel=0.06)
    assert found.coverage[1].excluded == {"mostly on other file systems": int(elsewhere.sum())}
    unknown = made("association_coverage", moved, site(mounts=()))["mad17.fig13"]
    assert estimate(unknown, "covered_ratio").value > estimate(found, "covered_ratio").value


def test_without_times_of_files_bytes_are_spread_over_the_run():
    data = planted_association(days=20)
    bare = replace(data, frames={name: frame for name, frame in data.frames.items() if name != "files"})
    found = made("association_coverage", bare)["mad17.fig13"]
    assert estimate(found, "covered_ratio").value == pytest.approx(
        estimate(made("association_coverage", data)["mad17.fig13"], "covered_ratio").value, rel=0.02
    )
