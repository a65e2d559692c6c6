"""Several matrices walked together, block by block, on one grid and with one list of components.

Matrices of the same need usually agree and are passed through as they are. Where one starts later, ends earlier or
knows fewer components, it is padded with missing values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import BlockwiseMatrix, Matrix
from ioweather.core.units import DAY_NS
from ioweather.studies.steps import MIN_COVERAGE

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class CommonGrid:
    start_ns: int
    step_ns: int
    steps: int
    components: tuple[str, ...]


def common_grid(matrices: Sequence[BlockwiseMatrix]) -> CommonGrid:
    step = matrices[0].step_ns
    if any(matrix.step_ns != step or (matrix.start_ns - matrices[0].start_ns) % step for matrix in matrices):
        raise ValueError("matrices of one study lie on different grids")
    start = min(matrix.start_ns for matrix in matrices)
    end = max(matrix.start_ns + matrix.steps * step for matrix in matrices)
    if all(matrix.components == matrices[0].components for matrix in matrices):
        components = matrices[0].components
    else:
        components = tuple(sorted({name for matrix in matrices for name in matrix.components}))
    return CommonGrid(start, step, (end - start) // step, components)


def aligned_blocks(matrices: Sequence[BlockwiseMatrix], days: int) -> Iterator[tuple[Floats, ...]]:
    """Values of all matrices for the same steps and components; a cell below MIN_COVERAGE is missing.

    The next block is read while the present one is worked on: reading is mostly waiting and decompressing, which
    another thread can do. Only that thread touches the matrices.
    """
    blocks = _one_by_one(matrices, days)
    with ThreadPoolExecutor(max_workers=1) as reader:
        following = reader.submit(next, blocks, None)
        while (block := following.result()) is not None:
            following = reader.submit(next, blocks, None)
            yield block


def _one_by_one(matrices: Sequence[BlockwiseMatrix], days: int) -> Iterator[tuple[Floats, ...]]:
    grid = common_grid(matrices)
    length = max(1, days * DAY_NS // grid.step_ns)
    streams = [_Rows(matrix, grid, days) for matrix in matrices]
    for first in range(0, grid.steps, length):
        count = min(length, grid.steps - first)
        yield tuple(stream.take(count) for stream in streams)


class _Rows:
    """The rows of a matrix on the common grid, taken in order."""

    def __init__(self, matrix: BlockwiseMatrix, grid: CommonGrid, days: int) -> None:
        known = {name: place for place, name in enumerate(grid.components)}
        same = matrix.components == grid.components
        self._place = None if same else np.array([known[name] for name in matrix.components], np.int64)
        self._width = len(grid.components)
        self._blocks = matrix.blocks(days)
        self._waiting = self._missing((matrix.start_ns - grid.start_ns) // grid.step_ns)

    def take(self, count: int) -> Floats:
        parts: list[Floats] = []
        wanted = count
        while wanted:
            if not len(self._waiting):
                block = next(self._blocks, None)
                self._waiting = self._missing(wanted) if block is None else self._spread(usable_cells(block))
                continue
            parts.append(self._waiting[:wanted])
            self._waiting = self._waiting[wanted:]
            wanted -= len(parts[-1])
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, self._width)), *parts])

    def _spread(self, values: Floats) -> Floats:
        if self._place is None:
            return values
        out = self._missing(len(values))
        out[:, self._place] = values
        return out

    def _missing(self, rows: int) -> Floats:
        return np.full((rows, self._width), np.nan)


def usable_cells(block: Matrix) -> Floats:
    """Values with cells below MIN_COVERAGE as missing; the block's own array where there is none."""
    covered = block.coverage
    # A complete block has one number broadcast over all cells.
    least = float(covered.flat[0]) if covered.size and not any(covered.strides) else float(covered.min(initial=1.0))
    if least >= MIN_COVERAGE - 1e-6:
        return block.values
    return np.where(covered >= MIN_COVERAGE - 1e-6, block.values, np.nan)
