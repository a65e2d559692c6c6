"""Sums that were written when a day was sealed are those of its rows, at every step, with gaps and late rows."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from store_lakes import DAY, series_frame

from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.lake import grid, layout
from ioweather.lake.lake import Lake, open_lake
from ioweather.lake.maintenance import compact

METRICS = ("write_bytes", "read_bytes")
STEP = 10 * MINUTE_NS


def selected(lake: Lake, metrics=METRICS, step_ns: int = STEP, **options):
    with lake.snapshot() as snapshot, pytest.MonkeyPatch.context() as without:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=metrics, step_ns=step_ns, **options
        )
        known, rows = grid._find_summed_days(chosen, metrics, by_component=False), grid.rollup(chosen, metrics)
        without.setattr(grid, "find_totals", lambda *_: {})
        return known, rows, grid.rollup(chosen, metrics)


def assert_same(lake: Lake, days: int, **options) -> None:
    known, mine, theirs = selected(lake, **options)
    assert len(known) == days
    assert mine.rows == theirs.rows
    np.testing.assert_array_equal(mine.array("start_ns"), theirs.array("start_ns"))
    assert mine.text("metric").tolist() == theirs.text("metric").tolist()
    for name in ("value", "coverage"):
        np.testing.assert_allclose(mine.array(name), theirs.array(name), rtol=1e-12, atol=0)


def planted(folder, seed: int = 0) -> Lake:
    """Three days of two kinds of amounts and of means, with gaps, targets that come late, and a second name."""
    rng = np.random.default_rng(seed)
    lake = open_lake(folder / "lake", create=True)
    (lake.root / "facility.toml").write_text('[filesystem.scratch]\nlustre = ["scratch", "scr2"]\n')
    for metric in (*METRICS, "cpu_ratio"):
        values = rng.random((3 * 144, 4)) * (1 if metric == "cpu_ratio" else 1e12)
        values[rng.random(values.shape) < 0.2] = np.nan
        values[:200, 3] = np.nan
        values[rng.integers(0, 400) :][:20] = np.nan
        lake.append("series", series_frame(values, metric=metric, step_ns=STEP), source="lmt")
    lake.append(
        "series", series_frame(rng.random((144, 2)), system="scr2", step_ns=STEP, start_ns=DAY + DAY_NS), source="lmt"
    )
    return lake


@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_totals_are_the_sums_of_the_rows(tmp_path_factory, seed) -> None:
    lake = planted(tmp_path_factory.mktemp("lake"), seed)
    assert_same(lake, 0)
    compact(lake, everything=True)
    assert_same(lake, 3)
    for step in (30 * MINUTE_NS, HOUR_NS, DAY_NS):
        assert_same(lake, 3, step_ns=step)
    assert_same(lake, 3, metrics=("read_bytes", "cpu_ratio"))
    part = DAY + 5 * HOUR_NS + MINUTE_NS, DAY + 2 * DAY_NS + HOUR_NS + MINUTE_NS
    assert_same(lake, 3, period_ns=part)
    assert_same(lake, 3, period_ns=part, step_ns=30 * MINUTE_NS)
    assert_same(lake, 1, windows=[(DAY, DAY + DAY_NS)])
    assert_same(lake, 3, step_ns=25 * MINUTE_NS)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory) -> Lake:
    """Tests only read it."""
    lake = planted(tmp_path_factory.mktemp("sealed"))
    compact(lake, everything=True)
    return lake


@pytest.fixture
def lake(sealed, tmp_path) -> Lake:
    return open_lake(shutil.copytree(sealed.root, tmp_path / "lake"))


def test_late_rows_count_until_the_day_is_sealed_again(lake) -> None:
    with lake.snapshot() as snapshot:
        where = {"metric": "read_bytes", "component": "OST0000", "system": "scratch"}
        held = snapshot.frame("series", ("start_ns",), where).ints("start_ns")
    free = next(start for start in range(DAY + DAY_NS, DAY + 2 * DAY_NS, STEP) if start not in held)
    lake.append("series", series_frame([[5e13]], start_ns=free, step_ns=STEP), source="lmt")
    assert_same(lake, 2)
    compact(lake, everything=True)
    assert_same(lake, 3)


def test_flags_that_are_left_out_are_looked_up(lake) -> None:
    for day, flag in ((3, Quality.RESET), (4, Quality.LATE)):
        start = DAY + day * DAY_NS
        flagged = series_frame(np.full((3, 4), 9e12), start_ns=start, step_ns=STEP, quality=int(flag))
        lake.append("series", flagged, source="lmt")
    compact(lake, everything=True)
    assert_same(lake, 5)
    assert_same(lake, 4, excluded_quality=int(Quality.RESET))


def test_damaged_missing_and_outdated_totals_are_not_used(lake) -> None:
    folder = layout.seals_dir(lake.root)
    first, second, third = sorted(folder.glob("*.totals-*"))
    first.chmod(0o644)
    first.write_bytes(first.read_bytes()[:-9])
    second.unlink()
    third.rename(second)
    assert_same(lake, 0)
    assert compact(lake) == [], "nothing is rewritten"
    assert_same(lake, 3)
    assert not list(folder.glob(".*")), "no drafts"


def by_name(rows) -> dict[tuple[int, str | None, str | None], float]:
    keys = zip(
        rows.array("start_ns").tolist(), rows.text("component").tolist(), rows.text("metric").tolist(), strict=True
    )
    return dict(zip(keys, rows.array("value").tolist(), strict=True))


@pytest.mark.parametrize("step_ns", [HOUR_NS, 6 * HOUR_NS, DAY_NS])
@pytest.mark.parametrize("metrics", [METRICS, ("cpu_ratio",), ("read_bytes", "cpu_ratio")])
@pytest.mark.parametrize("hours", [0, 5])
def test_hours_of_components_are_those_of_the_rows(sealed, monkeypatch, step_ns, metrics, hours) -> None:
    with sealed.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=metrics, step_ns=step_ns,
            period_ns=(DAY + hours * HOUR_NS, DAY + 3 * DAY_NS),
        )  # fmt: skip
        assert len(grid._find_summed_days(chosen, metrics, by_component=True)) == 3 - (hours > 0)
        mine = by_name(grid.sums_by_component(chosen, metrics))
        monkeypatch.setattr(grid, "find_totals", lambda *_: {})
        theirs = by_name(grid.sums_by_component(chosen, metrics))
    assert mine.keys() == theirs.keys()
    np.testing.assert_allclose([mine[key] for key in theirs], [*theirs.values()], rtol=1e-12)
