"""Matrices over several days of different kinds: sealed and complete, sealed with holes, unsealed, absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from store_lakes import DAY, series_frame

from ioweather.core.frames import Matrix, in_blocks
from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.lake import grid
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact

DAYS, TARGETS = 7, 5


def truth() -> np.ndarray:
    values = np.random.default_rng(7).integers(1, 10**12, (DAYS * 1440, TARGETS)).astype(float)
    values[1440 + 100, 2] = np.nan  # day 1 has one hole
    values[3 * 1440 : 4 * 1440] = np.nan  # day 3 is absent
    values[5 * 1440 :, 4] = np.nan  # a component is gone from day 5 on
    return values


def filled(folder: Path, *, others: bool) -> Lake:
    lake = open_lake(folder / "lake", create=True)
    values = truth()
    for day in range(DAYS):
        part = slice(day * 1440, (day + 1) * 1440)
        if day == 6:
            compact(lake, everything=True)
        if not np.isnan(values[part]).all():
            lake.append("series", series_frame(values[part], start_ns=DAY + day * DAY_NS), source="tts")
        if others and day < 6:
            # The same metric of other components, and another metric, lie in the same files.
            more = series_frame(values[part] * 0 + 5.0, start_ns=DAY + day * DAY_NS, kind="device", system="h:sda")
            if more.rows:
                lake.append("series", more, source="iostat")
            lake.append(
                "series", series_frame(np.ones((9, 2)), start_ns=DAY + day * DAY_NS, metric="write_bytes"), source="tts"
            )
    return lake


def loaded(lake: Lake, days: int, excluded: int = 0) -> tuple[np.ndarray, np.ndarray]:
    with lake.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=MINUTE_NS,
            excluded_quality=excluded,
        )  # fmt: skip
        blocks: list[Matrix] = list(in_blocks(grid.matrix(chosen, "read_bytes"), days))
    return np.concatenate([b.values for b in blocks]), np.concatenate([b.coverage for b in blocks])


@pytest.mark.parametrize(("days", "others"), [(3, False), (3, True)])
def test_days_of_every_kind_equal_the_truth(tmp_path: Path, days: int, others: bool) -> None:
    lake = filled(tmp_path, others=others)
    for length in (1, days, 10):
        values, coverage = loaded(lake, length)
        np.testing.assert_array_equal(values, truth())
        np.testing.assert_array_equal(coverage == 1, ~np.isnan(truth()))


def test_a_period_that_cuts_days(tmp_path: Path) -> None:
    lake = filled(tmp_path, others=True)
    low, high = DAY + 300 * MINUTE_NS, DAY + (2 * 1440 + 17) * MINUTE_NS
    with lake.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch",
            component_kind="ost",
            metrics=("read_bytes",),
            step_ns=MINUTE_NS,
            period_ns=(low, high),
        )
        made = grid.matrix(chosen, "read_bytes").load()
    assert made.start_ns == low
    np.testing.assert_array_equal(made.values, truth()[300 : 2 * 1440 + 17])


def test_flags_are_excluded_on_days_of_every_kind(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "lake", create=True)
    values = truth()[: 3 * 1440]
    flags = np.zeros(values.shape, np.int64)
    flags[::500, 1] = Quality.RESET
    flags[::700, 3] = Quality.LATE
    lake.append("series", series_frame(values, quality=flags.ravel()), source="tts")
    for _ in range(2):
        found, _ = loaded(lake, 2, int(Quality.RESET))
        np.testing.assert_array_equal(found, np.where(flags & Quality.RESET, np.nan, values))
        compact(lake, everything=True)
