"""Targets, servers and the network of a simulated facility, its calendar, and incidents that reduce capacities."""

from __future__ import annotations

import datetime as dt
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.simulate.presets import Preset

# A server passes somewhat more than its targets hold, the network somewhat less than all of them.
_SERVER_MARGIN = 1.2
_NETWORK_SHARE = 0.9
# pat19.fig10: the busiest target reads 2.5 times what the idlest does, but writes only 15% more.
_POPULARITY_SHAPE, _PLACEMENT_SHAPE = 20.0, 800.0


def stream(seed: int, *names: str | int) -> np.random.Generator:
    """A generator of its own for each purpose: what one part draws does not move what another does."""
    words = [seed, *(n if isinstance(n, int) else zlib.crc32(n.encode()) for n in names)]
    return np.random.default_rng(np.random.SeedSequence(words))


@dataclass(frozen=True, eq=False)
class Resources:
    """Columns of the model: the targets, then their servers, the metadata server, the network.

    `capacity` is bytes per second, of the metadata server operations per second.
    """

    osts: int
    servers: int
    server_of: Ints
    capacity: Floats
    fsname: str
    # The chance of each target to be chosen: new files are laid almost evenly, popular old ones lie where they lie.
    popularity: Floats
    placement: Floats
    first_server: int = 0

    @property
    def mds(self) -> int:
        return self.osts + self.servers

    @property
    def network(self) -> int:
        return self.osts + self.servers + 1

    @property
    def count(self) -> int:
        return self.osts + self.servers + 2

    def ost_name(self, ost: int) -> str:
        return f"{self.fsname}-OST{ost:04x}"

    def oss_name(self, server: int) -> str:
        return f"oss{self.first_server + server + 1:03d}"

    @property
    def ost_names(self) -> tuple[str, ...]:
        return tuple(self.ost_name(i) for i in range(self.osts))

    @property
    def oss_names(self) -> tuple[str, ...]:
        return tuple(self.oss_name(i) for i in range(self.servers))

    def partner(self, server: int) -> int:
        """The other server of the pair, which takes over; the last of an odd number has none."""
        other = server ^ 1
        return other if other < self.servers else server

    def name(self, column: int) -> str:
        if column < self.osts:
            return self.ost_name(column)
        if column < self.mds:
            return self.oss_name(column - self.osts)
        return f"{self.fsname}-MDT0000" if column == self.mds else "network"


def make_resources(preset: Preset, seed: int) -> Resources:
    rng = stream(seed, "resources")
    servers = preset.oss_count
    server_of = np.arange(preset.osts) // preset.osts_per_oss
    per_server = np.bincount(server_of, minlength=servers) * preset.ost_bytes_per_s * _SERVER_MARGIN
    total = preset.osts * preset.ost_bytes_per_s * _NETWORK_SHARE
    others = [preset.mds_ops_per_s, total]
    capacity = np.concatenate([np.full(preset.osts, preset.ost_bytes_per_s), per_server, others])
    read, new = (rng.gamma(shape, 1.0, preset.osts) for shape in (_POPULARITY_SHAPE, _PLACEMENT_SHAPE))
    if preset.pool_osts is not None:
        outside = stream(seed, "pool").permutation(preset.osts)[preset.pool_osts :]
        read[outside] = new[outside] = 0.0
    chances = read / read.sum(), new / new.sum()
    return Resources(preset.osts, servers, server_of, capacity, preset.fsname, *chances, preset.first_server)


@dataclass(frozen=True)
class Calendar:
    """Time of the facility in seconds since `start`, which is midnight in its zone."""

    start: int
    zone: ZoneInfo

    def midnight(self, day: int) -> int:
        """Seconds since the start at which a local day begins; days are not all 24 h long."""
        date = dt.datetime.fromtimestamp(self.start, self.zone).date() + dt.timedelta(days=day)
        return round(dt.datetime.combine(date, dt.time(), self.zone).timestamp()) - self.start

    def at(self, day: int, hour: float) -> float:
        return self.midnight(day) + hour * 3600.0

    def weekday(self, day: int) -> int:
        return (dt.datetime.fromtimestamp(self.start, self.zone).date() + dt.timedelta(days=day)).weekday()

    def local(self, seconds: float) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.start + seconds, self.zone)

    def epoch_ns(self, seconds: float) -> int:
        whole = int(seconds)
        return (self.start + whole) * 10**9 + round((seconds - whole) * 1e9)


def make_calendar(preset: Preset) -> Calendar:
    zone = ZoneInfo(preset.zone)
    first = dt.datetime.combine(dt.date.fromisoformat(preset.first_day), dt.time(), zone)
    return Calendar(round(first.timestamp()), zone)


IncidentKind: TypeAlias = Literal["slow_ost", "raid_rebuild", "mds_overload", "failed_oss", "full_ost", "network_cap"]
KINDS: tuple[IncidentKind, ...] = get_args(IncidentKind)
# Hours, and the share of the capacity that is left; of an overload, the demand in capacities of the server.
_HOURS = {"slow_ost": (6, 14), "raid_rebuild": (10, 24), "mds_overload": (1, 4), "failed_oss": (3, 10),
          "full_ost": (8, 20), "network_cap": (2, 6)}  # fmt: skip
_STRENGTH = {"slow_ost": (0.08, 0.25), "raid_rebuild": (0.4, 0.6), "mds_overload": (2.0, 6.0),
             "failed_oss": (0.45, 0.55), "full_ost": (0.25, 0.5), "network_cap": (0.15, 0.35)}  # fmt: skip
