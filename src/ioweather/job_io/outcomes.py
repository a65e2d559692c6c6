"""Results of `job`, `why` and `who` for programs, with stable names in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypeAlias

from ioweather.core.results import Amount

VerdictKind: TypeAlias = Literal["normal", "system", "you", "both", "unexplained", "unknown"]


class Reason(StrEnum):
    """Why there is no verdict; `node`: why a run is unexplained."""

    NO_LAKE = "no_lake"
    NO_SYSTEM_DATA = "no_system_data"
    NO_IO_TIME = "no_io_time"
    NO_RUN_TIME = "no_run_time"
    FEW_SIMILAR_RUNS = "few_similar_runs"
    PARTLY_SAMPLED = "partly_sampled"
    COARSE_SAMPLES = "coarse_samples"
    COST_NOT_KNOWN = "cost_not_known"
    LOW_PROBABILITY = "low_probability"
    NODE = "node"


@dataclass(frozen=True)
class AdviceItem:
    """One pattern of a run, and the seconds that changing it alone would save, with their 90% interval. Without a
    measured pair of runs the saving is 0, and `high` is the estimate of the model. `dimension` is small_or_misaligned,
    interface, random, imbalance, shared_file or metadata; `fix` has the lines to type; `headline` names the pattern,
    `file` where it costs most, and `note` is what the site says of it."""

    name: str
    dimension: str
    evidence: str
    seconds: float
    low: float
    high: float
    fix: tuple[str, ...]
    headline: str = ""
    file: str = ""
    note: str = ""


@dataclass(frozen=True)
class SplitSeconds:
    """Where the I/O time went. None: not known."""

    usual: Amount | None = None
    system: Amount | None = None
    own: Amount | None = None
    unexplained: Amount | None = None


@dataclass(frozen=True)
class Change:
    """A measure of the run's I/O pattern that differs from similar runs."""

    name: str
    value: float
    usual: float


@dataclass(frozen=True)
class Culprit:
    """A job that loaded the storage during the run; of one without a number, `program` tells what it was."""

    job_id: int | None
    user: str | None
    project: str | None
    probability: float | None
    seconds: float | None
    low: float | None = None
    high: float | None = None
    program: str | None = None


@dataclass(frozen=True)
class Unhealthy:
    """A component that was unhealthy. `kind` is how it showed: slow, stalled (its device is not slow), capped, absent,
    busy (its processors), overloaded. `factor`: how many times longer operations took than expected; `runs` that used
    it lost `lost_seconds` together."""

    component: str | None
    kind: str | None
    cause: str
    start_ns: int
    end_ns: int | None
    probability: float | None = None
    filesystem: str | None = None
    factor: float | None = None
    runs: int | None = None
    lost_seconds: float | None = None


def unhealthy_of(event: Mapping[str, Any], filesystem: str | None = None) -> Unhealthy:
    """A row of `events`, as programs read it; also one of an earlier version, which had no probability."""
    details = json.loads(event["details"] or "{}")
    return Unhealthy(
        component=event["component"],
        kind=details.get("direction"),
        cause=details.get("cause") or event["label"],
        start_ns=event["start_ns"],
        end_ns=event["end_ns"],
        probability=details.get("probability"),
        filesystem=filesystem,
        factor=event["strength_ratio"],
        runs=details.get("runs"),
        lost_seconds=details.get("lost_seconds"),
    )


@dataclass(frozen=True)
class RecordedVerdict:
    """A verdict that the lake holds. `as_of_ns`: only runs that had ended by then were compared; `at_end`: that is the
    end of the run. `probability` is that of `likeliest`."""

    as_of_ns: int
    at_end: bool
    kind: VerdictKind
    likeliest: VerdictKind
    probability: float | None
    headline: str
    model_version: int
    judged_ns: int


