"""When ticks fall: at start + k * period on the monotonic clock, so that lateness never adds up."""

from __future__ import annotations


class Schedule:
    """Hands out every tick once, in order; the clock's owner asks what is due."""

    def __init__(self, start_ns: int, period_ns: int) -> None:
        if period_ns <= 0:
            raise ValueError(f"a period of {period_ns} ns")
        self.start_ns = start_ns
        self.period_ns = period_ns
        self._next = 0

    @property
    def next_ns(self) -> int:
        return self.start_ns + self._next * self.period_ns

    def due(self, now_ns: int) -> range:
        """Times of all ticks up to now that have not been handed out. More than one: somebody was late."""
        if now_ns < self.next_ns:
            return range(0)
        first = self.next_ns
        self._next = (now_ns - self.start_ns) // self.period_ns + 1
        return range(first, self.next_ns, self.period_ns)
