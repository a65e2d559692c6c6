"""A year of 5-minute windows forecast and judged at seven horizons, against a refit of every day by least squares.

    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py                 # in memory: fit, evaluate, intervals
    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py --lake          # through a lake of 1-minute samples
    python benchmarks/forecast.py --bursts laptop:1 cluster:1            # bursts on simulated facilities, preset:seed
    python benchmarks/forecast.py --bursts ../shared/data/lmt/snx11025_2018-02-09T12.hdf5   # on twelve hours of Edison

The planted series is AR(1) with a daily wave, so the skill that the best of all forecasts would have is known. The peer
does the regression alone, without medians, blend and intervals: every day and horizon anew on the same eight weeks, by
scikit-learn's Ridge where it is installed, else by NumPy's lstsq; on some days, scaled up.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from ioweather.advice.forecast.answer import (
    BURST_HORIZONS_NS,
    HORIZONS_NS,
    BurstOutlook,
    burst_outlook,
    burst_outlooks,
    forecast_answer,
)
from ioweather.advice.forecast.horizons import History, Quantity, timed
from ioweather.core.arrays import Floats
from ioweather.core.facility import Facility
from ioweather.core.frames import Text
from ioweather.core.units import DAY_NS, MIB, MINUTE_NS
from ioweather.simulate.presets import for_days, preset_named
from ioweather.simulate.world import World
from ioweather.stats.bursts import burst_forecasts
from ioweather.stats.climatology import MEMORY_DAYS, climate_tables, hourly_means
from ioweather.stats.forecast import RIDGE_WINDOWS, Timed, daily_ridge, recent_means
from ioweather.store.lake import open_lake
from ioweather.store.seal import compact
from ioweather.tables import TABLES
from ioweather.workflows.ask import ask
from ioweather.workflows.forecast import history
from ioweather.workflows.ingest.ingest import ingest

RHO, WAVE, LEVEL = 0.97, 0.8, 6.0
START_NS = 20_000 * DAY_NS
PER_DAY = 288
PEER_DAYS = 12
OPS = ("read", "write", "all")


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


def regression_inputs(values: Floats, horizon: int) -> tuple[Floats, Floats, NDArray[np.int64], NDArray[np.int64]]:
    """Features, targets, the day of each window and of its target: the same for us and for the peer."""
    count = len(values)
    minute = np.arange(count + horizon) * 5
    day = minute // 1440
    slot = (day + 3) % 7 * 24 + minute // 60 % 24
    tables = climate_tables(hourly_means(values, day[:count], slot[:count]))
    usual = tables[day[:count], slot[horizon:]]
    truth = np.concatenate([values[horizon:], np.full(horizon, np.nan)])
    recent = recent_means(values - tables[day[:count], slot[:count]], 5.0)
    features = np.column_stack([np.ones(count), recent, usual - tables.mean(axis=1)[day[:count]]])
    return features, truth - usual, day[:count], day[horizon:]


def peer_fit(x: Floats, y: Floats) -> Floats:
    try:
        from sklearn.linear_model import Ridge
    except ImportError:
        penalty = math.sqrt(RIDGE_WINDOWS * x[:, 1].var()) * np.diag([0.0, *[1.0] * (x.shape[1] - 1)])
        rows, targets = np.vstack([x, penalty]), np.concatenate([y, np.zeros(x.shape[1])])
        return np.asarray(np.linalg.lstsq(rows, targets, rcond=None)[0])
    model = Ridge(alpha=RIDGE_WINDOWS * x[:, 1].var()).fit(x[:, 1:], y)
    return np.asarray([model.intercept_, *model.coef_])


def regressions(values: Floats) -> tuple[float, float, float]:
    """CPU seconds of all days' regressions at seven horizons: ours, the peer's; largest difference of a coefficient."""
    ours = peer = off = 0.0
    for horizon_ns in HORIZONS_NS:
        horizon = horizon_ns // (5 * MINUTE_NS)
        features, target, day, target_day = regression_inputs(values, horizon)
        begun = time.process_time()
        found = daily_ridge(features, target, day, target_day, MEMORY_DAYS, 5.0)
        ours += time.process_time() - begun
        days = int(day[-1]) + 1
        usable = np.isfinite(features).all(axis=1) & np.isfinite(target)
        chosen = np.linspace(MEMORY_DAYS + 2, days - 1, PEER_DAYS).astype(int)
        for today in chosen:
            rows = usable & (target_day < today) & (target_day >= today - MEMORY_DAYS)
            begun = time.process_time()
            beta = peer_fit(features[rows], target[rows])
            peer += (time.process_time() - begun) * (days - 3) / PEER_DAYS
            off = max(off, float(np.abs(beta - found[today]).max()))
    return ours, peer, off


def in_memory(days: int) -> None:
    values = planted(days, PER_DAY, RHO)
    history = History(START_NS, 5 * MINUTE_NS, np.expm1(values) * MIB)
    begun = time.process_time()
    answer = forecast_answer(history, Quantity("scratch", "load", "write"), Facility())
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
    ours, peer, off = regressions(values)
    print(f"{days} days, forecast, judged, with intervals and best start: {whole:.2f} s of CPU")
    print(f"regressions alone: {ours:.2f} s of CPU; the peer {peer:.1f} s, {peer / ours:.0f} times as long")
    print(f"largest difference of a coefficient: {off:.1e}")


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


def bursts(what: str, days: int | None) -> None:
    """Is the mean load of the next 5, 30, 120 minutes above its 90th percentile? F1, Brier's skill, and how many
    stretches that do not overlap were judged. A day or more: fitted each morning; less: each hour from the sixth on."""
    for op, seen in (recorded(Path(what)) if Path(what).exists() else simulated(what, days)).items():
        series = timed(seen, Quantity("", "load", op), dt.UTC, BURST_HORIZONS_NS[-1])
        for each in _hourly(seen, series) if series.count < 2 * PER_DAY else burst_outlooks(seen, series):
            f1, skill = " | ".join(f"{score:.2f}" for score in each.f1), each.skill
            between = "-" if skill.low is None else f"{skill.low:.2f} to {skill.high:.2f}"
            value = "-" if skill.value is None else f"{skill.value:.2f}"
            print(
                f"| {Path(what).name} | {op} | {each.horizon_ns // MINUTE_NS} min | {each.independent} | "
                f"{each.bursts / max(1, skill.n or 0):.2f} | {f1} | {value} ({between}) |",
                flush=True,
            )


def recorded(path: Path) -> dict[str, History]:
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(Path(folder) / "lake", create=True)
        ingest(lake, [path])
        asked = {"of": "load", "at": None, "filesystem": None, "window": 5 * MINUTE_NS}
        with lake.snapshot() as snapshot:
            return {op: history(snapshot, {**asked, "op": op}).history for op in OPS}


def simulated(what: str, days: int | None) -> dict[str, History]:
    """What the servers' meters of a facility show, without writing its files."""
    preset, _, seed = what.partition(":")
    chosen = preset_named(preset) if days is None else for_days(preset_named(preset), days)
    found: dict[str, list[Floats]] = {op: [] for op in OPS}
    for window in World(chosen, int(seed or 1)).windows():
        moved = window.readings
        steps = 300 // moved.step_seconds
        by_target = (moved.read_bytes, moved.write_bytes)
        read, write = (amount.sum(axis=1).reshape(-1, steps).sum(axis=1) for amount in by_target)
        for op, amount in zip(OPS, (read, write, read + write), strict=True):
            found[op].append(amount / 300)
    return {op: History(START_NS, 5 * MINUTE_NS, np.concatenate(parts)) for op, parts in found.items()}


def _hourly(seen: History, series: Timed) -> list[BurstOutlook]:
    refits, hour = np.arange(72, series.count, 12), series.slot[: series.count] % 24
    made = (burst_forecasts(series.values, hour, ns // seen.window_ns, refits, 288) for ns in BURST_HORIZONS_NS[:2])
    return [burst_outlook(each, seen) for each in made]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, help="default: a year; of a facility as its preset has it")
    parser.add_argument("--lake", action="store_true", help="write a lake first and read from it")
    parser.add_argument("--targets", type=int, default=16, help="with --lake: how many OSTs")
    parser.add_argument("--bursts", nargs="+", metavar="PRESET:SEED|FILE", help="bursts: facilities, or a file of LMT")
    options = parser.parse_args()
    if options.bursts:
        print("| load | of | ahead | stretches | bursts | F1 as now | as usual | ours | skill (90% interval) |")
        print("|" + "---|" * 9)
        for what in options.bursts:
            bursts(what, options.days)
    elif options.lake:
        through_lake(options.days or 365, options.targets)
    else:
        in_memory(options.days or 365)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most")


if __name__ == "__main__":
    main()
