"""Throughput, volume per day and the day on which the mix changed."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.tables import encode_text
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.topics.catalogue import STUDIES
from judging import stands
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
    data = data_of(traffic(*planted()), jobs=jobs, job_io=runs, applications=applications)
    volume = run("daily_volume", data)["car11.volume"]
    tables = {t.name: t for t in volume.tables}
    assert tables["projects_volume"].rows[0][0] == "EarthScience"
    assert tables["projects_volume"].rows[0][1] == pytest.approx(1e14)
    assert tables["projects_volume"].rows[0][2] == 0
    assert tables["projects_node_hours"].rows[0][:3] == ("EarthScience", pytest.approx(12 * 1024), 0.0)
    assert sum("EarthScience tapered off" in f.text for f in volume.findings) == 2


def test_a_drift_of_the_mix_names_no_day_and_no_project() -> None:
    read, write = planted(change=1.0)
    made = run("daily_volume", data_of(traffic(read * np.geomspace(4.0, 1.0, len(read)), write)))["car11.volume"]
    (finding,) = [f for f in made.findings if f.name == "change_of_mix"]
    assert finding.text.startswith("The read share drifted from ")
    assert made.charts[0].references == ()
    assert value(made, "drift_explained_ratio").value > value(made, "change_explained_ratio").value


def test_days_are_local_days() -> None:
    read, write = np.full(2880, 60.0), np.full(2880, 60.0)
    made = run("daily_volume", data_of(traffic(read, write)), Facility(zone="America/Los_Angeles"))
    rows = made["car11.volume"].tables[0].rows
    assert [row[0] for row in rows[:3]] == ["2010-01-22", "2010-01-23", "2010-01-24"]
    assert rows[0][1] == 8 * 60 * 60.0
    assert rows[1][4] == 1.0
    shown = made["car11.volume"].charts[0].table.column("day")
    assert set(shown) == {"2010-01-23", "2010-01-24"}, "eight hours are no day to draw"


def test_figures_equal_the_plain_arithmetic() -> None:
    read, write = planted(change=1.0)
    made = run("utilisation", data_of(traffic(read, write)))
    assert list(made) == list(STUDIES["utilisation"].exhibits)
    combined = (read + write)[~np.isnan(read)] / 60
    peak = combined.max()
    seven = made["car11.fig7"]
    assert value(seven, "intervals").value == len(combined)
    assert value(seven, "mean_rate").value == pytest.approx(combined.mean())
    assert value(seven, "peak_rate").value == pytest.approx(peak)
    share = value(seven, "below_third_of_peak_ratio")
    assert share.value == pytest.approx(np.mean(combined < 0.33 * peak))
    assert share.low <= share.value <= share.high
    nominal = value(seven, "below_third_of_nominal_ratio").value
    assert nominal == pytest.approx(np.mean(combined < 0.33 * 78 * 2**30))
    assert stands(seven, "mostly_below_third") == "supported"

    six = made["car11.fig6"]
    assert value(six, "peak_minute_read").value == pytest.approx(np.nanmax(read) / 60)
    assert value(six, "peak_minute_write").value == pytest.approx(np.nanmax(write) / 60)
    assert value(six, "gaps").value == 1
    shades = six.charts[0].references
    assert [r.label for r in shades] == ["spring clean", "no data"]
    assert shades[1].end - shades[1].value == (3 * 1440 + 640) * MINUTE_NS
    assert len(six.charts[0].table.rows) <= 2000
    assert six.coverage[0].excluded == {"not recorded": 3 * 1440 + 640}


def test_two_levels_are_two_observations_however_many_days() -> None:
    """Half of the period at one level and half at another do not tell what a third would have."""
    mean = value(run("utilisation", data_of(traffic(*planted())))["car11.fig7"], "mean_rate")
    assert mean.value is not None
    assert mean.low is None
    assert mean.method.startswith("no interval: too few independent days")
