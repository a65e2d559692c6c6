"""Our bandwidth beside the benchmark's own, and the cause where they differ (car11 Table I)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, cast

import numpy as np

from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import MIB
from ioweather.facts.bandwidth import (
    TOLERANCE,
    LogIndex,
    Measured,
    Verb,
    bandwidth_caveats,
    measured_operations,
    passed_seconds,
)
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, Runs, instances_of
from ioweather.stats.intervals import plain
from ioweather.stats.job_estimates import median_estimate, share_estimate

# With the time that passed in place of the slowest process's, a deviation below this is explained by it. [ours]
_EXPLAINED: Final = 0.06


@dataclass(frozen=True)
class _Check:
    """One operation of one benchmark run, and what its log gives."""

    measured: Measured
    row: dict[str, Any]
    ours: float
    causes: Mapping[str, str]

    @property
    def verb(self) -> Verb:
        return cast(Verb, self.measured.operation)

    @property
    def deviation(self) -> float:
        return self.ours / self.measured.bytes_per_s - 1

    @property
    def agrees(self) -> bool:
        return abs(self.deviation) <= TOLERANCE

    @property
    def pattern(self) -> str:
        """N-1 or N-N by where this log's bytes went."""
        shared = self.row[f"shared_{self.verb}_bytes"] + self.row[f"partially_shared_{self.verb}_bytes"]
        return "N-1" if 2 * shared > self.row[f"{self.verb}_bytes"] else "N-N"

    @property
    def by_time_passed(self) -> float | None:
        """Bandwidth by the time that passed from first to last; the check on `ranks`."""
        passed = passed_seconds(self.row, self.verb)
        return self.row[f"{self.verb}_bytes"] / passed if passed else None

    @property
    def explained(self) -> bool:
        """By the time that passed, or by the cache, whose transfers are too short for processes to meet in them."""
        names = set(self.causes)
        if names & {"cache", "spans", "partial", "metadata"}:
            return True
        passed = self.by_time_passed
        return "ranks" in names and passed is not None and abs(passed / self.measured.bytes_per_s - 1) <= _EXPLAINED

    @property
    def verdict(self) -> str:
        if self.agrees:
            return "agrees"
        words = "; ".join(self.causes.values())
        return words if self.explained else f"not explained{': ' + words if words else ''}"


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    runs = instances_of(data, facility, params)
    states: Counter[str] = Counter()
    checks: list[_Check] = []
    logs = LogIndex(runs.frame)
    for measured in measured_operations(data.frames["benchmarks"]):
        place, state = logs.find(measured)
        if place is None:
            states[state] += 1
            continue
        row = runs.frame.take(slice(place, place + 1)).records()[0]
        ours = row[f"{measured.operation}_bytes_per_s"]
        if ours is None:
            states["nothing moved"] += 1
            continue
        verb: Verb = "read" if measured.operation == "read" else "write"
        checks.append(_Check(measured, row, float(ours), bandwidth_caveats(row, verb)))
    if checks or states:
        checks.sort(key=lambda check: (check.pattern, check.measured.operation, check.row["start_ns"]))
        yield _bandwidths(runs, checks, states)


