"""Rows that workers wrote, and one process commits."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.errors import LakeError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import delta_tables, layout, seal
from ioweather.lake.appends import Staged, stage
from ioweather.lake.lake import Lake, open_lake

SERIES = TABLES["series"]
START_NS = 20_000 * DAY_NS
Rows = list[tuple[int, str]]


def samples(rows: Rows, quality: int = 0, value: float = 1.0) -> Frame:
    """Of (half day, component)."""
    return SERIES.frame(
        {
            "start_ns": [START_NS + half * DAY_NS // 2 for half, _ in rows],
            "component": [component for _, component in rows],
        },
        interval_ns=MINUTE_NS, system="host", component_kind="device", metric="read_bytes", value=value,
        quality=quality, rows=len(rows),
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


def staged(lake: Lake, rows: Rows, **more: float) -> Staged:
    """As another process hands it over."""
    made = stage(layout.tables_dir(lake.root), SERIES, samples(rows, **more), "block", f"{len(rows):020d}-x")
    return pickle.loads(pickle.dumps(made))


def files(lake: Lake) -> int:
    return len(list((layout.tables_dir(lake.root) / "series").glob("day=*/*")))


def rows_of(lake: Lake) -> list[tuple[int, str, float, int]]:
    with lake.snapshot() as snapshot:
        found = snapshot.query("SELECT (start_ns - ?) * 2 // ?, component, value, quality FROM series",
                               [START_NS, DAY_NS]).fetchall()  # fmt: skip
    return sorted(found)


drawn = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", "zé"])), min_size=1, max_size=6)


@settings(max_examples=3, deadline=None)
@given(st.lists(st.lists(drawn, min_size=1, max_size=2), min_size=1, max_size=2))
def test_a_row_enters_once_whoever_wrote_it(tmp_path_factory, commits):
    lake = open_lake(tmp_path_factory.mktemp("lake") / "lake", create=True)
    held: set[tuple[int, str]] = set()
    for batches in commits:
        new = {row for rows in batches for row in rows} - held
        assert lake.commit("series", [staged(lake, rows) for rows in batches]) == len(new)
        held |= new
    assert [row[:2] for row in rows_of(lake)] == sorted(held)
    assert files(lake) == len(delta_tables.newest_files(layout.tables_dir(lake.root), SERIES).uris)


def test_files_are_committed_as_they_are(lake):
    pieces = [staged(lake, [(0, "x"), (2, "x")]), staged(lake, [(1, "x")])]
    before = {file.path for each in pieces for file in each.files}
    assert lake.commit("series", pieces) == 3
    table = delta_tables.newest_files(layout.tables_dir(lake.root), SERIES)
    assert {uri.rsplit("series/", 1)[1] for uri in table.uris} == before
    assert lake.commit("series", []) == 0


def test_what_is_there_is_written_without_it_and_the_drafts_go(lake):
    lake.append("series", samples([(0, "x")]), source="block")
    assert lake.commit("series", [staged(lake, [(0, "x"), (1, "y")]), staged(lake, [(3, "x")])]) == 2
    assert lake.commit("series", [staged(lake, [(0, "x"), (1, "y")])]) == 0
    assert files(lake) == 3


def test_a_finished_row_takes_the_place_of_the_unfinished(lake):
    lake.append("series", samples([(0, "x")], quality=SERIES.unfinished), source="block")
    assert lake.commit("series", [staged(lake, [(0, "x"), (1, "x")], value=2.0)]) == 2
    assert rows_of(lake) == [(0, "x", 2.0, 0), (1, "x", 2.0, 0)]
    both = [staged(lake, [(3, "y")], quality=SERIES.unfinished), staged(lake, [(3, "y")], value=3.0)]
    assert lake.commit("series", both) == 1
    assert rows_of(lake)[-1] == (3, "y", 3.0, 0)


def test_a_file_that_is_gone_or_cut_is_not_committed(lake):
    for spoil in (lambda file: file.unlink(), lambda file: os.truncate(file, 10)):
        piece = staged(lake, [(0, "x")])
        spoil(layout.tables_dir(lake.root) / "series" / piece.files[0].path)
        with pytest.raises(LakeError, match="not what a worker wrote"):
            lake.commit("series", [piece])
    assert lake.tables()["series"] == 0


def test_a_disk_that_cannot_be_written_is_told(lake):
    (layout.tables_dir(lake.root)).mkdir(exist_ok=True)
    (layout.tables_dir(lake.root) / "series").write_text("in the way")
    with pytest.raises(LakeError, match="`series` cannot be written") as caught:
        staged(lake, [(0, "x")])
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_lost_race_is_tried_again_with_the_same_files(lake, monkeypatch):
    lake.append("series", samples([(1, "w")]), source="block")
    piece = staged(lake, [(0, "x"), (1, "x")])
    add = delta_tables.Table.add

    def after_another(*arguments):
        monkeypatch.undo()
        lake.append("series", samples([(0, "x")]), source="block")
        add(*arguments)

    monkeypatch.setattr(delta_tables.Table, "add", after_another)
    assert lake.commit("series", [piece]) == 1
    assert [row[:2] for row in rows_of(lake)] == [(0, "x"), (1, "w"), (1, "x")]


def test_what_nobody_committed_goes_with_time(lake, monkeypatch):
    lake.append("series", samples([(0, "x")]), source="block")
    piece = staged(lake, [(1, "x")])
    left = layout.tables_dir(lake.root) / "series" / piece.files[0].path
    seal.vacuum(lake, lake.facility)
    assert left.exists(), "its process may still be at work"
    long_ago = left.stat().st_mtime - 400 * 86_400
    os.utime(left, (long_ago, long_ago))
    seal.vacuum(lake, lake.facility)
    assert not left.exists()
    assert lake.tables()["series"] == 1
