"""Several matrices walked together, block by block, on one grid and with one list of components.

Matrices of the same need usually agree and are passed through as they are. Where one starts later, ends earlier or
knows fewer components, it is padded with missing values.

A long walk is cut into stretches, each of which can be walked anywhere. Where they are cut depends on the grid alone,
so that whoever joins what they leave, in order, gets the same numbers from one process and from many.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.frames import BlockwiseMatrix, Matrix
from ioweather.core.units import DAY_NS
from ioweather.studies.shared.rollup_steps import MIN_COVERAGE

# At one minute 15 days are a multiple of every window, so stretches begin at the hour of day that the data begin at.
_STRETCH_DAYS, _BLOCK_DAYS = 15, 5


@dataclass(frozen=True)
class CommonGrid:
    start_ns: int
    step_ns: int
    steps: int
    components: tuple[str, ...]

    def stretches(self, multiple: int) -> list[tuple[int, int]]:
        """Steps [first, last) of each; all but the last are a multiple of so many steps."""
        length = max(1, round(_STRETCH_DAYS * DAY_NS / self.step_ns / multiple)) * multiple
        return [(first, min(first + length, self.steps)) for first in range(0, self.steps, length)]


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


def aligned_blocks(
    matrices: Sequence[BlockwiseMatrix], grid: CommonGrid, first: int, last: int
) -> Iterator[tuple[Floats, ...]]:
    """Values of all matrices for the steps [first, last) of the grid, a few days at a time.

    The next block is read while the present one is worked on: reading is mostly waiting and decompressing, which
    another thread can do. Only that thread touches the matrices.
    """
    length = max(1, _BLOCK_DAYS * DAY_NS // grid.step_ns)
    waiting: deque[Future[tuple[Floats, ...]]] = deque()
    with ThreadPoolExecutor(max_workers=1) as reader:
        for start in range(first, last, length):
            waiting.append(reader.submit(aligned_rows, matrices, grid, start, min(start + length, last)))
            if len(waiting) == 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def aligned_rows(matrices: Sequence[BlockwiseMatrix], grid: CommonGrid, first: int, last: int) -> tuple[Floats, ...]:
    """Values of all matrices for the steps [first, last) of the grid; a cell below MIN_COVERAGE is missing."""
    return tuple(_rows(matrix, grid, first, last) for matrix in matrices)


def _rows(matrix: BlockwiseMatrix, grid: CommonGrid, first: int, last: int) -> Floats:
    lead = (matrix.start_ns - grid.start_ns) // grid.step_ns
    low, high = max(first, lead), min(last, lead + matrix.steps)
    same = matrix.components == grid.components
    values = usable_cells(matrix.stretch(low - lead, high - lead)) if low < high else None
    if values is not None and same and (low, high) == (first, last):
        return values
    out = np.full((last - first, len(grid.components)), np.nan)
    if values is not None:
        known = {name: place for place, name in enumerate(grid.components)}
        place = slice(None) if same else np.array([known[name] for name in matrix.components], np.int64)
        out[low - first : high - first, place] = values
    return out


def usable_cells(block: Matrix) -> Floats:
    """Values with cells below MIN_COVERAGE as missing; the block's own array where there is none."""
    covered = block.coverage
    # A complete block has one number broadcast over all cells.
    least = float(covered.flat[0]) if covered.size and not any(covered.strides) else float(covered.min(initial=1.0))
    if least >= MIN_COVERAGE - 1e-6:
        return block.values
    return np.where(covered >= MIN_COVERAGE - 1e-6, block.values, np.nan)
