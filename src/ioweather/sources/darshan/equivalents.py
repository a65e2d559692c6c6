"""Darshan 2.x records in the terms of 3.x, so that nothing behind the reader needs to know which one wrote a log.

Darshan 2 kept one record per file for all interfaces. What has an equal in a 3.x module gets its name; what has none
is left out, and `column` says so. Three things to know:
- bytes, sizes and alignment are those of the POSIX layer, stdio included, as in the POSIX module of 3.0;
- the file's bytes also stand in MPI-IO, as Darshan 2's own tools count them for files opened by MPI-IO;
- timestamps are of whichever layer came first or last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.units import NS
from ioweather.sources.darshan.counters import CP, CP_F, FIXED
from ioweather.sources.darshan.model import DarshanJob, Module

# Version number of modules that are made from 2.x records.
DERIVED_VERSION: Final = 0
# From 2.05 the fastest and slowest rank are judged by MPI-IO time where there is any; before by POSIX time alone.
FIRST_WITH_MPI_RANK_TIMES: Final = "2.05"
# Up to 2.02 timestamps are MPI_Wtime as it comes: seconds since 1970 on some systems, since the start on others.
LAST_WITH_RAW_CLOCK: Final = "2.02"

# No machine that ran Darshan 2 had been up for three years.
_EPOCH_LIKE_SECONDS: Final = 100_000_000

_RENAMED: Final = {"F_OPEN_START_TIMESTAMP": "F_OPEN_TIMESTAMP", "F_CLOSE_END_TIMESTAMP": "F_CLOSE_TIMESTAMP"}
_MPI_ONLY_POSIX: Final = (
    "MODE",
    "RW_SWITCHES",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    "ACCESS",
    "F_MAX_",
    "F_VARIANCE",
)
_MPI_RANKS: Final = ("FASTEST_RANK", "SLOWEST_RANK", "F_FASTEST_RANK", "F_SLOWEST_RANK")
_STDIO: Final = {"STDIO_OPENS": "CP_POSIX_FOPENS", "STDIO_READS": "CP_POSIX_FREADS",
                 "STDIO_WRITES": "CP_POSIX_FWRITES", "STDIO_SEEKS": "CP_POSIX_FSEEKS"}  # fmt: skip
_MPI_OPERATIONS: Final = tuple(
    f"CP_{layer}_{what}" for layer in ("INDEP", "COLL") for what in ("OPENS", "READS", "WRITES")
)


def derived_modules(records: NDArray[Any], version: str, job: DarshanJob) -> dict[str, Module]:
    """POSIX of every record, MPI-IO and STDIO of those that used them."""
    raw_clock = version <= LAST_WITH_RAW_CLOCK
    relative = _normalized(records, job.start_ns // NS, job.run_seconds) if raw_clock else records
    used_mpi = _any(records, _MPI_OPERATIONS)
    used_stdio = _any(records, _STDIO.values())
    tables = {
        "POSIX": _renamed(relative, _posix_names()),
        "MPI-IO": _renamed(relative[used_mpi], _mpi_names(version)),
        "STDIO": _renamed(relative[used_stdio], _STDIO),
    }
    return {name: Module(name, DERIVED_VERSION, False, table) for name, table in tables.items() if len(table)}


def _any(records: NDArray[Any], names: Iterable[str]) -> NDArray[np.bool_]:
    used = np.zeros(len(records), dtype=np.bool_)
    for name in names:
        used |= records[name] > 0
    return used


def _stems(module: str, prefix: str) -> list[str]:
    names = FIXED[module, 1]
    return [name.removeprefix(prefix) for name in (*names.counters, *names.fcounters)]


def _posix_names() -> dict[str, str]:
    known = {*CP, *CP_F}
    pairs = {}
    for stem in _stems("POSIX", "POSIX_"):
        old = _RENAMED.get(stem, stem)
        layer = f"CP_F_POSIX_{old.removeprefix('F_')}" if old.startswith("F_") else f"CP_POSIX_{old}"
        pairs[f"POSIX_{stem}"] = layer if layer in known else f"CP_{old}"
    return pairs


def _mpi_names(version: str) -> dict[str, str]:
    known = {*CP, *CP_F}
    pairs = {}
    for stem in _stems("MPI-IO", "MPIIO_"):
        old = _RENAMED.get(stem, stem)
        if stem.startswith(_MPI_ONLY_POSIX) or (stem.startswith(_MPI_RANKS) and version < FIRST_WITH_MPI_RANK_TIMES):
            continue
        layer = f"CP_F_MPI_{old.removeprefix('F_')}"
        pairs[f"MPIIO_{stem}"] = layer if old.startswith("F_") and layer in known else f"CP_{old}"
    return pairs


def _renamed(records: NDArray[Any], names: Mapping[str, str]) -> NDArray[Any]:
    fields = [("id", "u8"), ("rank", "i8"), *((new, records.dtype[old]) for new, old in names.items())]
    table = np.empty(len(records), dtype=fields)
    for new, old in (("id", "id"), ("rank", "rank"), *names.items()):
        table[new] = records[old]
    table.flags.writeable = False
    return table


def _normalized(records: NDArray[Any], start_seconds: int, run_seconds: float) -> NDArray[Any]:
    """Timestamps since the start of the job, as in 3.x.

    Seconds since 1970 lose the start. Any other clock began at an unknown moment, often the boot of the partition:
    where it runs beyond the end of the job, it is set back to end with it. Distances stay what they were.
    """
    names = [name for name in CP_F if name.endswith("_TIMESTAMP")]
    latest = max((float(records[name].max()) for name in names), default=0.0) if len(records) else 0.0
    since_1970 = latest > _EPOCH_LIKE_SECONDS
    shift = float(start_seconds) if since_1970 else max(0.0, latest - run_seconds)
    relative = records.copy()
    for name in names:
        stamps = relative[name]
        relative[name] = np.where(stamps > 0, stamps - shift, stamps)  # 0: never happened
    return relative
