"""Coordinated omission: an operation that hangs for 20 s hides the 19 ticks at which others would have waited too.

The correction is HdrHistogram's (recordValueWithExpectedInterval): each hidden tick counts as a response that waited
until the hang ended. Here the ticks are known, because each is a row with the status `missed`.
"""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Bools, Ints
from ioweather.core.frames import Frame


def omitted_waits(responses: Frame) -> tuple[Ints, Ints]:
    """Rows that stand for hidden responses (missed ticks, pending operations), and the ns each would have waited.

    A hang ends where the operation ends that was in flight at the tick; without one, where the next begins; without
    either, with what is known of that target (a lower bound). Ticks of which not even that is known are left out.
    """
    status = responses.text("status")
    hidden = np.flatnonzero(status.equals("missed") | status.equals("pending"))
    if not len(hidden):
        return hidden, np.empty(0, np.int64)
    places = [responses.text("host").codes, responses.text("target").codes]
    start = responses.ints("start_ns")
    duration = responses.ints("duration_ns")
    waits = np.zeros(len(hidden), np.int64)
    for host, target in set(zip(*(codes[hidden].tolist() for codes in places), strict=True)):
        here = (places[0] == host) & (places[1] == target)
        mine = here[hidden]
        waits[mine] = _waits(start[hidden[mine]], start[here], duration[here], ~np.isin(np.flatnonzero(here), hidden))
    known = waits > 0
    return hidden[known], waits[known]


def _waits(ticks: Ints, start: Ints, duration: Ints, finished: Bools) -> Ints:
    last_known = int((start + duration).max())
    order = np.argsort(start[finished], kind="stable")
    begun = start[finished][order]
    # Operations of a target follow one another, so the latest end of all that began before is that of the last.
    ended = np.maximum.accumulate((start + duration)[finished][order])
    after = np.searchsorted(begun, ticks, side="right")
    resumed = np.append(begun, last_known)[after]
    in_flight = np.concatenate([[0], ended])[after]
    return np.asarray(np.where(in_flight > ticks, in_flight, resumed) - ticks, np.int64)
