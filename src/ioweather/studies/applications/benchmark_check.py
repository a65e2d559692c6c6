"""Our bandwidth beside the benchmark's own, and the cause where they differ (car11 Table I)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np

from ioweather.core.contracts import Need, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Chart, Coverage, Estimate, Exhibit, Finding, Reference, ResultTable
from ioweather.core.units import MIB
from ioweather.derive.jobs.bandwidth import TOLERANCE, Cause, Verb, bandwidth_caveats, passed_seconds
from ioweather.derive.jobs.benchmark_runs import LogIndex, Measured, measured_operations
from ioweather.studies.shared.intervals import plain
from ioweather.studies.shared.job_estimates import median_estimate, share_estimate
from ioweather.studies.shared.runs import NEEDS, PROCESSES_PER_NODE, Runs, instances_of

# With the time that passed in place of the slowest process's, a deviation below this is explained by it. [ours]
_EXPLAINED: Final = 0.06


@dataclass(frozen=True)
class _Check:
    """One operation of one benchmark run, and what its log gives."""

    measured: Measured
    row: dict[str, Any]
    ours: float
    causes: tuple[Cause, ...]

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
        names = {cause.name for cause in self.causes}
        if names & {"cache", "spans", "partial", "metadata"}:
            return True
        passed = self.by_time_passed
        return "ranks" in names and passed is not None and abs(passed / self.measured.bytes_per_s - 1) <= _EXPLAINED

    @property
    def verdict(self) -> str:
        if self.agrees:
            return "agrees"
        words = "; ".join(cause.text for cause in self.causes)
        return words if self.explained else f"not explained{': ' + words if words else ''}"


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    runs = instances_of(data, facility, params)
    checks, states = _checks(runs, data)
    total = len(checks) + sum(states.values())
    if not total:
        return
    agreeing = [check for check in checks if check.agrees]
    estimates = [
        share_estimate("within_3_percent_ratio", len(agreeing), len(checks)),
        median_estimate("deviation", np.array([abs(check.deviation) for check in checks]), "ratio"),
        plain("not_explained", sum(not c.agrees and not c.explained for c in checks), "count", n=len(checks)),
        *_averages(checks),
    ]
    yield Exhibit(
        "car11.table1", tables=(_table(checks),),
        charts=_charts(checks), estimates=tuple(estimates), findings=tuple(_findings(checks)),
        caveats=(
            "Read and write bandwidth come from separate times: metadata time is divided between them by operations.",
            "A benchmark's time ends with its last process; ours is the slowest process's own time, which is less "
            "where processes do not work at the same time.",
            *runs.node_caveats,
        ),
        coverage=(
            Coverage(total, len(checks), "benchmark operations", states, "with their log"), *runs.node_coverage,
        ),
    )  # fmt: skip


def _checks(runs: Runs, data: StudyData) -> tuple[list[_Check], Counter[str]]:
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
        verb: Literal["read", "write"] = "read" if measured.operation == "read" else "write"
        checks.append(_Check(measured, row, float(ours), bandwidth_caveats(row, verb)))
    checks.sort(key=lambda check: (check.pattern, check.measured.operation, check.row["start_ns"]))
    return checks, states


def _table(checks: list[_Check]) -> ResultTable:
    rows = tuple(
        (
            f"{c.measured.tool} {c.measured.parameters.get('api') or ''} {c.pattern} {c.verb}".replace("  ", " "),
            c.row["nprocs"], c.row[f"{c.verb}_bytes"], c.measured.bytes_per_s / MIB, c.ours / MIB, c.deviation,
            c.ours / MIB / c.row["node_count"] if c.row["node_count"] else None,
            None if c.agrees or c.by_time_passed is None else c.by_time_passed / c.measured.bytes_per_s - 1, c.verdict,
        )
        for c in checks
    )  # fmt: skip
    return ResultTable.of(
        "bandwidths",
        "benchmark [text]; processes [count]; moved [bytes]; actual: its own [mib_per_s]; "
        "estimated: ours [mib_per_s]; deviation [ratio]; per_node [mib_per_s_per_node]; "
        "passed_deviation: deviation by time passed [ratio]; cause [text]",
        rows,
    )


def _averages(checks: list[_Check]) -> Iterator[Estimate]:
    """Named as the paper's Table I: actual, estimated and per node, by pattern and operation."""
    for pattern in ("N-1", "N-N"):
        for verb in ("write", "read"):
            own = [c for c in checks if c.pattern == pattern and c.verb == verb]
            if own:
                nodes = [c.row["node_count"] or math.nan for c in own]
                for name, values, unit in (
                    ("actual", [c.measured.bytes_per_s / MIB for c in own], "mib_per_s"),
                    ("estimated", [c.ours / MIB for c in own], "mib_per_s"),
                    ("per_node", [c.ours / MIB / n for c, n in zip(own, nodes, strict=True)], "mib_per_s_per_node"),
                ):
                    yield median_estimate(f"{name}_{verb}[{pattern}]", np.array(values), unit)


def _charts(checks: list[_Check]) -> tuple[Chart, ...]:
    if not checks:
        return ()
    points = ResultTable.of(
        "points",
        "actual: the benchmark's own [mib_per_s]; estimated: ours [mib_per_s]; kind [text]",
        ((c.measured.bytes_per_s / MIB, c.ours / MIB, f"{c.pattern} {c.verb}") for c in checks),
    )
    bars = ResultTable.of(
        "deviations",
        "run [text]; deviation [ratio]; kind [text]",
        ((f"{i + 1}", c.deviation, f"{c.pattern} {c.verb}") for i, c in enumerate(checks[:100])),
    )
    return (
        Chart.of("scatter", points, "x=actual y=estimated series=kind", "Bandwidth, theirs and ours", log="xy"),
        Chart.of(
            "bars",
            bars,
            "x=run y=deviation series=kind",
            "Deviation",
            references=(Reference("y", TOLERANCE, "3%"), Reference("y", -TOLERANCE)),
        ),
    )


def _findings(checks: list[_Check]) -> Iterator[Finding]:
    if not checks:
        yield Finding("No benchmark run has its Darshan log in the lake.", "undecided", name="no_logs")
        return
    agreeing = sum(check.agrees for check in checks)
    explained = sum(not check.agrees and check.explained for check in checks)
    left = len(checks) - agreeing - explained
    yield Finding(
        f"Of {len(checks)} bandwidths {agreeing} are within 3% of the benchmark's own; {explained} differ for a cause "
        f"that the log shows; {left} are not explained.",
        name="bandwidths_agree",
    )
    for name, words in (("ranks", "processes that did not work at the same time"), ("cache", "the page cache")):
        count = sum(any(cause.name == name for cause in check.causes) for check in checks if not check.agrees)
        if count:
            yield Finding(f"{count} deviations show {words}.", name="deviations")
    layered = sum(any(cause.name == "layer" for cause in check.causes) for check in checks)
    if layered:
        yield Finding(
            f"{layered} bandwidths are right only because the time is taken from MPI-IO, not from POSIX.",
            name="layered_time",
        )


STUDY = Study(
    name="benchmark_check",
    exhibits=("car11.table1",),
    needs=(*NEEDS, Need("benchmarks", "benchmarks")),
    run=run,
    params=(PROCESSES_PER_NODE,),
)
