"""How often accusations are right at a site that works unlike the product's simulator.

    python benchmarks/other_site.py [--cases control release throttle ...] [--weeks 8] [--seed 1]

A site has ten programs of four users on twelve targets. A run takes bytes from its targets minute by minute: each
gives what background work leaves of it, the client at most its own rate. So the effect of load is a limit, not a
factor. Each case adds a cause that the model of the product does not have:

    control    nothing else
    release    all clients become 1.6 times slower on a day on which one program changes its requests, without harm
    throttle   one user's runs are limited to 40% of their rate from a day on, on which one program of this user changes
    aging      all targets lose 40% of their speed in the course of the time; changes come in the second half
    backup     every night all targets are read; all changes are made by jobs of the night
    tails      one run in eight takes longer for no reason, by a factor with a Pareto tail of exponent 1.2
    network    six times the network is limited for hours: servers look idle, probes are slow

Every run with a change is judged from a pool of runs, as `why` judges it. A change costs J: the run's time less its
time without the change, at the same moment. An accusation (you, both) is right if J >= h. The peer accuses every run
with a change that is 15% slower than the median of its program.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from ioweather.core.frames import Floats, Frame
from ioweather.core.tables import encode_text
from ioweather.core.units import MIB, MINUTE_NS
from ioweather.diagnosis.comparison_pool import make_pool, select_runs
from ioweather.diagnosis.verdict import judge

CASES = ("control", "release", "throttle", "aging", "backup", "tails", "network")
DAYS, TARGETS, PROGRAMS, RUNS = 14, 12, 10, 40
MINUTES = DAYS * 1440
TARGET_RATE = 500.0 * MIB * 60  # bytes per minute
HARM = 0.15
SURE = 0.9
# Name, factor of request size, of files, requests out of order, syncs per file; costs: of data, of metadata.
CHANGES = (
    ("larger requests", 4.0, 1.0, 0.0, 0.0, (1.0, 1.0), (1.0, 1.0)),
    ("smaller requests", 1 / 16, 1.0, 0.0, 0.0, (1.0, 3.0), (1.0, 1.0)),
    ("more files", 1.0, 4.0, 0.0, 0.0, (1.0, 1.1), (2.0, 5.0)),
    ("random order", 1.0, 1.0, 0.6, 0.0, (1.0, 2.0), (1.0, 1.0)),
    ("syncs", 1.0, 1.0, 0.0, 8.0, (1.0, 3.0), (1.0, 1.2)),
)


@dataclass(frozen=True)
class Program:
    user: int
    bytes: float
    width: int
    client_rate: float
    metadata_minutes: float
    request: float
    files: int
    costs: tuple[tuple[float, float], ...]  # of each change, on data and on metadata


def background(rng: np.random.Generator) -> Floats:
    """(minute, target) share of each target that others use: bursts of some hours on some targets, and the day."""
    load = 0.12 + 0.1 * np.sin(2 * np.pi * np.arange(MINUTES) / 1440)[:, None] + np.zeros((MINUTES, TARGETS))
    for _ in range(25 * DAYS):
        start, length = rng.integers(MINUTES), int(rng.lognormal(4.0, 0.8))
        chosen = rng.choice(TARGETS, rng.integers(1, 5), replace=False)
        load[start : start + length, chosen] += rng.uniform(0.1, 0.6)
    return np.asarray(np.clip(load + 0.03 * rng.standard_normal(load.shape), 0.0, 0.92))


def programs(rng: np.random.Generator) -> list[Program]:
    made = []
    for number in range(PROGRAMS):
        width, minutes = int(rng.choice([1, 2, 4])), rng.uniform(3, 12)
        client = width * TARGET_RATE * rng.uniform(0.4, 0.9)
        costs = tuple((rng.uniform(*data), rng.uniform(*metadata)) for *_, data, metadata in CHANGES)
        files = int(rng.choice([8, 64, 512]))
        request = float(rng.choice([1, 4]) * MIB)
        metadata_minutes = minutes * rng.uniform(0.02, 0.3)
        made.append(Program(number % 4, client * minutes, width, client, metadata_minutes, request, files, costs))
    return made


def simulate(case: str, seed: int) -> tuple[Frame, Frame, Floats, Floats]:
    """(job_io, system, seconds without the change, whether the run changed) of the runs of a site."""
    rng = np.random.default_rng([CASES.index(case), seed])
    load, kinds = background(rng), programs(rng)
    health, limit = np.ones((MINUTES, TARGETS)), np.full(MINUTES, np.inf)
    if case == "aging":
        health *= np.linspace(1.0, 0.6, MINUTES)[:, None]
    if case == "backup":
        night = (np.arange(MINUTES) % 1440 >= 60) & (np.arange(MINUTES) % 1440 < 300)
        load = np.minimum(load + np.where(night, 0.5, 0.0)[:, None], 0.95)
    if case == "network":
        for start in rng.integers(0, MINUTES, 6):
            limit[start : start + 360] = TARGET_RATE * 0.5
    moment, releasing = int(rng.uniform(0.35, 0.65) * MINUTES), int(rng.integers(PROGRAMS))
    rows, system, without, changed = [], [], [], []
    for number, program in enumerate(kinds):
        for _ in range(RUNS):
            start = int(rng.integers(MINUTES - 600))
            change = int(rng.integers(len(CHANGES))) if rng.random() < 0.25 else None
            if case in ("release", "throttle") and number == releasing:
                change = 0 if start >= moment else None
            if case == "aging" and start < MINUTES // 2:
                change = None
            if case == "backup" and change is not None:
                start = start // 1440 * 1440 + int(rng.integers(60, 240))
            slower = 1.6 if case == "release" and start >= moment else 1.0
            throttled = case == "throttle" and program.user == kinds[releasing].user and start >= moment
            if throttled:
                slower = 2.5
            targets = rng.choice(TARGETS, program.width, replace=False)
            noise = rng.lognormal(0.0, 0.05)
            if case == "tails" and rng.random() < 0.125:
                noise *= 1.0 + rng.pareto(1.2)
            bytes_moved = program.bytes * rng.uniform(0.95, 1.05)

            rates = np.minimum(program.client_rate / slower, limit[start:])
            free = np.maximum((1.0 - load[start:, targets]) * health[start:, targets], 0.05).min(axis=1)
            rates = np.minimum(rates, len(targets) * TARGET_RATE * free)
            in_metadata = program.metadata_minutes * (1.0 if throttled else slower)
            costs = (1.0, 1.0) if change is None else program.costs[change]
            data = noise * minutes_for(bytes_moved * costs[0], rates)
            metadata = noise * in_metadata * costs[1]
            without.append(60.0 * noise * (minutes_for(bytes_moved, rates) + in_metadata))
            changed.append(change is not None)
            _, requests, files, order, syncs, *_ = CHANGES[change] if change is not None else ("", 1, 1, 0, 0)
            minutes = data + metadata
            steps = slice(start, start + int(np.ceil(minutes)))
            count = bytes_moved / (program.request * requests)
            rows.append(
                {"uid": program.user, "exe": f"program{number}", "nprocs": 64, "start_ns": start * MINUTE_NS,
                 "io_seconds": 60.0 * minutes, "read_bytes": bytes_moved, "write_bytes": 0.0, "read_count": count,
                 "write_count": 0.0, "fs_read_count": count, "fs_write_count": 0.0, "collective_count": 0.0,
                 "independent_count": count, "file_count": program.files * files, "io_rank_count": 64.0,
                 "seek_count": count * order, "sequential_ratio": 1.0 - order, "sync_count": program.files * syncs,
                 "metadata_ratio": metadata / minutes}
            )  # fmt: skip
            system.append(observe(rng, load, health, limit, steps, targets, bytes_moved, count))
    names = list(rows[0])
    frame = Frame({name: encode_text([row[name] for row in rows]) if name == "exe" else
                   np.array([row[name] for row in rows]) for name in names})  # fmt: skip
    states = Frame({name: np.array([row[name] for row in system], np.float64) for name in system[0]})
    return frame, states, np.array(without), np.array(changed)


def minutes_for(amount: float, rates: Floats) -> float:
    """Minutes until the amount is done at these rates per minute."""
    done = np.cumsum(rates)
    last = int(np.searchsorted(done, amount))
    if last >= len(done):
        return float(len(done))
    return last + float((amount - (done[last - 1] if last else 0.0)) / rates[last])


def observe(
    rng: np.random.Generator, load: Floats, health: Floats, limit: Floats, steps: slice, targets: np.ndarray,
    own_bytes: float, own_requests: float,
) -> dict[str, float]:  # fmt: skip
    """What the servers' counters and the probes show of the minutes of a run."""
    others = (load * health)[steps] * TARGET_RATE
    count = len(others)
    busiest = int(others[:, targets].sum(axis=0).argmax())
    mine, on_busiest = own_bytes / len(targets), others[:, targets[busiest]].sum()
    peak = TARGET_RATE * count
    busy = np.minimum(load[steps] + np.isin(np.arange(TARGETS), targets) * 0.3, 0.95)
    queue = (busy / (1.0 - busy)).mean(axis=0)
    slow = float(np.log(np.maximum(1.0, TARGET_RATE / limit[steps])).mean())
    response = -np.log(1.0 - load[steps]).mean(axis=0) - np.log(health[steps]).mean(axis=0)
    noise = 0.08 * rng.standard_normal(5)
    return {
        "device_bytes": others[:, targets].sum() + own_bytes, "peak_bytes": peak * len(targets),
        "device_ops": others[:, targets].sum() / MIB + own_requests, "peak_ops": peak * len(targets) / MIB * 4,
        "device_busiest": on_busiest + mine, "own_busiest": mine, "peak_busiest": peak,
        "service": float((0.3 * response[targets]).max() + noise[0]),
        "queue": float(np.log(queue[targets].max() + 0.5) + noise[1]),
        "probe_data": float(response.mean() + slow + noise[2]),
        "probe_targets": float(response[targets].max() + slow + noise[3]),
        "probe_metadata": float(0.2 * response.mean() + noise[4]),
        "coverage_ratio": 1.0, "inside_seconds": 60.0 * count, "d_d_seconds": 60.0 * count,
    }  # fmt: skip


