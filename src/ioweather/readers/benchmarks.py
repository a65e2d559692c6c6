"""Output of benchmarks as rows of `benchmarks` and of `events`: the sources `ior`, `mdtest` and `io500`.

IOR gives the bandwidth of every iteration, as text (2.10 to 4.x); mdtest the
rates of metadata operations, as text (1.9, 3.x, 4.x); IO500 its phases and its score, in result_summary.txt (or what it
prints to the terminal) and in result.txt.
"""

from __future__ import annotations

import configparser
import datetime as dt
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import GIB, MIB, NS, names_of, parse_size, whole_number
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import LocalClock, numbered_lines, plain_head

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# asctime(3), '11/15/2026 07:04:40' and '2024-05-03 09:25:48'. Not strptime: its month names follow the reader's locale.
_TIME_OF_DAY: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_DATES: Final = (
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME_OF_DAY} (?P<year>\d{{4}})"),
    re.compile(rf"(?P<month>\d{{2}})/(?P<day>\d{{2}})/(?P<year>\d{{4}}) {_TIME_OF_DAY}"),
    re.compile(rf"(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})[ T]{_TIME_OF_DAY}"),
)


def _find_date(text: str) -> dt.datetime | None:
    """The date in a line, as benchmarks print it: local time of the machine, without a zone, to the second.

    The forms are tried in turn: asctime, MM/DD/YYYY, ISO. None where there is no date, or an impossible one.
    """
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


class _LocalTimes:
    """Converts the dates in the lines of one output to UTC."""

    def __init__(self, path: Path, zone: ZoneInfo | None) -> None:
        self._path, self._clock = path, LocalClock(zone)

    def ns(self, text: object) -> int | None:
        """The date in a text as UTC nanoseconds; None where it has none."""
        naive = _find_date(str(text))
        return None if naive is None else self._clock.to_ns(naive, str(self._path))


# Longer than any run; a damaged digit must not lead beyond the range of the clock.
_LONGEST_SECONDS: Final = 366 * 86_400


@dataclass(frozen=True)
class _Phase:
    """One row of `benchmarks`: a phase of a run, or the run itself. `details` are its parameters, `target` is the
    directory it worked in.

    Without `marks_time` it has no event: a run whose phases have events, or a phase with the times of its run.
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


def _read_lines(path: Path) -> tuple[list[str], str | None]:
    """The lines of a file that have a line end, and the last line if it has none: it may be incomplete."""
    lines = [(line, torn) for _, line, torn in numbered_lines(path)]
    last = lines.pop()[0] if lines and lines[-1][1] else None
    return [line for line, _ in lines], last


def _number(text: object) -> float | None:
    """A printed figure of at least zero; None for '-', 'NA', 'nan' and other texts."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _integer(text: object) -> int | None:
    value = _number(text)
    return None if value is None else int(value)


def _scaled(text: object, factor: float) -> float | None:
    """A printed figure times a factor; None where it is not a number."""
    value = _number(text)
    return None if value is None else value * factor


def _end_of(start_ns: int | None, seconds: float | None, printed_ns: int | None = None) -> int | None:
    """The end of a phase: the later of the printed end, which is cut to seconds, and start plus duration."""
    known = [] if printed_ns is None else [printed_ns]
    if start_ns is not None and seconds is not None and seconds <= _LONGEST_SECONDS:
        known.append(start_ns + round(seconds * NS))
    return max(known, default=None)


def _run_prefix(number: int) -> str:
    """The prefix of the phases of the second run and later ones in one file."""
    return "" if number <= 1 else f"run{number}/"


def _with_times_of_run(run: _Phase, phases: Iterable[_Phase]) -> Iterator[_Phase]:
    """The run and its phases. Phases without times get those of the run, so that a query by time finds them."""
    yield run
    for phase in phases:
        if phase.start_ns is None and run.start_ns is not None:
            details = {**phase.details, "times": "of the run"}
            phase = replace(phase, start_ns=run.start_ns, end_ns=run.end_ns, details=details, marks_time=False)
        yield phase


_FIGURES: Final = names_of("operation bytes_per_s ops_per_s duration_seconds start_ns end_ns")


