"""What the values of a column may be: as the unit in its name says, or as the column itself does.

Every limit lies far beyond what any machine has done, so that it refuses mistakes and forgeries, never a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

from ioweather.core.units import DAY_NS

_YEAR_NS: Final = 365 * DAY_NS
INT64_MOST: Final = (1 << 63) - 1


@dataclass(frozen=True)
class Range:
    """From `least` to `most`, both allowed; of a time, to `ahead_ns` after now. `label` is how a page shows it."""

    least: float
    most: float
    label: str
    ahead_ns: int | None = None

    def most_at(self, now_ns: int) -> float:
        return self.most if self.ahead_ns is None else now_ns + self.ahead_ns


# Identities are compared and never counted; hashes stand in for them in anonymous logs.
ANY: Final = Range(-INT64_MOST - 1, INT64_MOST, "any")
NOT_NEGATIVE: Final = Range(0, INT64_MOST, "0 or more")
# Clocks of hosts differ, and a zone that was guessed wrong shifts by at most 14 hours: a day covers both.
TIME: Final = Range(0, INT64_MOST, "1970 to tomorrow", DAY_NS)
# Maintenance is announced, and hardware is written off, years ahead.
PLANNED_TIME: Final = Range(0, INT64_MOST, "1970 to ten years ahead", 10 * _YEAR_NS)
# Times of files are whatever their owner set.
FILE_TIME: Final = ANY
# A time of this century and a length of a hundred years add up within int64.
LENGTH: Final = Range(0, 100 * _YEAR_NS, "0 to 100 years")
# Counters looked at once a year are the rarest. Beyond, the clock was not set at one of the two looks.
INTERVAL: Final = Range(1, 366 * DAY_NS, "1 ns to 366 days")
# 1 EiB is more than the largest file system holds (Orion of Frontier: 0.7 EB in 2023); a run that moved as much at its
# 10 TB/s would take a day and a half. As many operations, a billion a second, would take 36 years.
AMOUNT: Final = Range(0, 1 << 60, "0 to 2^60")
# A sparse file may end anywhere below 2^63, and so may a write to it.
FILE_SIZE: Final = NOT_NEGATIVE
# The largest machines have ten million cores (Sunway TaihuLight: 10.6 million).
PROCESSES: Final = Range(1, 10**8, "1 to 10^8")
PARTS: Final = Range(0, 10**8, "0 to 10^8")
RANK: Final = Range(-1, 10**8, "-1 to 10^8")
# Times of all processes together: a hundred million of them for three years.
SECONDS: Final = Range(0.0, 1e16, "0 to 10^16")
# Caches of the nodes together: a hundred thousand nodes at 10 TB/s each.
BYTES_PER_S: Final = Range(0.0, 1e18, "0 to 10^18")
# What a benchmark measures of a file system; the best of the IO500 are at 3e13 bytes/s and 1e9 operations/s.
BENCHMARK_BYTES_PER_S: Final = Range(0.0, 1e16, "0 to 10^16")
BENCHMARK_OPS_PER_S: Final = Range(0.0, 1e13, "0 to 10^13")
RATIO: Final = Range(0.0, 1.0, "0 to 1")
# How many times as much as usual.
FACTOR: Final = Range(0.0, 1e15, "0 to 10^15")
PER_PROCESS: Final = Range(0.0, float(1 << 60), "0 to 2^60")
# Linux numbers errors to 4095.
ERRNO: Final = Range(0, 4095, "0 to 4095")
FLAGS: Final = Range(0, (1 << 15) - 1, "0 to 32767")
# By metric: series.SAMPLES.
SAMPLE: Final = Range(0.0, float("inf"), "by metric, see below")

_BY_NAME: Final = {"interval_ns": INTERVAL, "duration_ns": LENGTH, "count": AMOUNT}
# The longest ending that fits counts.
_BY_UNIT: Final = {
    "_bytes_per_s": BYTES_PER_S,
    "_per_process": PER_PROCESS,
    "_seconds": SECONDS,
    "_ratio": RATIO,
    "_bytes": AMOUNT,
    "_count": AMOUNT,
    "_ns": TIME,
}


@cache
def range_of(name: str) -> Range | None:
    """By the column's name; None where that names no unit."""
    found = _BY_NAME.get(name)
    return found or next((allowed for unit, allowed in _BY_UNIT.items() if f"_{name}".endswith(unit)), None)
