"""Volume per day on planted traffic: totals, the day the mix changed and the project behind it."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.tables.schema import encode_text
from ioweather.core.units import DAY_NS
from planted_traffic import CHANGE, DAYS, START, data_of, planted, run, traffic, value


def test_volume_and_the_change_of_the_mix() -> None:
    read, write = planted()
    volume = run("daily_volume", data_of(traffic(read, write)))["car11.volume"]
    total_read, total_write = np.nansum(read), np.nansum(write)
    recorded_days = np.sum(~np.isnan(read)) / 1440
    assert value(volume, "total_read").value == pytest.approx(total_read)
    assert value(volume, "per_day_read").value == pytest.approx(total_read / recorded_days)
    assert value(volume, "per_day_write").value == pytest.approx(total_write / recorded_days)
    assert value(volume, "read_ratio").value == pytest.approx(total_read / (total_read + total_write))
    before, after = slice(0, CHANGE * 1440), slice(CHANGE * 1440, (CHANGE + 14) * 1440)
    for name, part in (("read_ratio_before_change", before), ("read_ratio_after_change", after)):
        want = np.nansum(read[part]) / np.nansum((read + write)[part])
        assert value(volume, name).value == pytest.approx(want)
        assert value(volume, name).low <= want <= value(volume, name).high
    texts = [f.text for f in volume.findings if f.name == "change_of_mix"]
    assert any("2010-02-25" in text for text in texts)
    assert any("unaligned writes" in caveat for caveat in volume.caveats)
    assert any("login" in caveat for caveat in volume.caveats)


def jobs_frame() -> Frame:
    starts = START + np.arange(0, DAYS, dtype=np.int64) * DAY_NS
    early = starts[:CHANGE]
    both = np.concatenate([starts, early])
    return Frame(
        {
            "start_ns": both,
            "end_ns": both + DAY_NS // 2,
            "account": encode_text(["steady"] * DAYS + ["earth"] * CHANGE),
            "uid": np.full(len(both), 7, np.int64),
            "node_count": np.full(len(both), 1024, np.int64),
            "raw_job_id": np.arange(len(both), dtype=np.int64),
        }
    )


def test_the_project_that_stopped_is_named() -> None:
    jobs = jobs_frame()
    digests = [f"log{i}" for i in range(jobs.rows)]
    runs = Frame(
        {
            "log_digest": encode_text(digests),
            "start_ns": jobs.array("start_ns"),
            "end_ns": jobs.array("end_ns"),
            "read_bytes": np.where(jobs.text("account").equals("earth"), 10**14, 10**12),
            "write_bytes": np.full(jobs.rows, 10**12),
        }
    )
    applications = Frame(
        {
            "log_digest": encode_text(digests),
            "uid": np.full(jobs.rows, 7, np.int64),
            "exe": encode_text(["/bin/x"] * jobs.rows),
            "job_id": jobs.array("raw_job_id"),
        }
    )
    data = data_of(traffic(*planted()), jobs=jobs, runs=runs, applications=applications)
    volume = run("daily_volume", data)["car11.volume"]
    tables = {t.name: t for t in volume.tables}
    assert tables["projects_volume"].rows[0][0] == "EarthScience"
    assert tables["projects_volume"].rows[0][1] == pytest.approx(1e14)
    assert tables["projects_volume"].rows[0][2] == 0
    assert tables["projects_node_hours"].rows[0][:3] == ("EarthScience", pytest.approx(12 * 1024), 0.0)
    assert sum("EarthScience tapered off" in f.text for f in volume.findings) == 2


def test_no_change_is_undecided() -> None:
    rng = np.random.default_rng(0)
    read, write = rng.lognormal(20, 1, (2, DAYS * 1440))
    volume = run("daily_volume", data_of(traffic(read, write), jobs=jobs_frame()))["car11.volume"]
    assert any(f.kind == "undecided" and "No change" in f.text for f in volume.findings)
    assert len(volume.tables) == 1


def test_days_are_local_days() -> None:
    read, write = np.full(2880, 60.0), np.full(2880, 60.0)
    made = run("daily_volume", data_of(traffic(read, write)), Facility(zone="America/Los_Angeles"))
    rows = made["car11.volume"].tables[0].rows
    assert [row[0] for row in rows[:3]] == ["2010-01-22", "2010-01-23", "2010-01-24"]
    assert rows[0][1] == 8 * 60 * 60.0
    assert rows[1][4] == 1.0
    shown = made["car11.volume"].charts[0].table.column("day")
    assert set(shown) == {"2010-01-23", "2010-01-24"}, "eight hours are no day to draw"
