"""A random forest over one measure (Breiman 2001), by scikit-learn."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.errors import UsageError

TREES: Final = 200
# Leaves of one job draw the noise; the paper does not name its setting. [ours]
LEAST_LEAF: Final = 5
_SEED: Final = 20170807


def forest_curve(x: Floats, y: Floats, at: Floats) -> tuple[Floats, float]:
    """The mean of all trees at `at`, and the share of variance explained out of bag."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise UsageError("A random forest needs scikit-learn.", hint="pip install 'ioweather[forest]'") from None
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAST_LEAF, oob_score=True, random_state=_SEED)
    forest.fit(x[:, None], y)
    return np.asarray(forest.predict(at[:, None])), float(forest.oob_score_)
