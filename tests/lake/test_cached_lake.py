"""Cached lists of files are always those of the lake on disk."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.lake.caches import version_mark
from ioweather.lake.lake import open_lake


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


def test_a_lake_at_the_same_place_is_not_taken_for_the_one_before(lake, tmp_path):
    assert rows(lake) == 10
    shutil.rmtree(lake.root)
    again = open_lake(tmp_path / "lake", create=True)
    assert rows(again) == 0
    again.append("series", series_frame(np.ones((3, 2))), source="tts")
    assert rows(again) == 6
