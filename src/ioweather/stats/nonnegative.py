"""The minimum of a quadratic form over numbers of at least 0.

The active sets of Lawson and Hanson, Solving Least Squares Problems (1974), algorithm NNLS, on the normal equations.
`scipy.optimize.nnls` does the same for a matrix of observations; to import it was 45% of all imports of `why`.
"""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats

_TOLERANCE = 1e-12


def nonnegative_minimum(matrix: Floats, vector: Floats) -> Floats:
    """x >= 0 with the least x'Ax/2 - b'x, of a positive definite A."""
    width = len(vector)
    found = np.zeros(width)
    free = np.zeros(width, np.bool_)
    enough = _TOLERANCE * max(1.0, float(np.abs(vector).max(initial=0.0)))
    for _ in range(3 * width + 3):  # in exact arithmetic no set comes twice; rounding must not make it endless
        gain = vector - matrix @ found
        gain[free] = -np.inf
        if not width or gain.max() <= enough:
            break
        free[np.argmax(gain)] = True
        while True:
            places = np.flatnonzero(free)
            wanted = np.linalg.solve(matrix[np.ix_(places, places)], vector[places])
            if (wanted > 0).all():
                break
            # As far towards it as nothing is below 0; what arrives there is held.
            below = wanted <= 0
            now = found[places]
            share = float(np.min(now[below] / (now[below] - wanted[below])))
            found[places] = now + share * (wanted - now)
            free[places[below & (found[places] <= enough)]] = False
            found[~free] = 0.0
            if not free.any():
                wanted, places = wanted[:0], places[:0]
                break
        found[places] = wanted
    return found
