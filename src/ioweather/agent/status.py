"""status.json: how things stand now. The agent replaces it every period; `now`, exporter and dashboard read it.

One object of the class `Status`, as JSON with the names of the fields. Times are UTC nanoseconds, durations
nanoseconds. Readers pass over keys they do not know, so that fields can be added; a change of meaning raises
`STATUS_VERSION`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from ioweather.core.errors import CorruptInput, DataUnavailable, UnsupportedVersion
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import NS

STATUS_VERSION = 1
STATUS_FILE = "status.json"
# Upper bounds of the buckets of every histogram: doubling from 10 us to 168 s; what is longer goes to one more bucket.
BUCKETS_NS = tuple(10_000 << power for power in range(25))
# A status older than three of its periods, and than this, was left by an agent that is gone.
_STALE_AT_LEAST_NS = 5 * NS

# `vars` of each object in turn: dataclasses.asdict copies everything, at ten times the cost, every second.
_ENCODE = json.JSONEncoder(default=vars, separators=(",", ":")).encode

# preparing: makes its files, nothing is measured yet. waiting: between two ticks. running: an operation is in flight.
# hung: an operation has been in flight for longer than a period. failed: the child ended and will be started again.
State: TypeAlias = Literal["preparing", "waiting", "running", "hung", "failed", "stopped"]


# The three that are made for every operation every second are not frozen: filling in a frozen one takes three times as
# long. Nobody changes them.
@dataclass
class Outcome:
    """The last operation of its kind that finished, failed or was missed. `status` and `errno` as in `responses`."""

    start_ns: int
    status: str
    scheduled_ns: int | None = None
    duration_ns: int | None = None
    errno: int | None = None
    cached: bool | None = None


@dataclass
class Recent:
    """Operations that finished within the last `window_ns`; null where there is none."""

    window_ns: int
    count: int = 0
    median_ns: int | None = None
    q90_ns: int | None = None
    max_ns: int | None = None


@dataclass
class OperationStatus:
    """One kind of operation on one target. Counts are since the agent started.

    `expected_ns` is the live baseline: the median of all `expected_count` finished operations that this agent and the
    ones before it in the same spool have seen (to 1%; the oldest fade out). Null until there are enough.
    `bucket_counts[i]` are operations in (BUCKETS_NS[i-1], BUCKETS_NS[i]]; the last one is above all bounds. Trailing
    zeros are left out by who writes, and put back by `read_status`.
    """

    op: str
    request_bytes: int
    mode: str
    ok_count: int = 0
    error_count: int = 0
    missed_count: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)  # by name of the errno: {"EIO": 3}
    last: Outcome | None = None
    last_success_ns: int | None = None
    expected_ns: int | None = None
    expected_count: int = 0
    recent: Recent = field(default_factory=lambda: Recent(60 * NS))
    bucket_counts: tuple[int, ...] = (0,) * (len(BUCKETS_NS) + 1)
    sum_ns: int = 0

    @property
    def slowdown_ratio(self) -> float | None:
        """Median of the last minute over the live baseline; below 1 is faster than usual. Null where either is."""
        if self.recent.median_ns is None or not self.expected_ns:
            return None
        return self.recent.median_ns / self.expected_ns


@dataclass(frozen=True)
class InFlight:
    """The operation that the target is busy with. `age_ns` is its age when the status was written."""

    op: str
    request_bytes: int
    start_ns: int
    age_ns: int
    scheduled_ns: int | None = None


@dataclass(frozen=True)
class TargetStatus:
    """One probed path. `access` says how data requests reach storage: 'direct' (O_DIRECT), 'dropped' (page cache, which
    is emptied before each request) or 'cached' (the cache could not be avoided)."""

    target: str
    system: str
    state: State
    period_ns: int
    pid: int | None = None
    access: str | None = None
    ticks: int = 0
    missed_ticks: int = 0
    in_flight: InFlight | None = None
    operations: tuple[OperationStatus, ...] = ()
    message: str = ""

    def operation(self, op: str) -> OperationStatus | None:
        return next((entry for entry in self.operations if entry.op == op), None)


@dataclass(frozen=True)
class SourceStatus:
    """One live source that is no probe: block devices, Lustre counters, Slurm. The last run, and how many failed."""

    name: str
    state: State
    period_ns: int
    pid: int | None = None
    runs: int = 0
    failed_runs: int = 0
    missed_ticks: int = 0
    rows: int = 0
    last_start_ns: int | None = None
    last_duration_ns: int | None = None
    last_ok: bool | None = None
    message: str = ""


@dataclass(frozen=True)
class SpoolStatus:
    """Rows on their way to the lake. `dropped_rows` were given up, because the spool was full or its disk failed:
    `dropped_why` tells of the last. `refused_why` names the last file that the lake refused, and why."""

    directory: str
    files: int = 0
    bytes: int = 0
    limit_bytes: int = 0
    written_rows: int = 0
    dropped_rows: int = 0
    shipped_files: int = 0
    refused_files: int = 0
    last_ship_ns: int | None = None
    last_ship_ok: bool | None = None
    message: str = ""
    dropped_why: str = ""
    refused_why: str = ""


@dataclass(frozen=True)
class Status:
    """`ship_period_ns`: how often it is pushed to a server, null where it is not. `received_ns`: when that server took
    it, by its own clock; null where the agent itself wrote it."""

    host: str
    pid: int
    boot_id: str
    run_id: str
    state: Literal["running", "stopped"]
    started_ns: int
    written_ns: int
    period_ns: int
    spool: SpoolStatus
    targets: tuple[TargetStatus, ...] = ()
    sources: tuple[SourceStatus, ...] = ()
    software_version: str = ""
    version: int = STATUS_VERSION
    ship_period_ns: int | None = None
    received_ns: int | None = None

    @property
    def heard_ns(self) -> int:
        """When it was last heard of, by the clock of who keeps the status."""
        return self.written_ns if self.received_ns is None else self.received_ns

    def is_silent(self, now_ns: int) -> bool:
        """Whether nothing was heard for three periods: of its writing, or where it is elsewhere of its pushing."""
        period_ns = self.period_ns if self.received_ns is None else self.ship_period_ns or self.period_ns
        return now_ns - self.heard_ns > max(3 * period_ns, _STALE_AT_LEAST_NS)

    def is_stale(self, now_ns: int) -> bool:
        """Whether the agent that wrote it is gone: it stopped, or is silent."""
        return self.state == "stopped" or self.is_silent(now_ns)

    def in_flight_age_ns(self, target: TargetStatus, now_ns: int) -> int | None:
        """Age now, not when the status was written; of one that was pushed as it was then, for nobody knows more."""
        if target.in_flight is None:
            return None
        since_ns = 0 if self.received_ns is not None else now_ns - self.written_ns
        return target.in_flight.age_ns + max(0, since_ns)


def status_bytes(status: Status) -> bytes:
    return f"{_ENCODE(status)}\n".encode()


def write_status(status: Status, folder: PrivateDirectory | Path) -> None:
    """Replace the file at once: a reader sees the old or the new one, never a part."""
    if isinstance(folder, Path):
        with PrivateDirectory.named(folder, keep=0o750) as opened:
            write_status(status, opened)
    else:
        folder.replace(STATUS_FILE, status_bytes(status), 0o644)


def read_status(directory: Path) -> Status:
    """The status in a spool directory."""
    path = directory / STATUS_FILE
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataUnavailable(
            f"There is no {path}: no agent has run here.",
            hint="Start one with `ioweather agent run` or `ioweather probe`.",
        ) from None
    except OSError as error:
        raise DataUnavailable(f"{path} cannot be read: {error.strerror}.") from None
    try:
        return status_from(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptInput(f"{path} is not a status of the agent: {error!r}.") from None
    except UnsupportedVersion as error:
        raise UnsupportedVersion(f"{path}: {error.message}", hint=error.hint) from None


def status_from(data: Mapping[str, Any]) -> Status:
    """The object that JSON made dictionaries of."""
    if data["version"] != STATUS_VERSION:
        raise UnsupportedVersion(
            f"the status has version {data['version']}, this software reads {STATUS_VERSION}.",
            hint="Run agent and reader in the same version.",
        )
    return _build(
        Status,
        data,
        spool=_build(SpoolStatus, data["spool"]),
        targets=tuple(_target(target) for target in data["targets"]),
        sources=tuple(_build(SourceStatus, source) for source in data["sources"]),
    )


def _target(data: Mapping[str, Any]) -> TargetStatus:
    in_flight = data.get("in_flight")
    return _build(
        TargetStatus,
        data,
        in_flight=_build(InFlight, in_flight) if in_flight else None,
        operations=tuple(_operation(operation) for operation in data["operations"]),
    )


def _operation(data: Mapping[str, Any]) -> OperationStatus:
    last = data.get("last")
    return _build(
        OperationStatus,
        data,
        last=_build(Outcome, last) if last else None,
        recent=_build(Recent, data["recent"]),
        bucket_counts=(*data["bucket_counts"], *(0,) * (len(BUCKETS_NS) + 1 - len(data["bucket_counts"]))),
    )


T = TypeVar("T")


def _build(kind: type[T], data: Mapping[str, Any], **made: Any) -> T:
    names = {entry.name for entry in fields(kind)}  # type: ignore[arg-type]
    return kind(**{**{name: value for name, value in data.items() if name in names}, **made})
