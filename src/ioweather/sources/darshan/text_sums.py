"""What darshan-parser prints with --total, --file and --perf: sums over all files of a module.

They become one record of id 0, which in Darshan stands for all files together, of all ranks. What has no sum (which
rank was slowest, the mode of a file) is left out. Of --perf the time of the slowest process is taken: it is what a
speed is reckoned by, and sums alone do not tell it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.sources.darshan.counters import FIXED, printed_version
from ioweather.sources.darshan.model import Module

ALL_FILES: Final = 0
KINDS: Final = ("total", "read_only", "write_only", "read_write", "unique", "shared")
_PREFIX: Final = {"POSIX": "POSIX", "MPI-IO": "MPIIO", "STDIO": "STDIO"}
_FILES: Final = re.compile(rf"# ({'|'.join(KINDS)}): (\d{{1,18}}) (-?\d{{1,18}}) (-?\d{{1,18}})")
_SECONDS: Final = re.compile(
    r"# (?:unique files: slowest_rank_io_time|shared files: time_by_slowest): (\d{1,15}(?:\.\d{1,9})?)"
)
# Of one file, not of all.
_NO_SUM: Final = re.compile(r"RANK|VARIANCE|_MODE$|_MEM_ALIGNMENT$|TIME_SIZE$|_STRIDE\d|RENAMED_FROM")
_MOST: Final = 1 << 63


def has_sum(counter: str) -> bool:
    return _NO_SUM.search(counter) is None


@dataclass
class Sums:
    """One module: its counters, its files by kind, and the slowest process's seconds on unique and on shared files."""

    counters: dict[str, float | int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    def counter(self, number: int, line: str) -> None:
        name, _, printed = line.strip().removeprefix("total_").partition(": ")
        try:
            value: float | int = float(printed) if "_F_" in name else int(printed)
        except ValueError:
            value = _MOST
        if not -_MOST <= value < _MOST:
            raise CorruptInput(f"Line {number}: the total of {name[:60]} is {printed[:40]!r}, not a number.")
        self.counters[name] = value

    def comment(self, line: str) -> None:
        if match := _FILES.match(line):
            self.files[match[1]] = int(match[2])
        elif match := _SECONDS.match(line):
            self.seconds.append(float(match[1]))


def modules_of_sums(
    sums: Mapping[str, Sums], versions: Mapping[str, int], partial: Sequence[str]
) -> tuple[dict[str, Module], dict[str, dict[str, int]]]:
    """Modules of one record each, and how many files of which kind each had, where --file printed that."""
    made: dict[str, Module] = {}
    counts: dict[str, dict[str, int]] = {}
    for name, part in sums.items():
        version = versions.get(name, -1)
        if name not in _PREFIX or (name, version) not in FIXED or not part.counters:
            continue
        version = printed_version(name, version, part.counters)
        made[name] = Module(name, version, name in partial, _record(name, version, part))
        if len(part.files) == len(KINDS):
            counts[name] = part.files
    if not made:
        raise TruncatedInput(
            "The totals are of no module that is read (POSIX, MPI-IO, STDIO).", hint="Ingest the log itself."
        )
    return made, counts


def _record(name: str, version: int, part: Sums) -> np.ndarray[Any, Any]:
    known = FIXED[name, version]
    kinds = dict.fromkeys(known.counters, "i8") | dict.fromkeys(known.fcounters, "f8")
    kinds = {counter: kind for counter, kind in kinds.items() if has_sum(counter)}
    if missing := [counter for counter in kinds if counter not in part.counters]:
        raise TruncatedInput(
            f"The totals of {name} lack {missing[0]}: lines are missing.",
            hint="Paste the whole output of darshan-parser --total.",
        )
    slowest = f"{_PREFIX[name]}_F_SLOWEST_RANK_TIME"
    values = [part.counters[counter] for counter in kinds]
    if len(part.seconds) == 2:
        kinds[slowest] = "f8"
        values.append(sum(part.seconds))
    table = np.array([(ALL_FILES, -1, *values)], [("id", "u8"), ("rank", "i8"), *kinds.items()])
    table.flags.writeable = False
    return table
