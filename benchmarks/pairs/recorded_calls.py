"""From recorded calls to a Darshan log: the calls of each process, counted as Darshan counts them.

Counters are those of Darshan's POSIX and MPI-IO modules; a file that all processes opened has one record, with its
slowest and fastest process, as Darshan reduces them. A log that is made here says of itself that no Darshan runtime
made it (`recorder` in its metadata).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.units import names_of
from ioweather.readers.darshan.log import DarshanJob
from ioweather.readers.darshan.writer import new_records, write_log

EVENT: Final = np.dtype(
    [("call", "i4"), ("file", "i4"), ("offset", "i8"), ("bytes", "i8"), ("start", "f8"), ("end", "f8")]
)
OPEN, CLOSE, READ, WRITE, SEEK, STAT, SYNC = range(7)
COLLECTIVE: Final = 16  # added to READ and WRITE
UPPER: Final = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
BINS: Final = names_of("0_100 100_1K 1K_10K 10K_100K 100K_1M 1M_4M 4M_10M 10M_100M 100M_1G 1G_PLUS")
BLOCK: Final = 4096  # of the local file system

Counters = dict[str, float]


@dataclass(frozen=True)
class Recorded:
    """The calls of one process, and the paths that they name."""

    events: NDArray[Any]
    paths: tuple[str, ...]


def counters(events: NDArray[Any]) -> Counters:
    """Of one process on one file."""
    found: defaultdict[str, float] = defaultdict(float)
    call, spent = events["call"], events["end"] - events["start"]
    for verb, done, kind in (("READ", "READ", READ), ("WRITE", "WRITTEN", WRITE)):
        mine = events[call == kind]
        if not len(mine):
            continue
        size, first = mine["bytes"], mine["offset"]
        last = first + size
        found[f"{verb}S"] = len(mine)
        found[f"BYTES_{done}"] = int(size.sum())
        found[f"MAX_BYTE_{done}"] = int(last.max()) - 1
        # Darshan begins at byte 0: a first request beyond it counts as sequential.
        found[f"SEQ_{verb}S"] = int((first[1:] >= last[:-1]).sum()) + int(first[0] > 0)
        found[f"CONSEC_{verb}S"] = int((first[1:] == last[:-1]).sum())
        for number, amount in zip(*np.unique(np.searchsorted(UPPER, size), return_counts=True), strict=True):
            found[f"SIZE_{verb}_{BINS[number]}"] = int(amount)
        found[f"F_{verb}_TIME"] = float(spent[call == kind].sum())
        found[f"F_{verb}_START_TIMESTAMP"] = float(mine["start"].min())
        found[f"F_{verb}_END_TIMESTAMP"] = float(mine["end"].max())
    found["F_WRITE_TIME"] += float(spent[call == SYNC].sum())
    found["F_META_TIME"] = float(spent[np.isin(call, (OPEN, CLOSE, SEEK, STAT))].sum())
    for name, kind in (("OPENS", OPEN), ("SEEKS", SEEK), ("STATS", STAT), ("FSYNCS", SYNC)):
        found[name] = int((call == kind).sum())
    data = events[(call == READ) | (call == WRITE)]
    found["RW_SWITCHES"] = int((data["call"][1:] != data["call"][:-1]).sum())
    found["FILE_NOT_ALIGNED"] = int((data["offset"] % BLOCK != 0).sum())
    found["FILE_ALIGNMENT"] = BLOCK
    for place, (size, amount) in enumerate(Counter(data["bytes"].tolist()).most_common(4), 1):
        found[f"ACCESS{place}_ACCESS"], found[f"ACCESS{place}_COUNT"] = size, amount
    if (call == OPEN).any():
        found["F_OPEN_START_TIMESTAMP"] = float(events["start"][call == OPEN].min())
    return dict(found)


def mpi_counters(events: NDArray[Any]) -> Counters:
    """Of one process on one file, by MPI-IO: those of POSIX under the names of Darshan's MPI-IO module."""
    plain = events.copy()
    plain["call"] %= COLLECTIVE
    found: Counters = {"COLL_OPENS": int((plain["call"] == OPEN).sum()), "SYNCS": int((plain["call"] == SYNC).sum())}
    for verb, kind in (("READ", READ), ("WRITE", WRITE)):
        found[f"INDEP_{verb}S"] = int((events["call"] == kind).sum())
        found[f"COLL_{verb}S"] = int((events["call"] == kind + COLLECTIVE).sum())
    for name, value in counters(plain).items():
        if name.startswith("SIZE_"):
            found[name.replace("READ_", "READ_AGG_").replace("WRITE_", "WRITE_AGG_")] = value
        elif name.startswith(("F_", "BYTES_", "RW_SWITCHES", "ACCESS")):
            found[name] = value
    return found


