"""Claims of pat19 on facilities in which each is planted to hold or not to hold: how often they are stated wrongly.

    python benchmarks/claims.py [--days 28] [--repeats 2] [--designs 8]

A design draws for every trait (reads lead, bursts, hours, a peak hour, days, memory of reads, ...) whether it is
there. What holds of a design is what a site would find that is observed six times as long: the estimates of one long
climate, with no interval. Where a difference is planted as none, the statement of a difference is false by design,
whatever the long climate drew. Each design is then observed `--repeats` times for `--days`: all statements of one
facility are tested together, as `ioweather claims` does. A second part has 16 facilities without any pattern of the
hour or the day, and counts peak hours.

The climates are drawn by formulas of this file (log-normal bursts with AR(1) memory), not by the synthetic facility.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import takewhile
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from climate_year import PlantedSource, run_study
from ioweather.core.facility import Facility, FileSystem
from ioweather.core.frames import Frame, Matrix, Text
from ioweather.core.papers.claim_tests import Claim, claims, judge_claim
from ioweather.core.results import Estimate, Exhibit
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.stats.system_grid import local_clock
from ioweather.topics.catalogue import STUDIES

STEP_NS = MINUTE_NS
START_NS = 1_772_409_600 * 10**9  # Monday, 2 March 2026
TARGETS, SERVERS = 8, 4
LONGER = 6
PARAMS = {
    "filesystem": "scratch", "component_kind": "ost", "metadata_kind": "mds", "burst_buffer": "bb",
    "burst_buffer_kind": "device", "resolution": STEP_NS,
}  # fmt: skip
FACILITY = Facility(
    zone="UTC", filesystems=(FileSystem("scratch", peak_bytes_per_s=1e18, component_limit_bytes_per_s=1e18),)
)
# Traits by whose absence a difference is exactly none, and the statements that are then false.
NONE_BY_DESIGN = {
    "restless_evenings": "pat19.evening_writes",
    "restless_sundays": "pat19.sunday_writes",
    "uneven_targets": "pat19.lasting_order",
    "peak_hour": "pat19.peak_hour",
}
Floats = NDArray[np.float64]
Design = Mapping[str, bool]
TRAITS = (
    "reads_lead", "bursty_reads", "bursty_writes", "hours_of_reads", "hours_of_writes", "days", "peak_hour",
    "restless_evenings", "restless_sundays", "memory_of_reads", "memory_of_writes", "together", "uneven_targets",
    "same_targets", "memory_of_targets", "bursty_opens", "memory_of_opens", "busy_servers", "memory_of_servers",
    "all_closed", "closes_apart",
)  # fmt: skip
CALENDAR = ("hours_of_reads", "hours_of_writes", "days", "peak_hour", "restless_evenings", "restless_sundays")


@dataclass(frozen=True)
class Count:
    """Of facilities where a statement holds (or not): how many agree, contradict and are undecided."""

    agree: int = 0
    contradict: int = 0
    undecided: int = 0

    @classmethod
    def of(cls, standings: Iterable[str]) -> Count:
        found = Counter(standings)
        return cls(found["supported"], found["refuted"], found["undecided"])

    @property
    def total(self) -> int:
        return self.agree + self.contradict + self.undecided


def memory(rng: np.random.Generator, rows: int, columns: int, rho: float) -> Floats:
    """Standard normal in every cell, correlated rho^k at lag k."""
    noise = rng.standard_normal((rows, columns))
    noise[1:] *= np.sqrt(1 - rho * rho)
    return np.asarray(lfilter([1.0], [1.0, -rho], noise, axis=0), np.float64)


def climate(design: Design, days: int, rng: np.random.Generator) -> PlantedSource:
    rows = days * DAY_NS // STEP_NS
    clock = local_clock(START_NS + np.arange(rows, dtype=np.int64) * STEP_NS, ZoneInfo("UTC"))
    day = np.asarray(clock.day - clock.day[0], np.int64)
    wave = 1 + 0.7 * np.sin(2 * np.pi * (clock.hour - 9) / 24)
    week = np.where(clock.weekday >= 5, 0.4, 1.0) if design["days"] else np.ones(rows)
    peak = np.where(clock.hour == 2, 4.0, 1.0) if design["peak_hour"] else np.ones(rows)

    def restless(trait: str, when: NDArray[np.bool_]) -> Floats:
        """A factor of its own for each day."""
        factor = np.exp(0.9 * rng.standard_normal(day[-1] + 1) - 0.405)[day]
        return np.where(when, factor, 1.0) if design[trait] else np.ones(rows)

    evening, sunday = (
        restless("restless_evenings", clock.hour >= 18), restless("restless_sundays", clock.weekday == 6)
    )  # fmt: skip
    slow = 0.95 if design["memory_of_targets"] else 0.2
    order = np.linspace(1.0, 2.5, TARGETS) if design["uneven_targets"] else np.ones(TARGETS)
    drawn = memory(rng, rows, 1, 0.95 if design["memory_of_reads"] else 0.2)
    own = memory(rng, rows, 1, 0.95 if design["memory_of_writes"] else 0.2)
    reads, writes = drawn, 0.85 * drawn + 0.53 * own if design["together"] else own
    read = np.exp((1.3 if design["bursty_reads"] else 0.4) * reads + 0.5 * memory(rng, rows, TARGETS, slow)) * order
    write = np.exp((1.5 if design["bursty_writes"] else 0.5) * writes + 0.5 * memory(rng, rows, TARGETS, slow))
    write *= order if design["same_targets"] else order[::-1]
    read *= (peak * week * (wave if design["hours_of_reads"] else 1.0))[:, None]
    write *= (peak * week * evening * sunday * (wave if design["hours_of_writes"] else 1.0))[:, None]
    ratio = 1.8 if design["reads_lead"] else 0.55
    # The same for every length, so that a long climate is that of the short ones.
    level = {"read_bytes": 1e9 * ratio * read / 3.0, "write_bytes": 1e9 * write / 3.0}
    opens = 100 * np.exp((1.3 if design["bursty_opens"] else 0.4) *
                         memory(rng, rows, 1, 0.97 if design["memory_of_opens"] else 0.1)[:, 0])  # fmt: skip
    apart = np.exp(0.8 * rng.standard_normal(rows) - 0.32) if design["closes_apart"] else np.ones(rows)
    closes = (1.0 if design["all_closed"] else 0.8) * opens * apart
    load = np.exp(0.6 * memory(rng, rows, SERVERS, 0.95 if design["memory_of_servers"] else 0.2) - 0.18)
    return _data(days, level, {"open_ops": opens, "close_ops": closes},
                 np.minimum((0.08 if design["busy_servers"] else 0.008) * load, 1.0))  # fmt: skip


def _data(days: int, traffic: Mapping[str, Floats], metadata: Mapping[str, Floats], load: Floats) -> PlantedSource:
    def matrix(metric: str, values: Floats) -> Matrix:
        names = tuple(f"{i:04x}" for i in range(values.shape[1]))
        return Matrix(metric, START_NS, STEP_NS, names, values, np.broadcast_to(np.float32(1), values.shape))

    rows = len(load)
    frame = Frame({
        "start_ns": np.repeat(START_NS + np.arange(rows, dtype=np.int64) * STEP_NS, len(metadata)),
        "metric": Text(np.tile(np.arange(len(metadata), dtype=np.int32), rows), tuple(metadata)),
        "value": np.stack(list(metadata.values()), axis=1).ravel(),
        "coverage": np.ones(rows * len(metadata)),
    })  # fmt: skip
    targets = {metric: matrix(metric, values) for metric, values in traffic.items()}
    matrices = {**targets, "cpu_ratio": matrix("cpu_ratio", load)}
    return PlantedSource({"metadata": frame}, matrices, (START_NS, START_NS + days * DAY_NS), STEP_NS)


def exhibits(data: PlantedSource, last: str = "") -> dict[str, Exhibit]:
    """Up to the exhibit `last`, or all."""
    made = run_study(STUDIES["climate"], data, FACILITY, PARAMS)
    found = list(takewhile(lambda exhibit: exhibit.id != last, made))
    return {exhibit.id: exhibit for exhibit in found}


def estimates(claim: Claim, made: Mapping[str, Exhibit]) -> dict[str, Estimate]:
    return {e.name: e for e in made[claim.exhibit].estimates} if claim.exhibit in made else {}


def truth(design: Design, asked: Iterable[Claim], days: int, rng: np.random.Generator) -> dict[str, bool]:
    made = exhibits(climate(design, days * LONGER, rng))
    found = {}
    for claim in asked:
        estimate = estimates(claim, made).get(claim.estimate)
        if estimate is not None and estimate.value is not None:
            above = estimate.value > claim.number
            found[claim.id] = above if claim.above is not None else not above
    return found | {name: False for trait, name in NONE_BY_DESIGN.items() if not design[trait]}


def standings(design: Design, asked: Iterable[Claim], days: int, rng: np.random.Generator) -> dict[str, str]:
    made = exhibits(climate(design, days, rng))
    return {j.claim.id: j.standing for j in (judge_claim(claim, estimates(claim, made)) for claim in asked)}


def designs(count: int, rng: np.random.Generator) -> list[dict[str, bool]]:
    """Every trait is there in half of them."""
    half = np.arange(count) % 2 == 0
    columns = {trait: rng.permutation(half) for trait in TRAITS}
    return [{trait: bool(column[i]) for trait, column in columns.items()} for i in range(count)]


def peak_hours(facilities: int, days: int) -> int:
    """Facilities without any pattern of the calendar that are told of a peak hour."""
    found = 0
    for seed in range(facilities):
        rng = np.random.default_rng([17, seed])
        without = {trait: bool(rng.random() < 0.5) for trait in TRAITS}
        without |= dict.fromkeys(CALENDAR, False)
        made = exhibits(climate(without, days, rng), last="pat19.fig6")
        claim = next(claim for claim in claims("pat19") if claim.id == "pat19.peak_hour")
        found += judge_claim(claim, estimates(claim, made)).standing == "supported"
    return found


def table(asked: Iterable[Claim], yes: Mapping[str, list[str]], no: Mapping[str, list[str]]) -> None:
    print("| claim | holds: n | agree | contradict | undecided | does not hold: n | agree | contradict | undecided |")
    print("|---|---|---|---|---|---|---|---|---|")
    totals = {True: [0, 0, 0, 0], False: [0, 0, 0, 0]}
    for claim in asked:
        counts = Count.of(yes.get(claim.id, ())), Count.of(no.get(claim.id, ()))
        if not any(count.total for count in counts):
            continue
        cells = [x for c in counts for x in (c.total, c.agree, c.contradict, c.undecided)]
        print(f"| {claim.id} | {' | '.join(map(str, cells))} |")
        for holds, count in zip((True, False), counts, strict=True):
            parts = count.total, count.agree, count.contradict, count.undecided
            totals[holds] = [a + b for a, b in zip(totals[holds], parts, strict=True)]
    (n_yes, right_yes, wrong_yes, _), (n_no, wrong_no, right_no, _) = totals[True], totals[False]
    print(
        f"\n{right_yes + wrong_no} agreements stated, {wrong_no} false: {wrong_no / max(right_yes + wrong_no, 1):.1%}"
    )
    told = right_no + wrong_yes
    print(f"{told} contradictions stated, {wrong_yes} false: {wrong_yes / max(told, 1):.1%}")
    print(f"power: {right_yes / max(n_yes, 1):.0%} of {n_yes} that hold agree, {right_no / max(n_no, 1):.0%} of {n_no} "
          "that do not are contradicted")  # fmt: skip
    planted = set(yes) | set(no)
    print(f"not planted: {', '.join(claim.id for claim in claims() if claim.id not in planted)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=28)
    parser.add_argument("--designs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--without", type=int, default=16, help="facilities without a pattern")
    options = parser.parse_args()
    # An exact count speaks of the period itself: there is nothing to be wrong about. Parts of a larger system need it.
    asked = [claim for claim in claims("pat19") if not claim.exact and not claim.scale]
    rng = np.random.default_rng(options.seed)
    yes: dict[str, list[str]] = defaultdict(list)
    no: dict[str, list[str]] = defaultdict(list)
    begun = time.process_time()
    if options.without:
        found = peak_hours(options.without, options.days)
        print(f"peak hours found in {options.without} facilities without a pattern: {found}\n", flush=True)
    for number, design in enumerate(designs(options.designs, rng), 1):
        holds = truth(design, asked, options.days, rng)
        for _ in range(options.repeats):
            for name, standing in standings(design, asked, options.days, rng).items():
                if name in holds and standing != "untestable":
                    (yes if holds[name] else no)[name].append(standing)
        print(f"{number} of {options.designs} designs", file=sys.stderr, flush=True)
    table(asked, yes, no)
    print(f"\n{time.process_time() - begun:.0f} s of a processor")


if __name__ == "__main__":
    main()
