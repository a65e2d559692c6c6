"""What a facility shares: storage targets, their servers, the metadata server, the network; their capacities."""

from __future__ import annotations

import datetime as dt
import zlib
from dataclasses import dataclass
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
