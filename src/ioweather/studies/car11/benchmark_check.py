"""Bandwidth of jobs against the benchmark's own (car11 Table I), and MiB/s per node against the node ceiling (II-D).

The ceiling is the most that network and file system allow, by job size; jobs above it are counted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from ioweather.core.contracts import Params, Study
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats
from ioweather.core.results import Cell, Chart, Coverage, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.core.units import MIB
from ioweather.facts.bandwidth import (
    TOLERANCE,
    Measured,
    Verb,
    bandwidth_caveats,
    ceiling_mib_per_s_per_node,
    find_log,
    measured_operations,
    passed_seconds,
)
from ioweather.facts.runs import NEEDS, PROCESSES_PER_NODE, Runs, fetch_runs, instances_of, jobs_of
from ioweather.stats.estimates import known, median_estimate, plain, share_estimate
from ioweather.topics.source import DataSource

# With the time that passed in place of the slowest process's, a deviation below this is explained by it. [ours]
_EXPLAINED: Final = 0.06


@dataclass(frozen=True)
class _Check:
    """One operation of one benchmark run, and what its log gives. `pattern` is N-1 or N-N by where this log's bytes
    went; `by_passed` the deviation with the time that passed from first to last, the check on `ranks`."""

    measured: Measured
    row: dict[str, Any]
    verb: Verb
    ours: float
    causes: Mapping[str, str]
    pattern: str
    deviation: float
    by_passed: float | None

    @property
    def agrees(self) -> bool:
        """Whether both bandwidths are within 3%."""
        return abs(self.deviation) <= TOLERANCE

    @property
    def explained(self) -> bool:
        """Whether a cause in the log explains the deviation: the page cache, metadata, or elapsed time that agrees."""
        if set(self.causes) & {"cache", "spans", "partial", "metadata"}:
            return True
        return "ranks" in self.causes and self.by_passed is not None and abs(self.by_passed) <= _EXPLAINED

    @property
    def verdict(self) -> str:
        """'agrees', the causes of the deviation, or 'not explained'."""
        words = "; ".join(self.causes.values())
        if self.agrees or self.explained:
            return "agrees" if self.agrees else words
        return f"not explained{': ' + words if words else ''}"


def run(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make Table I from benchmark runs and their logs."""
    runs = instances_of(fetch_runs(source), source.facility, params)
    states: Counter[str] = Counter()
    checks: list[_Check] = []
    for measured in measured_operations(source.frame("benchmarks")):
        place, state = find_log(runs.frame, measured)
        row = runs.frame.take(slice(place, place + 1)).records()[0] if place is not None else {}
        verb: Verb = "read" if measured.operation == "read" else "write"
        ours = row.get(f"{verb}_bytes_per_s")
        if ours is None:
            states[state if place is None else "nothing moved"] += 1
            continue
        shared, moved = row[f"shared_{verb}_bytes"] + row[f"partially_shared_{verb}_bytes"], row[f"{verb}_bytes"]
        passed, theirs = passed_seconds(row, verb), measured.bytes_per_s
        by_passed = moved / passed / theirs - 1 if passed else None
        of_log = (bandwidth_caveats(row, verb), "N-1" if 2 * shared > moved else "N-N", float(ours) / theirs - 1)
        checks.append(_Check(measured, row, verb, float(ours), *of_log, by_passed))
    if checks or states:
        checks.sort(key=lambda check: (check.pattern, check.verb, check.row["start_ns"]))
        yield _bandwidths(runs, checks, states)


@exhibit("car11.table1")
def _bandwidths(runs: Runs, checks: list[_Check], states: Counter[str]) -> Iterator[Piece]:
    """Compare estimated bandwidths with the benchmarks' own results, and name the cause of each deviation."""
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
        moved, by_passed = c.row[f"{c.verb}_bytes"], None if c.agrees else c.by_passed
        rows.append((label, c.row["nprocs"], moved, *rates, per_node, by_passed, c.verdict))
    yield ResultTable.of(
        "bandwidths",
        "benchmark [text]; processes [count]; moved [bytes]; actual: its own [mib_per_s]; "
        "estimated: ours [mib_per_s]; deviation [ratio]; per_node [mib_per_s_per_node]; "
        "passed_deviation: deviation by time passed [ratio]; cause [text]",
        rows,
    )
    if checks:
        yield Finding(
            f"{agreeing} of {len(checks)} bandwidths are within 3% of the benchmark's own result. "
            f"{len(differing) - left} differ for a cause shown in the log, and {left} are unexplained.",
            name="bandwidths_agree",
        )
    else:
        yield Finding("The lake has no Darshan log of a benchmark run.", "undecided", name="no_logs")
    yield "Read and write bandwidth use separate times. Metadata time is divided between them by operation count."
    yield (
        "A benchmark's time ends with its last process. Our estimate uses the I/O time of the slowest process, "
        "which is shorter if processes do I/O at different times."
    )
    total = len(checks) + states.total()
    yield runs.node_caveats, Coverage(total, len(checks), "benchmark operations", states, "with their log")
    yield runs.node_coverage


STUDY = Study("benchmark_check", ("car11.table1",), f"{NEEDS} benchmarks", run, params=(PROCESSES_PER_NODE,))


_MOST_POINTS: Final = 1500
PER_NODE: Final = "mib_per_s_per_node"
NO_NODES: Final = Finding(
    "No job has a known number of nodes, so MiB/s per node is unknown. Ingest accounting data or set "
    "processes_per_node.",
    "undecided",
    name="no_node_counts",
)
NO_CEILING: Final = (
    "The facility file has no node limit and no file system peak, so jobs above their ceiling cannot be found. Set "
    "node_limit_bytes_per_s and peak_bytes_per_s."
)


