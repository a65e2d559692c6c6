"""The lake as a whole: in once whatever happens, versions, one source per answer."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from pathlib import Path

import deltalake
import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.errors import LakeError
from ioweather.core.tables import TABLES, Complaints, Quality, concat
from ioweather.core.units import DAY_NS, MINUTE_NS, now_ns
from ioweather.lake import grid, inventory, layout
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import apply_retention, compact


@pytest.fixture
def lake(tmp_path: Path):
    return open_lake(tmp_path / "lake", create=True)


def total(lake, metric: str = "read_bytes", filesystem: str = "scratch") -> float:
    with lake.snapshot() as snapshot:
        selection = snapshot.selection(
            filesystem=filesystem, component_kind="ost", metrics=(metric,), step_ns=MINUTE_NS
        )
        return float(grid.rollup(selection, (metric,)).array("value").sum())


def test_rows_enter_once(lake):
    frame = series_frame(np.arange(20.0).reshape(10, 2))
    assert lake.append("series", frame, source="tts") == 20
    assert lake.append("series", frame, source="tts") == 0
    assert total(lake) == 190.0


def test_duplicates_within_one_batch_enter_once(lake):
    frame = series_frame(np.ones((5, 2)))
    assert lake.append("series", concat([frame, frame]), source="tts") == 10


@pytest.mark.parametrize("sealed", [False, True])
def test_what_was_added_is_on_the_disk(lake, monkeypatch, sealed):
    """The agent deletes what it shipped once this returns."""
    written = set()

    def fsync(fd: int) -> None:
        written.add(os.fstat(fd).st_ino)

    monkeypatch.setattr("ioweather.core.safe_files.fsync", fsync)
    lake.append("series", series_frame(np.arange(40.0).reshape(20, 2)), source="tts")
    lake.append("series", series_frame(np.ones((9, 2)), start_ns=DAY + 20 * MINUTE_NS), source="tts")
    if sealed:
        compact(lake, everything=True)
    with lake.snapshot() as snapshot:
        files = [Path(uri) for uri in snapshot.pinned["series"].uris]
    assert len(files) == (1 if sealed else 2)
    commits = [] if sealed else sorted(layout.tables_dir(lake.root).glob("series/_delta_log/*.json"))[1:]
    for path in (*files, *commits, *(file.parent for file in (*files, *commits))):
        assert path.stat().st_ino in written, path


def test_overlapping_batches_add_only_what_is_new(lake):
    values = np.arange(40.0).reshape(20, 2)
    lake.append("series", series_frame(values[:12]), source="tts")
    added = lake.append("series", series_frame(values[8:], start_ns=DAY + 8 * MINUTE_NS), source="tts")
    assert added == 16
    assert total(lake) == values.sum()


def test_a_minute_that_was_unfinished_is_completed(lake):
    """The last minute of an archive that still grows."""
    partial = int(Quality.PARTIAL)
    lake.append("series", series_frame([[10.0, 20.0], [1.0, 2.0]], quality=[0, 0, partial, partial]), source="tts")
    lake.append("series", series_frame([[7.0, 7.0]], start_ns=DAY + MINUTE_NS), source="h5lmt")
    compact(lake)
    grown = series_frame([[10.0, 20.0], [5.0, 2.0], [6.0, 6.0]], quality=[0, 0, 0, partial, 0, partial])
    assert lake.append("series", grown, source="tts") == 3, "one completed, two new; who is unfinished still stays"
    assert total(lake) == 10 + 20 + 5 + 2 + 6 + 6
    assert lake.append("series", grown, source="tts") == 0
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM series") == 8
        assert snapshot.scalar("SELECT sum(value) FROM series WHERE source = 'h5lmt'") == 14


def test_of_two_readings_in_one_batch_the_finished_one_enters(lake):
    unfinished = series_frame([[1.0, 2.0]], quality=[int(Quality.PARTIAL)] * 2)
    lake.append("series", concat([unfinished, series_frame([[5.0, 6.0]]), unfinished]), source="tts")
    assert total(lake) == 11


def test_the_same_minutes_from_two_sources_do_not_change_the_total(lake):
    values = np.arange(40.0).reshape(20, 2)
    lake.append("series", series_frame(values), source="h5lmt")
    lake.append("series", series_frame(values * 1.01), source="tts")
    assert total(lake) == pytest.approx(values.sum() * 1.01)  # tts comes before h5lmt
    with lake.snapshot() as snapshot:
        (overlap,) = inventory.find_overlaps(snapshot.series(), snapshot.facility)
    assert overlap["sources"] == ["h5lmt", "tts"]
    assert overlap["read"] == "tts"
    assert overlap["disagreement_ratio"] == pytest.approx(0.01 / 1.01)


def test_raw_and_minute_rows_of_one_source_are_not_summed(lake):
    minutes = np.full((30, 2), 120.0)
    raw = np.full((30 * 12, 2), 10.0)
    lake.append("series", series_frame(minutes), source="tts")
    lake.append("series", series_frame(raw, step_ns=MINUTE_NS // 12), source="tts")
    assert total(lake) == minutes.sum()
    with lake.snapshot() as snapshot:
        fine = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=MINUTE_NS // 12
        )
        assert {g.selection for g in fine.groups} == {"raw"}
        assert grid.matrix(fine, "read_bytes").load().values.shape == (360, 2)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    ("minutes", "seconds"), [((0, 1440), (600, 660)), ((600, 660), (0, 1440)), ((0, 60), (60, 90))]
)
def test_what_raw_and_minute_rows_tell_twice_counts_once(lake, minutes, seconds, sealed):
    """An hour of a day that was kept raw; an hour of minutes in a raw day; one behind the other."""
    for (first, last), step_ns in ((minutes, MINUTE_NS), (seconds, MINUTE_NS // 12)):
        values = np.full(((last - first) * MINUTE_NS // step_ns, 2), 2.0 * step_ns)
        lake.append("series", series_frame(values, start_ns=DAY + first * MINUTE_NS, step_ns=step_ns), source="tts")
    if sealed:
        compact(lake)
    assert total(lake) == 2 * 2 * MINUTE_NS * max(minutes[1], seconds[1])


def test_a_name_mapped_later_needs_no_new_ingest(lake):
    lake.append("series", series_frame(np.ones((3, 1)), system="snx11025"), source="tts")
    layout.facility_file(lake.root).write_text('[filesystem.scratch1]\nlustre = ["snx11025"]\n')
    assert total(lake, filesystem="scratch1") == 3.0


def test_revisions_replace_and_an_old_dump_does_not_revive_a_finished_job(lake):
    jobs = TABLES["jobs"]
    common = {"cluster": "c", "raw_job_id": 7, "step": "", "restart": 0, "job_id": "7", "submit_ns": DAY}
    running = jobs.frame(**common, state="RUNNING", start_ns=DAY + 1, rows=1)
    finished = jobs.frame(**common, state="COMPLETED", start_ns=DAY + 1, end_ns=DAY + 9, rows=1)
    for frame in (running, finished, running):
        lake.append("jobs", frame, source="sacct")
    with lake.snapshot() as snapshot:
        (row,) = snapshot.frame("jobs").records()
    assert row["state"] == "COMPLETED"
    assert lake.append("jobs", finished, source="sacct") == 0, "an unchanged row is not stored again"


@pytest.mark.parametrize("states", [("PENDING", "RUNNING", "COMPLETED"), ("COMPLETED", "PENDING", "RUNNING")])
@pytest.mark.parametrize("together", [True, False])
def test_of_several_revisions_the_one_that_knows_most_is_shown(lake, states, together):
    known = {"PENDING": {}, "RUNNING": {"start_ns": DAY + 1}, "COMPLETED": {"start_ns": DAY + 1, "end_ns": DAY + 9}}
    common = {"cluster": "c", "raw_job_id": 7, "step": "", "restart": 0, "job_id": "7", "submit_ns": DAY}
    for last in (2, 3):
        frames = [TABLES["jobs"].frame(**common, state=state, **known[state], rows=1) for state in states[:last]]
        for frame in [concat(frames)] if together else frames:
            lake.append("jobs", frame, source="sacct")
        with lake.snapshot() as snapshot:
            (row,) = snapshot.frame("jobs").records()
        assert row["state"] == max(states[:last], key=list(known).index)


def test_an_event_that_ends_in_the_batch_it_begins_in_has_ended(lake):
    common = {"event_id": "incident:h:1", "kind": "incident", "start_ns": DAY, "label": "hang"}
    frames = [TABLES["events"].frame(**common, end_ns=end, rows=1) for end in (None, DAY + 5)]
    lake.append("events", concat(frames), source="spool")
    with lake.snapshot() as snapshot:
        assert snapshot.frame("events", ["end_ns"]).array("end_ns").tolist() == [DAY + 5]


def test_a_clock_that_is_set_back_does_not_hide_a_revision(lake, monkeypatch):
    common = {"event_id": "incident:h:1", "kind": "incident", "start_ns": DAY, "label": "hang"}
    for hour, end in ((3, None), (2, DAY + 5), (1, DAY + 7)):
        monkeypatch.setattr("ioweather.lake.lake.now_ns", lambda hour=hour: DAY + hour * 60 * MINUTE_NS)
        assert lake.append("events", TABLES["events"].frame(**common, end_ns=end, rows=1), source="spool") == 1
    with lake.snapshot() as snapshot:
        assert snapshot.frame("events", ["end_ns"]).array("end_ns").tolist() == [DAY + 7]


def test_nulls_survive_the_round_trip(lake):
    frame = TABLES["jobs"].frame(
        cluster=["c", "c"], raw_job_id=[1, 2], step=["", ""], restart=[0, 0], job_id=["1", "2"], state=["A", "B"],
        uid=[None, 5], user=["ü", None], submit_ns=[DAY, DAY],
    )  # fmt: skip
    lake.append("jobs", frame, source="sacct")
    with lake.snapshot() as snapshot:
        rows = sorted(snapshot.frame("jobs").records(), key=lambda row: row["raw_job_id"])
    assert [(r["uid"], r["user"], r["end_ns"]) for r in rows] == [(None, "ü", None), (5, None, None)]


def test_nanoseconds_keep_every_digit(lake):
    odd = DAY + 1_234_567_890_123
    lake.append("series", series_frame([[1.0]], start_ns=odd), source="tts")
    with lake.snapshot() as snapshot:
        assert snapshot.frame("series", ["start_ns"]).array("start_ns").tolist() == [odd]


def test_a_row_with_a_null_time_is_kept(lake):
    frame = TABLES["benchmarks"].frame(digest="d", phase="write", tool="ior", rows=1)
    assert lake.append("benchmarks", frame, source="ior") == 1
    assert lake.append("benchmarks", frame, source="ior") == 0


def test_a_column_added_later_reads_as_null(lake, monkeypatch):
    import dataclasses

    from ioweather.core.tables import ColumnSpec

    lake.append("series", series_frame(np.ones((3, 1))), source="tts")
    wider = dataclasses.replace(
        TABLES["series"], columns=(*TABLES["series"].columns, ColumnSpec("note", "text", "new", nullable=True))
    )
    monkeypatch.setitem(TABLES, "series", wider)
    with lake.snapshot() as snapshot:
        assert snapshot.frame("series", ["note"]).text("note").tolist() == [None] * 3
    newer = series_frame(np.ones((3, 1)), start_ns=DAY + DAY_NS)
    lake.append("series", newer, source="tts")
    with lake.snapshot() as snapshot:
        assert len(snapshot.frame("series", ["note"]).text("note")) == 6


def test_a_damaged_or_foreign_directory_is_refused(tmp_path):
    with pytest.raises(LakeError, match="no lake"):
        open_lake(tmp_path / "absent")
    (tmp_path / "stranger.txt").write_text("x")
    with pytest.raises(LakeError, match="neither empty nor a lake"):
        open_lake(tmp_path, create=True)
    root = tmp_path / "l"
    open_lake(root, create=True)
    layout.lake_marker(root).write_text("{")
    with pytest.raises(LakeError, match="damaged"):
        open_lake(root)


@pytest.mark.parametrize("name", ["of Jane Doe", "été", "#1?", "100%"])
def test_a_lake_may_have_any_name(tmp_path, name):
    lake = open_lake(tmp_path / name, create=True)
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    assert lake.append("series", series_frame(np.ones((3, 1))), source="tts") == 1
    compact(lake, everything=True)
    assert lake.tables()["series"] == 3
    assert lake.append("series", series_frame(np.ones((4, 1))), source="tts") == 1


def test_a_name_that_the_library_would_take_for_another_is_refused(tmp_path):
    with pytest.raises(LakeError, match=r"a%20b contains a percent code such as %20"):
        open_lake(tmp_path / "a%20b", create=True)
    assert not (tmp_path / "a%20b").exists()


@pytest.mark.parametrize("damage", ["{", ""])
def test_a_log_that_cannot_be_read_is_not_taken_for_an_empty_table(lake, damage):
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    commit = lake.root / "tables/series/_delta_log/00000000000000000001.json"
    commit.write_text(damage) if damage else commit.with_name("00000000000000000000.json").unlink()
    with pytest.raises(LakeError, match="Cannot open `series`"):
        lake.snapshot().tables()


def test_a_snapshot_is_of_one_moment_though_tables_are_opened_when_they_are_read(lake):
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    with lake.snapshot() as snapshot:
        lake.append("series", series_frame(np.ones((9, 1))), source="tts")
        assert snapshot.scalar("SELECT count(*) FROM series") == 2
        assert snapshot.frame("series").rows == 2
        assert not snapshot.filled(["jobs"])
        assert pickle.loads(pickle.dumps(replace(snapshot))).versions == {"series": 1}
    with lake.snapshot() as snapshot:
        assert snapshot.frame("series").rows == 9


def test_a_checkpoint_alone_names_the_version_of_a_table(lake):
    for rows in (2, 3, 4):
        lake.append("series", series_frame(np.ones((rows, 1))), source="tts")
    table = deltalake.DeltaTable(str(lake.root / "tables/series"))
    table.create_checkpoint()
    log = lake.root / "tables/series/_delta_log"
    for commit in log.glob("*.json"):
        commit.unlink()
    (log / ".tmp-00000000000000000009.json").write_text("{")  # of a writer that was killed
    with lake.snapshot() as snapshot:
        assert snapshot.versions == {"series": table.version()}
        assert snapshot.frame("series").rows == 4


def test_operations_of_jobs_are_kept_as_long_as_raw_samples(lake):
    now = now_ns()
    frame = TABLES["job_operations"].frame(
        start_ns=[now - lake.facility.retention_ns["raw_series"] - 2 * DAY_NS, now - DAY_NS], interval_ns=[1, 1],
        system="fs", component_kind="ost", component="o", job_key="7", operation="read", count=[1, 1], quality=[0, 0],
    )  # fmt: skip
    lake.append("job_operations", frame, source="lustre")
    assert apply_retention(lake, lake.facility, dry_run=True)["job_operations"] == 1
    assert apply_retention(lake, lake.facility)["job_operations"] == 1
    with lake.snapshot() as snapshot:
        assert snapshot.tables()["job_operations"] == 1


def test_retention_drops_old_raw_samples_only_where_minutes_remain(lake):
    minutes, raw = np.full((10, 1), 12.0), np.full((120, 1), 1.0)
    lake.append("series", series_frame(minutes), source="tts")
    lake.append("series", series_frame(raw, step_ns=MINUTE_NS // 12), source="tts")
    lake.append("series", series_frame(raw, step_ns=MINUTE_NS // 12, system="other"), source="tts")
    assert apply_retention(lake, lake.facility, dry_run=True)["series"] == 120
    assert apply_retention(lake, lake.facility)["series"] == 120
    with lake.snapshot() as snapshot:
        left = snapshot.query("SELECT system, interval_ns, count(*) FROM series GROUP BY ALL ORDER BY ALL").fetchall()
    assert left == [("other", MINUTE_NS // 12, 120), ("scratch", MINUTE_NS, 10)]
    assert total(lake) == minutes.sum()


def test_rows_that_nobody_checked_are_checked_at_the_door(tmp_path, caplog):
    """Those of scans, roll-ups, searches and verdicts come from no file."""
    lake = open_lake(tmp_path / "lake", create=True)
    now = now_ns()
    events = TABLES["events"].frame(
        event_id=["good", "reversed", "far"], kind="episode", start_ns=[now - 9, now - 9, now + 4000 * DAY_NS],
        end_ns=[now, now - 10, None], label="slow",
    )  # fmt: skip
    assert lake.append("events", events, source="episodes") == 1
    assert "2 rows of events left out: " in caplog.text
    assert "end_ns is before start_ns (1; first: " in caplog.text
    caplog.clear()
    heard = Complaints()
    assert lake.append("events", events, source="episodes", complaints=heard) == 0
    assert (heard.refused_rows, caplog.text) == (2, "")
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT event_id FROM events").fetchall() == [("good",)]


def test_a_file_that_the_disk_does_not_give_is_an_error_with_a_name(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame([[1.0]]), source="tts")
    with lake.snapshot() as snapshot:
        for uri in snapshot.pinned["series"].uris:
            Path(uri).unlink()
    with pytest.raises(LakeError, match=r"parquet is damaged or missing"), lake.snapshot() as snapshot:
        snapshot.query("SELECT * FROM series").fetchall()
