"""A year of 5-minute windows forecast and judged at seven horizons.

    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py                 # in memory: forecasts, skill, intervals
    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py --lake          # through a lake of 1-minute samples

The planted series is AR(1) with a daily wave, so the skill that the best of all forecasts would have is known.
"""

from __future__ import annotations

import argparse
import math
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Text
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MIB, MINUTE_NS
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
from ioweather.planning.forecast_model import History, forecast_answer
from ioweather.topics.source import ask

RHO, WAVE, LEVEL = 0.97, 0.8, 6.0
START_NS = 20_000 * DAY_NS
PER_DAY = 288
OPS = ("read", "write", "all")
WINDOWS = (1, 6, 24)


def planted(days: int, per_day: int, rho: float, seed: int = 2026) -> Floats:
    """Logarithms of a load."""
    n = days * per_day
    noise = np.random.default_rng(seed).standard_normal(n) * math.sqrt(1 - rho**2)
    wave = WAVE * np.sin(2 * np.pi * np.arange(n) / per_day)
    return np.asarray(LEVEL + lfilter([1.0], [1.0, -rho], noise) + wave, np.float64)


def best_skill(minutes: float) -> float:
    """1 - sqrt(1 - r^2) / min(1, sqrt(2 (1 - r))), r the correlation at that distance."""
    r = RHO ** (minutes / 5)
    return 1 - math.sqrt(1 - r * r) / min(1.0, math.sqrt(2 * (1 - r)))


def in_memory(days: int) -> None:
    values = planted(days, PER_DAY, RHO)
    history = History("scratch", "load", "write", START_NS, 5 * MINUTE_NS, np.expm1(values) * MIB)
    begun = time.process_time()
    answer = forecast_answer(history, Facility())
    whole = time.process_time() - begun
    print(answer.headline)
    table = answer.exhibits[0].tables[0]
    columns = [table.column(name) for name in ("horizon", "skill", "skill_low", "skill_high", "coverage")]
    print("  ahead   skill (90% interval)        best possible   intervals held")
    for horizon, skill, low, high, held in zip(*columns, strict=True):
        minutes = float(horizon or 0) / MINUTE_NS
        print(
            f"  {minutes:3.0f} min {skill or 0:6.3f} ({low or 0:.3f} to {high or 0:.3f})     "
            f"{best_skill(minutes):6.3f}          {held or 0:.3f}"
        )
    print(f"{days} days, forecast, judged, with intervals and best start: {whole:.2f} s of CPU")


def through_lake(days: int, targets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(Path(folder) / "lake", create=True)
        minutes = np.exp(planted(days, 1440, RHO ** (1 / 5))) * MIB * 60
        for first in range(0, days, 14):
            count = min(14, days - first) * 1440
            amount = np.repeat(minutes[first * 1440 : first * 1440 + count] / targets, targets)
            times = START_NS + (first * 1440 + np.arange(count, dtype=np.int64)) * MINUTE_NS
            codes = np.tile(np.arange(targets, dtype=np.int32), count)
            for metric in ("read_bytes", "write_bytes"):
                rows = TABLES["series"].frame(
                    rows=len(amount), start_ns=np.repeat(times, targets), interval_ns=MINUTE_NS, system="scratch",
                    component_kind="ost", component=Text(codes, tuple(f"OST{i:04x}" for i in range(targets))),
                    metric=metric, value=amount, quality=0,
                )  # fmt: skip
                lake.append("series", rows, source="lmt")
        compact(lake, everything=True)
        begun, clock = time.process_time(), time.perf_counter()
        answer = ask("forecast", lake, {"op": "write"})
        cpu, seconds = time.process_time() - begun, time.perf_counter() - clock
    print(answer.headline)
    print(f"{days} days of 1-minute samples of {targets} targets: {cpu:.1f} s of CPU, {seconds:.1f} s by the clock")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, help="default: a year")
    parser.add_argument("--lake", action="store_true", help="write a lake first and read from it")
    parser.add_argument("--targets", type=int, default=16, help="with --lake: how many OSTs")
    options = parser.parse_args()
    if options.lake:
        through_lake(options.days or 365, options.targets)
    else:
        in_memory(options.days or 365)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most")


if __name__ == "__main__":
    main()