def seconds_of(row: Counters) -> float:
    return sum(row.get(f"F_{name}_TIME", 0.0) for name in ("READ", "WRITE", "META"))


def reduced(rows: list[Counters]) -> Counters:
    """One record of all processes, as Darshan makes it."""
    total: Counters = {}
    for name in {name for row in rows for name in row}:
        values = [row[name] for row in rows if name in row]
        if name.startswith(("MAX_BYTE", "FILE_ALIGNMENT")) or name.endswith(("END_TIMESTAMP", "_ACCESS")):
            total[name] = max(values)
        elif name.endswith("START_TIMESTAMP"):
            total[name] = min(values)
        else:
            total[name] = sum(values)
    spent = [seconds_of(row) for row in rows]
    slowest, fastest = int(np.argmax(spent)), int(np.argmin(spent))
    moved = [row.get("BYTES_READ", 0) + row.get("BYTES_WRITTEN", 0) for row in rows]
    ranks = {"SLOWEST": slowest, "FASTEST": fastest}
    total |= {f"{name}_RANK": rank for name, rank in ranks.items()}
    total |= {f"F_{name}_RANK_TIME": spent[rank] for name, rank in ranks.items()}
    return total | {f"{name}_RANK_BYTES": moved[rank] for name, rank in ranks.items()}


def rows_of(
    processes: list[Recorded], count: Callable[[NDArray[Any]], Counters] = counters
) -> list[tuple[str, int, Counters]]:
    """(path, rank, counters)."""
    by_path: dict[str, dict[int, Counters]] = {}
    for rank, process in enumerate(processes):
        first: dict[str, int] = {}
        numbers = np.array([first.setdefault(path, number) for number, path in enumerate(process.paths)], np.int64)
        files = numbers[process.events["file"]] if len(numbers) else process.events["file"]
        order = np.argsort(files, kind="stable")
        ordered, starts = process.events[order], np.flatnonzero(np.diff(files[order], prepend=-1))
        for part in np.split(ordered, starts[1:]) if len(ordered) else ():
            path = process.paths[int(numbers[part["file"][0]])]
            by_path.setdefault(path, {})[rank] = count(part)
    made: list[tuple[str, int, Counters]] = []
    for path, ranks in by_path.items():
        if len(processes) > 1 and len(ranks) == len(processes):
            made.append((path, -1, reduced(list(ranks.values()))))
        else:
            made += [(path, rank, row) for rank, row in ranks.items()]
    return made


def write_recorded(path: Path, job: DarshanJob, recorder: str, processes: list[Recorded], mpi: list[Recorded]) -> Path:
    """The log of a run of these processes and their MPI-IO calls; `recorder` says who recorded their calls."""
    rows = {"POSIX": rows_of(processes), "MPI-IO": rows_of(mpi, mpi_counters)}
    ids = {file: number for number, file in enumerate(sorted({row[0] for part in rows.values() for row in part}), 1)}
    records = {}
    for module, part in rows.items():
        if not part:
            continue
        records[module] = new_records(module, len(part))
        for record, (file, rank, row) in zip(records[module], part, strict=True):
            record["id"], record["rank"] = ids[file], rank
            for counter, value in row.items():
                record[f"{module.replace('-', '')}_{counter}"] = value
    job = job._replace(nprocs=len(processes), metadata={**job.metadata, "recorder": recorder})
    write_log(path, job, records, {number: file for file, number in ids.items()})
    return path
