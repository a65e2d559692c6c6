"""A long walk over matrices, stretch by stretch: each is walked once, here or elsewhere, and what it leaves is kept.

What a stretch leaves is small, and adding up what all stretches leave is the walk. Of days that are sealed it never
changes, so a lake keeps it under a key of all that it depends on: the files of these days, how they are read, what
counts. A year that was asked about once is added up of its records; a day that is new costs its own stretch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final, Protocol, TypeVar

from ioweather.core.contracts import NO_RECORDS, Records, Spread
from ioweather.core.frames import BlockwiseMatrix
from ioweather.studies.climate.aligned_blocks import CommonGrid


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
    kept = [None if key is None else work.records.get(*key) for key in keys]
    fresh = work.spread(task, [(*given, *bounds) for bounds, held in zip(stretches, kept, strict=True) if held is None])
    for bounds, key, held in zip(stretches, keys, kept, strict=True):
        left: L | None = next(fresh) if held is None else _restored(empty(*bounds), held)
        if left is None:
            left = task(*given, *bounds)
        elif held is not None:
            yield left
            continue
        if key is not None:
            work.records.put(*key, left.record())
        yield left


def _restored(left: L, record: Mapping[str, Any]) -> L | None:
    """None where the record is of something else, or damaged."""
    try:
        left.restore(record)
    except (KeyError, ValueError, TypeError, IndexError):
        return None
    return left
