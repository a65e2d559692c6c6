"""mdtest: rates of metadata operations, from its text output (1.9, 3.x, 4.x)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import TruncatedInput
from ioweather.core.foreign_text import whole_number
from ioweather.core.frames import Frame
from ioweather.readers.benchmark_phases import LocalTimes, Phase, TextFile, frames, number, read_text, within
from ioweather.readers.text_files import plain_head

_BANNER: Final = re.compile(r"mdtest-(\S{1,99}) was launched with (\d+) total task\(s\) on (\d+) node")
_STARTED: Final = re.compile(r"-- started at (.{0,99}?) --")
_FINISHED: Final = re.compile(r"-- finished at (.{0,99}?) --")
_COMMAND: Final = re.compile(r"Command line used: (.*)")
_PATH: Final = re.compile(r"Path\s*: (.*)")
_ITEMS: Final = re.compile(r"\d+ tasks, (\d+) (files/directories|files|directories)")
_SUMMARY: Final = re.compile(r"SUMMARY(?: (rate|time))?\s{0,9}(?:\(in (\S{1,99})\))?\s{0,9}: \(of (\d+) iterations\)")
_ROW: Final = re.compile(
    r"\s*((?:Directory|File|Tree) (creation|stat|read|rename|removal))(?:\s*:)?\s+([-\d.naif][-\d. naif]*)$"
)
_OPERATIONS: Final = {"creation": "create", "removal": "delete"}


@dataclass
class _Run:
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


@dataclass(frozen=True)
class MdtestSource:
    """Reads mdtest's text output."""

    name: str = "mdtest"
    title: str = "mdtest text output (1.9, 3.x, 4.x)"
    tables: tuple[str, ...] = ("benchmarks", "events")

    def detect(self, head: bytes, path: Path) -> float:
        return 0.9 if _BANNER.search(plain_head(head)) else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        text = read_text(path)
        runs = _runs(text, context)
        phases = [phase for index, run in enumerate(runs, start=1) for phase in _phases(index, run)]
        if any(run.rates for run in runs):
            yield from frames(self.name, text, phases, context)
        for run in runs:
            if not run.rates:
                raise TruncatedInput(
                    f"{path} ends before the table of rates of a run of mdtest.",
                    hint="The benchmark failed or is still running; ingest its output when it has finished.",
                )


def _runs(text: TextFile, context: ReadContext) -> list[_Run]:
    """Runs in the order of the file. '-- started at' stands before the banner, and may be missing."""
    times = LocalTimes(text.path, context.zone)
    runs: list[_Run] = []
    started_ns: int | None = None
    table: dict[str, list[float | None]] | None = None
    for line in text.whole_lines:
        if match := _STARTED.search(line):
            started_ns = times.ns(match[1])
        elif match := _BANNER.search(line):
            runs.append(_Run(started_ns, version=match[1], tasks=whole_number(match[2]), nodes=whole_number(match[3])))
            started_ns, table = None, None
        elif not runs:
            continue
        elif match := _SUMMARY.search(line):
            table = _table(runs[-1], match)
        elif match := _FINISHED.search(line):
            runs[-1].end_ns, table = times.ns(match[1]), None
        elif table is None:
            _header(runs[-1], line)
        elif match := _ROW.match(line):
            # With statistics per rank there are three more columns in front.
            table[match[1]] = [number(word) for word in match[3].split()][-4:]
    return runs


def _table(run: _Run, match: re.Match[str]) -> dict[str, list[float | None]] | None:
    run.iterations = whole_number(match[3])
    if match[1] != "time":
        return run.rates
    # Until 4.0 the table holds seconds, whatever unit its heading claims; 'ms/op' came with another meaning.
    return None if match[2] == "ms/op" else run.seconds


def _header(run: _Run, line: str) -> None:
    if match := _COMMAND.match(line):
        run.command = match[1].strip()
    elif match := _PATH.match(line):
        run.target = match[1].strip() or None
    elif match := _ITEMS.match(line):
        run.items = whole_number(match[1])


def _phases(index: int, run: _Run) -> Iterator[Phase]:
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
    yield from within(whole, _operations(prefix, run, details))


def _operations(prefix: str, run: _Run, details: dict[str, Any]) -> Iterator[Phase]:
    for operation, values in run.rates.items():
        highest, lowest, mean, deviation = (*values, None, None, None, None)[:4]
        if not highest:
            continue  # mdtest prints zeros for what it was not asked to do
        seconds = run.seconds.get(operation, [])
        yield Phase(
            name=prefix + operation.lower().replace(" ", "_"),
            operation=_OPERATIONS.get(operation.split()[1], operation.split()[1]),
            ops_per_s=mean,
            duration_seconds=seconds[2] if len(seconds) == 4 else None,
            details=details | {"ops_per_s_max": highest, "ops_per_s_min": lowest, "ops_per_s_sd": deviation},
            command=run.command,
            target=run.target,
        )


SOURCE: Final = MdtestSource()
