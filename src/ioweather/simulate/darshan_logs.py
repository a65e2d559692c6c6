"""Darshan logs of runs: one per instance, with POSIX, MPI-IO and Lustre records that add up to what the run did."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Floats, Ints
from ioweather.core.units import names_of
from ioweather.readers.darshan.log import DarshanJob, Module, Ragged
from ioweather.readers.darshan.writer import new_records, write_log
from ioweather.simulate.fluid import Calendar, Resources, stream
from ioweather.simulate.world import Program, Run

# Upper edges of Darshan's ten access-size bins; a size that is an edge is in the lower bin.
_EDGES = (100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30)
_BIN_NAMES = ("0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G", "1G_PLUS")
_ALIGNMENT = 1 << 20
# The slowest rank sets the pace; the others are somewhat faster.
_FASTEST_SHARE = 0.85
_RECORDED_STRIPES = 64


def write_run(folder: Path, run: Run, resources: Resources, calendar: Calendar, seed: int) -> Path:
    """Write the log of a run into the folder of its day, as Darshan sorts them."""
    program, mount = run.program, f"/{resources.fsname}"
    moment = calendar.local(run.start)
    place = folder / f"{moment.year}" / f"{moment.month}" / f"{moment.day}"
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{program.user}_{program.name}_id{run.job.number}_{moment:%m-%d-%H%M%S}-{run.instance}.darshan"
    start_ns, end_ns = calendar.epoch_ns(run.start), calendar.epoch_ns(run.end)
    job = DarshanJob(
        uid=program.uid,
        job_id=run.job.number,
        nprocs=program.nprocs,
        start_ns=start_ns,
        end_ns=end_ns,
        run_seconds=(end_ns - start_ns) / 1e9,
        metadata={"lib_ver": "3.4.1"},
        exe=program.exe,
        mounts=((mount, "lustre"), ("/home", "nfs"), ("/", "ext4")),
    )
    modules: dict[str, Any] = {}
    names: dict[int, str] = {}
    if program.layout != "none":
        rng = stream(seed, "log", run.job.number, run.instance)
        shared = program.layout == "shared" and program.io_ranks > 1
        make_records = _make_shared_records if shared else _make_unique_records
        posix = make_records(program, _collect_step_times(run), rng)
        files = f"{mount}/{program.account}/{program.user}/{program.name}/{run.id}"
        paths = [f"{files}/{'part' if shared else 'data'}.{i:05d}" for i in range(len(posix))]
        # Any number that follows from the path.
        words = [path.encode() for path in paths]
        ids = np.array([zlib.crc32(word) << 32 | zlib.crc32(word, 0x5BD1E995) for word in words], np.uint64)
        posix["id"] = ids
        names = dict(zip(ids.tolist(), paths, strict=True))
        modules = {"POSIX": posix, "LUSTRE": _make_lustre_module(run, ids, resources, rng)}
        if program.interface != "POSIX" and shared:
            modules["MPI-IO"] = _make_mpiio_records(program, posix)
        if program.interface == "HDF5" and shared:
            modules["H5F"] = new_records("H5F", len(posix))
            modules["H5F"]["id"], modules["H5F"]["rank"] = ids, -1
            modules["H5F"]["H5F_OPENS"] = program.nprocs
    write_log(path, job, modules, names)
    return path


def _verbs(program: Program) -> tuple[str, str]:
    """Return how counters name what a program does with its data: calls and times, then bytes."""
    return ("READ", "READ") if program.reads else ("WRITE", "WRITTEN")


def _collect_step_times(run: Run) -> Floats:
    """Return (step, [metadata seconds, data seconds, metadata start, data start, data end]) relative to the run's
    start."""
    times = np.zeros((run.program.steps, 5))
    for phase in run.phases:
        flow = phase.flow
        if phase.name == "meta":
            times[phase.step, [0, 2]] = flow.seconds, flow.start - run.start
        else:
            times[phase.step, [1, 3, 4]] = flow.seconds, flow.start - run.start, flow.end - run.start
    return times


def _make_lustre_module(run: Run, ids: NDArray[Any], resources: Resources, rng: np.random.Generator) -> Module:
    """Return which targets each file is on; all are targets that the run used."""
    records = new_records("LUSTRE", len(ids))
    used = np.flatnonzero(run.shares > 0)
    width = int(min(run.usual.stripe_count, len(used), _RECORDED_STRIPES))
    records["id"], records["rank"] = ids, -1
    records["LUSTRE_OSTS"], records["LUSTRE_MDTS"] = resources.osts, 1
    records["LUSTRE_STRIPE_SIZE"], records["LUSTRE_STRIPE_WIDTH"] = _ALIGNMENT, width
    if run.usual.layout == "shared":
        lists = [used[:width]] * len(ids)
    else:
        # As many objects on each target as its share of the bytes; stripes of a file on different ones.
        reached = np.cumsum(run.shares[used]) / run.shares[used].sum()
        objects = np.searchsorted(reached, (np.arange(len(ids) * width) + 0.5) / (len(ids) * width))
        lists = list(rng.permutation(used[np.minimum(objects, len(used) - 1)].reshape(width, len(ids)).T))
    return Module("LUSTRE", 1, False, records, {"ost_ids": Ragged.of(lists)})


def _make_mpiio_records(program: Program, posix: NDArray[Any]) -> NDArray[Any]:
    """Return collective calls of all ranks above the same files."""
    records = new_records("MPI-IO", len(posix))
    verb, done = _verbs(program)
    records["id"], records["rank"] = posix["id"], posix["rank"]
    records["MPIIO_COLL_OPENS"] = program.nprocs
    records[f"MPIIO_COLL_{verb}S"] = posix[f"POSIX_{verb}S"]
    records[f"MPIIO_BYTES_{done}"] = posix[f"POSIX_BYTES_{done}"]
    records[f"MPIIO_SIZE_{verb}_AGG_{_BIN_NAMES[int(np.searchsorted(_EDGES, program.request_bytes))]}"] = posix[
        f"POSIX_{verb}S"
    ]
    for word in _SAME_IN_MPIIO:
        name = word.replace("VERB", verb)
        records[f"MPIIO_{name}"] = posix[f"POSIX_{name}"]
    return records


def _make_shared_records(program: Program, times: Floats, rng: np.random.Generator) -> NDArray[Any]:
    """One record per file for all ranks; every step has files of its own, used one after the other."""
    each = program.files_per_rank
    step = np.repeat(np.arange(program.steps), each)
    place = np.tile(np.arange(each), program.steps)
    records = new_records("POSIX", program.steps * each)
    records["rank"] = -1
    meta, data = times[step, 0] / each, times[step, 1] / each
    begin = times[step, 3] + place * data
    _set_times(records, program, times[step, 2] + place * meta, begin, begin + data)
    ranks = program.nprocs
    mean = 0.5 * (1 + _FASTEST_SHARE)
    records["POSIX_F_META_TIME"] = meta * ranks * mean
    records[f"POSIX_F_{_verbs(program)[0]}_TIME"] = data * ranks * mean
    records["POSIX_F_SLOWEST_RANK_TIME"] = meta + data
    records["POSIX_F_FASTEST_RANK_TIME"] = (meta + data) * _FASTEST_SHARE
    records["POSIX_SLOWEST_RANK"] = rng.integers(0, ranks, len(records))
    records["POSIX_FASTEST_RANK"] = rng.integers(0, ranks, len(records))
    own = program.rank_bytes // each + (np.arange(each) < program.rank_bytes % each)
    records["POSIX_SLOWEST_RANK_BYTES"] = records["POSIX_FASTEST_RANK_BYTES"] = own[place]
    _set_counters(records, program, own[place] * program.io_ranks, opens=ranks)
    return records


def _make_unique_records(program: Program, times: Floats, rng: np.random.Generator) -> NDArray[Any]:
    """Each doing rank has its own files and opens them in every step."""
    each = program.files_per_rank
    records = new_records("POSIX", program.io_ranks * each)
    distance = program.nprocs // program.io_ranks
    records["rank"] = np.repeat(np.arange(program.io_ranks) * distance, each)
    pace = _FASTEST_SHARE + (1 - _FASTEST_SHARE) * rng.random(program.io_ranks)
    pace[int(rng.integers(program.io_ranks))] = 1.0  # the slowest rank took the whole time
    pace = np.repeat(pace, each)
    records["POSIX_F_META_TIME"] = times[:, 0].sum() * pace / each
    records[f"POSIX_F_{_verbs(program)[0]}_TIME"] = times[:, 1].sum() * pace / each
    _set_times(records, program, times[0, 2], times[0, 3], times[-1, 4] - (1 - pace) * times[-1, 1])
    own = program.rank_bytes // each + (np.arange(each) < program.rank_bytes % each)
    moved = np.tile(own, program.io_ranks) * program.steps
    _set_counters(records, program, moved, opens=program.steps)
    return records


def _set_times(records: NDArray[Any], program: Program, opened: Any, begin: Any, end: Any) -> None:
    """Set the time stamps of the records, in seconds since the run's start."""
    verb, _ = _verbs(program)
    for call, first, last in (("OPEN", opened, begin), (verb, begin, end), ("CLOSE", end, end + 1e-4)):
        records[f"POSIX_F_{call}_START_TIMESTAMP"] = first
        records[f"POSIX_F_{call}_END_TIMESTAMP"] = last


