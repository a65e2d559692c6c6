"""Output of benchmarks as rows of `benchmarks` and of `events`: the sources `ior`, `mdtest` and `io500`.

IOR gives the bandwidth of every iteration and the best of each operation, as text (2.10 to 4.x) or JSON; mdtest the
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput, UndatedInput
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import GIB, MIB, NS, local_to_ns, names_of, pairs_of, parse_json, parse_size, whole_number
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import numbered_lines, plain_head

_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# asctime(3), '11/15/2026 07:04:40' and '2024-05-03 09:25:48'. Not strptime: its month names follow the reader's locale.
_TIME_OF_DAY: Final = r"(?P<hour>\d{1,2}):(?P<minute>\d{2}):(?P<second>\d{2})"
_DATES: Final = (
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME_OF_DAY} (?P<year>\d{{4}})"),
    re.compile(rf"(?P<month>\d{{2}})/(?P<day>\d{{2}})/(?P<year>\d{{4}}) {_TIME_OF_DAY}"),
    re.compile(rf"(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}})[ T]{_TIME_OF_DAY}"),
)


def find_date(text: str) -> dt.datetime | None:
    """The date in a line, as benchmarks print it: local time of the machine, without a zone, to the second.

    The forms are tried in turn: asctime, MM/DD/YYYY, ISO. None where there is no date, or one that no calendar has.
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
class _Phase:
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
class _TextFile:
    """All lines of a file. `torn` is a last one without a line end, which is not to be trusted."""

    path: Path
    digest: str
    lines: tuple[str, ...]
    torn: str | None


def _read_lines(path: Path) -> _TextFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]
    found = list(numbered_lines(path, closing="}"))
    torn = found.pop()[1] if found and found[-1][2] else None
    lines = [line for _, line, _ in found]
    return _TextFile(path, digest, tuple(lines), torn)


def _number(text: object) -> float | None:
    """A printed figure of at least zero; None for '-', 'NA', 'nan' and other texts."""
    try:
        value = float(text)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _whole(text: object) -> int | None:
    value = _number(text)
    return None if value is None else int(value)


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _end_of(start_ns: int | None, seconds: float | None, printed_ns: int | None = None) -> int | None:
    """The end of a phase: of what was printed, which lacks the fraction of a second, and the start with the length the
    later; None where neither is known."""
    known = [] if printed_ns is None else [printed_ns]
    if start_ns is not None and seconds is not None and seconds <= _LONGEST_SECONDS:
        known.append(start_ns + round(seconds * NS))
    return max(known, default=None)


def _within(run: _Phase, phases: Iterable[_Phase]) -> Iterator[_Phase]:
    """The run and its phases. Those whose own times are not known get those of the run, so that they are found by time;
    marked as such."""
    yield run
    for phase in phases:
        if phase.start_ns is None and run.start_ns is not None:
            details = {**phase.details, "times": "of the run"}
            phase = replace(phase, start_ns=run.start_ns, end_ns=run.end_ns, details=details, marks_time=False)
        yield phase


