"""A year of 5-minute windows forecast and judged at seven horizons.

    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py                 # in memory: forecasts, skill, intervals
    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py --lake          # through a lake of 1-minute samples
    python benchmarks/forecast.py --skill laptop:1 cluster:1             # skill on simulated facilities

The planted series is AR(1) with a daily wave, so the skill that the best of all forecasts would have is known.
"""

from __future__ import annotations

import argparse
import datetime as dt
import math
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

from ioweather.core.arrays import Floats
from ioweather.core.facility import Facility
from ioweather.core.frames import Text
from ioweather.core.results import Estimate
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, MIB, MINUTE_NS
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
from ioweather.planning.forecast_model import (
    AHEAD_NS,
    History,
    KnownJobs,
    Quantity,
    Seen,
    by_jobs,
    forecast_answer,
    outlook,
    timed,
)
from ioweather.simulate.fluid import Flow
from ioweather.simulate.monitoring import job_key
from ioweather.simulate.presets import for_days, preset_named
from ioweather.simulate.world import Job, World
from ioweather.stats.forecast import Jobs, laid_out, rolling_forecasts
from ioweather.topics.ask import ask

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
    history = History(START_NS, 5 * MINUTE_NS, np.expm1(values) * MIB)
    begun = time.process_time()
    answer = forecast_answer(Seen(Quantity("scratch", "load", "write"), history), Facility())
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


def skill(what: str, days: int | None) -> None:
    """How much smaller errors are than of the better reference, 5, 30 and 120 minutes ahead: by the load alone, with
    the jobs that are known, as the lake would have them, and by a forecast that knows what these jobs will move."""
    for op, seen, ways in simulated(what, days):
        quantity = Quantity("", "load", op)
        series = timed(seen, quantity, dt.UTC, AHEAD_NS)
        for way, jobs in ways.items():
            known = (foreseen if way == "knows" else by_jobs)(jobs, seen, quantity, WINDOWS)
            for horizon, rolling in zip(WINDOWS, rolling_forecasts(series, WINDOWS, known), strict=True):
                found = shown(outlook(rolling, seen, quantity).skill)
                print(f"| {what} | {op} | {way} | {5 * horizon} min | {found} |", flush=True)


def shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    between = "-" if estimate.low is None else f"{estimate.low:.2f} to {estimate.high:.2f}"
    return f"{estimate.value:.2f} ({between})"


