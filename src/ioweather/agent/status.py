"""status.json: the current state of an agent, of this host or of others, and its changes as log lines.

The agent replaces the file every period; `now`, the exporter and the dashboard read it. It is one object of the class
`Status`, as JSON with the names of the fields. Times are UTC nanoseconds, durations nanoseconds. Readers ignore unknown
keys, so that fields can be added; a change of meaning raises `STATUS_VERSION`.

Agents of other hosts push to `<lake>/inbox/<host>/`: `status.json` there is the last status that was pushed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal

from ioweather.core.errors import CorruptInput, DataUnavailable, IoweatherError, SourceError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import DAY_NS, NS

STATUS_VERSION = 1
STATUS_FILE = "status.json"
# Upper bounds of the histograms' buckets: doubling from 10 us to 168 s. One more bucket counts what is longer.
BUCKETS_NS = tuple(10_000 << power for power in range(25))
# A status older than three of its periods, and older than this, was left by an agent that is gone.
_STALE_AT_LEAST_NS = 5 * NS

# `vars` of each object in turn: dataclasses.asdict copies everything, at ten times the cost, every second.
_ENCODE = json.JSONEncoder(default=vars, separators=(",", ":")).encode

# preparing: makes its files and measures nothing yet. waiting: between two ticks. running: an operation is in flight.
# hung: an operation has been in flight for longer than a period. failed: the child ended and will be started again.
State = Literal["preparing", "waiting", "running", "hung", "failed", "stopped"]


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
    """Operations that finished within the last `window_ns`; null if there were none."""

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
    zeros may be left out.
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
    bucket_counts: tuple[int, ...] = ()
    sum_ns: int = 0

    @property
    def slowdown_ratio(self) -> float | None:
        """Median of the last minute over the live baseline; below 1 is faster than usual. None if either is unknown."""
        if self.recent.median_ns is None or not self.expected_ns:
            return None
        return self.recent.median_ns / self.expected_ns


@dataclass(frozen=True)
class InFlight:
    """The operation in flight on a target. `age_ns` is its age when the status was written."""

    op: str
    request_bytes: int
    start_ns: int
    age_ns: int
    scheduled_ns: int | None = None


@dataclass(frozen=True)
class TargetStatus:
    """One probed path. `access` is how data requests reach storage: 'direct' (O_DIRECT), 'dropped' (the page cache is
    emptied before each request) or 'cached' (the cache could not be avoided)."""

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


@dataclass
class SourceStatus:
    """One live source: its last run, and how many runs failed."""

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
    """Rows on their way to the lake. `dropped_rows` were lost because the spool was full or its disk failed;
    `dropped_why` is the last reason. `refused_why` names the last file that the lake refused, with the reason."""

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
    """The state of an agent. `ship_period_ns`: how often it is pushed to a server, if it is. `received_ns`: when that
    server received it, by the server's clock; null in the file that the agent itself writes."""

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
        """Time of the last sign of life, by the clock of the host that stores the status."""
        return self.written_ns if self.received_ns is None else self.received_ns

    @property
    def other_sources(self) -> list[SourceStatus]:
        """The sources that are no probes: probes are in `targets`."""
        probes = {"probe", "sample", *(target.target for target in self.targets)}
        return [source for source in self.sources if source.name not in probes]

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the last sign of life is older than three periods, of writing or of pushing."""
        period_ns = self.period_ns if self.received_ns is None else self.ship_period_ns or self.period_ns
        return now_ns - self.heard_ns > max(3 * period_ns, _STALE_AT_LEAST_NS)

    def is_stale(self, now_ns: int) -> bool:
        """Return whether the agent that wrote it is gone: stopped or silent."""
        return self.state == "stopped" or self.is_silent(now_ns)

    def life(self, now_ns: int) -> Literal["running", "stopped", "silent"]:
        """Return whether the agent runs, has stopped by its own account, or gives no sign of life."""
        return "stopped" if self.state == "stopped" else "silent" if self.is_silent(now_ns) else "running"

    def in_flight_age_ns(self, target: TargetStatus, now_ns: int) -> int | None:
        """Return the age at `now_ns`; for a pushed status the age when it was written, since nothing newer is known."""
        if target.in_flight is None:
            return None
        since_ns = 0 if self.received_ns is not None else now_ns - self.written_ns
        return target.in_flight.age_ns + max(0, since_ns)


def status_bytes(status: Status) -> bytes:
    """Return the content of status.json."""
    return f"{_ENCODE(status)}\n".encode()


def write_status(status: Status, folder: PrivateDirectory | Path) -> None:
    """Replace status.json atomically: a reader sees the old or the new one, never a part."""
    if isinstance(folder, Path):
        with PrivateDirectory.named(folder, keep=0o750) as opened:
            write_status(status, opened)
    else:
        folder.replace(STATUS_FILE, status_bytes(status), 0o644)


_PARTS: Final[Mapping[str, type]] = {
    "spool": SpoolStatus,
    "targets": TargetStatus,
    "sources": SourceStatus,
    "operations": OperationStatus,
    "in_flight": InFlight,
    "last": Outcome,
    "recent": Recent,
}


def read_status(directory: Path) -> Status:
    """Return the status in a spool directory."""
    path = directory / STATUS_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != STATUS_VERSION:
            raise SourceError(
                f"{path}: status version {data['version']} is not supported (expected {STATUS_VERSION}).",
                hint="Use the same ioweather version for the agent and this command.",
                kind="UnsupportedVersion",
            )
        status: Status = _part(Status, data)
    except FileNotFoundError:
        raise DataUnavailable(
            f"{path} does not exist: no agent has run here.",
            hint="Start one with `ioweather agent run` or `ioweather probe`.",
        ) from None
    except OSError as error:
        raise DataUnavailable(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptInput(f"{path} is not a valid agent status: {error!r}.") from None
    return status


def _part(kind: type, data: Mapping[str, Any]) -> Any:
    """Return an object of the status from JSON, with the objects inside."""
    values = {entry.name: data[entry.name] for entry in fields(kind) if entry.name in data}
    for name, value in values.items():
        part = _PARTS.get(name)
        if isinstance(value, list):
            values[name] = tuple(_part(part, each) if part else each for each in value)
        elif part and value is not None:
            values[name] = _part(part, value)
    return kind(**values)


# Older statuses are left out: jobs on ever new hosts leave folders behind.
_FORGOTTEN_NS: Final = 7 * DAY_NS


def keep_status(root: Path, status: Status, received_ns: int) -> None:
    """Store the pushed status of a host. Not for two callers of one host at a time."""
    with PrivateDirectory.named(root / "inbox" / status.host, mode=0o750, keep=0o770, shared=True) as folder:
        write_status(replace(status, received_ns=received_ns), folder)


def remote_agents(root: Path | None, now_ns: int, local: Sequence[Status] = ()) -> list[Status]:
    """Return the last statuses of the agents that push to a lake, by host, without those silent for a week and those in
    `local`."""
    runs = {(status.host, status.run_id) for status in local}
    found: list[Status] = []
    try:
        folders = sorted((root / "inbox").iterdir()) if root else []
    except OSError:
        return []  # no host pushes here, or this user may not read it
    for folder in folders:
        with suppress(IoweatherError):  # without a status that can be read
            status = read_status(folder)
            if now_ns - status.heard_ns <= _FORGOTTEN_NS and (status.host, status.run_id) not in runs:
                found.append(status)
    return found


def find_problems(status: Status) -> dict[tuple[str, str], str]:
    """Return what is wrong in this status: a sentence by (what it is about, state)."""
    found: dict[tuple[str, str], str] = {}
    for target in status.targets:
        if target.state == "hung" and target.in_flight is not None:
            lasts = f"{target.in_flight.op} for {target.in_flight.age_ns / NS:.1f} s"
            found[target.target, "hung"] = f"{target.target}: hung: {lasts}"
    parts = [(target.target, target.state, target.message) for target in status.targets]
    parts += [(source.name, source.state, source.message) for source in status.other_sources]
    for name, state, message in parts:
        if state in ("failed", "hung") and (name, state) not in found:
            found[name, state] = f"{name}: {state}{f': {message}' if message else ''}"
    spool = status.spool
    if spool.last_ship_ok is False:
        found["delivery", "failed"] = f"delivery failed: {spool.message}"
    if spool.refused_files:
        why = spool.refused_why or spool.message or "no reason given"
        found["refused files", str(spool.refused_files)] = f"the lake refused {spool.refused_files} files: {why}"
    if spool.dropped_rows:
        why = spool.dropped_why or spool.message
        found["rows", "dropped"] = f"{spool.dropped_rows:,} rows dropped{f': {why}' if why else ''}"
    return found


class Journal:
    """Logs what changes from one status to the next; an Agent calls it as `on_status`."""

    def __init__(self) -> None:
        self._log = logging.getLogger("ioweather.agent")
        self._problems: dict[tuple[str, str], str] | None = None

    def __call__(self, status: Status) -> None:
        """Log the problems that began or ended since the last status."""
        if self._problems is None:
            place = (status.host, status.pid, status.run_id, status.spool.directory)
            self._log.info("started on %s, pid %d, run %s, spool %s", *place)
        before, now = self._problems or {}, find_problems(status)
        for key, text in now.items():
            if key not in before:
                self._log.log(logging.ERROR if key[0] == "rows" else logging.WARNING, "%s", text)
        # One that was started again may fail again: whether it works is not known yet.
        preparing = {t.target for t in status.targets if t.state == "preparing"}
        preparing |= {source.name for source in status.sources if source.state == "preparing"}
        waits = {key: text for key, text in before.items() if key[0] in preparing}
        for name in sorted({name for name, _ in before} - {name for name, _ in (*now, *waits)}):
            self._log.warning("%s: recovered", name)
        self._problems = {**waits, **now}

    def end(self, status: Status) -> None:
        """Log the last status, after the last shipping, with the reason if rows stay in the spool."""
        spool = status.spool
        if spool.message and spool.last_ship_ok is not False and not spool.refused_files:
            self._log.warning("the spool: %s", spool.message)
        self._log.info("stopped: %d rows written, %d files shipped", spool.written_rows, spool.shipped_files)
