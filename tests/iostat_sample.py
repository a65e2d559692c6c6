"""A small sample: some days of iostat text from a few file servers, with nights, bursts and a maintenance window.

Written in the layout of sysstat 12, from this module's own knowledge of it: it shares nothing with the reader.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from dataclasses import dataclass
from pathlib import Path

FIRST_DAY = dt.datetime(2026, 3, 2, tzinfo=dt.UTC)  # a Monday
MAINTENANCE = (dt.timedelta(days=1, hours=8), dt.timedelta(days=1, hours=12))
_HEADER = (
    "Device            r/s     rkB/s   rrqm/s  %rrqm r_await rareq-sz     w/s     wkB/s   wrqm/s  %wrqm w_await "
    "wareq-sz     d/s     dkB/s   drqm/s  %drqm d_await dareq-sz     f/s f_await  aqu-sz  %util"
)


@dataclass(frozen=True)
class Sample:
    folder: Path
    days: int
    servers: int
    facility_toml: str


def write_sample(folder: Path, *, days: int = 3, servers: int = 4, seed: int = 11) -> Sample:
    """One file per server, one report a minute."""
    folder.mkdir(parents=True, exist_ok=True)
    shared = random.Random(seed)
    bursts = _bursts(shared, days)
    for server in range(servers):
        _write_server(
            folder / f"oss{server + 1}.iostat.txt", f"oss{server + 1}", days, bursts, random.Random(seed + 1 + server)
        )
    start, end = (FIRST_DAY + offset for offset in MAINTENANCE)
    toml = f"""name = "Sample"
zone = "UTC"
simulated = true

[filesystem.scratch]
devices = ["oss*:sd*"]
peak_bytes_per_s = 4.0e9

[[maintenance]]
start = "{start.isoformat()}"
end = "{end.isoformat()}"
label = "firmware"
"""
    return Sample(folder, days, servers, toml)


def _bursts(rng: random.Random, days: int) -> list[tuple[float, float, float, bool]]:
    """(start minute, length, strength in MB/s, is a read) of jobs that everybody sees."""
    found = []
    minute = 0.0
    while minute < days * 1440:
        minute += rng.expovariate(1 / 45)
        found.append((minute, rng.lognormvariate(1.2, 0.8), rng.paretovariate(1.3) * 60, rng.random() < 0.6))
    return found


def _write_server(
    path: Path, host: str, days: int, bursts: list[tuple[float, float, float, bool]], rng: random.Random
) -> None:
    down = tuple(offset.total_seconds() / 60 for offset in MAINTENANCE)
    with path.open("w", encoding="utf-8") as file:
        file.write(_beginning(host, FIRST_DAY, rng))
        for minute in range(1, days * 1440 + 1):
            if down[0] < minute < down[1]:
                continue
            if minute == down[1]:  # the server is back, and iostat is started anew
                file.write(_beginning(host, FIRST_DAY + dt.timedelta(minutes=minute), rng))
                continue
            day_part = 0.6 + 0.4 * math.sin((minute / 1440 - 0.3) * 2 * math.pi)
            read = rng.gammavariate(2.0, 6.0 * day_part)
            write = rng.gammavariate(2.0, 4.0 * day_part)
            for start, length, strength, is_read in bursts:
                if start <= minute < start + length:
                    share = min(strength, 900.0) * rng.uniform(0.85, 1.15)
                    read, write = (read + share, write) if is_read else (read, write + share)
            file.write(_report(FIRST_DAY + dt.timedelta(minutes=minute), read, write, rng))


def _beginning(host: str, moment: dt.datetime, rng: random.Random) -> str:
    """Header, and the first report: the mean since boot, not a sample."""
    return f"Linux 6.1.0 ({host}) \t{moment:%Y-%m-%d} \t_x86_64_\t(32 CPU)\n\n" + _report(moment, 5.0, 3.0, rng)


def _report(moment: dt.datetime, read_mb: float, write_mb: float, rng: random.Random) -> str:
    reads, writes = read_mb * 4, write_mb * 3
    busy = min(100.0, (read_mb + write_mb) / 9.5)
    wait = 0.4 + busy / 25 * rng.uniform(0.8, 1.2)
    numbers = (
        f"{reads:9.2f} {read_mb * 1e3:9.2f} {0:8.2f} {0:6.2f} {wait:7.2f} {250:8.2f} "
        f"{writes:7.2f} {write_mb * 1e3:9.2f} {0:8.2f} {0:6.2f} {wait * 1.3:7.2f} {333.33:8.2f} "
        f"{0:7.2f} {0:9.2f} {0:8.2f} {0:6.2f} {0:7.2f} {0:8.2f} {0.1:7.2f} {0.5:7.2f} {wait / 5:7.2f} {busy:6.2f}"
    )
    return f"{moment:%Y-%m-%dT%H:%M:%S}+0000\n{_HEADER}\nsdb       {numbers}\n\n\n"
