"""What rules of metadata share.

The metadata time of a row is divided by its calls: two for each open (open and close), one for each stat and seek. The
first open of each process and the stats are one part, opening again another, seeks a third: rules share none of it.
close() flushes, and Darshan counts it here: part of the time may be writing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.core.arrays import Floats

# Drishti's: metadata time on one record.
LONG_SECONDS: Final = 30.0


def metadata_calls(profile: Profile) -> Floats:
    opens = profile.ints("open_count").astype(np.float64)
    return np.asarray(2.0 * opens + profile.ints("stat_count") + profile.ints("seek_count"), np.float64)


def opened_again(profile: Profile) -> Floats:
    """Opens beyond the first of each process."""
    return np.asarray(np.maximum(profile.ints("open_count") - profile.first_opens, 0), np.float64)


def opening_seconds(profile: Profile) -> Floats:
    """Metadata time of first opens and stats. A row without any such call, and with time, is all opening."""
    calls = metadata_calls(profile)
    other = 2.0 * opened_again(profile) + profile.ints("seek_count")
    return profile.seconds("meta_seconds") * np.where(calls > 0, 1.0 - ratio(other, calls), 1.0)
