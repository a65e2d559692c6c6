"""Metrics of the lake for Prometheus: unhealthy components, and who uses storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ioweather.agent.exporter import gauges
from ioweather.core.errors import IoweatherError
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, now_ns
from ioweather.job_io.outcomes import Talker, Unhealthy, WhoOutcome
from ioweather.topics.source import ask
from ioweather.ui.web import MAIN
from ioweather.ui.web.facilities import Facilities, Refreshed

if TYPE_CHECKING:
    from ioweather.diagnosis.health import HealthOutcome

KINDS: Final = ("slow", "stalled", "capped", "absent", "busy", "overloaded")
# An incident that ended less than this ago counts as current: rows arrive late.
_CURRENT_NS: Final = 30 * MINUTE_NS
# Users are reported for the last hour of rows, unless the rows are older than this.
_OLDEST_NS: Final = 2 * HOUR_NS
_MOST_COMPONENTS: Final = 64
_MOST_FILESYSTEMS: Final = 8
_MOST_USERS: Final = 10
_SECONDS: Final = 60.0
_PATIENCE_SECONDS: Final = 2.0


class LakeState(NamedTuple):
    """The state of the main lake at one moment; `users` by file system."""

    filesystems: tuple[str, ...]
    unhealthy: tuple[Unhealthy, ...]
    users: Mapping[str, WhoOutcome]


class LakeMetrics:
    """Metrics of the main lake, computed at most once a minute. `named`: whether names of users may be shown."""

    def __init__(self, facilities: Facilities, *, named: bool, clock: Callable[[], int] = now_ns) -> None:
        self._named = named
        self._clock = clock
        self._seen = Refreshed(lambda: read_state(facilities, clock()), _SECONDS, _PATIENCE_SECONDS)

    def render(self) -> bytes:
        return "".join(self.collect()).encode()

    def collect(self) -> Iterator[str]:
        try:
            seen = self._seen.get()
        except IoweatherError:  # no lake yet, or one that cannot be read: said elsewhere
            seen = None
        if seen is not None:
            yield from _of_components(seen, self._clock())
            yield from _of_users(seen.users, named=self._named)


def read_state(facilities: Facilities, moment: int) -> LakeState:
    """Read the state of the main lake."""
    lake = facilities.lake(MAIN)
    with lake.snapshot() as snapshot:
        filesystems = snapshot.filesystems()[:_MOST_FILESYSTEMS]
    health = cast("HealthOutcome", ask("health", lake).result)
    users = {}
    for filesystem in filesystems:
        try:
            found = ask("who", lake, {"filesystem": filesystem, "by": "user", "top": _MOST_USERS}).result
        except IoweatherError:
            continue
        assert isinstance(found, WhoOutcome)
        if moment - found.end_ns <= _OLDEST_NS:
            users[filesystem] = found
    return LakeState(filesystems, health.unhealthy, users)


def _of_components(seen: LakeState, moment: int) -> Iterator[str]:
    """Counts of unhealthy components by file system and kind, and the surest of them."""
    current = [each for each in seen.unhealthy if each.end_ns is None or moment - each.end_ns <= _CURRENT_NS]
    homes = (*seen.filesystems, *sorted({each.filesystem or "" for each in current} - set(seen.filesystems)))
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


_AMOUNTS: Final[tuple[tuple[str, str, Callable[[Talker], float]], ...]] = (
    ("bytes_per_second", "Bytes per second", lambda talker: talker.read_bytes + talker.write_bytes),
    ("metadata_operations_per_second", "Metadata operations per second", lambda talker: talker.metadata_operations),
)


def _of_users(found: Mapping[str, WhoOutcome], *, named: bool) -> Iterator[str]:
    """The ten that do most, by rank; by name only where names may be seen."""
    label = "user" if named else "rank"
    for name, words, amount in _AMOUNTS:
        values = []
        for filesystem, users in found.items():
            seconds = max((users.end_ns - users.start_ns) / NS, 1.0)
            ranked = sorted(users.talkers, key=amount, reverse=True)
            for rank, talker in enumerate(ranked, 1):
                value = amount(talker)
                who = (talker.user or "") if named else str(rank)
                if value > 0:
                    values.append(((filesystem, who), value / seconds))
        text = f"{words} of the top users, over the newest hour of data."
        yield gauges(f"ioweather_top_user_{name}", text, ("filesystem", label), values)
