"""How far "as now", "as usual" and the choice between them are off, and how often intervals hold.

    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py                    # a planted series of 12 weeks
    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py --lake DIR [--op write] [--of slowdown]

Every forecast uses earlier days only. Errors are mean absolute errors of logarithms. The planted series is AR(1) with a
daily wave: as now and as usual err as sqrt(2 (1 - r)) : 1, r the correlation at the horizon.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from ioweather.core.facility import Facility
from ioweather.core.units import DAY_NS, MIB, MINUTE_NS
from ioweather.facts.system_grid import facility_zone
from ioweather.lake.lake import open_lake
from ioweather.planning.forecast_model import (
    HORIZONS_NS,
    WINDOW_NS,
    History,
    forecast_answer,
    read_history,
    with_local_clock,
    without_maintenance,
)
from ioweather.planning.rolling_forecast import rolling_forecasts, rolling_intervals

RHO, WAVE, LEVEL, DAYS, PER_DAY = 0.97, 0.8, 6.0, 84, 288


def planted(seed: int = 2026) -> History:
    """A load whose logarithm is AR(1) with a daily wave."""
    n = DAYS * PER_DAY
    noise = np.random.default_rng(seed).standard_normal(n) * math.sqrt(1 - RHO**2)
    logarithm = LEVEL + lfilter([1.0], [1.0, -RHO], noise) + WAVE * np.sin(2 * np.pi * np.arange(n) / PER_DAY)
    return History("scratch", "load", "write", 20_000 * DAY_NS, WINDOW_NS, np.expm1(logarithm) * MIB)


def print_errors(history: History, facility: Facility) -> None:
    """Print a line for each horizon."""
    history = without_maintenance(history, facility)
    series = with_local_clock(history, facility_zone(facility)[0], HORIZONS_NS[-1])
    print(f"{history.title}, {len(history.values) * WINDOW_NS / DAY_NS:.0f} days")
    print("  ahead    as now  as usual  chosen  least possible of both  intervals held")
    for rolling in rolling_forecasts(series, tuple(horizon // WINDOW_NS for horizon in HORIZONS_NS)):
        scored, within = rolling.scored(), rolling_intervals(rolling)[2]
        now, usual, chosen = np.abs(rolling.point[:, scored] - rolling.truth[scored]).mean(axis=1)
        minutes, held = rolling.horizon * WINDOW_NS // MINUTE_NS, np.nanmean(within)
        print(f"  {minutes:3} min {now:8.3f} {usual:9.3f} {chosen:7.3f} {min(now, usual):12.3f} {held:25.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--of", default="load", choices=("load", "slowdown"))
    parser.add_argument("--op")
    options = parser.parse_args()
    history, facility = planted(), Facility()
    if options.lake is not None:
        with open_lake(options.lake).snapshot() as snapshot:
            asked = {"at": None, "filesystem": None, "window": WINDOW_NS, "of": options.of, "op": options.op}
            history, facility = read_history(snapshot, asked), snapshot.facility
    print_errors(history, facility)
    begun = time.process_time()
    print(forecast_answer(history, facility).headline)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"forecast, record, intervals and best start: {time.process_time() - begun:.2f} s of CPU; {used:.2f} GiB")


if __name__ == "__main__":
    main()
