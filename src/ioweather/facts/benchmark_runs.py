"""Which log belongs to which benchmark output: by command line, number of tasks and time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.units import NS

# Benchmarks print whole seconds, and their processes start a moment before they do.
SLACK_NS: Final = 3 * NS


@dataclass(frozen=True)
class Measured:
    """One operation of one benchmark run, all its iterations together. `bytes_per_s` is bytes over time: the harmonic
    mean of the iterations, which all move the same bytes."""

    digest: str
    tool: str
    operation: str
    bytes_per_s: float
    iterations: int
    start_ns: int | None
    end_ns: int | None
    parameters: Mapping[str, Any]

    @property
    def command(self) -> str:
        return normal(str(self.parameters.get("command") or ""))


def measured_operations(benchmarks: Frame) -> list[Measured]:
    """Read and write bandwidths of benchmark outputs. A tool's own summary ([max]) repeats its iterations."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in benchmarks.records():
        if row["operation"] in ("read", "write") and row["bytes_per_s"] and not row["phase"].endswith("[max]"):
            groups.setdefault((row["digest"], row["operation"]), []).append(row)
    found = []
    for (digest, operation), rows in groups.items():
        rate = len(rows) / sum(1 / row["bytes_per_s"] for row in rows)
        starts = [row["start_ns"] for row in rows if row["start_ns"] is not None]
        ends = [row["end_ns"] for row in rows if row["end_ns"] is not None]
        parameters = json.loads(rows[0]["parameters"] or "{}")
        found.append(
            Measured(digest, rows[0]["tool"], operation, rate, len(rows), min(starts, default=None),
                     max(ends, default=None), parameters)
        )  # fmt: skip
    return found


class LogIndex:
    """Finds the log that a benchmark run wrote.

    A log fits with the same number of processes, the same command line where both are known, and a time that overlaps.
    Without times, the command line alone must single one out.
    """

    def __init__(self, applications: Frame) -> None:
        self._start = applications.ints("start_ns")
        self._end = applications.ints("end_ns")
        self._nprocs = applications.ints("nprocs")
        self._exe = applications.text("exe")

    def find(self, measured: Measured) -> tuple[int | None, str]:
        """Row of the log, and the state: matched, no_log or ambiguous."""
        fits = np.ones(len(self._start), np.bool_)
        tasks = measured.parameters.get("tasks")
        if tasks is not None:
            fits &= self._nprocs == int(tasks)
        start = measured.start_ns
        if start is not None:
            end = measured.end_ns if measured.end_ns is not None else start
            fits &= (self._start - SLACK_NS <= end) & (self._end + SLACK_NS >= start)
        rows = [int(i) for i in np.flatnonzero(fits) if self._same_command(measured, int(i), must=start is None)]
        if not rows:
            return None, "no_log"
        if start is None:
            return (rows[0], "matched") if len(rows) == 1 else (None, "ambiguous")
        distances = sorted((abs(int(self._start[i]) - start), i) for i in rows)
        # Two logs that fit equally well in time cannot be told apart.
        if len(distances) > 1 and distances[1][0] - distances[0][0] < NS // 10:
            return None, "ambiguous"
        return distances[0][1], "matched"

    def _same_command(self, measured: Measured, row: int, *, must: bool) -> bool:
        code = int(self._exe.codes[row])
        command = normal(self._exe.categories[code]) if code >= 0 else ""
        if not command or not measured.command:
            return not must
        return same_command(measured.command, command)


def normal(command: str) -> str:
    """One space between words, and the program without its folder."""
    words = command.split()
    return " ".join([words[0].rpartition("/")[2], *words[1:]]) if words else ""


def same_command(one: str, other: str) -> bool:
    """Darshan cuts long command lines, so that the shorter one decides."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short)
