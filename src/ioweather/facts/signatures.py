"""Signatures of jobs (car11 section V): who does the I/O, in what pieces, and whether it matters.

Thresholds are ours, stated here once; the paper describes, it does not define.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Ints
from ioweather.core.frames import Frame
from ioweather.core.units import MIB
from ioweather.facts.ratios import quotient

_INTERPRETER: Final = re.compile(r"(?:python|perl|bash|sh|java|julia|Rscript)[\d.]*")

# Nearly all of the bytes, so that a log file written by another rank does not hide rank-0 I/O.
ALMOST_ALL: Final = 0.99
SEEKS_PER_OPERATION: Final = 0.9
FEWEST_OPERATIONS: Final = 100
METADATA_BOUND: Final = 0.5
SMALL_BYTES: Final = MIB
NEGLIGIBLE: Final = 0.01
# Jobs of one application at one size are near-identical when files and bytes differ by less than this.
NEAR: Final = 0.05
# A project scales strongly when its bytes vary less than this over sizes that vary by this factor or more.
SAME_BYTES: Final = 0.25
SIZE_RANGE: Final = 4

SIGNATURES: Final = {
    "zero_files": "no file at all",
    "rank0_io": "one process does all the I/O",
    "subset_io": "some of the processes do all the I/O, without MPI-IO collectives",
    "file_per_process": "at least one file of its own per process",
    "seek_per_operation": "a seek with every read and write",
    "metadata_bound": "more time in metadata than in reading and writing",
    "small_requests": "requests under 1 MiB on average",
    "negligible_io": "I/O takes less than 1% of the run",
    "many_instances": "several application runs in one job",
}


def signatures(jobs: Frame) -> Frame:
    """One boolean column per signature, and the numbers behind them: `io_ratio` (I/O time of run time), `request_bytes`
    (mean), `seeks_per_operation`, `rank0_ratio`."""
    nprocs, io_ranks = jobs.ints("nprocs"), jobs.ints("io_rank_count", missing=np.iinfo(np.int64).max)
    moved = jobs.ints("read_bytes") + jobs.ints("write_bytes")
    operations = jobs.ints("read_count") + jobs.ints("write_count")
    # Seeks are those of POSIX and of streams. Streams are no calls of the file system's, calls below MPI-IO are no
    # operations of the program's: the larger number holds what was sought for.
    calls = np.maximum(operations, jobs.ints("fs_read_count") + jobs.ints("fs_write_count"))
    parallel = (nprocs > 1) & (moved > 0)
    rank0 = quotient(jobs.ints("rank0_bytes").astype(np.float64), moved)
    io_ratio = quotient(jobs.floats("io_seconds"), jobs.floats("run_seconds"))
    request = quotient(moved.astype(np.float64), operations)
    seeks = quotient(jobs.ints("seek_count").astype(np.float64), calls)
    one = parallel & ((io_ranks == 1) | (rank0 >= ALMOST_ALL))
    instances = jobs.ints("instance_count") if "instance_count" in jobs else np.ones(jobs.rows, np.int64)
    return Frame(
        {
            "zero_files": jobs.ints("file_count", missing=-1) == 0,
            "rank0_io": one,
            "subset_io": parallel & ~one & (io_ranks < nprocs) & (jobs.ints("collective_count") == 0),
            "file_per_process": (nprocs > 1) & (jobs.ints("unique_file_count") >= nprocs),
            "seek_per_operation": (seeks >= SEEKS_PER_OPERATION) & (calls >= FEWEST_OPERATIONS),
            "metadata_bound": jobs.floats("metadata_ratio") >= METADATA_BOUND,
            "small_requests": (request < SMALL_BYTES) & (operations >= FEWEST_OPERATIONS),
            "negligible_io": io_ratio < NEGLIGIBLE,
            "many_instances": instances > 1,
            "io_ratio": io_ratio,
            "request_bytes": request,
            "seeks_per_operation": seeks,
            "rank0_ratio": rank0,
        }
    )


def similar_groups(jobs: Frame) -> Ints:
    """Number of the group of near-identical jobs each belongs to: one user, program and size, and files and bytes that
    differ from the next job's by less than NEAR."""
    uid, nprocs = jobs.ints("uid"), jobs.ints("nprocs")
    exe = jobs.text("exe")
    programs: dict[str, int] = {}
    codes = [programs.setdefault(program_of(command), len(programs)) for command in exe.categories]
    program = np.array([*codes, -1], np.int64)[exe.codes]
    files = np.log1p(jobs.ints("file_count", missing=0))
    moved = np.log1p(jobs.ints("read_bytes") + jobs.ints("write_bytes"))
    step = np.log1p(NEAR)
    group = np.zeros(jobs.rows, np.int64)
    # Single linkage, one key after the other: each pass splits the groups of the pass before.
    for values, tolerance in ((uid, 0.0), (program, 0.0), (nprocs, 0.0), (files, step), (moved, step)):
        order = np.lexsort((values, group))
        new = np.ones(jobs.rows, np.bool_)
        new[1:] = (np.diff(group[order]) > 0) | (np.diff(values[order].astype(np.float64)) > tolerance)
        group[order] = np.cumsum(new) - 1
    return group


def program_of(command: str) -> str:
    """The program's name in a command line, without its folder and arguments; of a script, the script's."""
    words = command.split()
    if not words:
        return ""
    script = next((word for word in words[1:] if not word.startswith("-")), None)
    name = words[0].rsplit("/", 1)[-1]
    return script.rsplit("/", 1)[-1] if script is not None and _INTERPRETER.fullmatch(name) else name


@dataclass(frozen=True)
class Scaling:
    """How jobs of different sizes compare: medians per number of processes."""

    sizes: tuple[int, ...]
    bytes: tuple[float, ...]
    strong: bool


def scaling(nprocs: NDArray[Any], moved: NDArray[Any]) -> Scaling | None:
    """Strong scaling: about the same bytes whatever the size of the job. None with fewer than three sizes."""
    sizes = np.unique(nprocs[moved > 0])
    if len(sizes) < 3:
        return None
    medians = np.array([np.median(moved[(nprocs == size) & (moved > 0)]) for size in sizes])
    spread = float(medians.std() / medians.mean())
    strong = spread < SAME_BYTES and int(sizes[-1]) >= SIZE_RANGE * int(sizes[0])
    return Scaling(tuple(int(s) for s in sizes), tuple(float(m) for m in medians), strong)