@dataclass(frozen=True)
class WhyOutcome:
    """`probability` is that of `kind`, or of `likeliest` where `kind` is unknown; `n` counts the similar runs;
    `coverage` is the share of the run in which the system was sampled; `as_of_ns` is None where every run counts;
    `recorded` are the verdicts that were made before, the first as of the run's end. Of a job with several logs `run`
    is the one that is judged, counted from 1 in the order of start; bytes are those of this run. `slowness`: its I/O
    time over the median of the similar runs. `evidence` is accounting for a job without a log: then `run_seconds` and
    `usual_run_seconds` were compared, `n` counts similar jobs, `probability` is a lower bound, and the kind is never
    you or both."""

    kind: VerdictKind
    reason: Reason | None
    likeliest: VerdictKind = "unknown"
    probability: float | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    filesystem: str | None = None
    io_seconds: float | None = None
    harm_seconds: float | None = None
    seconds: SplitSeconds = SplitSeconds()
    changed: tuple[Change, ...] = ()
    culprits: tuple[Culprit, ...] = ()
    unhealthy: tuple[Unhealthy, ...] = ()
    n: int = 0
    coverage: float | None = None
    worth: tuple[AdviceItem, ...] = ()
    model_version: int | None = None
    as_of_ns: int | None = None
    recorded: tuple[RecordedVerdict, ...] = ()
    run: int = 1
    logs: int = 1
    read_bytes: int | None = None
    write_bytes: int | None = None
    slowness: float | None = None
    evidence: Literal["accounting"] | None = None
    run_seconds: float | None = None
    usual_run_seconds: float | None = None


@dataclass(frozen=True)
class AllRuns:
    """Sums over all runs of a job. I/O times are added up, also of runs at the same time."""

    count: int
    io_seconds: float
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """`seen` are all patterns that the log shows, the costliest first; `worth` those that are worth changing. Without
    a log (`logs` 0) the amounts are what the servers counted, None if they did not. Of a job with several logs they
    are those of the run that `why` judges, number `run` in the order of start; `all_runs` are their sums. `slowness`
    and the seconds of `worth` are those of `why`; where the lake cannot tell what is usual, `slowness` is None, and the
    seconds are at the speed of this run."""

    job_id: int | None
    user: str | None
    project: str | None
    program: str
    logs: int
    processes: int | None = None
    nodes: int | None = None
    start_ns: int
    end_ns: int
    run_seconds: float | None = None
    io_seconds: float | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    bytes_per_s: float | None = None
    metadata_ratio: float | None = None
    files: int = 0
    seen: tuple[AdviceItem, ...] = ()
    worth: tuple[AdviceItem, ...] = ()
    run: int = 1
    all_runs: AllRuns | None = None
    slowness: float | None = None


@dataclass(frozen=True)
class Talker:
    """What a job, or all jobs of a user, a project or a program did. `known_by`: servers, log, or both."""

    job_id: int | None
    user: str | None
    project: str | None
    program: str | None
    read_bytes: float
    write_bytes: float
    metadata_operations: float
    bytes_ratio: float | None
    metadata_ratio: float | None
    known_by: str


@dataclass(frozen=True)
class Storm:
    """A job that asked the metadata servers for a large part (`capacity_ratio`) of the most that they ever did."""

    job_id: int | None
    user: str | None
    project: str | None
    program: str | None
    start_ns: int
    end_ns: int
    operations_per_s: float
    capacity_ratio: float


@dataclass(frozen=True)
class Gain:
    """A run of another user, and the seconds that it would have taken less; below 0: more."""

    job_id: int | None
    user: str | None
    io_seconds: float
    seconds: float


@dataclass(frozen=True)
class WhatIfOutcome:
    """I/O seconds of all other runs as they were and as they would have been; `seconds` is the difference, with its 90%
    interval; `gains` are the runs that would feel it most."""

    change: Literal["without", "move", "stripe"]
    job_id: int | None
    filesystem: str | None
    start_ns: int
    end_ns: int
    runs: int
    before_seconds: float
    after_seconds: float
    seconds: float
    low: float | None
    high: float | None
    gains: tuple[Gain, ...] = ()


@dataclass(frozen=True)
class WhoOutcome:
    """`culprits` are the jobs that may be named, by the seconds that they cost others; `users` the same by user. For
    one run `io_seconds` and `lost_seconds` are its own, for a period those of the `slowed` runs of the `runs` in it.
    `known_ratio`: share of what storage did that records of jobs explain. `without`: the I/O of others without one job,
    where that was asked."""

    about: Literal["run", "period"]
    filesystem: str | None
    start_ns: int
    end_ns: int
    culprits: tuple[Culprit, ...] = ()
    users: tuple[Culprit, ...] = ()
    talkers: tuple[Talker, ...] = ()
    storms: tuple[Storm, ...] = ()
    io_seconds: float | None = None
    lost_seconds: float | None = None
    runs: int = 0
    slowed: int = 0
    known_ratio: float | None = None
    evidence: Literal["servers", "logs", "none"] = "none"
    without: WhatIfOutcome | None = None
