"""The climate and utilisation studies through a small lake: the same numbers as the arrays that went in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.results import Exhibit
from ioweather.core.tables import Quality
from ioweather.lake import grid
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact
from ioweather.topics.analyse import make_exhibits

ROWS, TARGETS = 3 * 1440, 4
FLAGGED = (100, 2)


def values() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {metric: rng.lognormal(20, 1, (ROWS, TARGETS)).round() for metric in ("read_bytes", "write_bytes")}


def filled(folder: Path) -> Lake:
    lake = open_lake(folder / "lake", create=True)
    quality = np.zeros((ROWS, TARGETS), np.int64)
    quality[FLAGGED] = Quality.OVER_LIMIT
    quality[7, 1] = Quality.LATE
    for metric, array in values().items():
        flags: Any = quality.ravel() if metric == "read_bytes" else 0
        lake.append("series", series_frame(array, metric=metric, quality=flags), source="lmt")
    return lake


def value(exhibit: Exhibit, name: str) -> Any:
    return next(e.value for e in exhibit.estimates if e.name == name)


@pytest.mark.parametrize("sealed", [False, True])
def test_flagged_rows_are_missing_in_the_matrix(tmp_path: Path, sealed: bool) -> None:
    lake = filled(tmp_path)
    if sealed:
        compact(lake, everything=True)
    with lake.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=60 * 10**9,
            excluded_quality=int(Quality.OVER_LIMIT),
        )  # fmt: skip
        loaded = grid.matrix(chosen, "read_bytes").load().values
    want = values()["read_bytes"]
    want[FLAGGED] = np.nan
    np.testing.assert_array_equal(loaded, want)


def test_exhibits_equal_the_arrays(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    compact(lake, everything=True)
    three, ten, seven = make_exhibits(lake, ["pat19.fig3", "pat19.fig10", "car11.fig7"], use_cache=False)
    read, write = values().values()
    # One of four targets is flagged in one step: a quarter is missing, so the step does not count.
    keep = np.arange(ROWS) != FLAGGED[0]
    assert value(three, "read_over_written") == pytest.approx(read[keep].sum() / write[keep].sum())
    assert three.coverage[0].excluded == {"less than 90% recorded": 1}
    assert value(ten, "max_over_min_read") == pytest.approx(read[keep].sum(axis=0).max() / read[keep].sum(axis=0).min())
    assert value(seven, "mean_rate") == pytest.approx((read + write)[keep].sum(axis=1).mean() / 60)
    assert value(seven, "intervals") == ROWS - 1
    assert any("1 late" in caveat and "1 over_limit" in caveat for caveat in three.caveats)
    assert three.charts[0].table.rows[0][0] == DAY


def test_a_file_system_that_is_named_is_read_by_its_own_kind_and_interval(tmp_path: Path) -> None:
    lake = filled(tmp_path)
    home = np.full((3 * 144, 2), 6e8)
    for metric in ("read_bytes", "write_bytes"):
        frame = series_frame(home, step_ns=600 * 10**9, system="home", kind="device", metric=metric)
        lake.append("series", frame, source="iostat")
    (seven,) = make_exhibits(lake, ["car11.fig7"], params={"filesystem": "home"}, use_cache=False)
    assert seven.provenance is not None
    chosen = seven.provenance.params
    assert (chosen["component_kind"], chosen["resolution"]) == ("device", 600 * 10**9)
    assert value(seven, "intervals") == 3 * 144
    assert value(seven, "mean_rate") == pytest.approx(4e6)
