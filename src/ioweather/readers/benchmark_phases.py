"""What the output of any benchmark becomes: phases with their figures, rows of `benchmarks` and of `events`."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from ioweather.core.clock import local_to_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import NS
from ioweather.readers.text_files import line_blocks

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# asctime(3), '11/15/2026 07:04:40' and '2024-05-03 09:25:48'. Not strptime: its month names follow the reader's locale.
_TIME_OF_DAY: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_DATES: Final = (
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME_OF_DAY} (?P<year>\d{{4}})"),
    re.compile(rf"(?P<month>\d{{2}})/(?P<day>\d{{2}})/(?P<year>\d{{4}}) {_TIME_OF_DAY}"),
    re.compile(rf"(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})[ T]{_TIME_OF_DAY}"),
)


# The dates benchmarks print: local time of the machine they ran on, without a zone, to the second.
def find_date(text: str) -> dt.datetime | None:
    """The first date in a line; None where there is none, or one that no calendar has."""
    match = next((found for form in _DATES if (found := form.search(text))), None)
    if match is None:
        return None
    parts = match.groupdict()
    try:
        parts["month"] = _MONTHS.index(parts["month"]) + 1 if parts["month"].isalpha() else parts["month"]
        moment = dt.datetime(**{name: int(value) for name, value in parts.items()})  # type: ignore[arg-type]
    except ValueError:
        return None
    return moment if 1970 < moment.year < 2262 else None  # the range of nanoseconds in 64 bits


class LocalTimes:
    """Turns the dates of one output, in their order, into UTC. The order settles the doubled hour of autumn."""

    def __init__(self, path: Path, zone: ZoneInfo | None) -> None:
        self._path = path
        self._zone = zone
        self._last_ns: int | None = None

    def ns(self, text: str) -> int | None:
        """The date in a line; None where it has none."""
        naive = find_date(text)
        if naive is None:
            return None
        if self._zone is None:
            raise UndatedInput(
                f"{self._path} gives local times ({naive}) and does not say in which zone.",
                hint="Give --zone, or set `zone` in facility.toml.",
            )
        # Two lines may carry the same second, so the moment before the last one is what the next must follow.
        after_ns = None if self._last_ns is None else self._last_ns - 1
        try:
            self._last_ns = local_to_ns(naive, self._zone, after_ns=after_ns)
        except UndatedInput as error:
            raise UndatedInput(f"{self._path}: {error.message}", hint=error.hint) from None
        return self._last_ns


# Longer than any run; a damaged digit must not lead beyond the range of the clock.
_LONGEST_SECONDS: Final = 366 * 86_400


@dataclass(frozen=True)
class Phase:
    """One phase of a run. `details` go into the parameters; `target` is the directory it worked in.

    `marks_time` is false where the times should not be on a time line: those of a run whose phases are all there
    themselves, and those of a phase of which only the run is known (`within`).
    """

    name: str
    operation: str | None = None
    bytes_per_s: float | None = None
    ops_per_s: float | None = None
    duration_seconds: float | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    command: str | None = None
    target: str | None = None
    marks_time: bool = True


@dataclass(frozen=True)
class TextFile:
    """All lines of a file. `torn` says that the last one has no line end, so that it is not to be trusted."""

    path: Path
    digest: str
    lines: tuple[str, ...]
    torn: bool

    @property
    def whole_lines(self) -> tuple[str, ...]:
        return self.lines[:-1] if self.torn else self.lines


def read_text(path: Path) -> TextFile:
    """All lines of a file, and its digest."""
    blocks = list(line_blocks(path, closing="}"))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]
    lines = tuple(line for block in blocks for line in block.lines)
    return TextFile(path, digest, lines, bool(blocks) and blocks[-1].torn)


def number(text: object) -> float | None:
    """A printed figure of at least zero; None for '-', 'NA', 'nan' and other texts."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def scaled(value: float | None, factor: float) -> float | None:
    """The value times the factor; None stays None."""
    return None if value is None else value * factor


