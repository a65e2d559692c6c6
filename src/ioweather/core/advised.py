"""What programs read of advice: one pattern of a run, one program of a triage, one change that was made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AdviceItem:
    """A pattern that was seen, and what changing it alone wins: seconds with their 90% interval. A change that nobody
    tried promises 0, and `high` is what its model says. `dimension` is one of small_or_misaligned, interface, random,
    imbalance, shared_file, metadata; `fix` the lines to type; `headline` the pattern in words."""

    name: str
    dimension: str
    evidence: str
    seconds: float
    low: float
    high: float
    fix: tuple[str, ...]
    headline: str = ""


@dataclass(frozen=True)
class TriageItem:
    """A program of a user, and what its `runs` could win together: `seconds` with bounds. `name` to `fix` are of the
    pattern that costs most; `job_id` is the run with most to win."""

    program: str
    user: str
    project: str
    runs: int
    io_seconds: float
    seconds: float
    low: float
    high: float
    name: str
    headline: str
    dimension: str
    evidence: str
    fix: tuple[str, ...]
    job_id: int


@dataclass(frozen=True)
class OthersItem:
    """What runs of a program of a user cost `runs` of others: seconds with their 90% interval, and how sure it is that
    it was this program. `name` is the pattern that it should change first, empty where its own I/O is well; `job_id` is
    the run that cost one of the others most."""

    program: str
    user: str
    project: str
    runs: int
    seconds: float
    low: float
    high: float
    probability: float
    name: str
    job_id: int | None


@dataclass(frozen=True)
class FixedItem:
    """A pattern that is gone: medians of the I/O time of a run, before and since."""

    program: str
    user: str
    project: str
    name: str
    runs_before: int
    runs_after: int
    before_seconds: float
    after_seconds: float
    won_seconds: float
