"""What a run did otherwise than its group usually does, and which changes of other runs are of the same kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.verdict.patterns import COSTS, FACTORS, SCALES, usual_pattern
from ioweather.core.arrays import Bools, Floats, Ints

# The size of requests after the change matters too: from 16 MiB to 4 MiB is not as from 64 KiB to 16 KiB. In the scale
# of logarithms of sizes. [ours]
_ABSOLUTE_SCALE: Final = 2.8
_REQUEST: Final = 0
_SAME_KIND: Final = 0.5


@dataclass(frozen=True, eq=False)
class Changes:
    """`changed` runs differ from their group's usual pattern in `columns`. `alike` is 1 for runs that changed the same,
    falling to 0 for those that did something else, and 0 for runs that changed nothing; `steps` is how far each measure
    went in the way that costs time."""

    changed: Bools
    columns: Bools
    alike: Floats
    steps: Floats

    def seen(self, row: int) -> int:
        """How many other runs there are with the same kind of change."""
        return int((self.alike[row] >= _SAME_KIND).sum()) - int(self.changed[row])


def find_changes(pattern: Floats, group: Ints, row: int) -> Changes:
    """The usual pattern of group 0 is that of the runs but `row`."""
    difference = np.zeros(pattern.shape)
    for number in np.unique(group).tolist():
        members = np.flatnonzero(group == number)
        known = members[members != row]
        difference[members] = pattern[members] - usual_pattern(pattern[known] if len(known) else pattern[members])
    columns = np.abs(difference) > FACTORS + 1e-9
    changed = columns.any(axis=1)
    difference = np.where(changed[:, None], difference, 0.0)
    places = np.column_stack([difference / SCALES, pattern[:, _REQUEST] / _ABSOLUTE_SCALE])
    length = (places**2).sum(axis=1)
    distance = np.maximum(length[:, None] + length[None] - 2.0 * places @ places.T, 0.0)
    both = changed[:, None] & changed[None]
    return Changes(changed, columns, np.where(both, np.exp(-0.5 * distance), 0.0), np.maximum(difference * COSTS, 0.0))
