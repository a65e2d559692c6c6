"""Where a run's time went, into metadata or data, against what is usual of its group.

What slows its own nodes slows both alike. A slow target slows data, a busy metadata server metadata; so do changes:
more files cost metadata, smaller requests data. How much equal runs differ in this says how much it tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.arrays import Bools, Floats, Ints

MAD_TO_SD: Final = 1.4826  # of a normal distribution
STUDENT: Final = 4.0
# With fewer runs nobody knows how much equal ones differ; they never agree better than this. [ours]
_LEAST_RUNS: Final = 5
_LEAST_NOISE: Final = 0.05
# Where equal runs differ by nearly twice it tells nothing. [ours]
_MOST_NOISE: Final = 0.6
# What the system does is done to data, to metadata, to both. [ours]
_BY_SYSTEM: Final = (0.94, 0.05, 0.01)
# Quiet runs differ less than others. [ours]
_WIDER: Final = 1.5
# Over this distance changes stop being of one kind; beyond the other they are all alike. Logarithms. [ours]
_MOVED_SCALE: Final = 0.5
_MOST_MOVED: Final = 1.5
_SMALLEST: Final = 1e-3


@dataclass(frozen=True)
class Split:
    """Of one run: by how much the logarithm of its time in metadata over that in data is beyond the usual, how much
    equal runs differ in it, and which share of the time metadata usually have. Those that are usual here the system
    slowed by `offset` less than it usually does, in logarithms."""

    shift: float
    noise: float
    metadata_ratio: float
    offset: float = 0.0

    def likelihood(self, by_system: Floats, on_data: Floats) -> Floats:
        """Of effects on the logarithm of the time, up to a factor; `on_data` is one that no metadata feel."""
        metadata, data = self.metadata_ratio, 1.0 - self.metadata_ratio
        by_system = by_system + self.offset
        moved = np.stack([-_on_part(data, by_system), _on_part(metadata, by_system), np.zeros(len(by_system))])
        distance = (self.shift - moved + _on_part(data, on_data)) / self.noise
        return np.asarray(_BY_SYSTEM @ (1.0 + distance**2 / STUDENT) ** (-0.5 * (STUDENT + 1.0)))


def _on_part(share: float, effect: Floats) -> Floats:
    """Logarithm of how much longer a part of the time takes, where that alone makes the whole longer by `effect`."""
    return np.asarray(np.log(np.maximum((np.expm1(effect) + share) / share, _SMALLEST)))


def split_of(column: Floats, usual: Ints, row: int) -> Split | None:
    """Of the logarithms of all runs; None where too few are known, equal runs differ much, or most of the time is
    metadata: close() writes what is left and counts there, so that they are no separate part."""
    known = column[usual][np.isfinite(column[usual])]
    if len(known) < _LEAST_RUNS:
        return None
    middle = float(np.median(known))
    noise = _WIDER * MAD_TO_SD * float(np.median(np.abs(known - middle)))
    if middle > 0.0 or noise > _MOST_NOISE or not np.isfinite(column[row]):
        return None
    return Split(float(column[row]) - middle, max(noise, _LEAST_NOISE), 1.0 / (1.0 + float(np.exp(-middle))))


def same_part(split: Floats, group: Ints, changed: Bools, effect: Floats, row: int) -> Floats:
    """(run, run), from 1 to 0: whether it was the same part of the time that became longer with their changes. Changes
    that look alike may cost nothing in one run and much in another. `effect` is the system's, which is on data."""
    moved, noise = np.zeros(len(split)), 0.0
    usual, known = ~changed & (np.arange(len(split)) != row), changed & np.isfinite(split)
    for number in np.unique(group[known]).tolist():
        members = np.flatnonzero(known & (group == number))
        found = split_of(split, np.flatnonzero(usual & (group == number)), int(members[0]))
        if found is not None:
            shift = split[members] - split[members[0]] + found.shift + effect[members]
            moved[members] = np.clip(shift, -_MOST_MOVED, _MOST_MOVED)
            noise = max(noise, found.noise if number == group[row] else 0.0)
    return np.asarray(np.exp(-0.5 * (moved[:, None] - moved[None]) ** 2 / (_MOVED_SCALE**2 + (2.0 * noise) ** 2)))
