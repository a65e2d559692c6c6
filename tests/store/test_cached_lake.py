"""A lake that is kept in memory is always as new as the one on disk."""

from __future__ import annotations

import os

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.visibility import Owner
from ioweather.store import cached_lake
from ioweather.store.cached_lake import Kept, KeptLake, mark_of
from ioweather.store.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((5, 2))), source="tts")
    return lake


def rows(lake) -> int:
    with lake.snapshot() as snapshot:
        return snapshot.tables()["series"]


def age(lake) -> None:
    """As if nothing had been written for an hour."""
    for name in (lake.root / "tables").iterdir():
        os.utime(name / "_delta_log", ns=(0, name.joinpath("_delta_log").stat().st_mtime_ns - 3_600 * 10**9))


def test_a_still_lake_is_read_once_and_a_commit_is_seen_at_once(lake, monkeypatch):
    age(lake)
    opened = []
    real = cached_lake.Lake.snapshot
    monkeypatch.setattr(cached_lake.Lake, "snapshot", lambda self: opened.append(1) or real(self))
    shared = KeptLake(lake.root, Kept())
    assert [rows(shared) for _ in range(3)] == [10, 10, 10]
    assert rows(shared.seen_by(Owner("x"))) == 10
    assert len(opened) == 1
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    assert rows(shared) == rows(lake) == 14


def test_a_lake_that_just_changed_is_not_kept(lake):
    """Two commits in one tick of the file system's clock must not look like one."""
    memory = Kept()
    assert rows(KeptLake(lake.root, memory)) == 10
    assert memory.pinned is None


def test_the_mark_changes_with_its_tables_and_the_facility_file(lake):
    age(lake)
    whole, jobs = mark_of(lake.root), mark_of(lake.root, ("jobs",))
    lake.append("series", series_frame(np.ones((9, 2))), source="tts")
    assert mark_of(lake.root) != whole
    assert mark_of(lake.root, ("jobs",)) == jobs
    (lake.root / "facility.toml").write_text('name = "x"\n')
    assert mark_of(lake.root, ("jobs",)) != jobs
    assert mark_of(lake.root / "nowhere", ("jobs",)) == (0, 0)
