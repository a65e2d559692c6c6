"""Darshan logs with known answers, written with the package's own writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.readers.darshan.log import DarshanJob, Module, Ragged
from ioweather.readers.darshan.writer import new_records, write_log

NS = 1_000_000_000
START = 1_700_000_000 * NS
KIB, MIB = 1 << 10, 1 << 20
PREFIX = {"POSIX": "POSIX_", "MPI-IO": "MPIIO_", "STDIO": "STDIO_"}
JOB = DarshanJob(
    uid=1000, job_id=4711, nprocs=4, start_ns=START, end_ns=START + 100 * NS, run_seconds=100.0,
    metadata={"lib_ver": "3.4.6"}, exe="/opt/bin/climate --grid 9", mounts=(("/scratch", "lustre"), ("/", "ext4")),
)  # fmt: skip


def records(module: str, rows: Sequence[Mapping[str, Any]]) -> Any:
    """Records of a module; keys are counters without the module's prefix, and `file` and `rank`."""
    made = new_records(module, len(rows))
    for place, row in enumerate(rows):
        for key, value in row.items():
            name = {"file": "id", "rank": "rank"}.get(key, PREFIX[module] + key)
            made[name][place] = value
    return made


def heat(modules: Mapping[int, Mapping[int, tuple[Sequence[int], Sequence[int]]]], width: float = 10.0) -> Module:
    """A HEATMAP module: record id -> rank -> (bytes read, bytes written) by bin."""
    rows = [(record, rank, *bins) for record, ranks in modules.items() for rank, bins in ranks.items()]
    made = new_records("HEATMAP", len(rows))
    for place, (record, rank, read, _) in enumerate(rows):
        made[place] = (record, rank, width, len(read))
    lists = {"read_bins": Ragged.of([row[2] for row in rows]), "write_bins": Ragged.of([row[3] for row in rows])}
    return Module("HEATMAP", 1, False, made, lists)


SHARED, OWN, TEXT, HEAT = 100, 200, 300, 900