def foreseen(jobs: KnownJobs | None, seen: History, quantity: Quantity, horizons: tuple[int, ...]) -> Floats:
    """As `by_jobs`, with what the jobs that are known did move."""
    assert jobs is not None
    every = seen.window_ns // jobs.step_ns
    work, count = jobs.work, len(seen.values)
    rows = np.flatnonzero(work.present & (work.window < count * every) & (work.window % every == every - 1))
    total = np.concatenate([[0.0], np.cumsum(work.amount)])
    own = np.bincount(work.window // every, work.amount / every, count)[:count]
    out = []
    for horizon in horizons:
        last, width = rows + horizon * every + 1, every
        amount = np.bincount(work.window[rows] // every, (total[last] - total[last - width]) / width, count)
        out.append(quantity.forward(amount + np.maximum(seen.values - own, 0.0)))
    return np.array(out)


Ways = Iterator[tuple[str, History, dict[str, KnownJobs | None]]]


class Counter:
    """What each job moves in steps of so many seconds, by (job, step, read or write): a watcher of the model."""

    def __init__(self, world: World, seconds: int) -> None:
        self.osts, self.moved = world.resources.osts, defaultdict[tuple[str, int, str], float](float)
        self.seconds = seconds
        world.fluid.watcher = self.watch

    def watch(self, now: float, until: float, flows: list[Flow], pace: Floats) -> None:
        for flow, speed in zip(flows, pace.tolist(), strict=True):
            rate = 0.0 if flow.kind == "meta" else speed * float(flow.pattern.demand[: self.osts].sum())
            self.spread(job_key(flow), flow.kind, now, until, rate * flow.moved_ratio)

    def spread(self, key: str, kind: str, start: float, end: float, rate: float) -> None:
        for step in range(int(start // self.seconds), int(-(-end // self.seconds))):
            span = min(end, (step + 1) * self.seconds) - max(start, step * self.seconds)
            self.moved[key, step, kind] += span * rate / self.seconds


def simulated(what: str, days: int | None) -> Ways:
    """What the servers' meters of a facility show, without writing its files, and what is known of its jobs: where
    servers count jobs by these, else by logs, which tell of files opened again the first and the last moment."""
    preset, _, seed = what.partition(":")
    chosen = preset_named(preset) if days is None else for_days(preset_named(preset), days)
    world = World(chosen, int(seed or 1))
    counter, logged = Counter(world, 60), Counter(World(chosen, 0), 300)
    jobs: list[Job] = []
    parts: dict[str, list[Floats]] = {"read": [], "write": []}
    for window in world.windows():
        jobs += window.jobs
        for kind, amount in (("read", window.readings.read_bytes), ("write", window.readings.write_bytes)):
            parts[kind].append(amount.sum(axis=1).reshape(-1, 300 // window.readings.step_seconds).sum(axis=1) / 300)
        for run in window.runs:
            data = [phase.flow for phase in run.phases if phase.name != "meta"]
            if run.program.layout == "unique":  # in every step the same files
                data = [replace(data[0], end=data[-1].end)] if data else []
            for flow in data if run.job.darshan else ():
                steps = run.program.steps if run.program.layout == "unique" else 1
                rate = run.program.step_bytes * steps / max(1e-3, flow.end - flow.start)
                logged.spread(str(run.job.number), flow.kind, flow.start, flow.end, rate)
    jobs += world.open_jobs()
    loads = {kind: np.concatenate(part) for kind, part in parts.items()}
    for op, kinds in zip(OPS, (("read",), ("write",), ("read", "write")), strict=True):
        load = np.sum([loads[kind] for kind in kinds], axis=0)
        counted = _known(jobs, counter, kinds, len(load), live=True)
        ways = {
            "load": None,
            "jobs": counted if chosen.job_stats else _known(jobs, logged, kinds, len(load), live=False),
        }
        yield op, History(START_NS, 5 * MINUTE_NS, load), {**ways, "knows": counted}


def _known(jobs: list[Job], counter: Counter, kinds: tuple[str, ...], windows: int, *, live: bool) -> KnownJobs:
    seconds = counter.seconds
    numbers = {str(job.number): place for place, job in enumerate(jobs)}
    programs = [job.program.name for job in jobs]
    moved = [(key, window, amount) for (key, window, kind), amount in counter.moved.items() if kind in kinds]
    for key, _, _ in moved:
        if key not in numbers:
            numbers[key] = len(programs)
            programs.append(key.partition(".")[0])
    codes = {name: code for code, name in enumerate(dict.fromkeys(programs))}
    rest = [math.nan] * (len(programs) - len(jobs))
    submitted, began, ended = (
        np.array([*(math.inf if moment is None else moment / seconds for moment in moments), *rest])
        for moments in zip(*((job.submit, job.start, job.end) for job in jobs), strict=True)
    )
    table = Jobs(submitted, began, ended, np.array([codes[name] for name in programs]))
    job, window, amount = (np.array(part) for part in zip(*((numbers[key], w, a) for key, w, a in moved), strict=True))
    work = laid_out(table, (job, window, amount), windows * 300 // seconds, 7200 // seconds, live=live)
    return KnownJobs(work, seconds * 10**9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, help="default: a year; of a facility as its preset has it")
    parser.add_argument("--lake", action="store_true", help="write a lake first and read from it")
    parser.add_argument("--targets", type=int, default=16, help="with --lake: how many OSTs")
    parser.add_argument("--skill", nargs="+", metavar="PRESET:SEED", help="of simulated facilities")
    options = parser.parse_args()
    if options.skill:
        print("| load | of | knows | ahead | skill |")
        print("|" + "---|" * 5)
        for what in options.skill:
            skill(what, options.days)
    elif options.lake:
        through_lake(options.days or 365, options.targets)
    else:
        in_memory(options.days or 365)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most")


if __name__ == "__main__":
    main()
