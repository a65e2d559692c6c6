"""Many lines of numbers at once: all or nothing, so that the rare wrong line is looked for only where there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", np.float64, np.uint64)


def parse_lines(lines: Sequence[str], dtype: type[Number], delimiter: str | None = None) -> NDArray[Number] | None:
    """Line x column, or None where lines differ in their number of columns or hold anything but numbers."""
    if any(not line or line.isspace() for line in lines):
        return None
    try:
        table: NDArray[Any] = np.loadtxt(lines, dtype, delimiter=delimiter, comments=None, ndmin=2)
    except ValueError:
        return None
    return table if len(table) == len(lines) else None


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
