"""Appends that meet stored rows, and the files of an open day."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame, Text
from ioweather.core.tables import TABLES, Checked
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import appends, delta_tables, layout
from ioweather.lake.appends import rewrite_day
from ioweather.lake.database import connection
from ioweather.lake.delta_tables import Refused, Table
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import vacuum

SERIES = TABLES["series"]
START_NS = 20_000 * DAY_NS
LONG = "a-name-of-more-than-thirty-two-characters-"


def samples(rows: list[tuple[int, str, str]], value: float = 1.0, quality: int = 0) -> Frame:
    """Of (minute, system, component)."""
    return SERIES.frame(
        {
            "start_ns": [START_NS + minute * MINUTE_NS for minute, _, _ in rows],
            "system": [system for _, system, _ in rows],
            "component": [component for _, _, component in rows],
        },
        interval_ns=MINUTE_NS,
        component_kind="device",
        metric="read_bytes",
        value=value,
        quality=quality,
        rows=len(rows),
    )


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


def table_of(lake: Lake) -> DeltaTable:
    return DeltaTable(str(layout.tables_dir(lake.root) / "series"))


rows_drawn = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.sampled_from(["x", "y", "zé"])), min_size=1
)


@settings(max_examples=5, deadline=None)
@given(st.lists(rows_drawn, min_size=1, max_size=4))
def test_a_row_enters_once_whatever_files_there_are(tmp_path_factory, batches):
    lake = open_lake(tmp_path_factory.mktemp("lake") / "lake", create=True)
    held: set[tuple[int, str, str]] = set()
    for rows in batches:
        assert lake.append("series", samples(rows), source="block") == len(set(rows) - held)
        held |= set(rows)
    assert lake.tables()["series"] == len(held)


def test_a_cut_statistic_hides_nothing(lake):
    lake.append("series", samples([(0, LONG + "1", "x"), (0, LONG + "3", "x")]), source="block")
    assert lake.append("series", samples([(0, LONG + "3", "x")]), source="block") == 0
    assert lake.append("series", samples([(0, LONG + "2", "x")]), source="block") == 1


def test_small_files_of_an_open_day_become_few(lake, monkeypatch):
    monkeypatch.setattr(appends, "_MANY_FILES", 4)
    shipped = Counter()
    for number in range(40):
        rows = [(number, f"host{number % 3}", "x"), (number, f"host{number % 3}", "y")]
        shipped.update(rows)
        assert lake.append("series", samples(rows, float(number)), source="block") == 2
        assert len(table_of(lake).file_uris()) <= 2 * 3, "so many of up to 15 rows, and of up to 255"
    assert lake.append("series", samples(list(shipped)), source="block") == 0
    with lake.snapshot() as snapshot:
        found = snapshot.query("SELECT (start_ns - ?) // ?, system, component FROM series", [START_NS, MINUTE_NS])
        assert Counter(found.fetchall()) == shipped


def test_a_large_file_is_not_rewritten_for_small_ones(lake, monkeypatch):
    monkeypatch.setattr(appends, "_MANY_FILES", 3)
    lake.append("series", samples([(minute, "a", "x") for minute in range(300)]), source="block")
    (large,) = table_of(lake).file_uris()
    for minute in range(300, 306):
        lake.append("series", samples([(minute, "a", "x")]), source="block")
    assert large in table_of(lake).file_uris()
    assert len(table_of(lake).file_uris()) == 3
    assert lake.tables()["series"] == 306


@pytest.mark.parametrize("column", ["system", "component"])
def test_rows_with_a_null_key_and_rows_twice_in_a_batch_enter_once(lake, column):
    frame = samples([(0, "a", "x"), (0, "a", "x"), (1, "a", "x"), (2, "b", "y")])
    text = frame.text(column)
    unknown = Text(np.where(frame.ints("start_ns") == START_NS, -1, text.codes).astype(np.int32), text.categories)
    rows = Checked(Frame({**frame, column: unknown}))
    assert [lake.append("series", rows, source="block") for _ in range(3)] == [3, 0, 0]
    assert lake.append("series", Checked(rows.frame.take([0, 3])), source="other") == 2
    assert lake.tables()["series"] == 5


@pytest.mark.parametrize("later", [slice(1, 4), slice(None)])
@pytest.mark.parametrize("first", [slice(3), slice(None)])
def test_of_two_compactions_of_the_same_files_one_is_accepted(lake, first, later):
    """All files of a day or some of them: rows that both write would be there twice."""
    for minute in range(4):
        lake.append("series", samples([(minute, "a", "x")]), source="block")
    names = sorted(path.rsplit("/", 1)[1] for path in table_of(lake).file_uris())
    tables = [Table(layout.tables_dir(lake.root), SERIES) for _ in range(2)]
    replaced = []
    for table, part in zip(tables, (first, later), strict=True):
        files = table.files().only(names[part])
        with connection() as con:
            done = rewrite_day(con, table, files, "2024-10-04", f"SELECT * EXCLUDE day FROM ({files.scan()})")
        replaced.append(done and done[1])
    assert replaced == [len(names[first]), None]
    assert lake.tables()["series"] == 4


def test_a_long_log_loses_old_commits_and_no_row(lake, monkeypatch):
    monkeypatch.setattr(appends, "_MANY_FILES", 99)
    log = layout.tables_dir(lake.root) / "series" / "_delta_log"
    for minute in range(45):
        lake.append("series", samples([(minute, "a", "x")]), source="block")
    assert (log / f"{0:020d}.json").exists(), "a reader may have pinned it less than an hour ago"
    for file in log.iterdir():
        os.utime(file, (file.stat().st_mtime - 7200,) * 2)
    pinned, version = lake.pinned(), table_of(lake).version()
    for minute in range(45, 65):
        lake.append("series", samples([(minute, "a", "x")]), source="block")
    assert 0 < min(int(path.name[:20]) for path in log.glob("*.json")) <= version
    assert len(pinned["series"].uris) == 45
    assert lake.tables()["series"] == 65
    assert lake.append("series", samples([(0, "a", "x")]), source="block") == 0


def test_a_table_of_an_earlier_version_is_set_to_forget_files_that_are_gone(lake, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(delta_tables, "_SETTINGS", {})
        lake.append("series", samples([(0, "a", "x")]), source="block")
    assert table_of(lake).metadata().configuration == {}
    table = Table(layout.tables_dir(lake.root), SERIES)
    table_of(lake).alter.set_table_name("series")  # by somebody else, meanwhile
    assert table.vacuum(24, dry_run=False) == 0
    assert table_of(lake).metadata().configuration == {}
    for _ in range(2):
        vacuum(lake, lake.facility)
        assert table_of(lake).metadata().configuration == delta_tables._SETTINGS
        assert table_of(lake).version() == 3
    assert lake.append("series", samples([(0, "a", "x"), (1, "a", "x")]), source="block") == 1


def test_files_of_closed_days_stay_as_they_are(lake, monkeypatch):
    monkeypatch.setattr(appends, "_MANY_FILES", 2)
    lake.append("series", samples([(0, "a", "x")]), source="block")
    before = set(table_of(lake).file_uris())
    for minute in range(3):
        lake.append("series", samples([(1440 + minute, "a", "x")]), source="block")
    assert before <= set(table_of(lake).file_uris())


def test_a_column_of_a_newer_version_is_not_lost_by_merging(lake, monkeypatch):
    lake.append("series", samples([(0, "a", "x")]), source="block")
    table_of(lake).alter.add_columns([Field("newer", PrimitiveType("long"))])
    monkeypatch.setattr(appends, "_MANY_FILES", 2)
    for minute in range(1, 4):
        lake.append("series", samples([(minute, "a", "x")]), source="block")
    assert len(table_of(lake).file_uris()) == 4


def test_rows_are_in_where_merging_fails(lake, monkeypatch, caplog):
    monkeypatch.setattr(appends, "_MANY_FILES", 2)

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(Table, "replace_files", fails)
    for minute in range(3):
        assert lake.append("series", samples([(minute, "a", "x")]), source="block") == 1
    assert lake.tables()["series"] == 3
    assert "the disk is full" in caplog.text


def test_a_refused_merge_leaves_no_draft(lake, monkeypatch):
    """After any other error the commit may have been made: what it names stays."""
    monkeypatch.setattr(appends, "_MANY_FILES", 2)

    def refuses(*_: object) -> None:
        raise Refused("somebody was faster")

    monkeypatch.setattr(Table, "replace_files", refuses)
    for minute in range(3):
        assert lake.append("series", samples([(minute, "a", "x")]), source="block") == 1
    day = layout.tables_dir(lake.root) / "series" / "day=2024-10-04"
    assert len(list(day.iterdir())) == 3


def test_an_error_after_a_commit_takes_no_rows_with_it(lake, monkeypatch):
    add = Table.add

    def made_and_broken(table, *arguments):
        add(table, *arguments)
        raise OSError("the disk is gone")

    monkeypatch.setattr(Table, "add", made_and_broken)
    with pytest.raises(LakeError, match="disk is gone"):
        lake.append("series", samples([(0, "a", "x")]), source="block")
    monkeypatch.undo()
    assert lake.tables()["series"] == 1
    assert lake.append("series", samples([(0, "a", "x"), (1, "a", "x")]), source="block") == 1


def test_a_finished_row_replaces_the_unfinished_one(lake):
    lake.append("series", samples([(0, "a", "x")], quality=SERIES.unfinished), source="block")
    assert lake.append("series", samples([(0, "a", "x"), (1, "a", "x")], 2.0), source="block") == 2
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT value, quality FROM series").fetchall() == [(2.0, 0), (2.0, 0)]


def test_a_lost_race_is_repeated_without_the_rows_of_the_other_writer(lake, monkeypatch):
    add = Table.add

    def after_another_writer(*arguments):
        monkeypatch.undo()
        lake.append("series", samples([(0, "a", "x")]), source="block")
        add(*arguments)

    monkeypatch.setattr(Table, "add", after_another_writer)
    assert lake.append("series", samples([(0, "a", "x"), (1, "a", "x")]), source="block") == 1
    assert lake.tables()["series"] == 2


def test_an_unwritable_disk_is_an_error_that_can_be_pickled(lake):
    layout.tables_dir(lake.root).mkdir(exist_ok=True)
    (layout.tables_dir(lake.root) / "series").write_text("in the way")
    with pytest.raises(LakeError, match=r"`series` cannot be (written|opened)") as caught:
        lake.append("series", samples([(0, "a", "x")]), source="block")
    caught.value.__context__ = None  # where Dask is loaded, it would be pickled too, and Delta's errors cannot be
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_vacuum_removes_files_that_were_never_committed(lake):
    lake.append("series", samples([(0, "a", "x")]), source="block")
    (committed,) = table_of(lake).file_uris()
    left = Path(committed).with_name("part-of-a-writer-that-was-killed.zstd.parquet")
    left.write_bytes(Path(committed).read_bytes())
    vacuum(lake, lake.facility)
    assert left.exists(), "its writer may still be running"
    long_ago = left.stat().st_mtime - 400 * 86_400
    os.utime(left, (long_ago, long_ago))
    vacuum(lake, lake.facility)
    assert not left.exists()
    assert lake.tables()["series"] == 1
