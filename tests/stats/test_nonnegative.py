"""Against SciPy's solver, and the conditions that only the minimum fulfils."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from ioweather.stats.nonnegative import nonnegative_minimum


@given(st.integers(0, 2**32), st.integers(1, 12), st.integers(0, 3))
def test_it_is_the_minimum(seed, width, alike):
    rng = np.random.default_rng(seed)
    observed = rng.normal(size=(width + 4, width)) * 10.0 ** rng.uniform(-2, 2, width)
    observed[:, : min(alike, width)] += observed[:, :1]  # columns that are nearly the same
    matrix = observed.T @ observed + 1e-3 * np.eye(width)
    vector = observed.T @ rng.normal(size=width + 4)
    found = nonnegative_minimum(matrix, vector)
    assert (found >= 0).all()
    gain = vector - matrix @ found
    scale = np.abs(vector).max()
    assert (gain <= 1e-8 * scale).all()
    assert np.abs(gain[found > 0]).max(initial=0.0) <= 1e-8 * scale
    factor = np.linalg.cholesky(matrix).T
    peer, _ = nnls(factor, np.linalg.solve(factor.T, vector))
    np.testing.assert_allclose(found, peer, rtol=1e-6, atol=1e-9 * max(1.0, peer.max()))


@pytest.mark.parametrize(
    ("vector", "expected"), [([], []), ([-1.0, -2.0], [0.0, 0.0]), ([2.0, -1.0], [2.0, 0.0]), ([0.0, 0.0], [0.0, 0.0])]
)
def test_ends(vector, expected):
    width = len(vector)
    assert nonnegative_minimum(np.eye(width), np.array(vector)).tolist() == expected