def _frames(tool: str, text: _TextFile, phases: Sequence[_Phase], context: ReadContext) -> Iterator[tuple[str, Frame]]:
    """Rows of `benchmarks` for all phases, and of `events` for those whose start and end are known."""
    names = [phase.name for phase in phases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise CorruptInput(
            f"{text.path} gives the figures of {', '.join(twice)} twice in one run.",
            hint="Two outputs were probably written into one file; ingest them apart.",
        )
    digest = _run_digest(tool, text, phases)
    same = ("operation", "bytes_per_s", "ops_per_s", "duration_seconds", "start_ns", "end_ns")
    rows = [
        {"digest": digest, "tool": tool, "phase": phase.name, "parameters": _parameters(phase, context)}
        | {name: getattr(phase, name) for name in same}
        for phase in phases
    ]
    yield "benchmarks", TABLES["benchmarks"].frame_of(rows)
    events = [
        {
            # The same phase has the same identity in a cut output and in the whole one, in text and in JSON.
            "event_id": _hash(tool, phase.name, phase.start_ns, phase.command),
            "kind": "phase",
            "system": _system(phase, context),
            "host": context.host,
            "start_ns": phase.start_ns,
            "end_ns": phase.end_ns,
            "label": _label(tool, phase),
            "details": json.dumps({"digest": digest, "phase": phase.name, "tool": tool}, sort_keys=True),
        }
        for phase in phases
        if phase.marks_time and None not in (phase.start_ns, phase.end_ns)
    ]
    if events:
        yield "events", TABLES["events"].frame_of(events)


def _hash(*parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def _run_digest(tool: str, text: _TextFile, phases: Sequence[_Phase]) -> str:
    """Of when the run began and what it was, where it prints that: so an output that was cut and the whole one, or text
    and JSON, are one run. Else of the file."""
    run = next((phase for phase in phases if phase.name == "run" and phase.start_ns is not None), None)
    if run is None or run.command is None:
        return text.digest
    return _hash(tool, run.start_ns, run.command, run.details.get("machine") or "", run.details.get("tasks"))


def _parameters(phase: _Phase, context: ReadContext) -> str:
    known = dict(phase.details)
    if context.paths == "keep":  # a command line is full of its owner's paths
        known |= {"command": phase.command, "path": phase.target}
    return json.dumps({name: value for name, value in known.items() if value is not None}, sort_keys=True)


def _system(phase: _Phase, context: ReadContext) -> str | None:
    if context.system is not None or phase.target is None or context.paths != "keep":
        return context.system
    return f"mount:{phase.target}"


def _label(tool: str, phase: _Phase) -> str:
    """IO500's phases are known by their own names; others need their tool's."""
    if phase.operation is None:
        return tool
    return phase.name if tool == "io500" else f"{tool} {phase.name}"


# IOR

_BANNER: Final = re.compile(r"IOR-(\d\S{0,99}): MPI Coordinated Test of Parallel I/O")
# What launchers put before each line: 'stdout[0] ' (Blue Gene), '[1,0]<stdout>:' (Open MPI).
_LAUNCHER: Final = re.compile(r"^(?:std(?:out|err)\[\d+\]:? ?|\[\d+,\d+\]<std(?:out|err)>: ?)")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z \t]*)[:=](.*)")
_TEST: Final = re.compile(r"^Test (\d+) started\s*:(.*)$")
_COMMENCING: Final = re.compile(r"^Commencing (?:write|read) performance test[.:]?(.*)$")
_MAX: Final = re.compile(r"^Max (Write|Read):\s+([\d.]+) MiB/sec")
_ERROR: Final = re.compile(r"(?:ior ERROR|ERROR)\b:?\s*(.*)")
_IOR_OPTIONS: Final = frozenset(
    (
        *names_of("api access type segments nodes tasks clients repetitions xfersize blocksize path"),
        *("test filename", "clients per node", "aggregate filesize"),
    )
)
_SUMMARY_COLUMNS: Final = names_of("max_mib min_mib mean_mib sd_mib max_ops min_ops mean_ops sd_ops")
_JSON_SUMMARY: Final = pairs_of("""
    max_mib=bwMaxMIB min_mib=bwMinMIB mean_mib=bwMeanMIB sd_mib=bwStdMIB
    max_ops=OPsMax min_ops=OPsMin mean_ops=OPsMean sd_ops=OPsSD mean_seconds=MeanTime
""")
_Summary = dict[str, float | None]


@dataclass
class _IorTest:
    """One test of a run. `rows` are access, iteration, MiB/s, operations/s, seconds, and the start where IOR said it;
    `summaries` maps an access to what IOR says of all its iterations."""

    id: int = 0
    started_ns: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, int, float | None, float | None, float | None, int | None]] = field(default_factory=list)
    summaries: dict[str, _Summary] = field(default_factory=dict)

    def iterations(self, access: str) -> set[int]:
        return {row[1] for row in self.rows if row[0] == access}


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
    text = plain_head(head)
    return 0.9 if _BANNER.search(text) or _is_ior_json(text) else 0.0


def _is_ior_json(head: str) -> bool:
    return head.lstrip().startswith("{") and '"Command line"' in head and '"Began"' in head


