"""Jobs without a Darshan log: what accounting, servers and probes say about one, and whether storage slowed it.

A job counts as slow if its run time exceeds the median of similar jobs (same cluster, user, name and nodes). It counts
as exposed if a measure of the system during it was far above the usual value of similar jobs. The excess fraction
1 - P(slow | not exposed) / P(slow | exposed), over all jobs around that time, each compared within its group (indirect
standardization), is a lower bound of the probability that
a slow exposed job would have been on time otherwise (Robins and Greenland 1989, "The probability of causation"). The
inside of the job is unknown, so there is no verdict on what the job itself did.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import Params
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Answer, Coverage, Fact, FactGroup, Finding
from ioweather.core.units import DAY_NS, NS, format_bytes, format_seconds, format_time_ns, one_line
from ioweather.diagnosis.time_model import HARM_MADS, HARM_SHARE, MAD_TO_SD
from ioweather.facts import accounting
from ioweather.facts.run_targets import BUSY, probe_slowdowns, probe_times, service_slowdown, target_amounts
from ioweather.facts.server_io import ServerIo
from ioweather.facts.system_activity import Servers, Stretches, choose_step, merged_windows
from ioweather.facts.system_grid import MIN_COVERAGE
from ioweather.job_io.outcomes import Reason, VerdictKind, WhyOutcome
from ioweather.job_io.view import JOB_ID, raw_id_of
from ioweather.lake import grid
from ioweather.lake.lake import Snapshot
from ioweather.topics.source import DataSource

# Schedulers record whole seconds.
_LEAST_HARM_SECONDS: Final = 1.0
# A measure is unusual from this many standard deviations, estimated from values below the median; in logarithms. [ours]
_EXPOSED: Final = 2.0
_LEAST_SPREAD: Final = 0.1
# Jobs as exposed as this one, at least; and jobs in the comparison, nearest in time. [ours]
_LEAST_EXPOSED: Final = 8
_MOST_JOBS: Final = 400
_REACH_DAYS: Final = 10
_MEASURES: Final = {
    "service": "requests at the slowest target",
    "probe_data": "probe reads and writes",
    "probe_metadata": "probe metadata operations",
}
RECORD_NEXT: Final = Finding(
    "To see a job's own I/O next time, load Darshan: module load darshan (ioweather docs: jobs-without-a-log).",
    name="record_next_time",
)


@dataclass(frozen=True)
class _JobVerdict:
    """Verdict from the run time of a job. `probability` is a lower bound, None where jobs show no relation.

    `factor` is how many times longer `measure` took than usual. `slow_exposed` of `exposed` jobs at such times were
    slow, `slow_others` of `others` at other times.
    """

    kind: VerdictKind
    usual_seconds: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    similar: int = 0
    measure: str = ""
    factor: float | None = None
    is_exposed: bool = False
    probability: float | None = None
    exposed: int = 0
    slow_exposed: int = 0
    others: int = 0
    slow_others: int = 0


def find_accounted_job(source: DataSource, params: Params) -> tuple[Frame, ServerIo | None] | None:
    """(row of `jobs`, what the servers counted) of the job that the parameter `job` names; None if it is not there."""
    if JOB_ID.fullmatch(params["job"]) is None or source.snapshot_if_there() is None:
        return None
    snapshot = source.snapshot
    where: dict[str, Any]
    try:
        where = {"raw_job_id": raw_id_of(snapshot, params["job"])}
    except DataUnavailable:
        where = {"job_id": params["job"]}
    where |= {name: params[name] for name in ("uid", "cluster") if params.get(name) is not None}
    jobs = accounting.without_log(snapshot, where)
    low, high = source.period_ns
    jobs = jobs.take((jobs.ints("start_ns") < high) & (accounting.ends(jobs) > low))
    if not jobs.rows:
        return None
    source.note_tables(("jobs",))
    source.note_logs("job")
    job = accounting.one_job(jobs, params["job"])
    (counted,) = accounting.counted_on_servers(snapshot, job)
    return job, counted


def accounted_why_answer(source: DataSource, params: Params) -> Answer | None:
    """The answer to `why` without a log: run time against similar jobs, and the system during the job."""
    found = source.shared(find_accounted_job, params)
    if found is None:
        return None
    job, counted = found
    row = job.records()[0]
    if row["end_ns"] is None:
        return Answer(
            f"Was storage slow during job {row['job_id']}?",
            f"Job {row['job_id']} is still running. A verdict is possible after it ends.",
            result=WhyOutcome("unknown", Reason.NO_RUN_TIME),
        )
    return judge_accounted_job(source.snapshot, job, counted, params.get("filesystem"), params.get("as_of"))


def judge_accounted_job(
    visible: Snapshot, job: Frame, counted: ServerIo | None, filesystem: str | None = None, as_of_ns: int | None = None
) -> Answer:
    """Return the verdict on an ended job (one row of `jobs`), from its run time and the system during it.

    `visible` is the lake as the asking user sees it; with `as_of_ns`, only jobs that had ended by then are compared.
    """
    row = job.records()[0]
    # Times of other users' jobs enter as counts alone.
    snapshot = visible.whole
    jobs, this = _jobs_around(snapshot, row, as_of_ns)
    filesystem = filesystem or _filesystem(snapshot, counted)
    measures, coverage = _measure_filesystem(snapshot, jobs, this, filesystem)
    verdict = judge_run_time(jobs, measures, this)
    seconds = float(accounting.run_seconds(jobs)[this])
    groups = (
        FactGroup("comparison", "Run time compared with similar jobs", tuple(_comparison_facts(verdict, seconds))),
        accounting_facts(row),
    )
    reason = Reason.NO_SYSTEM_DATA if verdict.kind == "unknown" else None
    return Answer(
        f"Was it job {row['job_id']}, or the system?",
        _headline(verdict),
        tuple(group for group in groups if group.facts),
        findings=(*_findings(verdict, filesystem, counted), RECORD_NEXT),
        caveats=("This verdict uses only run times. It is weaker than a verdict with a Darshan log.",),
        coverage=(Coverage(1, int(coverage > 0), "jobs with system samples"),),
        result=WhyOutcome(
            verdict.kind,
            Reason.FEW_SIMILAR_RUNS if verdict.similar < accounting.LEAST_SIMILAR else reason,
            likeliest=verdict.kind,
            probability=verdict.probability,
            filesystem=filesystem,
            n=verdict.similar,
            coverage=coverage,
            read_bytes=None if counted is None else counted.read_bytes,
            write_bytes=None if counted is None else counted.write_bytes,
            run_seconds=seconds,
            usual_run_seconds=verdict.usual_seconds,
            evidence="accounting",
        ),
    )


def judge_run_time(jobs: Frame, measures: dict[str, Floats], this: int) -> _JobVerdict:
    """Return the verdict on row `this`, from run times and from measures of the system (logarithms) during each job."""
    groups = accounting.SimilarJobs(jobs)
    seconds, similar = groups.seconds, groups.of(this)
    if len(similar) < accounting.LEAST_SIMILAR:
        return _JobVerdict("unknown", similar=len(similar))
    low, usual, high = (float(v) for v in np.quantile(seconds[similar], (0.25, 0.5, 0.75)))
    found = _JobVerdict("unknown", usual, low, high, len(similar))
    slow, comparable = _slow_jobs(groups)
    exposure = {name: _exposure(column, groups.group) for name, column in measures.items()}
    known = [name for name, column in exposure.items() if np.isfinite(column[this])]
    if not known:
        return found if slow[this] else replace(found, kind="normal")
    most = np.nanmax(np.nan_to_num(np.stack([exposure[name] for name in known]), nan=-np.inf), axis=0)
    measure = max(known, key=lambda name: float(exposure[name][this]))
    usual_measure = float(np.nanmedian(measures[measure][np.append(similar, this)]))
    is_exposed = bool(most[this] >= _EXPOSED)
    found = replace(
        found, measure=measure, factor=math.exp(float(measures[measure][this]) - usual_measure), is_exposed=is_exposed
    )
    if not slow[this]:
        return replace(found, kind="normal")
    if not is_exposed:
        return replace(found, kind="unexplained")
    others = comparable & np.isfinite(most)
    others[this] = False
    highest = np.sort(most[others])[::-1]
    as_exposed = max(_EXPOSED, min(float(most[this]), float(highest[min(_LEAST_EXPOSED, len(highest)) - 1])))
    exposed, calm = others & (most >= as_exposed), others & (most < _EXPOSED)
    probability = excess_fraction(slow, exposed, calm, groups.group)
    kind: VerdictKind = "system" if probability else "unknown"
    return replace(
        found,
        kind=kind,
        probability=probability or None,
        exposed=int(exposed.sum()),
        slow_exposed=int((exposed & slow).sum()),
        others=int(calm.sum()),
        slow_others=int((calm & slow).sum()),
    )


def excess_fraction(slow: Bools, exposed: Bools, calm: Bools, group: Ints) -> float | None:
    """Return the share of the slow exposed jobs that is more than expected; None if jobs of one kind are missing, or if
    no exposed job was slow: then nothing relates the judged job to storage.

    Expected is the share of slow jobs among those not exposed, standardized to the groups of the exposed jobs: some
    programs are slow more often than others, and run at other times. Half a job is added to both sums, and a job at the
    overall share to each group (Jeffreys), so that a few jobs without a slow one do not mean never.
    """
    if not (exposed & slow).any() or not calm.any():
        return None
    overall = (float((calm & slow).sum()) + 0.5) / (float(calm.sum()) + 1.0)
    groups = int(group.max(initial=-1)) + 1

    def count(rows: Bools) -> Floats:
        return np.bincount(group[rows], minlength=groups).astype(np.float64)

    share = (count(calm & slow) + overall) / (count(calm) + 1.0)
    expected = float((count(exposed) * share).sum())
    observed = float((exposed & slow).sum())
    return max(0.0, 1.0 - (expected + 0.5 * overall) / (observed + 0.5))


def _slow_jobs(groups: accounting.SimilarJobs) -> tuple[Bools, Bools]:
    """(jobs slower than similar ones, jobs with enough similar ones)."""
    seconds = groups.seconds
    slow, comparable = np.zeros(len(seconds), np.bool_), np.zeros(len(seconds), np.bool_)
    for row in np.flatnonzero(groups.group >= 0).tolist():
        similar = groups.of(row)
        if len(similar) < accounting.LEAST_SIMILAR:
            continue
        usual = float(np.median(seconds[similar]))
        spread = float(np.median(np.abs(seconds[similar] - usual)))
        least = max(HARM_SHARE * usual, HARM_MADS * spread, _LEAST_HARM_SECONDS)
        slow[row], comparable[row] = seconds[row] - usual >= least, True
    return slow, comparable


def _exposure(measure: Floats, group: Ints) -> Floats:
    """Distance of a measure from the median of similar jobs, in standard deviations of the values below it."""
    found = np.full(len(measure), np.nan)
    for number in np.unique(group[group >= 0]).tolist():
        members = np.flatnonzero((group == number) & np.isfinite(measure))
        if len(members) < accounting.LEAST_SIMILAR:
            continue
        values = measure[members]
        median = float(np.median(values))
        below = median - values[values < median]
        spread = MAD_TO_SD * float(np.median(below)) if len(below) else 0.0
        found[members] = (values - median) / max(spread, _LEAST_SPREAD)
    return found


def _jobs_around(snapshot: Snapshot, job: dict[str, Any], as_of_ns: int | None) -> tuple[Frame, int]:
    """The jobs nearest in time to one and all similar ones, and its row; with a time, only jobs ended by then."""
    key = f"jobs of {job['cluster']}"
    if key not in snapshot.memory:
        jobs = accounting.started_jobs(snapshot, {"cluster": str(job["cluster"])})
        snapshot.memory[key] = jobs, accounting.SimilarJobs(jobs)
    jobs, groups = snapshot.memory[key]
    start = jobs.ints("start_ns")
    of_this = (start == job["start_ns"]) & jobs.text("job_id").equals(job["job_id"])
    this = int(np.flatnonzero(of_this & (jobs.ints("submit_ns") == (job["submit_ns"] or 0)))[0])
    reach = _REACH_DAYS * DAY_NS
    first, last = np.searchsorted(start, (start[this] - reach, start[this] + reach + 1))
    near = np.arange(first, last)
    if as_of_ns is not None:
        near = near[(accounting.ends(jobs)[first:last] <= as_of_ns) & (near != this)]
    near = near[np.argsort(np.abs(start[near] - start[this]), kind="stable")[:_MOST_JOBS]]
    chosen = np.unique(np.concatenate([[this], groups.of(this, as_of_ns), near]))
    return jobs.take(chosen), int(np.searchsorted(chosen, this))


def _filesystem(snapshot: Snapshot, counted: ServerIo | None) -> str | None:
    """The file system on which the servers counted the job, else the busiest, else one that is probed."""
    if counted is not None and counted.systems:
        return snapshot.facility.filesystem_of(counted.systems[0])
    rows = snapshot.rows("responses", columns=("system",))
    probed = snapshot.bare.execute(f"SELECT min(system) FROM ({rows})").fetchall()[0][0]
    return choices.busiest_filesystem(snapshot) or (probed and snapshot.facility.filesystem_of(probed))


def _measure_filesystem(
    snapshot: Snapshot, jobs: Frame, this: int, filesystem: str | None
) -> tuple[dict[str, Floats], float]:
    """(log slowdowns of the file system during each job, by measure; share of job `this` with measurements).

    `probe_data`, `probe_metadata`: response times of probes; any during `this` cover all of it. `service`: request
    times of servers; NaN for a job if less than MIN_COVERAGE of its steps have samples.
    """
    if filesystem is None:
        return {}, 0.0
    start, end = jobs.ints("start_ns"), np.maximum(accounting.ends(jobs), jobs.ints("start_ns") + 1)
    end = np.where(end > start + _REACH_DAYS * DAY_NS, start + 1, end)  # still running
    found: dict[str, Floats] = {}
    coverage = 0.0
    means = probe_times(snapshot, filesystem, start, end)
    probed = probe_slowdowns(means, jobs.rows, np.zeros((jobs.rows, 0)), ())
    found |= {name: probed[name] for name in ("probe_data", "probe_metadata") if np.isfinite(probed[name]).any()}
    if any(np.isfinite(column[this]) for column in found.values()):
        coverage = 1.0
    try:
        kind = choices.traffic_kind(snapshot, {"filesystem": filesystem})
        step = choose_step(snapshot, filesystem, kind, int(start[this]), int(end[this]))
        servers = Servers(filesystem, kind, step)
        metrics = (*BUSY, *BUSY.values())
        windows = merged_windows(start, end, step)
        samples = grid.component_cells(servers.selection(snapshot, metrics, step, windows=windows), metrics)
    except DataUnavailable:
        return found, coverage
    first, last = start // step, (end - 1) // step
    stretches = Stretches(np.arange(jobs.rows), first, last, jobs.rows)
    targets = target_amounts(samples, stretches, (first * step, (last + 1) * step))
    if not targets.amounts:
        return found, coverage
    service = service_slowdown(targets, np.ones((jobs.rows, len(targets.components)), np.bool_))
    sampled = np.unique(samples.start_ns)
    inside = np.searchsorted(sampled, (last + 1) * step) - np.searchsorted(sampled, first * step)
    share = inside / np.maximum(last + 1 - first, 1)
    found["service"] = np.where(share >= MIN_COVERAGE - 1e-9, service, np.nan)
    return found, max(coverage, float(min(share[this], 1.0)))


def _headline(verdict: _JobVerdict) -> str:
    without = "The job itself cannot be judged without a Darshan log."
    if verdict.kind == "system":
        sure = verdict.probability or 0.0
        word = "probably" if sure >= 0.5 else "perhaps"
        return f"Storage {word} contributed (at least {sure:.0%} sure). {without}"
    if verdict.kind == "normal":
        slow = " Storage was slow at that time." if verdict.is_exposed else ""
        return f"It ran about as long as similar jobs.{slow}"
    if verdict.kind == "unexplained":
        return f"It ran longer than similar jobs, but storage performed as usual. {without}"
    if verdict.similar < accounting.LEAST_SIMILAR:
        return f"Unknown: only {verdict.similar} similar jobs; a verdict needs {accounting.LEAST_SIMILAR}. {without}"
    if verdict.is_exposed:
        return f"Unknown: the job and the storage were both slow, but slow storage did not slow similar jobs. {without}"
    return f"It ran longer than similar jobs, but there are no storage data for that time. {without}"


def _comparison_facts(verdict: _JobVerdict, seconds: float) -> Iterator[Fact]:
    yield Fact("run_time", "this job", seconds, "seconds")
    if verdict.usual_seconds is not None and verdict.low_seconds is not None and verdict.high_seconds is not None:
        middle = f"half of them {format_seconds(verdict.low_seconds)} to {format_seconds(verdict.high_seconds)}"
        yield Fact("usual_run_time", "usual", verdict.usual_seconds, "seconds", note=middle)
    yield Fact("similar_jobs", "similar jobs", verdict.similar, "count", note="same user, name and nodes")


def _findings(verdict: _JobVerdict, filesystem: str | None, counted: ServerIo | None) -> Iterator[Finding]:
    if filesystem is not None and verdict.factor is not None:
        text = f"Storage ({filesystem}) was as usual at that time."
        if verdict.is_exposed:
            times = f"{verdict.factor:.1f} times the usual time"
            text = f"During the job, {_MEASURES[verdict.measure]} on {filesystem} took {times}."
        yield Finding(text, name="storage_slow" if verdict.is_exposed else "storage_usual")
    if verdict.kind == "system" and verdict.exposed:
        then, else_ = verdict.slow_exposed / verdict.exposed, verdict.slow_others / max(verdict.others, 1)
        count = f"{verdict.slow_exposed} of {verdict.exposed}"
        text = f"At such times, {then:.0%} of jobs are slow ({count}); at other times, {else_:.0%}."
        yield Finding(text, name="follows_system")
    if counted is not None:
        read, wrote = (format_bytes(each) for each in (counted.read_bytes, counted.write_bytes))
        yield Finding(f"According to server counters, it read {read} and wrote {wrote}.", name="servers_counted")


def accounting_facts(row: dict[str, Any]) -> FactGroup:
    """What accounting has of a job: a row of `jobs`."""
    said = {name: (name, one_line(str(row[name] or ""))) for name in ("account", "name", "cluster", "state")}
    said = {"user": ("user", user_of(row)), **said, "start": ("started", format_time_ns(row["start_ns"]))}
    if row["end_ns"] is not None:
        said["run_seconds"] = "run time", format_seconds((row["end_ns"] - row["start_ns"]) / NS)
    if row["node_count"] is not None:
        said["nodes"] = "nodes", f"{row['node_count']:,}"
    facts = (Fact(name, label, "", note=note) for name, (label, note) in said.items() if note)
    return FactGroup("accounting", "From accounting", tuple(facts))


def user_of(row: dict[str, Any]) -> str:
    """Name of the user of a row of `jobs`, else the uid."""
    return one_line(str(row["user"] or f"uid {row['uid']}"))
