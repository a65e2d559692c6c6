"""A cached lake is always as new as the one on disk."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.lake import caches, inventory
from ioweather.lake.caches import CachedLake, LakeCache, mark_of
from ioweather.lake.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((5, 2))), source="tts")
    return lake


def rows(lake) -> int:
    with lake.snapshot() as snapshot:
        return snapshot.tables()["series"]


@pytest.fixture
def opened(monkeypatch):
    """Which tables were opened."""
    names = []
    real = caches.newest_files
    monkeypatch.setattr(caches, "newest_files", lambda root, spec: names.append(spec.name) or real(root, spec))
    return names


def test_a_still_lake_is_read_once_and_a_commit_is_seen_at_once(lake, opened):
    shared = CachedLake(lake.root, LakeCache())
    assert [rows(shared) for _ in range(3)] == [10, 10, 10]
    assert rows(shared.seen_by(Owner("x"))) == 10
    assert sorted(opened) == sorted(TABLES)
    opened.clear()
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    assert rows(shared) == 14
    assert opened == ["series"], "only what changed is opened again"
    assert rows(lake) == 14


def test_what_series_hold_is_counted_once(lake, monkeypatch):
    counted = []
    real = inventory.inventory
    monkeypatch.setattr(inventory, "inventory", lambda *args: counted.append(1) or real(*args))
    shared = CachedLake(lake.root, LakeCache())
    for _ in range(3):
        with shared.snapshot() as snapshot:
            assert sum(group.rows for group in snapshot.series()) == 10
    assert len(counted) == 1
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    with shared.snapshot() as snapshot:
        assert sum(group.rows for group in snapshot.series()) == 14
    assert len(counted) == 2


def test_the_mark_changes_with_its_tables_and_the_facility_file(lake):
    whole, jobs = mark_of(lake.root), mark_of(lake.root, ("jobs",))
    lake.append("series", series_frame(np.ones((9, 2))), source="tts")
    assert mark_of(lake.root) != whole
    assert mark_of(lake.root, ("jobs",)) == jobs
    (lake.root / "facility.toml").write_text('name = "x"\n')
    assert mark_of(lake.root, ("jobs",)) != jobs
    assert mark_of(lake.root / "nowhere", ("jobs",)) == (None, None, None)


def test_rows_are_read_once_while_there_is_room(lake):
    shared, small = (CachedLake(lake.root, LakeCache(room_bytes=room)) for room in (1 << 20, 10))

    def read(lake, *columns):
        with lake.snapshot() as snapshot:
            return snapshot.frame("series", columns)

    assert read(shared, "value") is read(shared, "value")
    assert read(shared, "value") is not read(shared, "value", "metric")
    assert read(shared.seen_by(Owner("x")), "value") is not read(shared, "value")
    assert read(small, "value") is not read(small, "value")
    before, room = read(shared, "value"), shared._cache.room_bytes
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    assert (before.rows, read(shared, "value").rows) == (10, 14)
    assert shared._cache.room_bytes == room - 4 * 8


def test_rows_that_no_longer_have_room_are_forgotten_once(lake):
    kept = CachedLake(lake.root, LakeCache(room_bytes=10 * 8))

    def read():
        with kept.snapshot() as snapshot:
            return snapshot.frame("series", ("value",))

    assert read() is read()
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    assert [read().rows for _ in range(3)] == [14, 14, 14]
    assert kept._cache.room_bytes == 10 * 8