def end_of(start_ns: int | None, duration_seconds: float | None) -> int | None:
    """The end of a phase; None where its start or its length is not known."""
    if start_ns is None or duration_seconds is None or duration_seconds > _LONGEST_SECONDS:
        return None
    return start_ns + round(duration_seconds * NS)


def within(run: Phase, phases: Iterable[Phase]) -> Iterator[Phase]:
    """Phases whose own times are not known get those of their run, so that they are found by time; marked as such."""
    for phase in phases:
        if phase.start_ns is None and run.start_ns is not None:
            details = {**phase.details, "times": "of the run"}
            phase = replace(phase, start_ns=run.start_ns, end_ns=run.end_ns, details=details, marks_time=False)
        yield phase


def latest(*ends_ns: int | None) -> int | None:
    """The best of several lower bounds of an end: printed dates lack the fraction of their second."""
    return max((end for end in ends_ns if end is not None), default=None)


def frames(tool: str, text: TextFile, phases: Sequence[Phase], context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of `benchmarks` for all phases, and of `events` for those whose start and end are known."""
    names = [phase.name for phase in phases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CorruptInput(
            f"{text.path} gives the figures of {', '.join(twice)} twice in one run.",
            hint="Two outputs were probably written into one file; ingest them apart.",
        )
    digest = _run_digest(tool, text, phases)
    yield (
        "benchmarks",
        TABLES["benchmarks"].frame(
            digest=digest,
            phase=names,
            tool=tool,
            operation=[phase.operation for phase in phases],
            bytes_per_s=[phase.bytes_per_s for phase in phases],
            ops_per_s=[phase.ops_per_s for phase in phases],
            duration_seconds=[phase.duration_seconds for phase in phases],
            start_ns=[phase.start_ns for phase in phases],
            end_ns=[phase.end_ns for phase in phases],
            parameters=[_parameters(phase, context) for phase in phases],
            rows=len(phases),
        ),
    )
    timed = [phase for phase in phases if phase.marks_time and None not in (phase.start_ns, phase.end_ns)]
    if timed:
        yield (
            "events",
            TABLES["events"].frame(
                event_id=[_event_id(tool, phase) for phase in timed],
                kind="phase",
                system=[_system(phase, context) for phase in timed],
                host=context.host,
                start_ns=[phase.start_ns for phase in timed],
                end_ns=[phase.end_ns for phase in timed],
                label=[_label(tool, phase) for phase in timed],
                details=[json.dumps({"digest": digest, "phase": p.name, "tool": tool}, sort_keys=True) for p in timed],
                rows=len(timed),
            ),
        )


def _run_digest(tool: str, text: TextFile, phases: Sequence[Phase]) -> str:
    """Of when the run began and what it was, where it prints that: so an output that was cut and the whole one, or text
    and JSON, are one run. Else of the file."""
    run = next((phase for phase in phases if phase.name == "run" and phase.start_ns is not None), None)
    if run is None or run.command is None:
        return text.digest
    machine = str(run.details.get("machine") or "")
    identity = f"{tool}\0{run.start_ns}\0{run.command}\0{machine}\0{run.details.get('tasks')}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _parameters(phase: Phase, context: ReadContext) -> str:
    known = dict(phase.details)
    if context.paths == "keep":  # a command line is full of its owner's paths
        known |= {"command": phase.command, "path": phase.target}
    return json.dumps({name: value for name, value in known.items() if value is not None}, sort_keys=True)


def _event_id(tool: str, phase: Phase) -> str:
    """The same phase has the same identity in a cut output and in the whole one, in text and in JSON."""
    identity = f"{tool}\0{phase.name}\0{phase.start_ns}\0{phase.command}"
    return hashlib.sha256(identity.encode()).hexdigest()[:32]


def _system(phase: Phase, context: ReadContext) -> str | None:
    if context.system is not None or phase.target is None or context.paths != "keep":
        return context.system
    return f"mount:{phase.target}"


def _label(tool: str, phase: Phase) -> str:
    """IO500's phases are known by their own names; others need their tool's."""
    if phase.operation is None:
        return tool
    return phase.name if tool == "io500" else f"{tool} {phase.name}"
