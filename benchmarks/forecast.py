"""A year of 5-minute windows forecast and judged at seven horizons, against a refit of every day by least squares.

    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py                 # in memory: fit, evaluate, intervals
    OPENBLAS_NUM_THREADS=1 python benchmarks/forecast.py --lake          # through a lake of 1-minute samples
    python benchmarks/forecast.py --skill laptop:1 cluster:1             # skill and bursts on simulated facilities
    python benchmarks/forecast.py --skill ../shared/data/lmt/snx11025_2018-02-09T12.hdf5   # on twelve hours of Edison

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
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from ioweather.advice.forecast.answer import BURST_HORIZONS_NS, HORIZONS_NS, burst_outlook, forecast_answer
from ioweather.advice.forecast.horizons import (
    AHEAD_NS,
    History,
    KnownJobs,
    Outlook,
    Quantity,
    Seen,
    by_jobs,
    outlook,
    timed,
)
from ioweather.core.arrays import Floats
from ioweather.core.facility import Facility
from ioweather.core.frames import Text
from ioweather.core.results import Estimate
from ioweather.core.units import DAY_NS, MIB, MINUTE_NS
from ioweather.simulate.flows import Flow
from ioweather.simulate.job_stats import job_key
from ioweather.simulate.presets import for_days, preset_named
from ioweather.simulate.runs import Job
from ioweather.simulate.world import World
from ioweather.stats.analogues import Jobs, laid_out
from ioweather.stats.bursts import Load, burst_forecasts
from ioweather.stats.climatology import MEMORY_DAYS, climate_tables, hourly_means
from ioweather.stats.forecast import RIDGE_WINDOWS, daily_ridge, recent_means, rolling_forecasts
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
BURST_WINDOWS = tuple(ns // (5 * MINUTE_NS) for ns in BURST_HORIZONS_NS)


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


def skill(what: str, days: int | None) -> None:
    """How much smaller errors are than of the better reference, and whether the mean load of the next 5, 30, 120
    minutes will be above its 90th percentile: F1, Brier's skill, how many stretches that do not overlap were judged. By
    the load alone; with the jobs that are known, as the lake would have them; and by who knew what these jobs will
    move. A day or more: fitted each morning; less: each hour from the sixth on."""
    for op, seen, ways in recorded(Path(what)) if Path(what).exists() else simulated(what, days):
        quantity = Quantity("", "load", op)
        series = timed(seen, quantity, dt.UTC, AHEAD_NS)
        for way, jobs in ways.items():
            known = partial(foreseen if way == "knows" else by_jobs, jobs, seen, quantity)
            points: list[Outlook] = []
            if series.count < 2 * PER_DAY:
                refits, memory, horizons = np.arange(72, series.count, 12), PER_DAY, BURST_WINDOWS[:2]
            else:
                refits, memory, horizons = np.arange(0, series.count, PER_DAY), MEMORY_DAYS * PER_DAY, BURST_WINDOWS
                made = rolling_forecasts(series, horizons, known=known(horizons, mean=False))
                points = [outlook(each, seen, quantity) for each in made]
            means = known(horizons, mean=True)
            load = Load(seen.values, series.values, series.slot[: series.count] % 24)
            for place, horizon in enumerate(horizons):
                made_bursts = burst_forecasts(load, horizon, refits, memory, None if means is None else means[place])
                found = burst_outlook(made_bursts, seen)
                f1 = " | ".join(f"{score:.2f}" for score in found.f1)
                point = shown(points[place].skill) if points else "-"
                share = found.bursts / max(1, found.skill.n or 0)
                print(
                    f"| {Path(what).name} | {op} | {way} | {5 * horizon} min | {point} | {found.independent} | "
                    f"{share:.2f} | {f1} | {shown(found.skill)} |",
                    flush=True,
                )


def shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "-"
    between = "-" if estimate.low is None else f"{estimate.low:.2f} to {estimate.high:.2f}"
    return f"{estimate.value:.2f} ({between})"


def foreseen(
    jobs: KnownJobs | None, seen: History, quantity: Quantity, horizons: tuple[int, ...], *, mean: bool
) -> Floats:
    """As `by_jobs`, with what the jobs that are known did move."""
    assert jobs is not None
    every = seen.window_ns // jobs.step_ns
    work, count = jobs.work, len(seen.values)
    rows = np.flatnonzero(work.present & (work.window < count * every) & (work.window % every == every - 1))
    total = np.concatenate([[0.0], np.cumsum(work.amount)])
    own = np.bincount(work.window // every, work.amount / every, count)[:count]
    out = []
    for horizon in horizons:
        last, width = rows + horizon * every + 1, (horizon if mean else 1) * every
        amount = np.bincount(work.window[rows] // every, (total[last] - total[last - width]) / width, count)
        out.append([quantity.forward(amount), quantity.forward(amount + np.maximum(seen.values - own, 0.0))])
    return np.array(out)


Ways = Iterator[tuple[str, History, dict[str, KnownJobs | None]]]


def recorded(path: Path) -> Ways:
    with tempfile.TemporaryDirectory() as folder:
        lake = open_lake(Path(folder) / "lake", create=True)
        ingest(lake, [path])
        asked = {"of": "load", "at": None, "filesystem": None, "window": 5 * MINUTE_NS}
        with lake.snapshot() as snapshot:
            for op in OPS:
                found = history(snapshot, {**asked, "op": op})
                yield op, found.history, {"load": None}


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
    return KnownJobs(work, tuple(codes), seconds * 10**9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, help="default: a year; of a facility as its preset has it")
    parser.add_argument("--lake", action="store_true", help="write a lake first and read from it")
    parser.add_argument("--targets", type=int, default=16, help="with --lake: how many OSTs")
    parser.add_argument("--skill", nargs="+", metavar="PRESET:SEED|FILE", help="of facilities, or a file of LMT")
    options = parser.parse_args()
    if options.skill:
        print("| load | of | knows | ahead | skill | stretches | bursts | F1 as now | as usual | ours | burst skill |")
        print("|" + "---|" * 11)
        for what in options.skill:
            skill(what, options.days)
    elif options.lake:
        through_lake(options.days or 365, options.targets)
    else:
        in_memory(options.days or 365)
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB at most")


if __name__ == "__main__":
    main()
