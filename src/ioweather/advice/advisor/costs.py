"""What rules of requests share: how many are small, and what joining them saves.

One cost model. A row of a log moved B bytes in n requests in T seconds; at R bytes per second, the rate of large
requests, B alone takes B / R, so that a request costs (T - B / R) / n beyond its bytes. A request that is joined with
others saves that; the B / R that the fix still needs is never saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import collective_calls, interface_of, main_verb
from ioweather.advice.advisor.profile import VERBS, Profile, Verb, ratio
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Bools, Floats
from ioweather.core.units import GIB, KIB, MIB, format_bytes

# So many requests make a pattern, in so large a part of all (Drishti's share). What they cost decides what is said.
FEWEST: Final = 100
SMALL_SHARE: Final = 0.1
# What small requests are joined to: by hand, and by MPI-IO's aggregators (ROMIO's default buffer).
JOINED_BYTES: Final = 4 * MIB
BUFFER_BYTES: Final = 16 * MIB
SYNCED_SHARE: Final = 0.15
_LARGE_BLOCK: Final = 64 * KIB


@dataclass(frozen=True)
class SmallRequests:
    small: int
    total: int
    moved_bytes: float
    block: str

    @property
    def words(self) -> str:
        mean = format_bytes(self.moved_bytes / self.small)
        return f"{self.small:,} of {self.total:,} requests under 1 MiB, {mean} on average{self.block}"


def find_small(profile: Profile, rows: Bools) -> SmallRequests | None:
    total = int(profile.operations[rows].sum())
    small = sum(int(profile.small_count(verb)[rows].sum()) for verb in VERBS)
    if small < FEWEST or small <= SMALL_SHARE * total:
        return None
    moved = sum(float(profile.small_bytes(verb)[rows].sum()) for verb in VERBS)
    return SmallRequests(small, total, moved, _block(profile, rows))


def joined(profile: Profile, joined_bytes: int) -> Floats:
    """Seconds of each row that go when its small requests are joined to so many bytes."""
    saved = np.zeros(len(profile.counted))
    for verb in VERBS:
        gone = np.maximum(profile.small_count(verb) - np.ceil(profile.small_bytes(verb) / joined_bytes), 0.0)
        saved += profile.request_overhead(verb) * gone
    return saved


def order_share(profile: Profile, verb: Verb) -> Floats:
    """How much of a request's time beyond its bytes depends on its place. A synced write waits for the device wherever
    it lies: with a sync each, order won 15% and 43% of it in the two public pairs."""
    if verb == "read":
        return np.ones(len(profile.counted))
    synced = np.minimum(ratio(profile.ints("sync_count"), profile.ints("write_count")), 1.0)
    return 1.0 - (1.0 - SYNCED_SHARE) * synced


def rate_words(profile: Profile, rows: Bools) -> str:
    rate, origin = profile.process_rate(main_verb(profile, rows))
    return f"large ones taken at {format_bytes(rate)}/s ({origin})"


def _block(profile: Profile, rows: Bools) -> str:
    """car11 V.D: 64 KiB writes against a block of 4 MiB."""
    block = int(profile.ints("file_alignment_bytes")[rows].max(initial=0))
    return f"; the file system's block is {format_bytes(block)}" if _LARGE_BLOCK <= block <= GIB else ""


def joined_by_collectives(profile: Profile, rows: Bools, plain: str, how: str) -> Seen:
    """Requests that could be collective. Joining saves time where they are small and on shared files: `how` says which
    those are, `plain` what there is otherwise."""
    evidence, seconds, mine = plain, 0.0, rows & profile.shared
    if (found := find_small(profile, mine)) is not None:
        seconds = profile.saving(np.where(mine, joined(profile, BUFFER_BYTES), 0.0))
        evidence = f"{found.words}, {how}; {rate_words(profile, mine)}"
    interface = interface_of(profile, rows, profile.operations)
    return Seen(evidence, seconds, collective_calls(profile, interface, main_verb(profile, rows)))