def judged(case: str, seed: int) -> Counter[str]:
    """Counts of accusations: all, those stated surely, and how many of each are right."""
    runs, system, without, changed = simulate(case, seed)
    seconds, program = runs.floats("io_seconds"), runs.text("exe").codes
    usual = np.array([np.median(seconds[~changed & (program == code)]) for code in range(PROGRAMS)])[program]
    cost = seconds - without
    counts: Counter[str] = Counter()
    for row in np.flatnonzero(changed).tolist():
        rows, group = select_runs(runs, row)
        said = judge(make_pool(runs.take(rows), system.take(rows), group), 0)
        is_right = bool(cost[row] >= HARM * usual[row])
        if said.kind in ("you", "both"):
            counts.update(["accused", *["accused right"] * is_right])
            if said.probability >= SURE:
                counts.update(["sure", *["sure right"] * is_right])
        counts.update(["costly"] * is_right)
        if seconds[row] >= (1 + HARM) * usual[row]:
            counts.update(["peer", *["peer right"] * is_right])
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--weeks", type=int, default=8, help="facilities of each case")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(
        "| case | costly changes | accusations at 90% or more: right | share, at least (95%) | all accusations | peer |"
    )
    print("|---|---|---|---|---|---|")
    for case in given.cases:
        counts = sum((judged(case, given.seed + week) for week in range(given.weeks)), Counter[str]())
        sure, right = counts["sure"], counts["sure right"]
        least = beta.ppf(0.05, right, sure - right + 1) if right else 0.0
        share = f"{right / sure:.2f}, {least:.2f}" if sure else "-"
        others = (f"{counts[f'{name} right']} of {counts[name]}" for name in ("accused", "peer"))
        print(f"| {case} | {counts['costly']} | {right} of {sure} | {share} | {' | '.join(others)} |", flush=True)


if __name__ == "__main__":
    main()