def _set_counters(records: NDArray[Any], program: Program, moved: Ints, opens: int) -> None:
    """Set the counters of the requests that move these bytes, and of the opens, in each record."""
    verb, done = _verbs(program)
    size = program.request_bytes
    count = np.maximum(-(-moved // size), (moved > 0).astype(np.int64))
    records["POSIX_OPENS"] = opens
    records["POSIX_STATS"] = np.int64(min(2**40, opens * program.extra_ops_per_file))
    records[f"POSIX_{verb}S"] = count
    records[f"POSIX_BYTES_{done}"] = moved
    records[f"POSIX_MAX_BYTE_{done}"] = np.maximum(moved - 1, 0)
    records[f"POSIX_SEQ_{verb}S"] = count // 2 if program.random else count
    records[f"POSIX_CONSEC_{verb}S"] = 0 if program.random else count - 1
    records["POSIX_SEEKS"] = count if program.random else 0
    records["POSIX_FILE_ALIGNMENT"] = _ALIGNMENT
    records["POSIX_FILE_NOT_ALIGNED"] = 0 if size % _ALIGNMENT == 0 else count - count * size // _ALIGNMENT
    records["POSIX_MEM_ALIGNMENT"] = 8
    records[f"POSIX_SIZE_{verb}_{_BIN_NAMES[int(np.searchsorted(_EDGES, size))]}"] = count
    records["POSIX_ACCESS1_ACCESS"], records["POSIX_ACCESS1_COUNT"] = size, count
    records[f"POSIX_MAX_{verb}_TIME_SIZE"] = size
    spent = records[f"POSIX_F_{verb}_TIME"]
    records[f"POSIX_F_MAX_{verb}_TIME"] = np.where(count > 0, spent / np.maximum(count, 1) * 3.0, 0.0)


# Counters that the MPI-IO records share with those of POSIX.
_SAME_IN_MPIIO = names_of("""
    ACCESS1_ACCESS ACCESS1_COUNT SLOWEST_RANK SLOWEST_RANK_BYTES FASTEST_RANK FASTEST_RANK_BYTES F_META_TIME F_VERB_TIME
    F_MAX_VERB_TIME F_SLOWEST_RANK_TIME F_FASTEST_RANK_TIME F_OPEN_START_TIMESTAMP F_OPEN_END_TIMESTAMP
    F_VERB_START_TIMESTAMP F_VERB_END_TIMESTAMP F_CLOSE_START_TIMESTAMP F_CLOSE_END_TIMESTAMP
""")
