"""What 'usual' means: the whole period, the time before, a period that somebody named, or values that they know.

One text says it, on the command line and in facility.toml alike.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from zoneinfo import ZoneInfo

from ioweather.core.clock import parse_time_ns
from ioweather.core.units import NS, format_seconds, format_time_ns, parse_duration_ns

FORMS = (
    "whole; a duration such as 7d (the time before each interval); FROM..TO; one of these after q10: (the 10% quantile "
    "in place of the median); or read=12ms,stat=1ms"
)
_QUANTILE = re.compile(r"q([1-9]\d?):(.+)")


@dataclass(frozen=True)
class Baseline:
    """At most one of the first three is set; none is the whole period. `quantile` of it is what is usual."""

    window_ns: int | None = None
    period_ns: tuple[int, int] | None = None
    seconds: Mapping[str, float] | None = None  # by operation; others are compared with the whole period
    quantile: float = 0.5

    @property
    def statistic(self) -> str:
        return "median" if self.quantile == 0.5 else f"{self.quantile:.0%} quantile"

    def __str__(self) -> str:
        if self.window_ns is not None:
            return f"the {format_seconds(self.window_ns / NS)} before each interval"
        if self.period_ns is not None:
            return " to ".join(format_time_ns(moment) for moment in self.period_ns)
        if self.seconds is not None:
            given = ", ".join(f"{op} {format_seconds(value)}" for op, value in self.seconds.items())
            return f"as given ({given}), for other operations the whole period"
        return "the whole period"


WHOLE = Baseline()


def parse_baseline(text: str, zone: ZoneInfo | None = None) -> Baseline:
    """ValueError, or an error about a missing zone, where the text is none of the forms."""
    stripped = text.strip()
    if found := _QUANTILE.fullmatch(stripped):
        whole = parse_baseline(found[2], zone)
        if whole.seconds is not None:
            raise ValueError(f"{text!r} is not a baseline: values that are given have no quantile")
        return replace(whole, quantile=int(found[1]) / 100)
    if stripped == "whole":
        return WHOLE
    if ".." in stripped:
        first, _, last = stripped.partition("..")
        period = (parse_time_ns(first, zone), parse_time_ns(last, zone))
        if period[1] <= period[0]:
            raise ValueError(f"the baseline {text!r} ends before it begins")
        return Baseline(period_ns=period)
    if "=" in stripped:
        pairs = [entry.partition("=") for entry in stripped.split(",")]
        seconds = {op.strip(): parse_duration_ns(value.strip()) / NS for op, _, value in pairs}
        if not all(value > 0 for value in seconds.values()):
            raise ValueError(f"the baseline {text!r} has an operation that takes no time")
        return Baseline(seconds=seconds)
    try:
        window_ns = parse_duration_ns(stripped)
    except ValueError:
        raise ValueError(f"{text!r} is not a baseline: expected {FORMS}") from None
    if window_ns <= 0:
        raise ValueError(f"a baseline of {text!r} has no length")
    return Baseline(window_ns=window_ns)
