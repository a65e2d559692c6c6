"""The one sparkline: a series as a row of block characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int | None = None, *, top: float | None = None) -> str:
    """The greatest value of each of `width` columns (one per value where none is given), so that peaks survive.

    The scale goes from zero, or the least value below it, to the greatest, or to `top`. A missing value is blank; an
    infinite one stands at its end of the scale.
    """
    columns = min(width, len(values)) if width is not None else len(values)
    finite = [v for v in values if v is not None and math.isfinite(v)]
    low = min((0.0, *finite))
    high = max((0.0, *finite)) if top is None else top
    drawn = []
    for column in range(columns):
        piece = values[column * len(values) // columns : (column + 1) * len(values) // columns]
        known = [v for v in piece if v is not None and not math.isnan(v)]
        drawn.append(_block(max(known), low, high) if known else " ")
    return "".join(drawn)


def _block(value: float, low: float, high: float) -> str:
    if value >= high > low:
        return _BLOCKS[-1]
    if value <= low or high <= low:
        return _BLOCKS[0]
    # Halves: the distance of two numbers may be too large for one.
    return _BLOCKS[int((value / 2 - low / 2) / (high / 2 - low / 2) * 7.999)]
