"""Which files to move off a target that is fuller or busier than the others (pat19 section 6): the fewest that bring it
to the mean, and where to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Indices

By: TypeAlias = Literal["space", "load"]


@dataclass(frozen=True)
class FileThere:
    """A file with stripes on the target: how many of its bytes lie there, or were moved there. `path` as it is stored;
    `escaped`: not UTF-8, None where the lake keeps a hash. `stripes` are OST numbers; several `parts` of a layout."""

    path: str
    escaped: bool | None
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    user: str | None
    last_used_ns: int | None
    stripes: tuple[int, ...]
    parts: int = 1


@dataclass(frozen=True, eq=False)
class Relief:
    """Targets of one file system: `amount` is what each holds or moved, `size` what it can hold (of load: 1 each).
    `files` are the largest on `target`, the first ones of `files_there` in all."""

    by: By
    filesystem: str
    target: str
    components: tuple[str, ...]
    numbers: tuple[int | None, ...]
    amount: Floats
    size: Floats
    files: tuple[FileThere, ...]
    files_there: int
    origin: str

    @property
    def level(self) -> Floats:
        """Share of its space, or bytes moved."""
        return np.asarray(self.amount / self.size, np.float64)

    @property
    def mean_level(self) -> float:
        """Of the whole file system: what each would have if all were alike."""
        return float(self.amount.sum() / self.size.sum())

    @property
    def excess_bytes(self) -> float:
        """What lies above the mean on the target; negative below it."""
        place = self.components.index(self.target)
        return float(self.amount[place] - self.mean_level * self.size[place])


def fewest(amounts: Floats, wanted: float) -> Indices:
    """The fewest whose sum reaches `wanted`: the largest, and as the last one the smallest that is enough. All of them
    where they do not reach it."""
    if wanted <= 0:
        return np.zeros(0, np.intp)
    order = np.argsort(-amounts, kind="stable")
    reached = np.cumsum(amounts[order])
    count = int(np.searchsorted(reached, wanted)) + 1
    if count > len(order):
        return np.asarray(order, np.intp)
    before = reached[count - 2] if count > 1 else 0.0
    enough = order[count - 1 :][amounts[order[count - 1 :]] >= wanted - before]
    return np.asarray(np.append(order[: count - 1], enough[-1]), np.intp)


def destinations(relief: Relief, chosen: Sequence[FileThere]) -> list[tuple[int, ...] | None]:
    """New stripes of each file: as they are, and instead of the target the one with the lowest level that the file does
    not use yet; None where there is none. What is moved counts on from there."""
    own = relief.numbers[relief.components.index(relief.target)]
    amount = relief.amount.copy()
    place = {number: i for i, number in enumerate(relief.numbers) if number is not None}
    found: list[tuple[int, ...] | None] = []
    for file in chosen:
        free = [i for number, i in place.items() if number != own and number not in file.stripes]
        if not free or file.parts > 1:
            found.append(None)
            continue
        to = min(free, key=lambda i: amount[i] / relief.size[i])
        amount[to] += file.bytes_there
        number = relief.numbers[to]
        found.append(tuple(number if each == own and number is not None else each for each in file.stripes))
    return found
