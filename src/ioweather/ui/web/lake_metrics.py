"""Metrics of the lake for Prometheus: unhealthy components."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, cast

from ioweather.agent.exporter import gauges
from ioweather.core.errors import IoweatherError
from ioweather.core.units import MINUTE_NS, now_ns
from ioweather.job_io.outcomes import Unhealthy
from ioweather.topics.source import ask
from ioweather.ui.web.served_lake import Refreshed, ServedLake

if TYPE_CHECKING:
    from ioweather.diagnosis.health import HealthOutcome

KINDS: Final = ("slow", "stalled", "capped", "absent", "busy", "overloaded")
# An incident that ended less than this ago counts as current: rows arrive late.
_CURRENT_NS: Final = 30 * MINUTE_NS
_MOST_COMPONENTS: Final = 64
_MOST_FILESYSTEMS: Final = 8
_SECONDS: Final = 60.0


def lake_metrics(
    served: ServedLake, *, patience_seconds: float = 2.0, clock: Callable[[], int] = now_ns
) -> Callable[[], bytes]:
    """Return the function that renders the metrics of the lake; they are computed at most once a minute."""

    def read() -> tuple[Sequence[str], Sequence[Unhealthy]]:
        with served.lake.snapshot() as snapshot:
            filesystems = snapshot.filesystems()[:_MOST_FILESYSTEMS]
        return filesystems, cast("HealthOutcome", ask("health", served.lake).result).unhealthy

    state = Refreshed(read, _SECONDS, patience_seconds)

    def render() -> bytes:
        try:
            found = state.get()
        except IoweatherError:  # no lake yet, or one that cannot be read: said elsewhere
            found = None
        return b"" if found is None else "".join(collect(*found, clock())).encode()

    return render


def collect(filesystems: Sequence[str], unhealthy: Sequence[Unhealthy], moment: int) -> Iterator[str]:
    """Counts of unhealthy components by file system and kind, and the surest of them."""
    current = [each for each in unhealthy if each.end_ns is None or moment - each.end_ns <= _CURRENT_NS]
    homes = (*filesystems, *sorted({each.filesystem or "" for each in current} - set(filesystems)))
    counts = []
    for home in homes:
        for kind in KINDS:  # from 0 on, so that an alert ends
            there = {each.component for each in current if (each.filesystem or "", each.kind) == (home, kind)}
            counts.append(((home, kind), len(there)))
    text = "Number of servers and targets that are unhealthy now, by symptom."
    yield gauges("ioweather_unhealthy_components", text, ("filesystem", "kind"), counts)
    sure: dict[tuple[str, str, str], float] = {}
    for each in current:
        key = (each.filesystem or "", each.component or "", each.kind or "")
        sure[key] = max(sure.get(key, 0.0), each.probability or 0.0)
    surest = sorted(sure.items(), key=lambda item: (-item[1], item[0]))[:_MOST_COMPONENTS]
    text = "Probability that the component is unhealthy."
    yield gauges("ioweather_unhealthy_probability", text, ("filesystem", "component", "kind"), surest)
