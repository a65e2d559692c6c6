"""Contents of planted scans, their growth, and files that were overwritten."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from planted_jobs import estimate, exhibits, planted

from ioweather.core.facility import Facility, ProjectRule
from ioweather.core.frames import Frame
from ioweather.core.papers import published
from ioweather.core.results import Exhibit, exhibit_from_json, to_jsonable
from ioweather.core.tables import TABLES, concat, encode_text
from ioweather.core.units import DAY_NS, KIB, MIB, TIB
from ioweather.studies.car11.contents import CONTENTS, OVERWRITING, Scans
from planted_source import PlantedSource, run_study

JANUARY, MARCH = dt.datetime(2010, 1, 25, tzinfo=dt.UTC), dt.datetime(2010, 3, 28, tzinfo=dt.UTC)
PARAMS = {"root": "/gpfs", "project": None, "files_target": None}
M, TB, PB = 10**6, 10**12, 10**15


def ns(moment: dt.datetime) -> int:
    return int(moment.timestamp()) * 10**9


def scan_row(name: str, start_ns: int, files: int, used: int | None, **more):
    counts = {"complete": True, "entry_count": files, "file_count": files, "file_bytes": used, "capacity_bytes": used}
    return TABLES["scans"].frame(
        rows=1, scan_id=name, start_ns=start_ns, root="/gpfs", system="mount:/gpfs", **{**counts, **more}
    )


def bin_rows(name: str, owner: str, histogram: str, bins: list[tuple[int, int, int]]):
    """Bins as (low, files, bytes)."""
    return TABLES["scan_bins"].frame(
        rows=len(bins), scan_id=name, start_ns=0, root="/gpfs", owner_kind="project" if owner else "all", owner=owner,
        histogram=histogram, bin=[str(low) for low, _, _ in bins], low=[low for low, _, _ in bins],
        high=[2 * low or 1 for low, _, _ in bins], count=[n for _, n, _ in bins], bytes=[held for _, _, held in bins],
    )  # fmt: skip


def study_data(scans: list, bins: list, projects: list = ()) -> PlantedSource:
    empty = TABLES["scan_bins"].frame(rows=0, **{c.name: [] for c in TABLES["scan_bins"].columns})
    return PlantedSource({"scans": concat(scans), "scan_bins": concat([empty, *bins, *projects])})


def intrepid() -> PlantedSource:
    """car11's table3 and figure 8: two scans, one dominant project whose users no rule of the scan named."""
    scans, bins, projects = [], [], []
    months = {
        "january": (JANUARY, 96.2 * M, 1.14 * PB, 12.3 * M, 274.4 * TB),
        "march": (MARCH, 191.4 * M, 1.28 * PB, 96.2 * M, 295.1 * TB),
    }
    for name, (moment, files, used, own_files, own_used) in months.items():
        scans.append(scan_row(name, ns(moment), int(files), int(used), largest_file_bytes=16 * TIB))
        # 71 M files of 64-128 KiB, all of the project's among them; the rest's mode is 512 KiB - 1 MiB.
        rest = int(files - own_files)
        own = int(own_files)
        others = [(64 * KIB, rest * 20 // 100), (512 * KIB, rest * 57 // 100), (MIB, rest * 18 // 100)]
        last = rest - sum(n for _, n in others)
        sizes = [(64 * KIB, own + others[0][1]), *others[1:], (64 * MIB, last)]
        bins.append(bin_rows(name, "", "size", [(low, n, n * low) for low, n in sizes]))
        bins.append(bin_rows(name, "", "capacity", [(64 * KIB, int(files), int(used))]))
        for owner, share in (("uid 1001", 0.5), ("uid 1002", 0.5)):
            n = int(own * share)
            projects.append(bin_rows(name, owner, "size", [(64 * KIB, n, n * 64 * KIB)]))
            projects.append(bin_rows(name, owner, "capacity", [(64 * KIB, n, int(own_used * share))]))
        projects.append(bin_rows(name, "Others", "size", [(low, n, n * low) for low, n in [*others, (64 * MIB, last)]]))
    return study_data(scans, bins, projects)


EARTH = Facility(projects=(ProjectRule("EarthScience", uid=1001), ProjectRule("EarthScience", uid=1002)))


def run(data: PlantedSource, facility: Facility = EARTH, **params) -> dict[str, Exhibit]:
    return {exhibit.id: exhibit for exhibit in run_study(CONTENTS, data, facility, {**PARAMS, **params})}


def values(exhibit: Exhibit) -> dict[str, float | None]:
    return {estimate.name: estimate.value for estimate in exhibit.estimates}


def test_table3_of_the_paper_is_found_again():
    made = run(intrepid())["car11.table3"]
    found = values(made)
    printed = {item.quantity: item.value for item in published("car11.table3")}
    for name in ("used_growth", "files_growth", "used_growth_project", "files_growth_project"):
        assert found[name] == pytest.approx(printed[name], abs=0.0005), name
    for name in ("new_files_project_ratio", "new_bytes_project_ratio"):
        assert found[name] == pytest.approx(printed[name], abs=0.005), name
    assert found["files_forecast"] == printed["files_forecast"] == 10**9
    reached = dt.datetime.fromtimestamp(found["files_forecast_month"] / 1e9, dt.UTC)
    assert reached.strftime("%Y-%m") == printed["files_forecast_month"] == "2011-09"
    month = next(e for e in made.estimates if e.name == "files_forecast_month")
    assert (month.low, month.high) == (None, None)
    assert "no interval" in month.method
    assert any("EarthScience accounts for 88% of the new files" in f.text for f in made.findings)
    assert [row[0] for row in made.tables[0].rows] == ["2010-01-25", "2010-03-28", "change"]
    assert made.tables[0].rows[2][2:] == ("+99.0%", "+7.5%", "+682.1%")


def test_fig8_of_the_paper_is_found_again():
    made = run(intrepid())["car11.fig8"]
    found = values(made)
    assert (found["mode_low"], found["mode_high"]) == (64 * KIB, 128 * KIB)
    assert found["mode_files"] > 71 * M
    assert (found["mode_low_without"], found["mode_high_without"]) == (512 * KIB, MIB)
    assert found["below_ratio_without[1 MiB]"] == pytest.approx(0.77, abs=0.001)
    assert found["largest"] == 16 * TIB
    names = {item.quantity for item in published("car11.fig8")}
    assert names <= set(found), "every printed number stands beside one of ours"
    cdf = made.charts[0].table
    assert {row[0] for row in cdf.rows} == {"all files", "without EarthScience"}
    for name in ("all files", "without EarthScience"):
        shares = [share for series, _, share in cdf.rows if series == name]
        assert shares == sorted(shares)
        assert shares[-1] == pytest.approx(1.0)
    assert exhibit_from_json(to_jsonable(made)) == made


def test_more_scans_give_an_interval_and_it_holds_a_planted_date():
    """Steady growth with noise: the truth lies inside, and the interval is neither a point nor everything."""
    rng = np.random.default_rng(3)
    days = np.arange(0, 400, 30)
    files = (M + 20_000 * days + rng.normal(0, 20_000, len(days)).cumsum()).astype(int)
    scans = [scan_row(f"s{d}", int(d) * DAY_NS, int(n), int(n) * 1000) for d, n in zip(days, files, strict=True)]
    made = run(study_data(scans, []), files_target=12 * M)["car11.table3"]
    month = next(e for e in made.estimates if e.name == "files_forecast_month")
    truth = (12 * M - M) / 20_000 * DAY_NS
    assert month.low < truth < month.high
    assert month.high - month.low < 400 * DAY_NS
    assert any("90%" in finding.text for finding in made.findings)


def test_users_stand_for_the_account_of_all_their_jobs():
    jobs = Frame(
        {
            "uid": np.ma.MaskedArray([1001, 1001, 1002, 1003, 1003, 0], mask=[0, 0, 0, 0, 0, 1]),
            "account": encode_text(["earth", "earth", "earth", "a", "b", None]),
        }
    )
    data = intrepid()
    made = run(PlantedSource({**data.frames, "jobs": jobs}), Facility())["car11.fig8"]
    assert {row[0] for row in made.charts[0].table.rows} == {"all files", "without earth"}
    named = Facility(projects=(ProjectRule("EarthScience", account="earth"),))
    made = run(PlantedSource({**data.frames, "jobs": jobs}), named)["car11.fig8"]
    assert {row[0] for row in made.charts[0].table.rows} == {"all files", "without EarthScience"}
    assert Scans(data.frames["scans"], data.frames["scan_bins"], named, jobs=jobs).accounts == {
        1001: "earth",
        1002: "earth",
    }


AGES = [(0, 10, 5), (1, 5, 5), (32, 3, 10), (64, 4, 10), (128, 6, 60), (256, 2, 10)]


def aged() -> PlantedSource:
    data = study_data([scan_row("a", 0, 30, 100)], [bin_rows("a", "", "mtime", AGES)])
    late = bin_rows("a", "", "mtime", [(0, 1, 999)])  # a time to come has no age and counts nowhere
    frame = late.with_columns(low=np.ma.MaskedArray([0], mask=[True]), bin=late.text("bin"))
    return PlantedSource({**data.frames, "scan_bins": concat([data.frames["scan_bins"], frame])})


def test_the_age_of_data():
    (made,) = run_study(OVERWRITING, aged(), Facility(), {})
    found = {e.name: e.value for e in made.estimates}
    assert found == {"unmodified_ratio[64 d]": 0.8, "unmodified_ratio[128 d]": 0.7, "files_present": 30}
    ages = {row[0]: row for row in made.tables[0].rows}
    assert ages[64] == (64, 12, 0.4, 80, 0.8)
    assert "80%" in made.findings[0].text


@pytest.mark.parametrize(("written", "deleted"), [(209, True), (10, False)])
def test_files_written_against_files_present(written: int, deleted: bool):
    runs = planted([{"write_only_file_count": written, "create_rule": "written_whole"}])["job_io"]
    (made,) = run_study(OVERWRITING, PlantedSource({**aged().frames, "job_io": runs}), Facility(), {})
    (text,) = [finding.text for finding in made.findings if finding.name == "short_lived_files"]
    assert ("most were deleted" in text) == deleted


def test_sizes_at_open_where_they_are_and_the_proxy_where_not() -> None:
    old = {"write_only_file_count": 900, "read_write_file_count": 100, "size_known_file_count": 1000,
           "new_or_empty_file_count": 993, "create_count": 993, "create_rule": "size_at_open"}  # fmt: skip
    new = {"write_only_file_count": 10, "create_count": 5, "create_rule": "written_whole"}
    made = exhibits("overwriting", planted([old, new]))["car11.overwrite"]
    assert estimate(made, "files_written").value == 1010
    share = estimate(made, "new_or_empty_ratio")
    assert (share.value, share.n) == (0.993, 2)
    assert estimate(made, "proxy_created_ratio").value == 0.5
    assert made.coverage[0].excluded == {"size at open not recorded": 10}

    assert "were new or empty" in made.findings[1].text