def _make_frames(tool: str, path: Path, phases: Sequence[_Phase], context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of `benchmarks` for all phases, and of `events` for those whose start and end are known."""
    names = Counter(phase.name for phase in phases)
    if twice := sorted(name for name, count in names.items() if count > 1):
        raise CorruptInput(
            f"{path} has two results for {', '.join(twice)} in one run.",
            hint="The file probably contains two outputs. Ingest them as separate files.",
        )
    digest = _run_digest(tool, path, phases)
    rows, events = list[dict[str, Any]](), list[dict[str, Any]]()
    for phase in phases:
        # Command lines contain paths of their owner.
        private = {"command": phase.command, "path": phase.target} if context.paths == "keep" else {}
        known = {name: value for name, value in {**phase.details, **private}.items() if value is not None}
        figures = {name: getattr(phase, name) for name in _FIGURES}
        parameters = json.dumps(known, sort_keys=True)
        rows.append({"digest": digest, "tool": tool, "phase": phase.name, "parameters": parameters, **figures})
        if not phase.marks_time or phase.start_ns is None or phase.end_ns is None:
            continue
        # IO500's phases are known by their own names; others need their tool's.
        label = phase.name if tool == "io500" else f"{tool} {phase.name}"
        events.append(
            {
                # The same phase has the same identity in a cut output and in the whole one.
                "event_id": _hash(tool, phase.name, phase.start_ns, phase.command),
                "kind": "phase",
                "system": context.system or (f"mount:{private['path']}" if private.get("path") else None),
                "host": context.host,
                "start_ns": phase.start_ns,
                "end_ns": phase.end_ns,
                "label": tool if phase.operation is None else label,
                "details": json.dumps({"digest": digest, "phase": phase.name, "tool": tool}, sort_keys=True),
            }
        )
    yield "benchmarks", TABLES["benchmarks"].frame_of(rows)
    if events:
        yield "events", TABLES["events"].frame_of(events)


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def _run_digest(tool: str, path: Path, phases: Sequence[_Phase]) -> str:
    """Identity of a run: of its start and command where they are printed, so that a cut and a whole output are one
    run. Else of the file."""
    run = next((phase for phase in phases if phase.name == "run" and phase.start_ns is not None), None)
    if run is not None and run.command is not None:
        return _hash(tool, run.start_ns, run.command, run.details.get("machine") or "", run.details.get("tasks"))
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


# IOR

_BANNER: Final = re.compile(r"IOR-(\d\S{0,99}): MPI Coordinated Test of Parallel I/O")
# What launchers put before each line: 'stdout[0] ' (Blue Gene), '[1,0]<stdout>:' (Open MPI).
_LAUNCHER: Final = re.compile(r"^(?:std(?:out|err)\[\d+\]:? ?|\[\d+,\d+\]<std(?:out|err)>: ?)")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z \t]*)[:=](.*)")
_TEST: Final = re.compile(r"^Test \d{1,9} started\s*:(.*)$")
_COMMENCING: Final = re.compile(r"^Commencing (?:write|read) performance test[.:]?(.*)$")
_ERROR: Final = re.compile(r"(?:ior ERROR|ERROR)\b:?\s*(.*)")
_IOR_OPTIONS: Final = frozenset(
    (
        *names_of("api access type segments nodes tasks clients repetitions xfersize blocksize path"),
        *("test filename", "clients per node", "aggregate filesize"),
    )
)


@dataclass
class _IorTest:
    """One test of a run. `iterations` lists its results as (access, iteration, result)."""

    started_ns: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    iterations: list[tuple[str, int, _Phase]] = field(default_factory=list)

    def add(self, access: str, iteration: int, figures: Sequence[object], start_ns: int | None = None) -> None:
        """Add a result; `figures` are MiB/s, operations per second and seconds as printed."""
        speed, rate, seconds = figures
        operation = "delete" if access == "remove" else access
        result = _Phase("", operation, _scaled(speed, MIB), _number(rate), _number(seconds), start_ns)
        self.iterations.append((access, iteration, result))

    def is_short(self, access: str) -> bool:
        """Whether fewer iterations have a result than were asked for."""
        found = {number for each, number, _ in self.iterations if each == access}
        return 0 < len(found) < (_integer(self.options.get("repetitions")) or 1)


@dataclass
class _IorRun:
    """One start of IOR. `finished` is true where it said so, with a date or without."""

    version: str = ""
    began_ns: int | None = None
    finished_ns: int | None = None
    finished: bool = False
    command: str | None = None
    machine: str | None = None
    error: str = ""
    tests: list[_IorTest] = field(default_factory=list)

    @property
    def test(self) -> _IorTest:
        """The test that is being read; 2.x does not announce its first."""
        if not self.tests:
            self.tests.append(_IorTest())
        return self.tests[-1]


def _detect_ior(head: bytes, path: Path) -> float:
    return 0.9 if _BANNER.search(plain_head(head)) else 0.0


def _read_ior(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of all runs; then a SourceError if one has no result or lost its end."""
    lines, last = _read_lines(path)
    runs = _parse_ior(lines, last, _LocalTimes(path, context.zone))
    phases = [phase for number, run in enumerate(runs, start=1) for phase in _ior_phases(_run_prefix(number), run)]
    if any(test.iterations for run in runs for test in run.tests):
        yield from _make_frames("ior", path, phases, context)
    # Fewer iterations than were asked for and no end. A missing end alone says little: under IO500 IOR prints none.
    for run in runs:
        has_rows = any(test.iterations for test in run.tests)
        short = any(test.is_short(access) for test in run.tests for access in ("write", "read"))
        if not has_rows or (not run.finished and (short or last is not None)):
            missing = "ends before its last result" if has_rows else "has no result"
            said = f" IOR error: {run.error}" if run.error else ""
            raise SourceError(f"{path} {missing}.{said}", hint=_UNFINISHED, kind="TruncatedInput")


_UNFINISHED: Final = "The benchmark failed or is still running. Ingest its output when it has finished."

IOR = FileReader("ior", "IOR output (text of 2.10 to 4.x)", ("benchmarks", "events"), _detect_ior, _read_ior)


def _parse_ior(lines: Sequence[str], last: str | None, times: _LocalTimes) -> list[_IorRun]:
    """The runs in the text of IOR. Unknown lines are skipped: warnings of any rank may come between the others."""
    runs, columns = list[_IorRun](), list[str]()
    commenced_ns: int | None = None
    date_follows = False
    if last is not None and re.match(r"(?:Run )?[Ff]inished\b", _LAUNCHER.sub("", last)):
        lines = [*lines, last]  # without its line end a row may lack digits; the date of the end cannot
    for whole_line in lines:
        line = _LAUNCHER.sub("", whole_line)
        words = line.split()
        if match := _BANNER.search(line):
            runs.append(_IorRun(version=match[1]))
            columns = []
            continue
        if not runs:
            continue
        run = runs[-1]
        is_row = words and words[0] in ("write", "read", "remove") and len(words) == len(columns)
        if date_follows:  # 2.x prints the date on a line of its own
            commenced_ns, date_follows = times.ns(line), False
        elif match := _COMMENCING.match(line):
            commenced_ns = times.ns(match[1])
            date_follows = commenced_ns is None
        elif line.startswith("access ") and "bw(MiB/s)" in words:
            columns = words
        elif line.startswith("Operation "):  # the summary over all iterations
            columns = []
        elif is_row and _number((row := dict(zip(columns, words, strict=True))).get("iter")) is not None:
            speeds = (row["bw(MiB/s)"], row.get("IOPS"), row.get("total(s)"))
            run.test.add(words[0], _integer(row["iter"]) or 0, speeds, commenced_ns)
            commenced_ns = None
        elif match := _TEST.match(line):
            run.tests.append(_IorTest(times.ns(match[1])))
        elif match := _PAIR.match(line):
            key, value = match[1].strip().lower(), match[2].strip()
            if key == "testid":
                columns = []
                run.tests.append(_IorTest())
            elif key in ("began", "run began"):
                run.began_ns = times.ns(value)
            elif key in ("finished", "run finished"):
                run.finished_ns, run.finished = times.ns(value), True
            elif key in ("command line", "command line used"):
                run.command = value
            elif key == "machine":
                run.machine = value
            elif key == "starttime":
                run.test.started_ns = times.ns(value)
            elif key in _IOR_OPTIONS:
                run.test.options.setdefault(key, value)
            elif not run.error and "ERROR" in line:
                run.error = value
        elif not run.error and (match := _ERROR.match(line)):
            run.error = match[1]
    return runs


def _ior_phases(prefix: str, run: _IorRun) -> Iterator[_Phase]:
    """The run as a whole, then the results of its tests."""
    phases = []
    for position, test in enumerate(run.tests):
        ahead = prefix if position == 0 else f"{prefix}test{position + 1}/"
        details, moved = _ior_details(run, test.options), _parse_bytes(test.options.get("aggregate filesize"))
        same: dict[str, Any] = {"command": run.command, "target": _ior_directory(test.options)}
        for order, (access, iteration, result) in enumerate(test.iterations):
            seconds, start_ns = result.duration_seconds, result.start_ns
            if start_ns is None and order == 0:  # the first phase begins with the test
                start_ns = test.started_ns
            if seconds is None and moved and result.bytes_per_s:
                # IOR's bandwidth is the bytes of all tasks over the time from the first open to the last close (its
                # manual); versions that do not print that time still print the other two.
                seconds = moved / result.bytes_per_s
            phase = replace(result, name=f"{ahead}{access}[{iteration}]", details=details | {"iteration": iteration})
            end_ns = None if start_ns is None else _end_of(start_ns, seconds)
            phases.append(replace(phase, duration_seconds=seconds, start_ns=start_ns, end_ns=end_ns, **same))
    took = sum(phase.duration_seconds or 0 for phase in phases)
    whole = _Phase(
        name=f"{prefix}run",
        start_ns=run.began_ns,
        end_ns=None if run.finished_ns is None else _end_of(run.began_ns, took, run.finished_ns),
        details=_ior_details(run, run.tests[0].options) if run.tests else {"version": run.version},
        command=run.command,
        target=_ior_directory(run.tests[0].options) if run.tests else None,
        # Where an iteration has no time of its own, the run is on the time line.
        marks_time=any(phase.start_ns is None for phase in phases),
    )
    return _with_times_of_run(whole, phases)


def _ior_details(run: _IorRun, options: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a test: version, API, tasks and nodes, sizes in bytes."""
    # '2048 (1 per node)' in older versions.
    clients = re.match(r"(\d+)(?: \((\d+) per node\))?", options.get("clients", ""))
    tasks = _integer(options.get("tasks")) or (clients and _integer(clients[1])) or None
    per_node = _integer(options.get("clients per node")) or (clients and _integer(clients[2])) or None
    nodes = _integer(options.get("nodes"))
    if nodes is None and tasks and per_node:
        nodes = -(-tasks // per_node)
    return {
        "version": run.version,
        "machine": run.machine,
        **{name: options.get(name) for name in ("api", "access", "type")},
        "tasks": tasks,
        "nodes": nodes,
        "tasks_per_node": per_node,
        **{name: _integer(options.get(name)) for name in ("segments", "repetitions")},
        "transfer_bytes": _parse_bytes(options.get("xfersize")),
        "block_bytes": _parse_bytes(options.get("blocksize")),
        "aggregate_bytes": _parse_bytes(options.get("aggregate filesize")),
    }


def _parse_bytes(text: str | None) -> int | None:
    """Bytes of '1 MiB' or '47008 bytes', which IOR rounds to two digits; None for other texts."""
    try:
        return parse_size((text or "").replace("bytes", "B"))
    except (ValueError, OverflowError):
        return None


def _ior_directory(options: Mapping[str, str]) -> str | None:
    """The directory of the test file. `Path` is that directory in older versions and the file itself in newer ones."""
    file_name, shown = options.get("test filename", ""), options.get("path", "")
    if file_name.startswith("/"):
        return str(PurePosixPath(file_name).parent)
    if not shown.startswith("/"):
        return None
    inside = file_name and PurePosixPath(shown).name.startswith(PurePosixPath(file_name).name)
    return str(PurePosixPath(shown).parent if inside else PurePosixPath(shown))


# mdtest

_MDTEST_BANNER: Final = re.compile(r"mdtest-(\S{1,99}) was launched with (\d+) total task\(s\) on (\d+) node")
_STARTED: Final = re.compile(r"-- started at (.{0,99}?) --")
_FINISHED: Final = re.compile(r"-- finished at (.{0,99}?) --")
_COMMAND: Final = re.compile(r"Command line used: (.*)")
_MDTEST_PATH: Final = re.compile(r"Path\s*: (.*)")
_ITEMS: Final = re.compile(r"\d+ tasks, (\d+) (files/directories|files|directories)")
_MDTEST_SUMMARY: Final = re.compile(
    r"SUMMARY(?: (rate|time))?\s{0,9}(?:\(in (\S{1,99})\))?\s{0,9}: \(of (\d+) iterations\)"
)
_ROW: Final = re.compile(
    r"\s*((?:Directory|File|Tree) (creation|stat|read|rename|removal))(?:\s*:)?\s+([-\d.naif][-\d. naif]*)$"
)
_MDTEST_OPERATIONS: Final = {"creation": "create", "removal": "delete"}


def _read_mdtest(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of all runs; then a SourceError if one has no table of rates."""
    runs = _parse_mdtest(_read_lines(path)[0], _LocalTimes(path, context.zone))
    phases = [phase for number, run in enumerate(runs, start=1) for phase in _mdtest_phases(_run_prefix(number), run)]
    if any(run.rates for run in runs):
        yield from _make_frames("mdtest", path, phases, context)
    if not all(run.rates for run in runs):
        raise SourceError(
            f"{path} ends before the table of rates of an mdtest run.", hint=_UNFINISHED, kind="TruncatedInput"
        )


MDTEST = FileReader(
    "mdtest",
    "mdtest text output (1.9, 3.x, 4.x)",
    ("benchmarks", "events"),
    lambda head, path: 0.9 if _MDTEST_BANNER.search(plain_head(head)) else 0.0,
    _read_mdtest,
)


@dataclass
class _MdtestRun:
    """One start of mdtest. `rates` and `seconds`: operation as printed to max, min, mean, standard deviation."""

    start_ns: int | None
    details: dict[str, Any]
    end_ns: int | None = None
    command: str | None = None
    target: str | None = None
    rates: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, list[float | None]] = field(default_factory=dict)


def _parse_mdtest(lines: Sequence[str], times: _LocalTimes) -> list[_MdtestRun]:
    """Runs in the order of the file. '-- started at' comes before the banner, and may be missing."""
    runs: list[_MdtestRun] = []
    started_ns: int | None = None
    table: dict[str, list[float | None]] | None = None
    for line in lines:
        if match := _STARTED.search(line):
            started_ns = times.ns(match[1])
        elif match := _MDTEST_BANNER.search(line):
            tasks, nodes = whole_number(match[2]), whole_number(match[3])
            about = {"version": match[1], "tasks": tasks, "nodes": nodes, "items": None, "iterations": 1}
            runs.append(_MdtestRun(started_ns, about))
            started_ns, table = None, None
        elif not runs:
            continue
        elif match := _MDTEST_SUMMARY.search(line):
            runs[-1].details["iterations"] = whole_number(match[3])
            # Until 4.0 a table of times has seconds, whatever unit its heading claims; 'ms/op' has another meaning.
            table = runs[-1].rates if match[1] != "time" else None if match[2] == "ms/op" else runs[-1].seconds
        elif match := _FINISHED.search(line):
            runs[-1].end_ns, table = times.ns(match[1]), None
        elif table is not None:
            if match := _ROW.match(line):
                # With statistics per rank there are three more columns in front.
                table[match[1]] = [_number(word) for word in match[3].split()][-4:]
        elif match := _COMMAND.match(line):
            runs[-1].command = match[1].strip()
        elif match := _MDTEST_PATH.match(line):
            runs[-1].target = match[1].strip() or None
        elif match := _ITEMS.match(line):
            runs[-1].details["items"] = whole_number(match[1])
    return runs


def _mdtest_phases(prefix: str, run: _MdtestRun) -> Iterator[_Phase]:
    """The run as a whole, then its operations."""
    same: dict[str, Any] = {"command": run.command, "target": run.target}
    phases = []
    for printed, values in run.rates.items():
        highest, lowest, mean, deviation = (*values, None, None, None, None)[:4]
        seconds, operation = run.seconds.get(printed, []), printed.split()[1]
        if not highest:  # mdtest prints zeros for what it was not asked to do
            continue
        rates = {"ops_per_s_max": highest, "ops_per_s_min": lowest, "ops_per_s_sd": deviation}
        phases.append(
            _Phase(
                prefix + printed.lower().replace(" ", "_"),
                _MDTEST_OPERATIONS.get(operation, operation),
                ops_per_s=mean,
                duration_seconds=seconds[2] if len(seconds) == 4 else None,
                details=run.details | rates,
                **same,
            )
        )
    whole = _Phase(f"{prefix}run", start_ns=run.start_ns, end_ns=run.end_ns, details=run.details, **same)
    return _with_times_of_run(whole, phases)


# IO500

# '[RESULT] ior-easy-write 352.8 GiB/s : time 386.7 seconds', '[RESULT] BW phase 1 ior_easy_write 7.7 GB/s : time ...',
# '[      ]' for phases that do not count, '[RESULT-invalid]' or a trailing '[INVALID]'.
_RESULT: Final = re.compile(
    r"\[ {0,9}(?:RESULT)?(-invalid)? {0,9}\]\s+(?:(?:BW|IOPS)\s+)?(?:phase\s+\d+\s+)?([A-Za-z][\w-]*)\s+"
    r"([\d.]+|-?nan)\s+(GiB/s|GB/s|kIOPS|kiops)\s*:\s*time\s+([\d.]+)\s+seconds(\s+\[INVALID\])?\s*$"
)
_SCORE: Final = re.compile(
    r"\[(SCOREX?)(-invalid)? *\]\s+Bandwidth\s+(\S+)\s+Gi?B/s\s*:\s*IOPS\s+(\S+)\s+kiops\s*:\s*TOTAL\s+([\d.]+)"
    r"(\s+\[INVALID\])?"
)
_VERSION: Final = re.compile(r"IO500 version (\S+)(?: \((\w+)\))?")
_SECTION: Final = re.compile(r"^\[(?:ior|mdtest)-[\w-]+\]\s*$", re.MULTILINE)
_SECTION_SCORE: Final = re.compile(r"^score +=", re.MULTILINE)
_EDGE: Final = re.compile(r"^; (START|END) (.*)$")
_PREAMBLE: Final = "before the sections"
# A phase that only notes the time.
_MARK: Final = "timestamp"
_OPERATIONS: Final = ("read", "write", "stat", "delete")


def _detect_io500(head: bytes, path: Path) -> float:
    """0.95 for results of IO500: a line of a result, or a section with a score."""
    text = plain_head(head)
    # Above IOR and mdtest, which IO500 runs and whose words may be in the same output.
    if any(_RESULT.match(line) for line in text.splitlines()):
        return 0.95
    return 0.95 if _SECTION.search(text) and _SECTION_SCORE.search(text) else 0.0


def _read_io500(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of result.txt or of a summary; then a SourceError if the last run has no score."""
    lines, _ = _read_lines(path)
    if any(_SECTION.match(line) for line in lines):
        phases, is_complete = _parse_io500_sections(path, lines, _LocalTimes(path, context.zone))
    else:
        phases, is_complete = _parse_io500_summary(lines)
    if phases:
        yield from _make_frames("io500", path, phases, context)
    if not is_complete:
        raise SourceError(
            f"{path} ends before the IO500 score.",
            hint="The benchmark was stopped or is still running. The completed phases were added.",
            kind="TruncatedInput",
        )


IO500 = FileReader(
    "io500",
    "IO500 results (result_summary.txt, result.txt, io-500-summary of the shell scripts)",
    ("benchmarks", "events"),
    _detect_io500,
    _read_io500,
)


def _parse_io500_summary(lines: Iterable[str]) -> tuple[list[_Phase], bool]:
    """Phases and scores of result_summary.txt or of the terminal, and whether the last run has a score."""
    phases: list[_Phase] = []
    run = 0
    figures: tuple[str, ...]
    details: dict[str, Any] = {}
    seen: dict[str, tuple[str, ...]] = {}
    for line in lines:
        if match := _VERSION.search(line):
            run, seen = run + 1, {}
            details = {"version": match[1], "mode": match[2]}
            continue
        if (match := _RESULT.match(line.strip())) and match[2] != _MARK:
            # Scripts and program write names differently, perhaps in one file.
            name, figures, invalid = match[2].replace("_", "-"), (match[3], match[5]), match[1] or match[6]
            phase = _io500_phase(name, match[3], details, duration_seconds=_number(match[5]))
        elif match := _SCORE.search(line):
            name, figures, invalid = match[1].lower(), (match[3], match[4], match[5]), match[2] or match[6]
            phase = _io500_score(name, match[3], match[4], match[5], details)
        else:
            continue
        if seen.get(name) == figures:
            continue  # the shell scripts print each result again under [Summary]
        if name in seen:  # another run whose first lines are not there
            run, seen = run + 1, {}
        run, seen[name] = max(run, 1), figures
        phases.append(replace(phase, name=_run_prefix(run) + name, details=_with_validity(phase.details, invalid)))
    return phases, not seen.keys().isdisjoint(("score", "scorex"))


def _with_validity(details: Mapping[str, Any], invalid: object) -> Mapping[str, Any]:
    """The details, with a mark where IO500 calls a result invalid."""
    return {**details, "valid": False} if invalid else details


def _parse_io500_sections(path: Path, lines: Sequence[str], times: _LocalTimes) -> tuple[list[_Phase], bool]:
    """Run, phases and scores of result.txt, and whether it has a score."""
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",), comment_prefixes=(";", "#"))
    try:
        # Results of 2020 say version and configuration before the first section.
        # The parser's own patterns take time in the square of a run of blanks.
        shorter = (f"{line[:1] if line[:1].isspace() else ''}{' '.join(line.split())}" for line in lines)
        parser.read_string("\n".join([f"[{_PREAMBLE}]", *shorter]), source=str(path))
    except configparser.Error as error:
        raise CorruptInput(
            f"{path} is not an IO500 result.txt: {' '.join(error.message.split())}.",
            hint="Ingest the original file.",
        ) from None
    edges = {match[1]: match[2] for line in lines if (match := _EDGE.match(line))}
    start_ns = times.ns(edges.get("START", ""))
    about = parser["run"] if parser.has_section("run") else parser[_PREAMBLE]
    details = {name: about.get(name) for name in ("version", "mode")} | {"tasks": whole_number(about.get("procs", ""))}
    phases = []
    for name, section in parser.items():
        if "score" in section and not name.startswith("SCORE") and name != _MARK:
            began_ns, ended_ns = times.ns(section.get("t_start", "")), times.ns(section.get("t_end", ""))
            duration, command = _number(section.get("t_delta")), section.get("exe", "")
            # Where it worked: IOR is given a file (-o), mdtest a directory (-d).
            at = re.search(r" -o (/\S+)/[^/\s]+(?: |$)", command) or re.search(r" -d (/\S+)", command)
            phase = _io500_phase(name, section["score"], details, duration_seconds=duration, start_ns=began_ns)
            end_ns, target = _end_of(began_ns, duration, ended_ns), at[1] if at else None
            phases.append(replace(phase, end_ns=end_ns, command=section.get("exe"), target=target))
    for name in ("SCORE", "SCOREX"):
        if parser.has_section(name):
            score = parser[name]
            total, _, flag = score.get("score", "").partition(" ")
            with_flag = _with_validity(details, flag)
            phases.append(_io500_score(name.lower(), score.get("bw"), score.get("md"), total, with_flag))
    # The run itself has no event: its phases, one after the other, have.
    whole = _Phase("run", start_ns=start_ns, end_ns=times.ns(edges.get("END", "")), details=details, marks_time=False)
    return list(_with_times_of_run(whole, phases)), parser.has_section("SCORE")


def _io500_phase(name: str, value: str, details: Mapping[str, Any], **more: Any) -> _Phase:
    """A phase and its rate: GiB/s if its name begins with an i (IOR), thousands of operations per second for others.

    'GB/s' of its first versions is MiB/s divided by 1024: the same GiB/s under another name. A phase that failed has 0.
    """
    words = re.split(r"[-_]", name)
    operation = next((word for word in reversed(words) if word in _OPERATIONS), words[0])
    if words[0] == "mdtest" and operation == "write":
        operation = "create"  # mdtest's write phases create files
    rate, is_ior = _number(value) or None, name.startswith("i")
    bytes_per_s, ops_per_s = (_scaled(rate, GIB), None) if is_ior else (None, _scaled(rate, 1000))
    return _Phase(name, operation, bytes_per_s, ops_per_s, details=details, **more)


def _io500_score(name: str, speed: str | None, rate: str | None, total: str, details: Mapping[str, Any]) -> _Phase:
    """The geometric means of IO500 in GiB/s and kIOPS, and its score, which has no unit."""
    return _Phase(name, None, _scaled(speed, GIB), _scaled(rate, 1000), details={**details, "score": _number(total)})
