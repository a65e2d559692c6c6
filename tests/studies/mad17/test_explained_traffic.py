"""Bytes of logs against bytes of servers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_jobs import estimate

from ioweather.core.tables import FILES, encode_text
from ioweather.core.units import MINUTE_NS, NS
from ioweather.facts.job_metrics import SPAN_COLUMNS
from planted_association import START_NS, made, planted_association, rollup, site


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


def bursts(data, seconds=5):
    """One file per run, read in `seconds` at a second of its minute that the servers' samples do not tell."""
    runs = data.frames["job_io"]
    rng = np.random.default_rng(3)
    first = runs.array("start_ns") // MINUTE_NS * MINUTE_NS + rng.integers(1, 50, runs.rows) * NS + 5 * MINUTE_NS
    moved = runs.array("read_bytes") + runs.array("write_bytes")
    digests = runs.text("log_digest").tolist()
    columns = {
        "log_digest": digests, "record_id": list(range(runs.rows)), "rank": 0, "module": "POSIX", "mount": "/scratch",
        "standard_stream": False, "read_bytes": moved.tolist(), "write_bytes": 0, "first_read_ns": first.tolist(),
        "last_read_ns": (first + seconds * NS).tolist(),
    }  # fmt: skip
    rows = {s.name: columns.get(s.name, None if s.nullable else 0) for s in FILES.columns}
    rows = {name: value if isinstance(value, list) else [value] * runs.rows for name, value in rows.items()}
    minutes = (data.period_ns[1] - START_NS) // MINUTE_NS
    traffic = np.bincount((first - START_NS) // MINUTE_NS, moved, minlength=minutes)[:minutes].astype(float)
    files = FILES.frame(rows, rows=runs.rows).select(SPAN_COLUMNS)
    frames = {**data.frames, "files": files, "traffic": rollup({"read_bytes": traffic, "write_bytes": 0 * traffic})}
    return replace(data, frames=frames)


def test_the_sum_over_logs_is_finer_than_the_servers():
    """Bursts of 5 s in samples of 60 s: the sum has them where they were planted, up to twelve times as high."""
    data = bursts(planted_association(days=20))
    found = made("association_coverage", data)["mad17.fig13"]
    assert estimate(found, "correlation").value == pytest.approx(1.0, abs=0.02)
    assert estimate(found, "finer_ratio").value == pytest.approx(1.0)
    assert 5 < estimate(found, "fine_peak").value <= 12


def test_without_times_of_files_bytes_are_spread_over_the_run():
    data = planted_association(days=20)
    bare = replace(data, frames={name: frame for name, frame in data.frames.items() if name != "files"})
    found = made("association_coverage", bare)["mad17.fig13"]
    names = {each.name for each in found.estimates}
    assert "correlation" in names
    assert not names & {"finer_ratio", "fine_peak"}
    assert len(found.charts) == 1