def ceilings(jobs: Runs, facility: Facility) -> Floats:
    """Ceiling of each job in MiB/s/CN; NaN where it or the job's nodes are not known."""
    return ceiling_mib_per_s_per_node(jobs.floats("node_count"), jobs.frame.text("main_mount"), facility)


def above_ceiling(jobs: Runs, facility: Facility) -> Bools:
    """Return which jobs are above their ceiling; False where either is unknown."""
    return np.asarray(jobs.floats(PER_NODE) > ceilings(jobs, facility))


def below_ceiling(jobs: Runs, facility: Facility) -> tuple[Runs, tuple[str, ...]]:
    """Jobs without those above their ceiling, which are counted; and what to say about it."""
    if np.isnan(ceilings(jobs, facility)).all():
        return jobs, (NO_CEILING,) if jobs.rows else ()
    above = above_ceiling(jobs, facility)
    count = int(above.sum())
    if not count:
        return jobs, ()
    coverage = Coverage(jobs.rows, jobs.rows - count, jobs.what, {"above the ceiling": count}, "below the ceiling")
    note = f"{count:,} jobs exceed the throughput of their nodes (sparse, uncoordinated I/O) and are excluded."
    return jobs.take(~above, coverage), (note,)


def run_ceiling(source: DataSource, params: Params) -> Iterator[Exhibit]:
    """Make the ceiling exhibit of all jobs."""
    jobs = jobs_of(fetch_runs(source), source.facility, params)
    if jobs.rows:
        yield _ceiling(jobs, source.facility)


@exhibit("car11.ceiling")
def _ceiling(jobs: Runs, facility: Facility) -> Iterator[Piece]:
    """Rate per node of all jobs, and jobs above their ceiling."""
    rates, nodes, limits = jobs.floats(PER_NODE), jobs.floats("node_count"), ceilings(jobs, facility)
    there, above = np.isfinite(rates), above_ceiling(jobs, facility)
    decided = bool(np.isfinite(limits).any())
    n, outliers = int((there & np.isfinite(limits)).sum()), int(above.sum())
    yield plain("outlier_jobs", outliers if decided else None, "count", n=n, method="jobs above their ceiling")
    if facility.node_limit_bytes_per_s is not None:
        yield plain("ceiling[node]", facility.node_limit_bytes_per_s / MIB, PER_NODE, method="facility file")
        yield plain("node_network", facility.node_limit_bytes_per_s, "bytes_per_s", method="facility file")
    peaks = [fs.peak_bytes_per_s for fs in facility.filesystems if fs.peak_bytes_per_s is not None]
    if peaks:
        yield plain("storage_peak", max(peaks), "bytes_per_s", method="facility file")
    if there.any():
        yield plain("largest_job_nodes", float(np.nanmax(nodes[there])), "count", n=int(there.sum()))
    else:
        yield NO_NODES
    if decided:
        widest = int(np.nanmax(nodes[np.isfinite(limits)]))
        lowest = float(np.nanmin(limits[nodes == widest]))
        yield plain("ceiling[largest job]", lowest, PER_NODE, method=f"facility file, {widest:,} nodes")
        yield jobs.share("outlier_jobs_ratio", above, there & np.isfinite(limits))
        text = f"None of {n:,} jobs exceeds its ceiling."
        if outliers:
            text = f"{outliers:,} of {n:,} jobs exceed their ceiling: their I/O is sparse or comes from a cache."
        yield Finding(text, name="above_ceiling")
    rows: list[tuple[Cell, ...]] = []
    points: list[tuple[Cell, ...]] = []
    shown = np.flatnonzero(there & (rates > 0))
    if len(shown) > _MOST_POINTS:  # jobs above the ceiling, then an even sample of the rest
        rest = shown[~above[shown]]
        shown = np.concatenate([shown[above[shown]][:500], rest[:: max(1, len(rest) // (_MOST_POINTS - 500))]])
    points += [(int(nodes[i]), float(rates[i]), "above the ceiling" if above[i] else "job", None) for i in shown]
    for size in np.unique(nodes[there]):
        same = nodes == size
        limit, highest = (float(known(values[same]).max(initial=-np.inf)) for values in (limits, rates))
        ceiling = limit if np.isfinite(limit) else None
        rows.append((int(size), int((there & same).sum()), ceiling, highest, int(above[same].sum())))
        if ceiling is not None:
            points.append((int(size), ceiling, None, "ceiling"))
    yield ResultTable.of(
        "ceiling_by_size",
        f"nodes [count]; jobs [count]; ceiling [{PER_NODE}]; highest: highest seen [{PER_NODE}]; "
        "above: jobs above [count]",
        rows[-200:],
    )
    if len(shown):
        drawn = ResultTable.of(
            "points", f"nodes [count]; per_node: performance [{PER_NODE}]; what [text]; curve [text]", points
        )
        yield Chart.of("scatter", drawn, "x=nodes y=per_node series=what curve", "Jobs and their ceiling", log="xy")
    yield "Cached reads can exceed the rate of network and servers.", () if decided else (NO_CEILING,)
    yield jobs.node_caveats, jobs.node_coverage


NODE_CEILING = Study("node_ceiling", ("car11.ceiling",), NEEDS, run_ceiling, params=(PROCESSES_PER_NODE,))
