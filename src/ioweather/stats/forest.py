"""A random-forest curve of one measure against another (mad17 V-A3), where scikit-learn is installed."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats

TREES: Final = 200
# Leaves of one job draw the noise; the paper does not name its setting. [ours]
LEAST_LEAF: Final = 5
_SEED: Final = 20170807


def forest_curve(x: NDArray[Any], y: NDArray[Any], at: NDArray[Any]) -> tuple[Floats, float] | None:
    """The mean of all trees at `at`, and the share of variance explained out of bag; None without scikit-learn."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        return None
    forest = RandomForestRegressor(
        TREES, min_samples_leaf=LEAST_LEAF, oob_score=True, random_state=_SEED, max_features=1.0
    )
    forest.fit(np.asarray(x, np.float64)[:, None], np.asarray(y, np.float64))
    return np.asarray(forest.predict(np.asarray(at, np.float64)[:, None]), np.float64), float(forest.oob_score_)