@exhibit("car11.table1")
def _bandwidths(runs: Runs, checks: list[_Check], states: Counter[str]) -> Iterator[Piece]:
    differing = [check for check in checks if not check.agrees]
    left = sum(not check.explained for check in differing)
    agreeing = len(checks) - len(differing)
    yield share_estimate("within_3_percent_ratio", agreeing, len(checks))
    yield median_estimate("deviation", np.array([abs(check.deviation) for check in checks]), "ratio")
    yield plain("not_explained", left, "count", n=len(checks))
    # Named as the paper's Table I: actual, estimated and per node, by pattern and operation.
    for pattern, verb in product(("N-1", "N-N"), ("write", "read")):
        own = [c for c in checks if c.pattern == pattern and c.verb == verb]
        if own:
            actual, ours = (np.array(v) / MIB for v in ([c.measured.bytes_per_s for c in own], [c.ours for c in own]))
            nodes = np.array([c.row["node_count"] or math.nan for c in own])
            yield median_estimate(f"actual_{verb}[{pattern}]", actual, "mib_per_s")
            yield median_estimate(f"estimated_{verb}[{pattern}]", ours, "mib_per_s")
            yield median_estimate(f"per_node_{verb}[{pattern}]", ours / nodes, "mib_per_s_per_node")
    rows: list[tuple[Cell, ...]] = []
    for c in checks:
        label = f"{c.measured.tool} {c.measured.parameters.get('api') or ''} {c.pattern} {c.verb}".replace("  ", " ")
        rates = (c.measured.bytes_per_s / MIB, c.ours / MIB, c.deviation)
        per_node = c.ours / MIB / c.row["node_count"] if c.row["node_count"] else None
        by_passed = None if c.agrees or c.by_time_passed is None else c.by_time_passed / c.measured.bytes_per_s - 1
        moved = c.row[f"{c.verb}_bytes"]
        rows.append((label, c.row["nprocs"], moved, *rates, per_node, by_passed, c.verdict))
    yield ResultTable.of(
        "bandwidths",
        "benchmark [text]; processes [count]; moved [bytes]; actual: its own [mib_per_s]; "
        "estimated: ours [mib_per_s]; deviation [ratio]; per_node [mib_per_s_per_node]; "
        "passed_deviation: deviation by time passed [ratio]; cause [text]",
        rows,
    )
    if checks:
        kinds = [f"{c.pattern} {c.verb}" for c in checks]
        points = ResultTable.of(
            "points",
            "actual: the benchmark's own [mib_per_s]; estimated: ours [mib_per_s]; kind [text]",
            ((c.measured.bytes_per_s / MIB, c.ours / MIB, kind) for c, kind in zip(checks, kinds, strict=True)),
        )
        yield Chart.of("scatter", points, "x=actual y=estimated series=kind", "Bandwidth, theirs and ours", log="xy")
        deviations = [(f"{i}", c.deviation, kinds[i - 1]) for i, c in enumerate(checks[:100], 1)]
        bars = ResultTable.of("deviations", "run [text]; deviation [ratio]; kind [text]", deviations)
        lines = (Reference("y", TOLERANCE, "3%"), Reference("y", -TOLERANCE))
        yield Chart.of("bars", bars, "x=run y=deviation series=kind", "Deviation", references=lines)
        yield Finding(
            f"Of {len(checks)} bandwidths {agreeing} are within 3% of the benchmark's own; {len(differing) - left} "
            f"differ for a cause that the log shows; {left} are not explained.",
            name="bandwidths_agree",
        )
    else:
        yield Finding("No benchmark run has its Darshan log in the lake.", "undecided", name="no_logs")
    for name, words in (("ranks", "processes that did not work at the same time"), ("cache", "the page cache")):
        count = sum(name in check.causes for check in differing)
        if count:
            yield Finding(f"{count} deviations show {words}.", name="deviations")
    layered = sum("layer" in check.causes for check in checks)
    if layered:
        text = f"{layered} bandwidths are right only because the time is taken from MPI-IO, not from POSIX."
        yield Finding(text, name="layered_time")
    yield "Read and write bandwidth come from separate times: metadata time is divided between them by operations."
    yield (
        "A benchmark's time ends with its last process; ours is the slowest process's own time, which is less "
        "where processes do not work at the same time."
    )
    total = len(checks) + states.total()
    yield runs.node_caveats, Coverage(total, len(checks), "benchmark operations", states, "with their log")
    yield runs.node_coverage


STUDY = Study(
    name="benchmark_check",
    exhibits=("car11.table1",),
    needs=(*NEEDS, Need("benchmarks", "benchmarks")),
    run=run,
    params=(PROCESSES_PER_NODE,),
)
