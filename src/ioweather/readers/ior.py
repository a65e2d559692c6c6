"""IOR and mdtest: the sources `ior` and `mdtest`.

IOR gives the bandwidth of every iteration and the best of each operation, as text (2.10 to 4.x) or JSON; mdtest the
rates of metadata operations, as text (1.9, 3.x, 4.x).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.foreign_text import parse_json, whole_number
from ioweather.core.frames import Frame
from ioweather.core.units import MIB, parse_size
from ioweather.core.words import names_of, pairs_of
from ioweather.readers.benchmark_phases import (
    LocalTimes,
    Phase,
    TextFile,
    end_of,
    frames,
    latest,
    number,
    read_text,
    scaled,
    within,
)
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import plain_head

BANNER: Final = re.compile(r"IOR-(\d\S{0,99}): MPI Coordinated Test of Parallel I/O")
# What launchers put before each line: 'stdout[0] ' (Blue Gene), '[1,0]<stdout>:' (Open MPI).
_LAUNCHER: Final = re.compile(r"^(?:std(?:out|err)\[\d+\]:? ?|\[\d+,\d+\]<std(?:out|err)>: ?)")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z \t]*)[:=](.*)")
_TEST: Final = re.compile(r"^Test (\d+) started\s*:(.*)$")
_COMMENCING: Final = re.compile(r"^Commencing (write|read) performance test[.:]?(.*)$")
_MAX: Final = re.compile(r"^Max (Write|Read):\s+([\d.]+) MiB/sec")
_ERROR: Final = re.compile(r"(?:ior ERROR|ERROR)\b:?\s*(.*)")
_OPTIONS: Final = frozenset(
    (
        *names_of("api access type segments nodes tasks clients repetitions xfersize blocksize"),
        *("test filename", "clients per node", "aggregate filesize"),
    )
)
_SUMMARY_COLUMNS: Final = ("max_mib", "min_mib", "mean_mib", "sd_mib", "max_ops", "min_ops", "mean_ops", "sd_ops")
_ACCESSES: Final = ("write", "read", "remove")


@dataclass(frozen=True)
class IorRow:
    """One line of results. `start_ns` where IOR said when it began this one."""

    access: str
    iteration: int
    mib_per_s: float | None
    ops_per_s: float | None
    total_seconds: float | None
    start_ns: int | None = None


@dataclass
class IorTest:
    """One test of a run. `summaries` maps an access to what IOR says of all its iterations."""

    id: int = 0
    started_ns: int | None = None
    options: dict[str, str] = field(default_factory=dict)
    rows: list[IorRow] = field(default_factory=list)
    summaries: dict[str, dict[str, float | None]] = field(default_factory=dict)

    def iterations(self, access: str) -> set[int]:
        return {row.iteration for row in self.rows if row.access == access}

    @property
    def repetitions(self) -> int:
        return int(number(self.options.get("repetitions")) or 1)


@dataclass
class IorRun:
    """One start of IOR. `finished` is true where it said so, with a date or without."""

    version: str = ""
    began_ns: int | None = None
    finished_ns: int | None = None
    finished: bool = False
    command: str | None = None
    machine: str | None = None
    error: str = ""
    tests: list[IorTest] = field(default_factory=list)


def _runs_of_text(text: TextFile, context: ReadContext) -> list[IorRun]:
    parser = _Parser(LocalTimes(text.path, context.zone))
    for line in text.whole_lines:
        parser.line(_LAUNCHER.sub("", line))
    if text.torn:
        # Without its line end a row may lack digits; the date of the end cannot.
        parser.torn_line(_LAUNCHER.sub("", text.lines[-1]))
    return parser.runs


class _Parser:
    """Parser of single lines. Unknown lines are skipped: warnings of any rank may come between the others."""

    def __init__(self, times: LocalTimes) -> None:
        self.runs: list[IorRun] = []
        self._times = times
        self._columns: list[str] = []
        self._summary_columns: list[str] = []
        self._commenced_ns: int | None = None
        self._date_follows = False

    def line(self, line: str) -> None:
        if match := BANNER.search(line):
            self.runs.append(IorRun(version=match[1]))
            self._columns, self._summary_columns = [], []
        elif not self.runs:
            return
        elif self._date_follows:
            # 2.x prints the date on a line of its own.
            self._commenced_ns, self._date_follows = self._times.ns(line), False
        elif match := _COMMENCING.match(line):
            self._commenced_ns = self._times.ns(match[2])
            self._date_follows = self._commenced_ns is None
        elif line.startswith("access ") and "bw(MiB/s)" in line.split():
            self._columns = line.split()
        elif line.startswith("Operation ") and "Max(MiB)" in line:
            self._summary_columns = line.split()
        elif not self._result(line.split()):
            self._statement(line)

    def torn_line(self, line: str) -> None:
        if self.runs and re.match(r"(?:Run )?[Ff]inished\b", line):
            self._statement(line)

    def _result(self, words: list[str]) -> bool:
        """A row of results or of the summary, recognised by its first word and its number of columns."""
        if not words or words[0] not in _ACCESSES:
            return False
        if self._summary_columns:
            return self._summary(words)
        if len(words) != len(self._columns):
            return False
        row = dict(zip(self._columns, words, strict=True))
        iteration = number(row.get("iter"))
        if iteration is None:
            return False
        self._test.rows.append(
            IorRow(
                row["access"],
                int(iteration),
                number(row["bw(MiB/s)"]),
                number(row.get("IOPS")),
                number(row.get("total(s)")),
                self._commenced_ns,
            )
        )
        self._commenced_ns = None
        return True

    def _summary(self, words: list[str]) -> bool:
        columns = self._summary_columns
        if len(words) != len(columns):
            return False
        # 'StdDev' occurs twice, so the first columns go by their place: four of bandwidth, then four of operations.
        count = 8 if "Max(OPs)" in columns else 4
        values: dict[str, float | None] = {
            name: number(word) for name, word in zip(_SUMMARY_COLUMNS[:count], words[1:], strict=False)
        }
        values["mean_seconds"] = number(words[columns.index("Mean(s)")]) if "Mean(s)" in columns else None
        wanted = number(words[columns.index("Test#")]) if "Test#" in columns else 0
        for test in self.runs[-1].tests:
            if test.id == wanted:
                test.summaries[words[0]] = values
        return True

    def _statement(self, line: str) -> None:
        run = self.runs[-1]
        if match := _TEST.match(line):
            run.tests.append(IorTest(id=int(match[1]), started_ns=self._times.ns(match[2])))
        elif match := _MAX.match(line):
            self._test.summaries.setdefault(match[1].lower(), {"max_mib": number(match[2])})
        elif match := _PAIR.match(line):
            self._pair(run, match[1].strip().lower(), match[2].strip(), line)
        elif not run.error and (match := _ERROR.match(line)):
            run.error = match[1]

    def _pair(self, run: IorRun, key: str, value: str, line: str) -> None:
        if key in ("began", "run began"):
            run.began_ns = self._times.ns(value)
        elif key in ("finished", "run finished"):
            run.finished_ns, run.finished = self._times.ns(value), True
        elif key in ("command line", "command line used"):
            run.command = value
        elif key == "machine":
            run.machine = value
        elif key == "testid":
            run.tests.append(IorTest(id=int(number(value) or 0)))
            self._columns = []
        elif key == "starttime":
            self._test.started_ns = self._times.ns(value)
        elif key in _OPTIONS:
            self._test.options.setdefault(key, value)
        elif key == "path":
            self._test.options.setdefault("path", value)
        elif not run.error and "ERROR" in line:
            run.error = value

    @property
    def _test(self) -> IorTest:
        """The test that is being read; 2.x does not announce its first."""
        tests = self.runs[-1].tests
        if not tests:
            tests.append(IorTest())
        return tests[-1]


# IOR's JSON output (`-O summaryFormat=JSON`): the same runs, tests and rows as its text.

_SUMMARY: Final = pairs_of("""
    max_mib=bwMaxMIB min_mib=bwMinMIB mean_mib=bwMeanMIB sd_mib=bwStdMIB
    max_ops=OPsMax min_ops=OPsMin mean_ops=OPsMean sd_ops=OPsSD mean_seconds=MeanTime
