"""IOR's text output, line by line: runs, their tests, and the rows of results."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.sources.benchmarks.dates import LocalTimes
from ioweather.sources.benchmarks.phases import TextFile, number

BANNER: Final = re.compile(r"IOR-(\d\S{0,99}): MPI Coordinated Test of Parallel I/O")
# What launchers put before each line: 'stdout[0] ' (Blue Gene), '[1,0]<stdout>:' (Open MPI).
_LAUNCHER: Final = re.compile(r"^(?:std(?:out|err)\[\d+\]:? ?|\[\d+,\d+\]<std(?:out|err)>: ?)")
_PAIR: Final = re.compile(r"\s*([A-Za-z][A-Za-z \t]*)[:=](.*)")
_TEST: Final = re.compile(r"^Test (\d+) started\s*:(.*)$")
_COMMENCING: Final = re.compile(r"^Commencing (write|read) performance test[.:]?(.*)$")
_MAX: Final = re.compile(r"^Max (Write|Read):\s+([\d.]+) MiB/sec")
_ERROR: Final = re.compile(r"(?:ior ERROR|ERROR)\b:?\s*(.*)")
_OPTIONS: Final = frozenset(
    {"api", "test filename", "access", "type", "segments", "nodes", "tasks", "clients", "clients per node",
     "repetitions", "xfersize", "blocksize", "aggregate filesize"}
)  # fmt: skip
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


def runs_of_text(text: TextFile, context: ReadContext) -> list[IorRun]:
    parser = _Parser(LocalTimes(text.path, context.zone))
    for line in text.whole_lines:
        parser.line(_LAUNCHER.sub("", line))
    if text.torn:
        # Without its line end a row may lack digits; the date of the end cannot.
        parser.torn_line(_LAUNCHER.sub("", text.lines[-1]))
    return parser.runs


class _Parser:
    """Feeds on lines. Unknown ones are passed over: warnings of any rank may stand between the others."""

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
        # 'StdDev' stands twice, so the first columns go by their place: four of bandwidth, then four of operations.
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
