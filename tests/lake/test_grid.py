"""Matrices and rollups against plain arithmetic, for any order, gap, duplicate and misalignment."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_lakes import DAY, series_frame

from ioweather.core.contracts import SeriesGroup
from ioweather.core.errors import DataUnavailable
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, NS
from ioweather.lake import grid
from ioweather.lake.inventory import choose_sources
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact


def selection(lake, metric="read_bytes", step_ns=MINUTE_NS, period_ns=None, kind="ost"):
    return lake.snapshot().selection(
        filesystem="scratch", component_kind=kind, metrics=(metric,), step_ns=step_ns, period_ns=period_ns
    )


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_matrix_and_rollup_equal_the_truth_sealed_or_not(tmp_path_factory, data):
    steps, components = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    values = rng.integers(0, 10**12, (steps, components)).astype(float)
    values[rng.random(values.shape) < data.draw(st.sampled_from([0.0, 0.3]))] = np.nan
    if np.isnan(values).all():
        values[0, 0] = 1.0
    start = DAY + data.draw(st.integers(0, 1439)) * MINUTE_NS
    frame = series_frame(values, start_ns=start)
    lake = open_lake(tmp_path_factory.mktemp("l") / "lake", create=True)
    shuffled = rng.permutation(frame.rows)
    half = len(shuffled) // 2
    for piece in (shuffled[:half], shuffled[half:], shuffled[half // 2 :]):  # out of order, and overlapping
        lake.append("series", frame.take(piece), source="tts")
    _check(lake, values, start)
    compact(lake, everything=True)
    _check(lake, values, start)


def _check(lake, values, start):
    chosen = selection(lake)
    seen = ~np.isnan(values)
    rows = np.flatnonzero(seen.any(axis=1))
    columns = np.flatnonzero(seen.any(axis=0))
    expected = values[rows[0] : rows[-1] + 1][:, columns]
    lazy = grid.matrix(chosen, "read_bytes")
    loaded = lazy.load()
    assert loaded.start_ns == start + rows[0] * MINUTE_NS
    np.testing.assert_array_equal(loaded.values, expected)
    np.testing.assert_array_equal(loaded.coverage > 0, ~np.isnan(expected))
    stretches = [lazy.stretch(at, min(at + 7, lazy.steps)).values for at in range(0, lazy.steps, 7)]
    np.testing.assert_array_equal(np.concatenate(stretches), expected)
    rolled = grid.rollup(chosen, ("read_bytes",))
    np.testing.assert_allclose(rolled.array("value"), np.nansum(values[rows], axis=1), rtol=1e-12)
    np.testing.assert_array_equal(rolled.array("start_ns"), start + rows * MINUTE_NS)


def test_rows_stored_twice_count_once_in_a_matrix(tmp_path):
    """Not by the normal door, which does not let them in: by another tool that writes to the Delta table."""
    from deltalake import DeltaTable, write_deltalake

    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((12, 2)), step_ns=5 * NS), source="tts")
    uri = str(lake.root / "tables" / "series")
    with lake.snapshot() as snapshot:
        copy = snapshot.bare.sql(snapshot.pinned["series"].view())
        write_deltalake(DeltaTable(uri), copy, mode="append")
    np.testing.assert_array_equal(grid.matrix(selection(lake), "read_bytes").load().values, [[12.0, 12.0]])
    np.testing.assert_array_equal(
        grid.matrix(selection(lake, step_ns=5 * NS), "read_bytes").load().values, np.ones((12, 2))
    )
    (sealed,) = compact(lake, everything=True)
    assert sealed[-1] == 24


@pytest.mark.parametrize("offset_s", [0, 17, 30])
def test_samples_off_the_grid_are_split_by_overlap_and_conserved(tmp_path, offset_s):
    lake = open_lake(tmp_path / "lake", create=True)
    values = np.arange(1.0, 11.0)[:, None] * 60
    lake.append("series", series_frame(values, start_ns=DAY + offset_s * NS), source="iostat")
    matrix = grid.matrix(selection(lake), "read_bytes").load()
    share = offset_s / 60
    expected = np.zeros(11)
    expected[:10] += values[:, 0] * (1 - share)
    expected[1:] += values[:, 0] * share
    np.testing.assert_allclose(matrix.values[:, 0], expected[: matrix.steps], rtol=1e-12)
    assert np.nansum(matrix.values) == pytest.approx(values.sum())
    if offset_s:
        assert matrix.coverage[0, 0] == pytest.approx(1 - share)
        assert matrix.coverage[-1, 0] == pytest.approx(share)


def test_means_are_weighted_by_time_and_not_summed(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append(
        "series", series_frame([[0.2, 0.4], [0.6, 0.8]], step_ns=30 * NS, metric="cpu_ratio", kind="oss"), source="tts"
    )
    chosen = selection(lake, "cpu_ratio", kind="oss")
    np.testing.assert_allclose(grid.matrix(chosen, "cpu_ratio").load().values, [[0.4, 0.6]])
    np.testing.assert_allclose(grid.rollup(chosen, ("cpu_ratio",)).array("value"), [0.5])


def test_coverage_counts_the_components_of_the_day(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    values = np.ones((4, 4))
    values[2, 0] = np.nan
    lake.append("series", series_frame(values), source="tts")
    np.testing.assert_allclose(grid.rollup(selection(lake), ("read_bytes",)).array("coverage"), [1, 1, 0.75, 1])


def test_a_period_trims_rows_at_its_ends(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    values = np.arange(2880.0)[:, None]
    lake.append("series", series_frame(values), source="tts")
    compact(lake, everything=True)
    chosen = selection(lake, period_ns=(DAY + 23 * HOUR_NS, DAY + 25 * HOUR_NS))
    np.testing.assert_array_equal(grid.matrix(chosen, "read_bytes").load().values[:, 0], np.arange(1380.0, 1500.0))
    assert grid.rollup(chosen, ("read_bytes",)).rows == 120


def test_days_of_different_sources_join(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((1440, 2))), source="h5lmt")
    lake.append("series", series_frame(np.full((1440, 2), 2.0), start_ns=DAY + DAY_NS), source="tts")
    compact(lake, everything=True)
    loaded = grid.matrix(selection(lake), "read_bytes").load()
    assert loaded.values.sum() == 1440 * 2 + 1440 * 4


def test_several_hosts_disks_form_one_file_system(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    (lake.root / "facility.toml").write_text('[filesystem.scratch]\ndevices = ["oss*:sdb"]\n')
    for host in ("oss1", "oss2"):
        frame = series_frame([[1.0], [2.0]], system=f"{host}:sdb", kind="device")
        lake.append("series", frame, source="iostat")
    lake.append("series", series_frame([[100.0]], system="oss1:dm-0", kind="device"), source="iostat")
    chosen = selection(lake, kind="device")
    matrix = grid.matrix(chosen, "read_bytes").load()
    assert len(set(matrix.components)) == 2
    np.testing.assert_array_equal(grid.rollup(chosen, ("read_bytes",)).array("value"), [2.0, 4.0])


def test_choice_prefers_order_then_finer_then_fuller():
    def group(source, interval, covered):
        return SeriesGroup(
            "2024-10-04", source, "s", "s", "ost", "read_bytes", "all", interval, True, 1, 1, 0, covered, covered, 1.0
        )

    from ioweather.core.facility import Facility

    facility = Facility(source_order=("b",))
    assert choose_sources([group("a", 1, 9), group("b", 60, 1)], facility)[0].source == "b"
    assert choose_sources([group("a", 60, 9), group("c", 5, 1)], facility)[0].source == "c"
    assert choose_sources([group("a", 5, 9), group("c", 5, 1)], facility)[0].source == "a"


def test_windows_of_time_at_once(tmp_path):
    values = np.arange(200.0).reshape(100, 2)
    lake = open_lake(tmp_path / "lake", create=True)
    for metric, factor in (("read_bytes", 1), ("write_bytes", 10)):
        lake.append("series", series_frame(values * factor, metric=metric), source="lmt")
    windows = ((DAY + 5 * MINUTE_NS, DAY + 7 * MINUTE_NS), (DAY + 90 * MINUTE_NS, DAY + 91 * MINUTE_NS))
    metrics = ("read_bytes", "write_bytes")
    with lake.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=metrics, step_ns=MINUTE_NS, windows=windows
        )
        found = grid.rollup(chosen, ("read_bytes",))
        assert ((found.array("start_ns") - DAY) // MINUTE_NS).tolist() == [5, 6, 90]
        assert found.array("value").tolist() == values[[5, 6, 90]].sum(axis=1).tolist()
        cells = grid.component_cells(chosen, (*metrics, "read_ops"))
        assert ((cells.start_ns - DAY) // MINUTE_NS).tolist() == [5, 6, 90]
        assert cells.components == ("OST0000", "OST0001")
        assert {name: each.tolist() for name, each in cells.values.items()} == {
            "read_bytes": values[[5, 6, 90]].tolist(), "write_bytes": (10 * values[[5, 6, 90]]).tolist()
        }  # fmt: skip
        with pytest.raises(ValueError, match="amounts"):
            grid.component_cells(chosen, ("cpu_ratio",))
        far = ((DAY + 5 * DAY_NS, DAY + 6 * DAY_NS),)
        with pytest.raises(DataUnavailable):
            snapshot.selection(
                filesystem="scratch", component_kind="ost", metrics=metrics, step_ns=MINUTE_NS, windows=far
            )


def test_cells_of_components_agree_with_the_rollup_where_rows_straddle_steps_and_some_are_missing(tmp_path):
    """Samples of 45 s on a grid of minutes; the second component begins late."""
    rng = np.random.default_rng(3)
    rows = 80
    first = TABLES["series"].frame(
        rows=2 * rows, start_ns=DAY + np.repeat(np.arange(rows), 2) * 45 * NS, interval_ns=45 * NS, system="scratch",
        component_kind="ost", component=["OST0000", "OST0001"] * rows, metric="read_bytes",
        value=rng.uniform(1, 9, 2 * rows), quality=0,
    )  # fmt: skip
    late = (np.arange(2 * rows) % 2 == 0) | (np.arange(2 * rows) > 50)
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", first.take(late), source="lmt")
    with lake.snapshot() as snapshot:
        chosen = snapshot.selection(
            filesystem="scratch", component_kind="ost", metrics=("read_bytes",), step_ns=MINUTE_NS
        )
        cells, rollup = grid.component_cells(chosen, ("read_bytes",)), grid.rollup(chosen, ("read_bytes",))
    values = cells.values["read_bytes"]
    assert np.isnan(values[:15, 1]).all()
    assert cells.start_ns.tolist() == rollup.array("start_ns").tolist()
    assert np.nansum(values, axis=1) == pytest.approx(rollup.array("value"))
    assert cells.coverage["read_bytes"] == pytest.approx(rollup.array("coverage"))
    assert np.nansum(values) == pytest.approx(first.take(late).array("value").sum())