""")


def _looks_like_json(head: str) -> bool:
    return head.lstrip().startswith("{") and '"Command line"' in head and '"Began"' in head


def _runs_of_json(text: TextFile, context: ReadContext) -> list[IorRun]:
    try:
        document = parse_json("\n".join(text.lines))
    except ValueError as error:
        raise TruncatedInput(
            f"{text.path} is not a whole JSON document ({error}).",
            hint="IOR writes it as it goes; ingest it when the run has finished.",
        ) from None
    if not isinstance(document, Mapping) or not isinstance(document.get("tests"), list):
        raise CorruptInput(f"{text.path} has no list 'tests', so it is no output of IOR.")
    times = LocalTimes(text.path, context.zone)
    run = IorRun(
        version=str(document.get("Version", "")),
        began_ns=times.ns(str(document.get("Began", ""))),
        command=str(document.get("Command line", "")) or None,
        machine=str(document.get("Machine", "")) or None,
        tests=[_test(test, times) for test in document["tests"] if isinstance(test, Mapping)],
        finished="Finished" in document,
    )
    run.finished_ns = times.ns(str(document.get("Finished", "")))
    for summary in _objects(document.get("summary")):
        for test in run.tests:
            if test.id == summary.get("TestID", 0):
                values = {name: number(summary.get(key)) for name, key in _SUMMARY.items()}
                test.summaries[str(summary.get("operation"))] = values
    return [run]


def _test(data: Mapping[str, Any], times: LocalTimes) -> IorTest:
    given = data.get("Options")
    options = {str(key).lower(): str(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
    options.setdefault("path", str(data.get("Path", "")))
    test = IorTest(int(number(data.get("TestID")) or 0), times.ns(str(data.get("StartTime", ""))), options)
    for result in _objects(data.get("Results")):
        access = str(result.get("access"))
        iteration = number(result.get("iter"))
        test.rows.append(
            IorRow(
                access,
                # Not every version numbers its iterations; they come in order.
                len(test.iterations(access)) if iteration is None else int(iteration),
                number(result.get("bwMiB")),
                number(result.get("iops")),
                number(result.get("totalTime")),
            )
        )
    return test


def _objects(listed: Any) -> Iterator[Mapping[str, Any]]:
    """Those in the list; some versions put the results of each iteration into a list of their own."""
    for item in listed if isinstance(listed, list) else []:
        for part in item if isinstance(item, list) else [item]:
            if isinstance(part, Mapping):
                yield part


_OPERATIONS: Final = {"remove": "delete"}


def _detect_ior(head: bytes, path: Path) -> float:
    text = plain_head(head)
    return 0.9 if BANNER.search(text) or _looks_like_json(text) else 0.0


def _read_ior(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    text = read_text(path)
    is_json = _looks_like_json("\n".join(text.lines[:50]))
    runs = _runs_of_json(text, context) if is_json else _runs_of_text(text, context)
    phases = [phase for index, run in enumerate(runs, start=1) for phase in _run_phases(index, run)]
    if any(test.rows for run in runs for test in run.tests):
        yield from frames("ior", text, phases, context)
    _refuse_if_cut(text, runs)


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


def _refuse_if_cut(text: TextFile, runs: list[IorRun]) -> None:
    """Fewer iterations than were asked for and no end. A missing end alone says little: under IO500 IOR prints none."""
    for run in runs:
        rows = [row for test in run.tests for row in test.rows]
        short = any(0 < len(test.iterations(op)) < test.repetitions for test in run.tests for op in ("write", "read"))
        if not rows or (run.finished_ns is None and not run.finished and (short or text.torn)):
            missing = "has no result" if not rows else "ends before its last result"
            said = f" IOR said: {run.error}" if run.error else ""
            raise TruncatedInput(
                f"{text.path} {missing}.{said}",
                hint="The benchmark failed or is still running; ingest its output when it has finished.",
            )


def _run_phases(index: int, run: IorRun) -> Iterator[Phase]:
    prefix = "" if index == 1 else f"run{index}/"
    phases = [phase for position, test in enumerate(run.tests) for phase in _test_phases(prefix, position, run, test)]
    took = sum(phase.duration_seconds or 0 for phase in phases)
    whole = Phase(
        name=f"{prefix}run",
        start_ns=run.began_ns,
        end_ns=latest(run.finished_ns, end_of(run.began_ns, took)) if run.finished_ns is not None else None,
        details=_details(run, run.tests[0]) if run.tests else {"version": run.version},
        command=run.command,
        target=_directory(run.tests[0]) if run.tests else None,
        # Where an iteration has no time of its own, the run is on the time line.
        marks_time=any(phase.start_ns is None for phase in phases if "[max]" not in phase.name),
    )
    yield whole
    yield from within(whole, phases)


def _test_phases(prefix: str, position: int, run: IorRun, test: IorTest) -> Iterator[Phase]:
    prefix = prefix if position == 0 else f"{prefix}test{position + 1}/"
    details, directory = _details(run, test), _directory(test)
    for order, row in enumerate(test.rows):
        start_ns = row.start_ns
        if start_ns is None and order == 0:
            start_ns = test.started_ns  # the first phase begins with the test
        duration = row.total_seconds if row.total_seconds is not None else _implied_seconds(test, row)
        yield Phase(
            name=f"{prefix}{row.access}[{row.iteration}]",
            operation=_OPERATIONS.get(row.access, row.access),
            bytes_per_s=scaled(row.mib_per_s, MIB),
            ops_per_s=row.ops_per_s,
            duration_seconds=duration,
            start_ns=start_ns,
            end_ns=end_of(start_ns, duration),
            details=details | {"iteration": row.iteration},
            command=run.command,
            target=directory,
        )
    for access, summary in test.summaries.items():
        yield Phase(
            name=f"{prefix}{access}[max]",
            operation=access,
            bytes_per_s=scaled(summary.get("max_mib"), MIB),
            ops_per_s=summary.get("max_ops"),
            details=details
            | {
                "bytes_per_s_min": scaled(summary.get("min_mib"), MIB),
                "bytes_per_s_mean": scaled(summary.get("mean_mib"), MIB),
                "bytes_per_s_sd": scaled(summary.get("sd_mib"), MIB),
                "seconds_mean": summary.get("mean_seconds"),
            },
            command=run.command,
            target=directory,
        )


def _implied_seconds(test: IorTest, row: IorRow) -> float | None:
    """IOR's bandwidth is the bytes of all tasks over the time from the first open to the last close (its manual);
    versions that do not print that time still print the other two."""
    moved = _size(test.options.get("aggregate filesize"))
    return moved / (row.mib_per_s * MIB) if moved and row.mib_per_s else None


def _details(run: IorRun, test: IorTest) -> dict[str, Any]:
    options = test.options
    # '2048 (1 per node)' in older versions.
    clients = re.match(r"(\d+)(?: \((\d+) per node\))?", options.get("clients", ""))
    tasks = number(options.get("tasks")) or (clients and number(clients[1])) or None
    per_node = number(options.get("clients per node")) or (clients and number(clients[2])) or None
    nodes = number(options.get("nodes"))
    if nodes is None and tasks and per_node:
        nodes = -(-tasks // per_node)
    return {
        "version": run.version,
        "machine": run.machine,
        "api": options.get("api"),
        "access": options.get("access"),
        "type": options.get("type"),
        "tasks": None if tasks is None else int(tasks),
        "nodes": None if nodes is None else int(nodes),
        "tasks_per_node": None if per_node is None else int(per_node),
        "segments": _whole(options.get("segments")),
        "repetitions": _whole(options.get("repetitions")),
        "transfer_bytes": _size(options.get("xfersize")),
        "block_bytes": _size(options.get("blocksize")),
        "aggregate_bytes": _size(options.get("aggregate filesize")),
    }


def _whole(text: str | None) -> int | None:
    value = number(text)
    return None if value is None else int(value)


def _size(text: str | None) -> int | None:
    """'1 MiB' or '47008 bytes', in IOR's own rounding to two digits."""
    try:
        return parse_size((text or "").replace("bytes", "B"))
    except (ValueError, OverflowError):
        return None


