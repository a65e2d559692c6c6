"""A cached lake is always as new as the one on disk."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.core.facility import Owner
from ioweather.lake.caches import LakeCache, version_mark
from ioweather.lake.lake import Lake, open_lake


@pytest.fixture
def lake(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((5, 2))), source="tts")
    return lake


def rows(lake) -> int:
    with lake.snapshot() as snapshot:
        return snapshot.tables()["series"]


def test_the_mark_changes_with_its_tables_and_the_facility_file(lake):
    whole, jobs = version_mark(lake.root), version_mark(lake.root, ("jobs",))
    lake.append("series", series_frame(np.ones((9, 2))), source="tts")
    assert version_mark(lake.root) != whole
    assert version_mark(lake.root, ("jobs",)) == jobs
    (lake.root / "facility.toml").write_text('name = "x"\n')
    assert version_mark(lake.root, ("jobs",)) != jobs
    assert version_mark(lake.root / "nowhere", ("jobs",)) == (None, None, None)


def test_rows_are_read_once_while_there_is_room(lake):
    shared, small = (Lake(lake.root, cache=LakeCache(room_bytes=room)) for room in (1 << 20, 10))

    def read(lake, *columns):
        with lake.snapshot() as snapshot:
            return snapshot.frame("series", columns)

    assert read(shared, "value") is read(shared, "value")
    assert read(shared, "value") is not read(shared, "value", "metric")
    assert read(shared.seen_by(Owner("x")), "value") is not read(shared, "value")
    assert read(small, "value") is not read(small, "value")
    before, room = read(shared, "value"), shared.cache.room_bytes
    lake.append("series", series_frame(np.ones((7, 2))), source="tts")
    assert (before.rows, read(shared, "value").rows) == (10, 14)
    assert shared.cache.room_bytes == room - 4 * 8
