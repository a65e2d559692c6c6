"""A long walk over matrices, stretch by stretch: each is walked once, here or elsewhere, and what it leaves is kept.

What a stretch leaves is small, and adding up what all stretches leave is the walk. Of days that are sealed it never
changes, so a lake keeps it under a key of all that it depends on: the files of these days, how they are read, what
counts. A year that was asked about once is added up of its records; a day that is new costs its own stretch.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.contracts import NO_RECORDS, Records, Spread
from ioweather.core.frames import BlockwiseMatrix, Matrix
from ioweather.core.units import DAY_NS
from ioweather.studies.shared.rollup_steps import MIN_COVERAGE

# At one minute 15 days are a multiple of every window, so stretches begin at the hour of day that the data begin at.
_STRETCH_DAYS, _BLOCK_DAYS = 15, 5


@dataclass(frozen=True)
class CommonGrid:
    """Several matrices walked together, block by block, on one grid and with one list of components. Matrices of the
    same need usually agree and are passed through as they are. Where one starts later, ends earlier or knows fewer
    components, it is padded with missing values."""

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


class Left(Protocol):
    """What a stretch leaves."""

    def record(self) -> Mapping[str, Any]:
        """All of it, as arrays by name."""
        ...

    def restore(self, record: Mapping[str, Any]) -> None:
        """The same from such arrays, into one that is empty; KeyError or ValueError where they are not of this kind."""
        ...


L = TypeVar("L", bound=Left)


@dataclass(frozen=True)
class Work:
    """By whom stretches are walked, and what is known of them from before."""

    spread: Spread
    records: Records


ALONE: Final = Work(starmap, NO_RECORDS)


@dataclass(frozen=True)
class Walk:
    """What is walked over, and how: `name` changes with what a walk leaves, `settings` are all else it depends on.
    Windows of so many steps as `multiple` are not cut, and `back` steps before a stretch are looked at too."""

    name: str
    matrices: Sequence[BlockwiseMatrix]
    grid: CommonGrid
    unit: int
    multiple: int
    back: int
    settings: Callable[[int, int], Any]

    def stretches(self) -> list[tuple[int, int]]:
        return self.grid.stretches(self.multiple)

    def key(self, first: int, last: int) -> tuple[str, str] | None:
        """The place of a stretch among the records, and what is true of it now; None where that may still change."""
        grid, low = self.grid, max(0, first - self.back)
        read = [matrix.identity(*self._of(matrix, low, last)) for matrix in self.matrices]
        if None in read:
            return None
        start, end = (grid.start_ns + step * grid.step_ns for step in (first, last))
        place = [grid.step_ns, grid.components, self.unit, first % self.unit, [m.metric for m in self.matrices]]
        said = [place, first - low, start, end, self.settings(start, end), read]
        return f"{self.name}-{start}-{_digest(place)[:12]}", _digest(said)

    def _of(self, matrix: BlockwiseMatrix, first: int, last: int) -> tuple[int, int]:
        """Steps of the grid as those of the matrix."""
        lead = (matrix.start_ns - self.grid.start_ns) // self.grid.step_ns
        return max(0, first - lead), min(matrix.steps, last - lead)


def _digest(said: Any) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def walked(
    walk: Walk, work: Work, task: Callable[..., L], given: tuple[Any, ...], empty: Callable[[int, int], L]
) -> Iterator[L]:
    """What each stretch leaves, in the order of time: what is kept of it, else task(*given, first, last)."""
    stretches = walk.stretches()
    keys = [walk.key(*bounds) for bounds in stretches]
    kept = [
        None if key is None else work.records.get(*key, partial(_restored, empty(*bounds)))
        for key, bounds in zip(keys, stretches, strict=True)
    ]
    fresh = work.spread(task, [(*given, *bounds) for bounds, held in zip(stretches, kept, strict=True) if held is None])
    for key, held in zip(keys, kept, strict=True):
        left = next(fresh) if held is None else held
        if held is None and key is not None:
            work.records.put(*key, left.record())
        yield left


def _restored(left: L, record: Mapping[str, Any]) -> L:
    left.restore(record)
    return left