# Until the partner has taken over, nobody is served.
_FAILOVER_SECONDS = 240.0
_FAILOVER_HEALTH = 0.01
# A target that is full has no room for new files: login nodes and services turn elsewhere too.
OF_TARGETS = ("slow_ost", "raid_rebuild", "full_ost")


@dataclass(frozen=True)
class Incident:
    """`strength` is the share of the capacity that is left, or, of an overload, the extra demand in capacities."""

    id: str
    kind: IncidentKind
    start: float
    end: float
    strength: float
    columns: tuple[int, ...]
    component: str

    def moments(self) -> tuple[float, ...]:
        """When the state of the facility changes by it."""
        between = (self.start + _FAILOVER_SECONDS,) if self.kind == "failed_oss" else ()
        return (self.start, *between, self.end)

    def silent(self) -> tuple[float, float] | None:
        """When its targets report nothing."""
        return (self.start, self.start + _FAILOVER_SECONDS) if self.kind == "failed_oss" else None

    def apply(self, now: float, health: Floats, storm: Floats, capacity: Floats) -> None:
        if not self.start <= now < self.end:
            return
        columns = list(self.columns)
        if self.kind == "mds_overload":
            storm[columns] += self.strength * capacity[columns]
        elif self.kind == "failed_oss" and now < self.start + _FAILOVER_SECONDS:
            health[columns] *= _FAILOVER_HEALTH
        else:
            health[columns] *= self.strength

    def severity(self) -> float:
        """How much it stretches what it touches, for dividing a loss among incidents at one time."""
        return self.strength if self.kind == "mds_overload" else 1.0 / self.strength - 1.0


def make_incidents(preset: Preset, resources: Resources, calendar: Calendar, seed: int) -> tuple[Incident, ...]:
    """About `incidents_per_week`, one of each kind in turn, spread so that the first and last hours are quiet."""
    rng = stream(seed, "incidents")
    length = preset.days * 86400.0
    count = max(1 if preset.incidents_per_week else 0, round(preset.incidents_per_week * preset.days / 7))
    order = [KINDS[i % len(KINDS)] for i in range(count)]
    rng.shuffle(order)
    beside = "" if preset.cluster in ("", preset.fsname) else f"{preset.fsname}-"
    found = []
    for number, kind in enumerate(order):
        low, high = _HOURS[kind]
        # In working hours of its own slice of the period, so that there are runs to feel it.
        slot = length / count
        hours = min(float(rng.uniform(low, high)), 0.8 * slot / 3600)
        start = number * slot + float(rng.uniform(0.02, 0.18)) * slot
        component, columns = _place(kind, resources, rng)
        strength = float(rng.uniform(*_STRENGTH[kind]))
        # Whole minutes: what is planted on the grid of the servers can be found on it.
        start, end = (float(round(moment / 60) * 60) for moment in (start, start + hours * 3600))
        found.append(Incident(f"{beside}incident-{number + 1:03d}", kind, start, end, strength, columns, component))
    return tuple(found)


def _place(kind: str, resources: Resources, rng: np.random.Generator) -> tuple[str, tuple[int, ...]]:
    if kind == "mds_overload":
        return resources.name(resources.mds), (resources.mds,)
    if kind == "network_cap":
        return resources.name(resources.network), (resources.network,)
    if kind == "failed_oss":
        server = int(rng.integers(resources.servers))
        pair = {server, resources.partner(server)}
        # The partner serves both: all targets of the pair get half.
        targets = tuple(int(i) for i in np.flatnonzero(np.isin(resources.server_of, list(pair))))
        return resources.oss_name(server), targets
    ost = int(rng.integers(resources.osts))
    return resources.ost_name(ost), (ost,)


def failed_targets(incident: Incident, resources: Resources) -> list[int]:
    """Targets of the server that failed (not its partner's)."""
    server = resources.oss_names.index(incident.component)
    return [int(i) for i in np.flatnonzero(resources.server_of == server)]


def state_at(incidents: Sequence[Incident], now: float, resources: Resources) -> tuple[Floats, Floats]:
    """(health, storm) of all resources at a moment."""
    health, storm = np.ones(resources.count), np.zeros(resources.count)
    for incident in incidents:
        incident.apply(now, health, storm, resources.capacity)
    return health, storm


def divided(seconds: float, start: float, end: float, used: Floats, incidents: Sequence[Incident]) -> dict[str, float]:
    """A loss by incidents between those that touched the flow, by overlap and severity."""
    weights = {}
    for incident in incidents:
        overlap = min(end, incident.end) - max(start, incident.start)
        if overlap > 0 and any(used[column] > 0 for column in incident.columns):
            weights[incident.id] = overlap * max(incident.severity(), 1e-6)
    total = sum(weights.values())
    return {name: seconds * weight / total for name, weight in weights.items()} if total > 0 else {}


class Felt:
    """How much an incident really stretched what it touched: a lame target that nobody uses harms nobody."""

    def __init__(self, incidents: Sequence[Incident]) -> None:
        self._sums = {incident.id: (np.zeros(len(incident.columns)), 0) for incident in incidents}
        self._incidents = incidents

    def add(self, times: Floats, stretch: Floats) -> None:
        for incident in self._incidents:
            during = np.flatnonzero((times >= incident.start) & (times < incident.end))
            total, count = self._sums[incident.id]
            if len(during):
                columns = stretch[np.ix_(during, np.array(incident.columns))]
                self._sums[incident.id] = (total + columns.sum(axis=0), count + len(during))

    def mean(self, incident: Incident) -> float | None:
        """Mean stretch of the most stretched of its components."""
        total, count = self._sums[incident.id]
        return float(total.max() / count) if count else None
