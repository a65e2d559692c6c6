"""What `who` looks at: who did what in a period, and whom it slowed; or one run and the jobs beside it."""

from __future__ import annotations

from dataclasses import dataclass

from ioweather.diagnosis.blame import Party, Slowed
from ioweather.diagnosis.verdict_wording import Explained
from ioweather.job_io.view import JobView


@dataclass(frozen=True)
class Volume:
    """What a job did in the period. `known_by` is servers or log."""

    party: Party
    read_bytes: float
    write_bytes: float
    metadata_operations: float
    known_by: str


@dataclass(frozen=True)
class MetadataStorm:
    """The strongest stretch of a job that asked the metadata servers for much of the most that they ever did."""

    party: Party
    start_ns: int
    end_ns: int
    operations_per_s: float
    capacity_ratio: float


@dataclass(frozen=True)
class Activity:
    """Of one file system; `slowed` are the runs that took longer than similar ones; `runs` counts all that have a log;
    `known_ratio` is the share of the bytes that storage moved which jobs' records explain, None without samples.
    `is_last_hour`: no period was chosen, so it is the last hour with jobs."""

    filesystem: str
    start_ns: int
    end_ns: int
    slowed: tuple[Slowed, ...] = ()
    volumes: tuple[Volume, ...] = ()
    storms: tuple[MetadataStorm, ...] = ()
    runs: int = 0
    known_ratio: float | None = None
    is_last_hour: bool = False


@dataclass(frozen=True, eq=False)
class RunAsked:
    """One run; `found` and `run` are None where the lake does not say, and `lacking` tells why."""

    view: JobView
    found: Explained | None
    run: Slowed | None
    lacking: str = ""