def _read_ior(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    text = _read_lines(path)
    runs = (_ior_runs_of_json if _is_ior_json("\n".join(text.lines[:50])) else _ior_runs_of_text)(text, context)
    phases = [phase for index, run in enumerate(runs, start=1) for phase in _ior_phases(index, run)]
    if any(test.rows for run in runs for test in run.tests):
        yield from _frames("ior", text, phases, context)
    # Fewer iterations than were asked for and no end. A missing end alone says little: under IO500 IOR prints none.
    for run in runs:
        has_rows = any(test.rows for test in run.tests)
        short = any(
            0 < len(test.iterations(access)) < (_whole(test.options.get("repetitions")) or 1)
            for test in run.tests
            for access in ("write", "read")
        )
        if not has_rows or (not run.finished and (short or text.torn is not None)):
            missing = "ends before its last result" if has_rows else "has no result"
            said = f" IOR said: {run.error}" if run.error else ""
            raise TruncatedInput(f"{path} {missing}.{said}", hint=_UNFINISHED)


_UNFINISHED: Final = "The benchmark failed or is still running; ingest its output when it has finished."

IOR = FileReader(
    "ior",
    "IOR output (text of 2.10 to 4.x, JSON)",
    ("benchmarks", "events"),
    _detect_ior,
    _read_ior,
    tried="2.10 to 4.1",
    made_by="ior ... > ior.out",
    lost="nothing that IOR prints of an iteration",
    used_by="car11.table1, kun19.fig3 (phases)",
)


def _ior_runs_of_text(text: _TextFile, context: ReadContext) -> list[_IorRun]:
    """Unknown lines are skipped: warnings of any rank may come between the others."""
    times, runs = _LocalTimes(text.path, context.zone), list[_IorRun]()
    columns, summary_columns = list[str](), list[str]()
    commenced_ns: int | None = None
    date_follows = False
    lines = text.lines
    if text.torn is not None and re.match(r"(?:Run )?[Ff]inished\b", _LAUNCHER.sub("", text.torn)):
        lines += (text.torn,)  # without its line end a row may lack digits; the date of the end cannot
    for whole_line in lines:
        line = _LAUNCHER.sub("", whole_line)
        words = line.split()
        if match := _BANNER.search(line):
            runs.append(_IorRun(version=match[1]))
            columns, summary_columns = [], []
        elif not runs:
            continue
        elif date_follows:  # 2.x prints the date on a line of its own
            commenced_ns, date_follows = times.ns(line), False
        elif match := _COMMENCING.match(line):
            commenced_ns = times.ns(match[1])
            date_follows = commenced_ns is None
        elif line.startswith("access ") and "bw(MiB/s)" in words:
            columns = words
        elif line.startswith("Operation ") and "Max(MiB)" in line:
            summary_columns = words
        elif (
            words
            and words[0] in ("write", "read", "remove")
            and len(words) == len(summary_columns or columns)
            and (summary_columns or _number(dict(zip(columns, words, strict=True)).get("iter")) is not None)
        ):
            if summary_columns:
                _add_ior_summary(runs[-1], summary_columns, words)
                continue
            row = dict(zip(columns, words, strict=True))
            speeds = (_number(row["bw(MiB/s)"]), _number(row.get("IOPS")), _number(row.get("total(s)")))
            runs[-1].test.rows.append((words[0], _whole(row["iter"]) or 0, *speeds, commenced_ns))
            commenced_ns = None
        elif match := _TEST.match(line):
            runs[-1].tests.append(_IorTest(int(match[1]), times.ns(match[2])))
        elif match := _MAX.match(line):
            runs[-1].test.summaries.setdefault(match[1].lower(), {"max_mib": _number(match[2])})
        elif match := _PAIR.match(line):
            key, value = match[1].strip().lower(), match[2].strip()
            if key == "testid":
                columns = []
            run = runs[-1]
            if key in ("began", "run began"):
                run.began_ns = times.ns(value)
            elif key in ("finished", "run finished"):
                run.finished_ns, run.finished = times.ns(value), True
            elif key in ("command line", "command line used"):
                run.command = value
            elif key == "machine":
                run.machine = value
            elif key == "testid":
                run.tests.append(_IorTest(_whole(value) or 0))
            elif key == "starttime":
                run.test.started_ns = times.ns(value)
            elif key in _IOR_OPTIONS:
                run.test.options.setdefault(key, value)
            elif not run.error and ("ERROR" in line):
                run.error = value
        elif not runs[-1].error and (match := _ERROR.match(line)):
            runs[-1].error = match[1]
    return runs


def _add_ior_summary(run: _IorRun, columns: list[str], words: list[str]) -> None:
    # 'StdDev' occurs twice, so the first columns go by their place: four of bandwidth, then four of operations.
    names = _SUMMARY_COLUMNS[: 8 if "Max(OPs)" in columns else 4]
    values: _Summary = {name: _number(word) for name, word in zip(names, words[1:], strict=False)}
    values["mean_seconds"] = _number(words[columns.index("Mean(s)")]) if "Mean(s)" in columns else None
    wanted = _number(words[columns.index("Test#")]) if "Test#" in columns else 0
    for test in run.tests:
        if test.id == wanted:
            test.summaries[words[0]] = values


def _ior_runs_of_json(text: _TextFile, context: ReadContext) -> list[_IorRun]:
    """IOR's JSON output (`-O summaryFormat=JSON`): the same runs, tests and rows as its text."""
    try:
        document = parse_json("\n".join((*text.lines, text.torn or "")))
    except ValueError as error:
        raise TruncatedInput(
            f"{text.path} is not a whole JSON document ({error}).",
            hint="IOR writes it as it goes; ingest it when the run has finished.",
        ) from None
    if not isinstance(document, Mapping) or not isinstance(document.get("tests"), list):
        raise CorruptInput(f"{text.path} has no list 'tests', so it is no output of IOR.")
    times = _LocalTimes(text.path, context.zone)
    run = _IorRun(
        version=str(document.get("Version", "")),
        began_ns=times.ns(str(document.get("Began", ""))),
        command=str(document.get("Command line", "")) or None,
        machine=str(document.get("Machine", "")) or None,
        finished="Finished" in document,
    )
    for data in document["tests"]:
        if not isinstance(data, Mapping):
            continue
        given = data.get("Options")
        options = {str(key).lower(): str(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
        options.setdefault("path", str(data.get("Path", "")))
        test = _IorTest(_whole(data.get("TestID")) or 0, times.ns(str(data.get("StartTime", ""))), options)
        for result in _objects(data.get("Results")):
            access, iteration = str(result.get("access")), _whole(result.get("iter"))
            # Not every version numbers its iterations; they come in order.
            number = len(test.iterations(access)) if iteration is None else iteration
            speeds = (_number(result.get("bwMiB")), _number(result.get("iops")), _number(result.get("totalTime")))
            test.rows.append((access, number, *speeds, None))
        run.tests.append(test)
    run.finished_ns = times.ns(str(document.get("Finished", "")))
    for summary in _objects(document.get("summary")):
        for test in run.tests:
            if test.id == summary.get("TestID", 0):
                values = {name: _number(summary.get(key)) for name, key in _JSON_SUMMARY.items()}
                test.summaries[str(summary.get("operation"))] = values
    return [run]


def _objects(listed: Any) -> Iterator[Mapping[str, Any]]:
    """Those in the list; some versions put the results of each iteration into a list of their own."""
    for item in listed if isinstance(listed, list) else []:
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, Mapping):
                yield part


def _ior_phases(index: int, run: _IorRun) -> Iterator[_Phase]:
    prefix = "" if index == 1 else f"run{index}/"
    phases = [phase for place, test in enumerate(run.tests) for phase in _ior_test_phases(prefix, place, run, test)]
    took = sum(phase.duration_seconds or 0 for phase in phases)
    whole = _Phase(
        name=f"{prefix}run",
        start_ns=run.began_ns,
        end_ns=None if run.finished_ns is None else _end_of(run.began_ns, took, run.finished_ns),
        details=_ior_details(run, run.tests[0].options) if run.tests else {"version": run.version},
        command=run.command,
        target=_ior_directory(run.tests[0].options) if run.tests else None,
        # Where an iteration has no time of its own, the run is on the time line.
        marks_time=any(phase.start_ns is None for phase in phases if "[max]" not in phase.name),
    )
    return _within(whole, phases)


def _ior_test_phases(prefix: str, position: int, run: _IorRun, test: _IorTest) -> Iterator[_Phase]:
    prefix = prefix if position == 0 else f"{prefix}test{position + 1}/"
    details = _ior_details(run, test.options)
    same: dict[str, Any] = {"command": run.command, "target": _ior_directory(test.options)}
    moved = _size(test.options.get("aggregate filesize"))
    for order, (access, iteration, mib_per_s, ops_per_s, seconds, commenced_ns) in enumerate(test.rows):
        # The first phase begins with the test.
        start_ns = test.started_ns if commenced_ns is None and order == 0 else commenced_ns
        if seconds is None and moved and mib_per_s:
            # IOR's bandwidth is the bytes of all tasks over the time from the first open to the last close (its
            # manual); versions that do not print that time still print the other two.
            seconds = moved / (mib_per_s * MIB)
        yield _Phase(
            f"{prefix}{access}[{iteration}]",
            "delete" if access == "remove" else access,
            _scaled(mib_per_s, MIB),
            ops_per_s,
            seconds,
            start_ns,
            None if start_ns is None else _end_of(start_ns, seconds),
            details | {"iteration": iteration},
            **same,
        )
    for access, summary in test.summaries.items():
        rates = {f"bytes_per_s_{name}": _scaled(summary.get(f"{name}_mib"), MIB) for name in ("min", "mean", "sd")}
        yield _Phase(
            f"{prefix}{access}[max]",
            access,
            _scaled(summary.get("max_mib"), MIB),
            summary.get("max_ops"),
            details=details | rates | {"seconds_mean": summary.get("mean_seconds")},
            **same,
        )


def _ior_details(run: _IorRun, options: Mapping[str, str]) -> dict[str, Any]:
    # '2048 (1 per node)' in older versions.
    clients = re.match(r"(\d+)(?: \((\d+) per node\))?", options.get("clients", ""))
    tasks = _whole(options.get("tasks")) or (clients and _whole(clients[1])) or None
    per_node = _whole(options.get("clients per node")) or (clients and _whole(clients[2])) or None
    nodes = _whole(options.get("nodes"))
    if nodes is None and tasks and per_node:
        nodes = -(-tasks // per_node)
    return {
        "version": run.version,
        "machine": run.machine,
        **{name: options.get(name) for name in ("api", "access", "type")},
        "tasks": tasks,
        "nodes": nodes,
        "tasks_per_node": per_node,
        **{name: _whole(options.get(name)) for name in ("segments", "repetitions")},
        "transfer_bytes": _size(options.get("xfersize")),
        "block_bytes": _size(options.get("blocksize")),
        "aggregate_bytes": _size(options.get("aggregate filesize")),
    }


def _size(text: str | None) -> int | None:
    """'1 MiB' or '47008 bytes', in IOR's own rounding to two digits."""
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
    text = _read_lines(path)
    runs = _mdtest_runs(text, context)
    phases = [phase for index, run in enumerate(runs, start=1) for phase in _mdtest_phases(index, run)]
    if any(run.rates for run in runs):
        yield from _frames("mdtest", text, phases, context)
    if not all(run.rates for run in runs):
        raise TruncatedInput(f"{path} ends before the table of rates of a run of mdtest.", hint=_UNFINISHED)


MDTEST = FileReader(
    "mdtest",
    "mdtest text output (1.9, 3.x, 4.x)",
    ("benchmarks", "events"),
    lambda head, path: 0.9 if _MDTEST_BANNER.search(plain_head(head)) else 0.0,
    _read_mdtest,
    tried="1.9, 3.x, 4.x",
    made_by="mdtest ... > mdtest.out",
    lost="times of single phases",
    used_by="car11.table1",
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


def _mdtest_runs(text: _TextFile, context: ReadContext) -> list[_MdtestRun]:
    """Runs in the order of the file. '-- started at' comes before the banner, and may be missing."""
    times = _LocalTimes(text.path, context.zone)
    runs: list[_MdtestRun] = []
    started_ns: int | None = None
    table: dict[str, list[float | None]] | None = None
    for line in text.lines:
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


def _mdtest_phases(index: int, run: _MdtestRun) -> Iterator[_Phase]:
    prefix = "" if index == 1 else f"run{index}/"
    same: dict[str, Any] = {"command": run.command, "target": run.target}
    phases = []
    for operation, values in run.rates.items():
        highest, lowest, mean, deviation = (*values, None, None, None, None)[:4]
        seconds = run.seconds.get(operation, [])
        if highest:  # mdtest prints zeros for what it was not asked to do
            phases.append(
                _Phase(
                    prefix + operation.lower().replace(" ", "_"),
                    _MDTEST_OPERATIONS.get(operation.split()[1], operation.split()[1]),
                    ops_per_s=mean,
                    duration_seconds=seconds[2] if len(seconds) == 4 else None,
                    details=run.details
                    | {"ops_per_s_max": highest, "ops_per_s_min": lowest, "ops_per_s_sd": deviation},
                    **same,
                )
            )
    whole = _Phase(f"{prefix}run", start_ns=run.start_ns, end_ns=run.end_ns, details=run.details, **same)
    return _within(whole, phases)


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
    text = plain_head(head)
    # Above IOR and mdtest, which IO500 runs and whose words may be in the same output.
    if any(_RESULT.match(line) for line in text.splitlines()):
        return 0.95
    return 0.95 if _SECTION.search(text) and _SECTION_SCORE.search(text) else 0.0


def _read_io500(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    text = _read_lines(path)
    if any(_SECTION.match(line) for line in text.lines):
        phases, complete = _from_sections(text, context)
    else:
        phases, complete = _from_summary(text)
    if phases:
        yield from _frames("io500", text, phases, context)
    if not complete:
        raise TruncatedInput(
            f"{path} ends before the score of IO500.",
            hint="The benchmark was stopped or is still running; the phases that ended are kept.",
        )


IO500 = FileReader(
    "io500",
    "IO500 results (result_summary.txt, result.txt, io-500-summary of the shell scripts)",
    ("benchmarks", "events"),
    _detect_io500,
    _read_io500,
    tried="result.txt of 2020 and 2021, io-500-summary of 2018 to 2020; result_summary.txt",
    made_by="io500 config.ini; keep its results folder",
    lost="times, where the file has none",
    used_by="car11.table1, kun19.fig3 (phases)",
)


def _from_summary(text: _TextFile) -> tuple[list[_Phase], bool]:
    phases: list[_Phase] = []
    run, prefix, scored = 0, "", False
    details: dict[str, Any] = {}
    seen: dict[str, tuple[str, ...]] = {}
    for line in text.lines:
        if match := _VERSION.search(line):
            run, scored, seen = run + 1, False, {}
            prefix = "" if run == 1 else f"run{run}/"
            details = {"version": match[1], "mode": match[2]}
        elif (match := _RESULT.match(line.strip())) and match[2] != _MARK:
            invalid, name, value, _, seconds, flag = match.groups()
            name = name.replace("_", "-")  # scripts and program write it differently, perhaps in one file
            if seen.get(name) == (value, seconds):
                continue  # the shell scripts print each result again under [Summary]
            if name in seen:  # another run whose first lines are not there
                run, scored, seen = run + 1, False, {}
                prefix = f"run{run}/"
            seen[name] = (value, seconds)
            run = max(run, 1)
            about = details | ({"valid": False} if invalid or flag else {})
            phases.append(_io500_phase(name, _number(value), about, prefix, duration_seconds=_number(seconds)))
        elif match := _SCORE.search(line):
            name, figures = match[1].lower(), (match[3], match[4], match[5])
            if seen.get(name) == figures:
                continue  # printed again
            if name in seen:  # other figures of the same name: the next run begins
                run, seen = run + 1, {}
                prefix = f"run{run}/"
            seen[name], scored = figures, True
            invalid = bool(match[2] or match[6])
            phases.append(_io500_score(prefix + name, match[3], match[4], match[5], invalid, details))
    return phases, scored


def _from_sections(text: _TextFile, context: ReadContext) -> tuple[list[_Phase], bool]:
    parser = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",), comment_prefixes=(";", "#"))
    try:
        # Results of 2020 say version and configuration before the first section.
        # The parser's own patterns take time in the square of a run of blanks.
        lines = (f"{line[:1] if line[:1].isspace() else ''}{' '.join(line.split())}" for line in text.lines)
        parser.read_string("\n".join([f"[{_PREAMBLE}]", *lines]), source=str(text.path))
    except configparser.Error as error:
        raise CorruptInput(
            f"{text.path} is not a result.txt of IO500: {' '.join(error.message.split())}.",
            hint="Ingest the file as the benchmark wrote it.",
        ) from None
    times = _LocalTimes(text.path, context.zone)
    edges = {match[1]: match[2] for line in text.lines if (match := _EDGE.match(line))}
    start_ns = times.ns(edges.get("START", ""))
    about_run = parser["run"] if parser.has_section("run") else parser[_PREAMBLE]
    details = {name: about_run.get(name) for name in ("version", "mode")} | {
        "tasks": whole_number(about_run.get("procs", ""))
    }
    phases = []
    for name, section in parser.items():
        if "score" in section and not name.startswith("SCORE") and name != _MARK:
            began_ns, ended_ns = times.ns(section.get("t_start", "")), times.ns(section.get("t_end", ""))
            duration, command = _number(section.get("t_delta")), section.get("exe")
            # Where it worked: IOR is given a file (-o), mdtest a directory (-d).
            at = re.search(r" -o (/\S+)/[^/\s]+(?: |$)", command or "") or re.search(r" -d (/\S+)", command or "")
            phases.append(
                _io500_phase(
                    name,
                    _number(section["score"]),
                    details,
                    duration_seconds=duration,
                    start_ns=began_ns,
                    end_ns=_end_of(began_ns, duration, ended_ns),
                    command=command,
                    target=at[1] if at else None,
                )
            )
    for name in ("SCORE", "SCOREX"):
        if parser.has_section(name):
            total, _, flag = parser[name].get("score", "").partition(" ")
            phases.append(
                _io500_score(name.lower(), parser[name].get("bw"), parser[name].get("md"), total, bool(flag), details)
            )
    end_ns = times.ns(edges.get("END", ""))
    # The run itself stays off the time line: its phases, one after the other, are there.
    whole = _Phase(name="run", start_ns=start_ns, end_ns=end_ns, details=details, marks_time=False)
    return list(_within(whole, phases)), parser.has_section("SCORE")


def _io500_phase(name: str, value: float | None, details: dict[str, Any], prefix: str = "", **more: Any) -> _Phase:
    """IO500 gives GiB/s to phases that begin with an i (IOR) and thousands of operations per second to all others.

    'GB/s' of its first versions is MiB/s divided by 1024: the same GiB/s under another name. A phase that failed has 0.
    """
    words = re.split(r"[-_]", name)
    operation = next((word for word in reversed(words) if word in _OPERATIONS), words[0])
    if words[0] == "mdtest" and operation == "write":
        operation = "create"  # mdtest's write phases create files
    bytes_per_s = _scaled(value or None, GIB) if name.startswith("i") else None
    ops_per_s = None if name.startswith("i") else _scaled(value or None, 1000)
    return _Phase(prefix + name, operation, bytes_per_s, ops_per_s, details=details, **more)


def _io500_score(
    name: str, bandwidth: str | None, rate: str | None, total: str, invalid: bool, details: dict[str, Any]
) -> _Phase:
    """The geometric means of IO500, and its score, which has no unit."""
    about = details | {"score": _number(total)} | ({"valid": False} if invalid else {})
    return _Phase(name, None, _scaled(_number(bandwidth), GIB), _scaled(_number(rate), 1000), details=about)
