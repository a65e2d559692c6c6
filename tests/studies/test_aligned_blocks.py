"""Matrices walked together: the same rows and components, padded where one lacks them."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.units import DAY_NS, HOUR_NS
from ioweather.studies.aligned_blocks import aligned_blocks, common_grid


def matrix(start_hours: int, names: str, hours: int, offset: float = 0.0, coverage: float = 1.0) -> Matrix:
    values = offset + np.arange(hours * len(names), dtype=float).reshape(hours, len(names))
    covered = np.broadcast_to(np.float32(coverage), values.shape)
    return Matrix("read_bytes", start_hours * HOUR_NS, HOUR_NS, tuple(names), values, covered)


def test_equal_matrices_pass_through_without_a_copy() -> None:
    a, b = matrix(0, "xy", 60), matrix(0, "xy", 60, 1000.0)
    blocks = list(aligned_blocks([a, b], 1))
    assert [len(x) for x, _ in blocks] == [24, 24, 12]
    assert all(np.shares_memory(x, a.values) for x, _ in blocks)
    np.testing.assert_array_equal(np.concatenate([y for _, y in blocks]), b.values)


def test_a_shorter_matrix_with_other_components_is_padded() -> None:
    a, b = matrix(0, "xy", 50), matrix(5, "yz", 70)
    grid = common_grid([a, b])
    assert (grid.start_ns, grid.steps, grid.components) == (0, 75, ("x", "y", "z"))
    left, right = (np.concatenate(parts) for parts in zip(*aligned_blocks([a, b], 1), strict=True))
    assert left.shape == right.shape == (75, 3)
    np.testing.assert_array_equal(left[:50, :2], a.values)
    np.testing.assert_array_equal(right[5:, 1:], b.values)
    assert np.isnan(left[50:]).all()
    assert np.isnan(left[:, 2]).all()
    assert np.isnan(right[:5]).all()


def test_cells_that_are_half_recorded_are_missing() -> None:
    whole = matrix(0, "xy", 24)
    covered = np.ones(whole.values.shape, np.float32)
    covered[3, 1] = 0.5
    part = Matrix("read_bytes", 0, HOUR_NS, whole.components, whole.values, covered)
    (values,) = next(aligned_blocks([part], 1))
    assert np.isnan(values[3, 1])
    assert np.isnan(values).sum() == 1
    (values,) = next(aligned_blocks([matrix(0, "x", 24, coverage=0.5)], 1))
    assert np.isnan(values).all()


def test_grids_that_do_not_meet_are_a_mistake() -> None:
    a = matrix(0, "x", 3)
    shifted = Matrix("write_bytes", DAY_NS // 7, HOUR_NS, ("x",), a.values, a.coverage)
    with pytest.raises(ValueError, match="different grids"):
        common_grid([a, shifted])