def _directory(test: IorTest) -> str | None:
    """The directory of the test file. `Path` is that directory in older versions and the file itself in newer ones."""
    file_name, shown = test.options.get("test filename", ""), test.options.get("path", "")
    if file_name.startswith("/"):
        return str(PurePosixPath(file_name).parent)
    if not shown.startswith("/"):
        return None
    inside = file_name and PurePosixPath(shown).name.startswith(PurePosixPath(file_name).name)
    return str(PurePosixPath(shown).parent if inside else PurePosixPath(shown))


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


@dataclass
class _MdtestRun:
    start_ns: int | None = None
    end_ns: int | None = None
    version: str = ""
    tasks: int | None = None
    nodes: int | None = None
    command: str | None = None
    target: str | None = None
    items: int | None = None
    iterations: int | None = 1
    # Operation as printed -> max, min, mean, standard deviation.
    rates: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, list[float | None]] = field(default_factory=dict)


def _detect_mdtest(head: bytes, path: Path) -> float:
    return 0.9 if _MDTEST_BANNER.search(plain_head(head)) else 0.0


def _read_mdtest(path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    text = read_text(path)
    runs = _mdtest_runs(text, context)
    phases = [phase for index, run in enumerate(runs, start=1) for phase in _mdtest_phases(index, run)]
    if any(run.rates for run in runs):
        yield from frames("mdtest", text, phases, context)
    for run in runs:
        if not run.rates:
            raise TruncatedInput(
                f"{path} ends before the table of rates of a run of mdtest.",
                hint="The benchmark failed or is still running; ingest its output when it has finished.",
            )


MDTEST = FileReader(
    "mdtest",
    "mdtest text output (1.9, 3.x, 4.x)",
    ("benchmarks", "events"),
    _detect_mdtest,
    _read_mdtest,
    tried="1.9, 3.x, 4.x",
    made_by="mdtest ... > mdtest.out",
    lost="times of single phases",
    used_by="car11.table1",
)


def _mdtest_runs(text: TextFile, context: ReadContext) -> list[_MdtestRun]:
    """Runs in the order of the file. '-- started at' comes before the banner, and may be missing."""
    times = LocalTimes(text.path, context.zone)
    runs: list[_MdtestRun] = []
    started_ns: int | None = None
    table: dict[str, list[float | None]] | None = None
    for line in text.whole_lines:
        if match := _STARTED.search(line):
            started_ns = times.ns(match[1])
        elif match := _MDTEST_BANNER.search(line):
            runs.append(
                _MdtestRun(started_ns, version=match[1], tasks=whole_number(match[2]), nodes=whole_number(match[3]))
            )
            started_ns, table = None, None
        elif not runs:
            continue
        elif match := _MDTEST_SUMMARY.search(line):
            table = _mdtest_table(runs[-1], match)
        elif match := _FINISHED.search(line):
            runs[-1].end_ns, table = times.ns(match[1]), None
        elif table is None:
            _mdtest_header(runs[-1], line)
        elif match := _ROW.match(line):
            # With statistics per rank there are three more columns in front.
            table[match[1]] = [number(word) for word in match[3].split()][-4:]
    return runs


def _mdtest_table(run: _MdtestRun, match: re.Match[str]) -> dict[str, list[float | None]] | None:
    run.iterations = whole_number(match[3])
    if match[1] != "time":
        return run.rates
    # Until 4.0 the table has seconds, whatever unit its heading claims; 'ms/op' came with another meaning.
    return None if match[2] == "ms/op" else run.seconds


def _mdtest_header(run: _MdtestRun, line: str) -> None:
    if match := _COMMAND.match(line):
        run.command = match[1].strip()
    elif match := _MDTEST_PATH.match(line):
        run.target = match[1].strip() or None
    elif match := _ITEMS.match(line):
        run.items = whole_number(match[1])


def _mdtest_phases(index: int, run: _MdtestRun) -> Iterator[Phase]:
    prefix = "" if index == 1 else f"run{index}/"
    names = ("version", "tasks", "nodes", "items", "iterations")
    details: dict[str, Any] = {name: getattr(run, name) for name in names}
    whole = Phase(
        name=f"{prefix}run",
        start_ns=run.start_ns,
        end_ns=run.end_ns,
        details=details,
        command=run.command,
        target=run.target,
    )
    yield whole
    yield from within(whole, _mdtest_operations(prefix, run, details))


def _mdtest_operations(prefix: str, run: _MdtestRun, details: dict[str, Any]) -> Iterator[Phase]:
    for operation, values in run.rates.items():
        highest, lowest, mean, deviation = (*values, None, None, None, None)[:4]
        if not highest:
            continue  # mdtest prints zeros for what it was not asked to do
        seconds = run.seconds.get(operation, [])
        yield Phase(
            name=prefix + operation.lower().replace(" ", "_"),
            operation=_MDTEST_OPERATIONS.get(operation.split()[1], operation.split()[1]),
            ops_per_s=mean,
            duration_seconds=seconds[2] if len(seconds) == 4 else None,
            details=details | {"ops_per_s_max": highest, "ops_per_s_min": lowest, "ops_per_s_sd": deviation},
            command=run.command,
            target=run.target,
        )
