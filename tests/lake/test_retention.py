"""[retention] of facility.toml: what goes, what stays, and when disk space comes back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS, now_ns
from ioweather.lake import layout, maintenance
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import apply_retention, compact
from ioweather.ui.cli.main import run


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def responses(start_ns: int):
    return TABLES["responses"].frame(
        rows=1, start_ns=start_ns, host="n1", target="/s", op="read", request_bytes=1, mode="nocache", duration_ns=5,
        system="mount:/s", status="ok", run_id="r",
    )  # fmt: skip


def test_responses_go_when_the_facility_says_so(lake):
    for days in (3, 20, 500):
        lake.append("responses", responses(now_ns() - days * DAY_NS), source="spool")
    assert apply_retention(lake, lake.facility, dry_run=True)["responses"] == 1, "400 days by default"
    layout.facility_file(lake.root).write_text('[retention]\nresponses = "7d"\n')
    assert apply_retention(lake, lake.facility)["responses"] == 2
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM responses") == 1


@pytest.mark.parametrize("aligned", [True, False])
def test_a_sample_that_no_minute_tells_again_stays(lake, aligned):
    """iostat's 60 s come out as 59, 60 and 61; an interval that was changed at noon leaves seconds and minutes."""
    start_ns = DAY + (0 if aligned else 7 * MINUTE_NS // 60)
    lake.append("series", series_frame(np.ones((3, 1)), start_ns=start_ns, kind="device"), source="iostat")
    later = start_ns + 3 * MINUTE_NS
    short = series_frame(np.ones((2, 1)), start_ns=later, step_ns=59 * MINUTE_NS // 60, kind="device")
    lake.append("series", short, source="iostat")
    assert apply_retention(lake, lake.facility)["series"] == 0
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 5


def test_replaced_files_stay_until_their_version_is_past_its_time(lake, monkeypatch):
    for hour in range(3):
        lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + hour * 60 * MINUTE_NS), source="tts")
    folder = layout.tables_dir(lake.root) / "series"
    compact(lake)
    assert len(list(folder.rglob("*.parquet"))) == 4, "sealing drops nothing"
    assert apply_retention(lake, lake.facility)["files"] == 0
    layout.facility_file(lake.root).write_text('[retention]\nversions = "1h"\n')
    assert apply_retention(lake, lake.facility)["files"] == 0, "at least 24 hours"
    with lake.snapshot() as snapshot:
        rows = snapshot.query("SELECT * FROM series ORDER BY ALL").fetchall()
    monkeypatch.setattr(maintenance, "_LEAST_VACUUM_HOURS", 0)
    at_once = replace(lake.facility, retention_ns={**lake.facility.retention_ns, "versions": 0})
    assert apply_retention(lake, at_once, dry_run=True)["files"] == 3
    assert apply_retention(lake, at_once)["files"] == 3
    assert len(list(folder.rglob("*.parquet"))) == 1
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT * FROM series ORDER BY ALL").fetchall() == rows


def test_the_command_tells_and_does(lake, capsys):
    lake.append("responses", responses(now_ns() - 500 * DAY_NS), source="spool")
    assert run(["lake", "retention", "--dry-run", "--lake", str(lake.root)]) == 0
    assert capsys.readouterr().out.startswith("Would drop 0 raw samples, 1 responses")
    assert run(["lake", "--lake", str(lake.root), "retention"]) == 0
    assert capsys.readouterr().out.startswith("Dropped 0 raw samples, 1 responses")
