"""Rows that were staged are committed once; a writer has bounded memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.tables import TABLES
from ioweather.lake import layout
from ioweather.lake.appends import Staged, stage
from ioweather.lake.database import WRITER_MEMORY, connection
from ioweather.lake.lake import Lake, new_ingest_id, open_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


def _staged(lake: Lake, source: str, start_ns: int = DAY, steps: int = 60) -> Staged:
    rows = series_frame(np.ones((steps, 10)), start_ns=start_ns)
    return stage(layout.tables_dir(lake.root), TABLES["series"], rows, source, new_ingest_id())


def test_the_same_minutes_twice_from_one_source_are_in_once(lake: Lake) -> None:
    assert lake.commit("series", [_staged(lake, "lmt"), _staged(lake, "lmt", steps=30)]) == 600


def test_a_writer_has_a_memory_limit_and_a_place_for_what_does_not_fit() -> None:
    with connection(WRITER_MEMORY) as con:
        limit, place = con.execute(
            "SELECT current_setting('memory_limit'), current_setting('temp_directory')"
        ).fetchall()[0]
    assert (limit, "ioweather-" in place) == ("512.0 MiB", True)