def climate_modules() -> tuple[dict[str, Any], dict[int, str]]:
    """Four processes, 100 s.

    A shared file by collective MPI-IO (8 writes of 1 MiB; all ranks 12 s writing and 4 s in metadata; slowest rank 5 s,
    fastest 2 s), which POSIX saw as 2 writes of 4 MiB; one file per process by POSIX (2 writes and 1 read of 512 KiB;
    rank r writes for r + 1 s, reads for 0.5 s and has 0.25 s of metadata); one text that rank 0 reads by STDIO (3
    reads, 300 bytes, 0.5 s).
    """
    mpiio = [{
        "file": SHARED, "rank": -1, "COLL_OPENS": 4, "COLL_WRITES": 8, "BYTES_WRITTEN": 8 * MIB, "F_META_TIME": 4.0,
        "F_WRITE_TIME": 12.0, "SIZE_WRITE_AGG_100K_1M": 8, "ACCESS1_ACCESS": MIB, "ACCESS1_COUNT": 8,
        "F_OPEN_START_TIMESTAMP": 1.0, "F_WRITE_START_TIMESTAMP": 2.0, "F_WRITE_END_TIMESTAMP": 60.0,
        "F_CLOSE_END_TIMESTAMP": 61.0, "SLOWEST_RANK": 3, "SLOWEST_RANK_BYTES": 2 * MIB, "F_SLOWEST_RANK_TIME": 5.0,
        "FASTEST_RANK": 1, "FASTEST_RANK_BYTES": 2 * MIB, "F_FASTEST_RANK_TIME": 2.0,
    }]  # fmt: skip
    below = {
        "file": SHARED, "rank": -1, "OPENS": 4, "WRITES": 2, "BYTES_WRITTEN": 8 * MIB, "SIZE_WRITE_1M_4M": 2,
        "ACCESS1_ACCESS": 4 * MIB, "ACCESS1_COUNT": 2, "SEQ_WRITES": 1, "CONSEC_WRITES": 1, "FILE_ALIGNMENT": MIB,
        "MAX_BYTE_WRITTEN": 8 * MIB - 1, "F_WRITE_TIME": 3.0, "F_META_TIME": 1.0, "F_OPEN_START_TIMESTAMP": 1.0,
        "F_WRITE_START_TIMESTAMP": 2.0, "F_WRITE_END_TIMESTAMP": 60.0, "F_SLOWEST_RANK_TIME": 2.5, "SLOWEST_RANK": 0,
        "SLOWEST_RANK_BYTES": 4 * MIB, "F_FASTEST_RANK_TIME": 0.5,
    }  # fmt: skip
    own = [
        {
            "file": OWN + rank, "rank": rank, "OPENS": 1, "WRITES": 2, "READS": 1, "BYTES_WRITTEN": MIB,
            "BYTES_READ": MIB // 2, "SIZE_WRITE_100K_1M": 2, "SIZE_READ_100K_1M": 1, "ACCESS1_ACCESS": MIB // 2,
            "ACCESS1_COUNT": 3, "SEQ_WRITES": 1, "CONSEC_WRITES": 1, "SEEKS": 1, "STATS": 1, "FILE_ALIGNMENT": 4 * KIB,
            "FILE_NOT_ALIGNED": 1, "MAX_BYTE_WRITTEN": MIB - 1, "MAX_BYTE_READ": MIB // 2 - 1,
            "F_WRITE_TIME": rank + 1.0, "F_READ_TIME": 0.5, "F_META_TIME": 0.25, "F_OPEN_START_TIMESTAMP": 1.0,
            "F_WRITE_START_TIMESTAMP": 2.0, "F_WRITE_END_TIMESTAMP": 20.0, "F_READ_START_TIMESTAMP": 30.0,
            "F_READ_END_TIMESTAMP": 31.0, "F_CLOSE_END_TIMESTAMP": 32.0,
        }
        for rank in range(4)
    ]  # fmt: skip
    stdio = [{
        "file": TEXT, "rank": 0, "OPENS": 1, "READS": 3, "BYTES_READ": 300, "F_READ_TIME": 0.5, "MAX_BYTE_READ": 299,
        "F_OPEN_START_TIMESTAMP": 0.5, "F_READ_START_TIMESTAMP": 0.6, "F_READ_END_TIMESTAMP": 0.9,
    }]  # fmt: skip
    # Ten bins of 10 s: what POSIX moved, rank by rank.
    bins = {rank: ([0, 0, 0, MIB // 2, 0, 0, 0, 0, 0, 0], [MIB] + [0] * 9) for rank in range(4)}
    modules = {
        "MPI-IO": records("MPI-IO", mpiio),
        "POSIX": records("POSIX", [below, *own]),
        "STDIO": records("STDIO", stdio),
        "HEATMAP": heat({HEAT: bins}),
    }
    names = {SHARED: "/scratch/run/state.nc", TEXT: "/home/ann/run.cfg", HEAT: "heatmap:POSIX"}
    names |= {OWN + rank: f"/scratch/run/part.{rank}" for rank in range(4)}
    return modules, names


def write_climate(path: Path, **changes: Any) -> Path:
    """The planted job; `changes` are of the job, and `partial` (module names), `without` (modules left out)."""
    partial, without = changes.pop("partial", ()), changes.pop("without", ())
    modules, names = climate_modules()
    for name in partial:
        version = {"POSIX": 4, "MPI-IO": 3, "STDIO": 2}[name]
        modules[name] = Module(name, version, True, modules[name])
    kept = {name: module for name, module in modules.items() if name not in without}
    write_log(path, JOB._replace(**changes), kept, names)
    return path


def write_empty(path: Path, **changes: Any) -> Path:
    """A run that opened nothing."""
    write_log(path, JOB._replace(**changes), {}, {})
    return path


def write_many(path: Path, files: int, nprocs: int = 64) -> Path:
    """Very many files, each of one process, each written once with 4 KiB in a millisecond."""
    made = new_records("POSIX", files)
    made["id"] = np.arange(1, files + 1)
    made["rank"] = np.arange(files) % nprocs
    for name, value in {
        "OPENS": 1, "WRITES": 1, "BYTES_WRITTEN": 4 * KIB, "SIZE_WRITE_1K_10K": 1, "MAX_BYTE_WRITTEN": 4 * KIB - 1,
        "F_WRITE_TIME": 0.001, "F_META_TIME": 0.001, "F_OPEN_START_TIMESTAMP": 1.0, "F_WRITE_START_TIMESTAMP": 1.0,
        "F_WRITE_END_TIMESTAMP": 2.0,
    }.items():  # fmt: skip
        made[f"POSIX_{name}"] = value
    names = {i: f"/scratch/many/file.{i:07d}" for i in range(1, files + 1)}
    write_log(path, JOB._replace(nprocs=nprocs), {"POSIX": made}, names)
    return path
