"""Matrices walked together: the same rows and components, padded where one lacks them."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.studies.climate.stretches import CommonGrid, aligned_blocks, aligned_rows, common_grid


def matrix(start_hours: int, names: str, hours: int, offset: float = 0.0, coverage: float = 1.0) -> Matrix:
    values = offset + np.arange(hours * len(names), dtype=float).reshape(hours, len(names))
    covered = np.broadcast_to(np.float32(coverage), values.shape)
    return Matrix("read_bytes", start_hours * HOUR_NS, HOUR_NS, tuple(names), values, covered)


def test_equal_matrices_pass_through_without_a_copy() -> None:
    a, b = matrix(0, "xy", 320), matrix(0, "xy", 320, 1000.0)
    blocks = list(aligned_blocks([a, b], common_grid([a, b]), 10, 310))
    assert [len(x) for x, _ in blocks] == [120, 120, 60]
    assert all(np.shares_memory(x, a.values) for x, _ in blocks)
    np.testing.assert_array_equal(np.concatenate([y for _, y in blocks]), b.values[10:310])


def test_a_shorter_matrix_with_other_components_is_padded() -> None:
    a, b = matrix(0, "xy", 50), matrix(5, "yz", 70)
    grid = common_grid([a, b])
    assert (grid.start_ns, grid.steps, grid.components) == (0, 75, ("x", "y", "z"))
    left, right = aligned_rows([a, b], grid, 0, 75)
    assert left.shape == right.shape == (75, 3)
    np.testing.assert_array_equal(left[:50, :2], a.values)
    np.testing.assert_array_equal(right[5:, 1:], b.values)
    assert np.isnan(left[50:]).all()
    assert np.isnan(left[:, 2]).all()
    assert np.isnan(right[:5]).all()
    for first, last in ((0, 3), (2, 6), (5, 50), (49, 75), (60, 60)):
        for whole, cut in zip((left, right), aligned_rows([a, b], grid, first, last), strict=True):
            np.testing.assert_array_equal(cut, whole[first:last])


def test_cells_that_are_half_recorded_are_missing() -> None:
    whole = matrix(0, "xy", 24)
    covered = np.ones(whole.values.shape, np.float32)
    covered[3, 1] = 0.5
    part = Matrix("read_bytes", 0, HOUR_NS, whole.components, whole.values, covered)
    (values,) = aligned_rows([part], common_grid([part]), 0, 24)
    assert np.isnan(values[3, 1])
    assert np.isnan(values).sum() == 1
    half = matrix(0, "x", 24, coverage=0.5)
    (values,) = aligned_rows([half], common_grid([half]), 0, 24)
    assert np.isnan(values).all()


def test_grids_that_do_not_meet_are_a_mistake() -> None:
    a = matrix(0, "x", 3)
    shifted = Matrix("write_bytes", DAY_NS // 7, HOUR_NS, ("x",), a.values, a.coverage)
    with pytest.raises(ValueError, match="different grids"):
        common_grid([a, shifted])


@pytest.mark.parametrize("step_ns", [MINUTE_NS, 7 * MINUTE_NS, HOUR_NS, DAY_NS])
def test_stretches_join_and_are_whole_windows(step_ns: int) -> None:
    grid = CommonGrid(0, step_ns, 100 * DAY_NS // step_ns, ("x",))
    stretches = grid.stretches(25)
    assert [first for first, _ in stretches] == [0, *(last for _, last in stretches[:-1])]
    assert stretches[-1][1] == grid.steps
    assert all((last - first) % 25 == 0 for first, last in stretches[:-1])
    assert CommonGrid(0, step_ns, 0, ("x",)).stretches(25) == []
