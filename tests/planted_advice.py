"""Runs with one costly pattern each, and the seconds that it costs by hand; four processes and 100 s if not said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.tables import encode_text
from ioweather.job_io.view import JobView, view_of_log
from ioweather.readers.darshan.log import Module, Ragged
from ioweather.readers.darshan.writer import new_records, write_log
from planted_logs import JOB, KIB, MIB, records

GIB = 1 << 30
Rows = Sequence[Mapping[str, Any]]
SIZE_NAMES = ((100 * KIB, "10K_100K"), (MIB, "100K_1M"), (4 * MIB, "1M_4M"), (1 << 62, "4M_10M"))


def requests(verb: str, count: int, size: int, seconds: float, module: str = "POSIX", **more: Any) -> dict[str, Any]:
    """Counters of `count` requests of `size` bytes, in order, that took `seconds`."""
    calls = {"POSIX": f"{verb}S", "STDIO": f"{verb}S", "MPI-IO": f"COLL_{verb}S"}[module]
    done = "READ" if verb == "READ" else "WRITTEN"
    row: dict[str, Any] = {
        calls: count, f"BYTES_{done}": count * size, f"F_{verb}_TIME": seconds, f"F_{verb}_START_TIMESTAMP": 10.0,
        f"F_{verb}_END_TIMESTAMP": 90.0,
    }  # fmt: skip
    name = next(name for upper, name in SIZE_NAMES if size <= upper)
    if module == "POSIX":
        row |= {"OPENS": 1, f"SEQ_{verb}S": count, f"SIZE_{verb}_{name}": count, "ACCESS1_ACCESS": size,
                f"CONSEC_{verb}S": count, "ACCESS1_COUNT": count, f"MAX_BYTE_{done}": count * size - 1}  # fmt: skip
    if module == "MPI-IO":
        row |= {f"SIZE_{verb}_AGG_{name}": count, "ACCESS1_ACCESS": size, "ACCESS1_COUNT": count, "COLL_OPENS": 4}
    return row | more


def independent(verb: str, count: int, size: int, seconds: float) -> dict[str, Any]:
    """MPI-IO without collective calls."""
    row = requests(verb, count, size, seconds, "MPI-IO")
    return {key.replace("COLL_", "INDEP_"): value for key, value in row.items()}


def shared(slowest: float = 10.0, fastest: float = 9.5, part: int = 1, **row: Any) -> dict[str, Any]:
    """One record for all processes; the slowest moved `part` bytes."""
    times = {"F_SLOWEST_RANK_TIME": slowest, "F_FASTEST_RANK_TIME": fastest, "SLOWEST_RANK": 3}
    return {"file": 1, "rank": -1, "SLOWEST_RANK_BYTES": part, "FASTEST_RANK_BYTES": part} | times | row


def own(rank: int, file: int | None = None, **row: Any) -> dict[str, Any]:
    return {"file": 100 + rank if file is None else file, "rank": rank} | row


def each(**row: Any) -> Rows:
    return [own(rank, **row) for rank in range(4)]


CUT_MPIIO = Module("MPI-IO", 3, True, new_records("MPI-IO", 0))


def striped(count: int, osts: int = 8) -> Module:
    made = new_records("LUSTRE", 1)
    made["id"], made["rank"], made["LUSTRE_OSTS"], made["LUSTRE_STRIPE_WIDTH"] = 1, -1, osts, count
    made["LUSTRE_STRIPE_SIZE"] = MIB
    return Module("LUSTRE", 1, False, made, {"ost_ids": Ragged.of([list(range(count))])})


def placed(*targets: int) -> Module:
    """The file of each process on one target."""
    made = new_records("LUSTRE", len(targets))
    made["id"], made["rank"], made["LUSTRE_OSTS"] = 100 + np.arange(len(targets)), np.arange(len(targets)), 8
    made["LUSTRE_STRIPE_WIDTH"], made["LUSTRE_STRIPE_SIZE"] = 1, MIB
    return Module("LUSTRE", 1, False, made, {"ost_ids": Ragged.of([[target] for target in targets])})


def laid_out(stripes: int, *files: int, osts: int = 8, size: int = MIB) -> Module:
    """These files, each on so many targets."""
    made = new_records("LUSTRE", len(files))
    made["id"], made["rank"], made["LUSTRE_OSTS"] = files, -1, osts
    made["LUSTRE_STRIPE_WIDTH"], made["LUSTRE_STRIPE_SIZE"] = stripes, size
    return Module("LUSTRE", 1, False, made, {"ost_ids": Ragged.of([list(range(stripes)) for _ in files])})


@dataclass(frozen=True)
class Planted:
    """`modules`: rows by module. `seconds`: what the rule must say; None where it must not see anything."""

    rule: str
    seconds: float | None
    modules: Mapping[str, Rows | Module]
    nprocs: int = 4
    processes_per_node: int | None = None
    job: Mapping[str, Any] = field(default_factory=dict)
    name: str = "file.{}"
    library: str | None = None

    def view(self, folder: Path) -> JobView:
        path = folder / "planted.darshan"
        made = view_of(path, self.modules, self.nprocs, self.processes_per_node, self.name, **self.job)
        # The writer has no modules of libraries.
        libraries = encode_text([self.library] * made.files.rows)
        return replace(made, files=made.files.with_columns(library=libraries)) if self.library else made


def view_of(
    path: Path,
    modules: Mapping[str, Rows | Module],
    nprocs: int = 4,
    processes_per_node: int | None = None,
    name: str = "file.{}",
    **job: Any,
) -> JobView:
    made = {n: rows if isinstance(rows, Module) else records(n, rows) for n, rows in modules.items()}
    ids = {int(i) for rows in made.values() for i in (rows.records if isinstance(rows, Module) else rows)["id"]}
    write_log(
        path, JOB._replace(nprocs=nprocs, **job), made, {i: f"/scratch/run/{name.format(i)}" for i in sorted(ids)}
    )
    return replace(view_of_log(path, "keep"), processes_per_node=processes_per_node)


def _beyond(seconds: float, size: int, count: int, gone: float, rate: float = float(GIB)) -> float:
    """(T - B / R) / n for each of the requests that go."""
    return (seconds - size * count / rate) / count * gone


SMALL, LARGE = 16 * KIB, 4 * MIB
MPIIO_BELOW = requests("WRITE", 8, 16 * MIB, 8.0)


def loose(count: int, size: int, seconds: float, meta: float, verb: str = "READ", **more: Any) -> Rows:
    """So many files of one process, each with one request."""
    return [own(0, file=i + 1, **requests(verb, 1, size, seconds, F_META_TIME=meta, **more)) for i in range(count)]


def tiny(seconds: float, **more: Any) -> dict[str, Any]:
    """400 writes of 1 KiB."""
    return requests("WRITE", 400, KIB, seconds, SIZE_WRITE_10K_100K=0, SIZE_WRITE_1K_10K=400, **more)


GPFS: Mapping[str, Any] = {"mounts": (("/scratch", "gpfs"),)}
BEEGFS: Mapping[str, Any] = {"mounts": (("/scratch", "beegfs"),)}
NOWHERE: Mapping[str, Any] = {"mounts": (("/", "ext4"),)}
PYTHON: Mapping[str, Any] = {"exe": "/usr/bin/python3 train.py"}
BIG = {"POSIX": [shared(50.0, 49.0, **requests("WRITE", 2048, LARGE, 200.0, OPENS=4))]}
# 8 GiB in 50 s by 16 processes, on two of two targets.
LOCKED = {"POSIX": [shared(50.0, 49.0, **requests("WRITE", 2048, LARGE, 800.0, OPENS=16))]}

DECLARED: tuple[Planted, ...] = (
    # 100 files of 16 KiB: 20 s of data, 5 s of opens.
    Planted("data_on_mdt", 20.0, {"POSIX": loose(100, SMALL, 0.2, 0.05)}, nprocs=1),
    Planted("data_on_mdt", None, {"POSIX": loose(99, SMALL, 0.2, 0.05)}, nprocs=1),
    Planted("data_on_mdt", None, {"POSIX": loose(100, SMALL, 0.2, 0.05)}, nprocs=1, job=NOWHERE),
    # 8 GiB on one target need 16.4 s; on eight 2 s. The small files lie on one stripe too.
    Planted("progressive_layout", 8192 / 500 * 7 / 8, {
        "POSIX": [*loose(100, SMALL, 0.001, 0.001), own(0, file=500, **requests("WRITE", 2048, LARGE, 50.0))],
        "LUSTRE": laid_out(1, *range(1, 101), 500)}, nprocs=1),
    Planted("progressive_layout", None, {
        "POSIX": [*loose(99, SMALL, 0.001, 0.001), own(0, file=500, **requests("WRITE", 2048, LARGE, 50.0))],
        "LUSTRE": laid_out(1, *range(1, 100), 500)}, nprocs=1),
    Planted("overstriping", (50.0 - 8192 / 1000) / 2, {**LOCKED, "LUSTRE": striped(2, osts=2)}, nprocs=16),
    Planted("overstriping", None, {**LOCKED, "LUSTRE": striped(2, osts=2)}, nprocs=15),
    Planted("overstriping", None, {**LOCKED, "LUSTRE": striped(2, osts=3)}, nprocs=16),
    # Requests of 4 MiB on stripes of 1 MiB; on stripes of 2 MiB they are too short.
    Planted("stripe_size", (50.0 - 8192 / 1000) * 3 / 4, {**BIG, "LUSTRE": striped(2)}),
    Planted("stripe_size", None, {**BIG, "LUSTRE": laid_out(2, 1, size=2 * MIB)}),
    # Of 64 s in opens half goes with the second stripe.
    Planted("wide_stripes", 32.0, {
        "POSIX": loose(64, LARGE, 0.1, 1.0, "WRITE"), "LUSTRE": laid_out(2, *range(1, 65))}, nprocs=1),
    Planted("wide_stripes", None, {
        "POSIX": loose(64, LARGE, 0.1, 1.0, "WRITE"), "LUSTRE": laid_out(1, *range(1, 65))}, nprocs=1),
    # 8 GiB in 50 s; at the default ceiling of 10 GiB/s they need 0.8 s.
    Planted("beegfs_targets", 24.6, LOCKED, nprocs=16, job=BEEGFS),
    Planted("beegfs_targets", None, LOCKED, nprocs=16, job=GPFS),
    Planted("gpfs_tokens", 10.0 - 8000 * SMALL / (10 * GIB), {
        "POSIX": [shared(**requests("WRITE", 8000, SMALL, 40.0, OPENS=4))]}, processes_per_node=2, job=GPFS),
    Planted("gpfs_tokens", None, {
        "POSIX": [shared(**requests("WRITE", 8000, SMALL, 40.0, OPENS=4))]}, processes_per_node=4, job=GPFS),
    Planted("hdf5_subfiling", 50.0 - 0.8, BIG, library="HDF5", processes_per_node=1, job=GPFS),
    Planted("hdf5_subfiling", None, BIG, library="HDF5", processes_per_node=2, job=GPFS),
    Planted("hdf5_metadata", 10.0 * 3 / 4, {
        "POSIX": [shared(**tiny(40.0, OPENS=4))]}, library="HDF5"),
    Planted("hdf5_metadata", None, {"POSIX": [shared(**tiny(40.0, OPENS=4))]}),
    Planted("hdf5_pages", 20.0 - 400 * KIB / (10 * GIB), {"POSIX": [own(0, file=1, **tiny(20.0))]}, nprocs=1,
            library="HDF5"),
    Planted("hdf5_pages", None, {"POSIX": [own(0, file=1, **requests("WRITE", 400, LARGE, 20.0))]}, nprocs=1,
            library="HDF5"),
    # 80 s from the first to the last write, of which 20 are I/O.
    Planted("hdf5_async", 20.0, {
        "POSIX": [own(0, file=1, **requests("WRITE", 2048, LARGE, 20.0))]}, nprocs=1, library="HDF5"),
    Planted("hdf5_async", None, {
        "POSIX": [own(0, file=1, **requests("WRITE", 2048, LARGE, 50.0))]}, nprocs=1, library="HDF5"),
    # Half of 40 s, less 1 GiB for each of four processes at 100 MiB/s.
    Planted("compression", 20.0 - 1024 / 100, {
        "POSIX": [shared(40.0, 39.0, **requests("WRITE", 1024, LARGE, 160.0, OPENS=4))]}, library="HDF5"),
    Planted("compression", None, {
        "POSIX": [shared(19.0, 18.0, **requests("WRITE", 1024, LARGE, 76.0, OPENS=4))]}, library="HDF5"),
    # 4 GiB need 4 s at 1 GiB/s.
    Planted("staging", 16.0, {"POSIX": [own(0, **requests("WRITE", 1024, LARGE, 20.0))]}, nprocs=1),
    Planted("staging", None, {"POSIX": [own(0, **requests("WRITE", 1024, LARGE, 45.0))]}, nprocs=1),
    Planted("staging", None, {"POSIX": [own(0, **requests("WRITE", 1024, LARGE, 20.0))]}, nprocs=1, job=NOWHERE),
    Planted("array_shards", 50.0 * 63 / 64, {"POSIX": loose(100, SMALL, 0.001, 0.5)}, nprocs=1,
            name="a.zarr/c/{}"),
    Planted("array_shards", None, {"POSIX": loose(100, SMALL, 0.001, 0.5)}, nprocs=1, name="azarr/c/{}"),
    Planted("record_files", 50.0 * 999 / 1000, {"POSIX": loose(1000, SMALL, 0.001, 0.05)}, nprocs=1,
            name="{}.jpg", job=PYTHON),
    Planted("record_files", None, {"POSIX": loose(999, SMALL, 0.001, 0.05)}, nprocs=1, name="{}.jpg", job=PYTHON),
)  # fmt: skip

PLANTED: tuple[Planted, ...] = (
    # 4,000 requests of 16 KiB (62.5 MiB) become 16 of 4 MiB.
    Planted("small_requests", _beyond(20.0, SMALL, 4000, 3984),
            {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0))}),
    Planted("small_requests", None, {"POSIX": each(**requests("WRITE", 4000, LARGE, 20.0))}),
    # Requests of 1 MiB fall into the bin from 100 KiB, and are not small.
    Planted("small_requests", None, {"POSIX": each(**requests("WRITE", 4000, MIB, 20.0))}),
    # On a file that all share a process joins what follows: half of it.
    Planted("small_requests", _beyond(40.0, SMALL, 8000, 7968) / 4 / 2,
            {"POSIX": [shared(**requests("READ", 8000, SMALL, 40.0, OPENS=4, CONSEC_READS=4000))]}),
    # MPI-IO has no counters of order: the requests below it do.
    Planted("small_requests", _beyond(40.0, SMALL, 8000, 7968) / 4 / 2, {
        "MPI-IO": [shared(**independent("READ", 8000, SMALL, 40.0))],
        "POSIX": [shared(**requests("READ", 8000, SMALL, 30.0, OPENS=4, CONSEC_READS=4000))]}),
    # 99 are too few.
    Planted("small_requests", None, {"POSIX": [own(0, **requests("WRITE", 99, SMALL, 20.0))]}),
    # The run's own large requests did 100 MiB/s: its small ones lose less. The slow process has both.
    Planted("small_requests", _beyond(20.0, SMALL, 4000, 3984, 100.0 * MIB), {"POSIX": [
        *each(**requests("WRITE", 4000, SMALL, 20.0)), own(0, file=9, **requests("WRITE", 250, LARGE, 10.0))]}),
    # 8,000 requests (125 MiB) become 8 of 16 MiB; of 40 s in all the slowest process has 10.
    Planted("no_mpiio", _beyond(40.0, SMALL, 8000, 7992) / 4,
            {"POSIX": [shared(**requests("READ", 8000, SMALL, 40.0, OPENS=4))]}),
    Planted("no_mpiio", 0.0, {"POSIX": [shared(**requests("READ", 8000, LARGE, 40.0, OPENS=4))]}),
    Planted("no_mpiio", 0.0, {"POSIX": each(**requests("READ", 26, LARGE, 40.0))}),
    # 96 reads beyond the first of each file are too few, and files of one request have nothing to join; beside MPI-IO
    # only files that all share count; one process needs none.
    Planted("no_mpiio", None, {"POSIX": each(**requests("READ", 25, LARGE, 40.0))}),
    Planted("no_mpiio", None, {"POSIX": [
        own(rank, file=100 * rank + i, **requests("WRITE", 1, SMALL, 0.1)) for rank in range(4) for i in range(100)]}),
    Planted("no_mpiio", None, {"POSIX": each(**requests("READ", 8000, SMALL, 40.0)),
                               "MPI-IO": [shared(**requests("WRITE", 8000, SMALL, 40.0, "MPI-IO"))]}),
    Planted("no_mpiio", None, {"POSIX": [own(0, **requests("READ", 8000, SMALL, 40.0))]}, nprocs=1),
    Planted("no_collectives", _beyond(40.0, SMALL, 8000, 7992) / 4, {"MPI-IO": [
        shared(**requests("WRITE", 0, SMALL, 40.0, "MPI-IO", INDEP_WRITES=8000, BYTES_WRITTEN=8000 * SMALL,
                          SIZE_WRITE_AGG_10K_100K=8000))]}),
    Planted("no_collectives", None, {"MPI-IO": [shared(**requests("WRITE", 8000, SMALL, 40.0, "MPI-IO"))]}),
    # Half of them collective.
    Planted("no_collectives", None, {"MPI-IO": [
        shared(**requests("WRITE", 4000, SMALL, 40.0, "MPI-IO", INDEP_WRITES=4000, BYTES_WRITTEN=8000 * SMALL))]}),
    # The E2E case: 768 calls of 256 KiB as 786,432 of 256 bytes by one process; nearly all of its 80 s.
    Planted("mpiio_splits", 10.0 * (80.0 - 0.1875) / 80.0 * (786432 - 12) / 786432, {
        "MPI-IO": [shared(**requests("WRITE", 768, 256 * KIB, 40.0, "MPI-IO"))],
        "POSIX": [shared(**requests("WRITE", 786432, 256, 80.0, SIZE_WRITE_10K_100K=0, SIZE_WRITE_100_1K=786432))]}),
    Planted("mpiio_splits", None, {
        "MPI-IO": [shared(**requests("WRITE", 768, 256 * KIB, 40.0, "MPI-IO"))],
        "POSIX": [shared(**requests("WRITE", 1535, 128 * KIB, 80.0))]}),
    Planted("unbuffered", _beyond(40.0, SMALL, 8000, 7992) / 4, {
        "MPI-IO": [shared(**requests("WRITE", 8000, SMALL, 40.0, "MPI-IO"))],
        "POSIX": [shared(**requests("WRITE", 8000, SMALL, 40.0))]}),
    Planted("unbuffered", None, {"MPI-IO": [shared(**requests("WRITE", 8000, SMALL, 40.0, "MPI-IO"))],
                                 "POSIX": [shared(**MPIIO_BELOW)]}),
    Planted("random_access", _beyond(20.0, SMALL, 4000, 3999),
            {"POSIX": each(**requests("READ", 4000, SMALL, 20.0, SEQ_READS=0))}),
    Planted("random_access", None, {"POSIX": each(**requests("READ", 4000, SMALL, 20.0))}),
    # One in five goes back: 800 of 4,000, the first of each process left out.
    Planted("random_access", None, {"POSIX": each(**requests("READ", 4000, SMALL, 20.0, SEQ_READS=3199))}),
    # Each write is synced: order changes little.
    Planted("random_access", 0.15 * _beyond(20.0, SMALL, 4000, 3999),
            {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0, SEQ_WRITES=0, FSYNCS=4000))}),
    Planted("strided", _beyond(20.0, SMALL, 4000, 4000),
            {"POSIX": each(**requests("READ", 4000, SMALL, 20.0, CONSEC_READS=0))}),
    Planted("strided", None, {"POSIX": each(**requests("READ", 4000, SMALL, 20.0, CONSEC_READS=2000))}),
    Planted("strided", None, {"POSIX": each(**requests("READ", 4000, MIB, 20.0, CONSEC_READS=0))}),
    Planted("fsync_storm", _beyond(20.0, SMALL, 4000, 3999),
            {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0, FSYNCS=4000))}),
    Planted("fsync_storm", None, {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0, FSYNCS=1999))}),
    Planted("fsync_storm", None, {"POSIX": [own(0, **requests("WRITE", 100, SMALL, 20.0, FSYNCS=100))]}),
    Planted("shared_file", 0.0, {"POSIX": [shared(**requests("READ", 100, LARGE, 40.0, OPENS=4))]}),
    Planted("shared_file", None, {"POSIX": [shared(**requests("READ", 99, LARGE, 40.0, OPENS=4))]}),
    # Collective MPI-IO joined them.
    Planted("shared_file", None, {"MPI-IO": [shared(**requests("WRITE", 400, LARGE, 40.0, "MPI-IO"))],
                                  "POSIX": [shared(**requests("WRITE", 399, 16 * MIB, 30.0))]}),
    # A request of a block, off the blocks, touches two.
    Planted("unaligned_file", 10.0, {"POSIX": each(
        **requests("WRITE", 200, LARGE, 20.0, FILE_ALIGNMENT=LARGE, FILE_NOT_ALIGNED=200))}),
    Planted("unaligned_file", None, {"POSIX": each(**requests("WRITE", 200, LARGE, 20.0, FILE_ALIGNMENT=LARGE))}),
    Planted("read_write_switches", _beyond(20.0, SMALL, 4000, 2000),
            {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0, RW_SWITCHES=2000))}),
    Planted("read_write_switches", None, {"POSIX": each(**requests("WRITE", 4000, SMALL, 20.0, RW_SWITCHES=9))}),
    Planted("stdio", _beyond(20.0, SMALL, 4000, 4000),
            {"STDIO": each(**requests("WRITE", 4000, SMALL, 20.0, "STDIO"))}),
    Planted("stdio", None, {"STDIO": [own(0, **requests("READ", 10, 100, 1.0, "STDIO"))],
                            "POSIX": each(**requests("WRITE", 200, LARGE, 20.0))}),
    # 40 files become 10 that all share; each process made ten in a second each.
    Planted("file_per_process", 7.5, {"POSIX": [
        own(rank, file=10 * rank + i + 1, **requests("WRITE", 1, LARGE, 0.1, F_META_TIME=1.0))
        for rank in range(4) for i in range(10)]}),
    # Making them took 9% of their time.
    Planted("file_per_process", None, {"POSIX": [
        own(rank, file=10 * rank + i + 1, **requests("WRITE", 1, LARGE, 0.91, F_META_TIME=0.09))
        for rank in range(4) for i in range(10)]}),
    Planted("file_per_process", None, {"POSIX": [shared(**requests("WRITE", 40, LARGE, 4.0, F_META_TIME=40.0))]}),
    Planted("many_files", 49.5, {"POSIX": [
        own(0, file=i + 1, **requests("READ", 1, SMALL, 0.001, F_META_TIME=0.5)) for i in range(100)]}, nprocs=1),
    Planted("many_files", None, {"POSIX": [
        own(0, file=i + 1, **requests("READ", 1, SMALL, 1.0, F_META_TIME=0.1)) for i in range(100)]}, nprocs=1),
    # 100 files of 16 KiB become one shard.
    Planted("small_files", 50.0 * 0.99, {"POSIX": [
        own(0, file=i + 1, **requests("READ", 1, SMALL, 0.001, F_META_TIME=0.5)) for i in range(100)]}, nprocs=1),
    Planted("small_files", None, {"POSIX": [
        own(0, file=i + 1, **requests("READ", 1, SMALL, 0.001, F_META_TIME=0.5)) for i in range(99)]}, nprocs=1),
    Planted("small_files", None, {"POSIX": [
        own(0, file=i + 1, **requests("READ", 1, MIB, 0.001, F_META_TIME=0.5)) for i in range(100)]}, nprocs=1),
    # Half of the stats ask again: 100 of 400 calls, opens counted twice.
    Planted("metadata_storm", 50.0 * 100 / 400, {"POSIX": [
        own(0, file=i + 1, OPENS=1, STATS=2, F_META_TIME=0.5, F_OPEN_START_TIMESTAMP=1.0) for i in range(100)]}),
    Planted("metadata_storm", None, {"POSIX": [
        own(0, file=i + 1, OPENS=1, STATS=2, F_META_TIME=0.5, F_OPEN_START_TIMESTAMP=1.0) for i in range(33)]}),
    # One open and one stat of each process on a file that all share.
    Planted("metadata_storm", None, {"POSIX": [
        shared(**requests("READ", 256, LARGE, 8.0, OPENS=256, STATS=256, F_META_TIME=32.0))]}, nprocs=256),
    # 32 of 40 s of all processes are metadata; one of four would still open.
    Planted("shared_metadata", 6.0, {"POSIX": [shared(**requests("READ", 4, LARGE, 8.0, OPENS=4, F_META_TIME=32.0))]}),
    Planted("shared_metadata", None, {"POSIX": [shared(**requests("READ", 4, LARGE, 38.0, OPENS=4, F_META_TIME=2.0))]}),
    # Mostly seeks, and reads fill the time between open and close: opens cannot have taken it.
    Planted("shared_metadata", 0.1875, {"POSIX": [shared(**requests(
        "READ", 400, LARGE, 8.0, OPENS=4, SEEKS=400, F_META_TIME=32.0, F_OPEN_START_TIMESTAMP=1.0,
        F_READ_START_TIMESTAMP=1.0, F_READ_END_TIMESTAMP=11.0, F_CLOSE_END_TIMESTAMP=11.25))]}),
    Planted("reopening", 20.0 * 800 / 802, {"POSIX": [
        own(0, **requests("READ", 401, LARGE, 1.0, OPENS=401, F_META_TIME=20.0))]}),
    Planted("reopening", None, {"POSIX": [own(0, **requests("READ", 401, LARGE, 1.0, F_META_TIME=20.0))]}),
    Planted("reopening", None, {"POSIX": [own(0, **requests("READ", 401, LARGE, 1.0, OPENS=100, F_META_TIME=20.0))]}),
    # A seek moves a position in memory: 10 microseconds at most.
    Planted("seeks", 0.02, {"POSIX": [
        own(0, **requests("READ", 2000, LARGE, 1.0, SEEKS=2000, F_META_TIME=20.0))]}),
    Planted("seeks", None, {"POSIX": [own(0, **requests("READ", 2000, LARGE, 1.0, SEEKS=20, F_META_TIME=20.0))]}),
    # Nodes not known: four processes instead of one.
    Planted("rank_zero", 15.0, {"POSIX": [own(0, **requests("WRITE", 256, LARGE, 20.0))]}),
    # Ten nodes could be ten times as fast, but 160 GiB take 16 s at the default ceiling.
    Planted("rank_zero", 4.0, {"POSIX": [own(0, **requests("WRITE", 40960, LARGE, 20.0))]}, nprocs=10,
            processes_per_node=1),
    # 8 GiB on one target of 500 MiB/s.
    Planted("rank_zero", 20.0 - 8192 / 500, {
        "POSIX": [own(0, file=1, **requests("WRITE", 2048, LARGE, 20.0))], "LUSTRE": striped(1)}),
    Planted("rank_zero", None, {"POSIX": [own(0, **requests("WRITE", 256, LARGE, 20.0))]}, nprocs=1),
    # All processes open the file, one writes; the others wait in MPI_File_close, which is not metadata.
    Planted("rank_zero", 15.0, {
        "MPI-IO": [shared(20.0, 19.9, **independent("WRITE", 256, LARGE, 20.0) | {"F_META_TIME": 59.9})],
        "POSIX": [shared(19.0, 0.1, 256 * LARGE, **requests("WRITE", 256, LARGE, 19.0, OPENS=4))]}),
    Planted("shared_metadata", None, {
        "MPI-IO": [shared(20.0, 19.9, **independent("WRITE", 256, LARGE, 20.0) | {"F_META_TIME": 59.9})],
        "POSIX": [shared(19.0, 0.1, 256 * LARGE, **requests("WRITE", 256, LARGE, 19.0, OPENS=4))]}),
    Planted("rank_zero", None, {
        "MPI-IO": [shared(20.0, 19.9, **independent("WRITE", 256, LARGE, 20.0))],
        "POSIX": [shared(19.0, 0.1, 128 * LARGE, **requests("WRITE", 256, LARGE, 19.0, OPENS=4))]}),
    Planted("subset", 10.0, {"POSIX": [own(r, **requests("WRITE", 256, LARGE, 20.0)) for r in (0, 1)]}),
    # car11 V.H: an own aggregation with enough processes loses nothing.
    Planted("subset", 0.0, {"POSIX": [own(r, **requests("WRITE", 256, LARGE, 20.0)) for r in range(8)]}, nprocs=64),
    Planted("subset", None, {"POSIX": each(**requests("WRITE", 256, LARGE, 20.0))}),
    # 40 s of four processes are 10 s each; the slowest took 20.
    Planted("straggler_bytes", 10.0, {"POSIX": [
        shared(20.0, 5.0, 40 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))]}),
    Planted("straggler_bytes", None, {"POSIX": [
        shared(20.0, 5.0, 25 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))]}),
    Planted("straggler_time", 10.0, {"POSIX": [
        shared(20.0, 5.0, 25 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))]}),
    Planted("straggler_time", None, {"POSIX": [
        shared(10.0, 9.5, 25 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))]}),
    # The slowest of 512 is 9 s above the mean, the fastest 8 s below: the ends of a spread.
    Planted("straggler_time", None, {"POSIX": [
        shared(19.0, 2.0, LARGE, **requests("WRITE", 512, LARGE, 5120.0, OPENS=512))]}, nprocs=512),
    Planted("contention", 9.0, {"POSIX": [
        shared(19.0, 2.0, LARGE, **requests("WRITE", 512, LARGE, 5120.0, OPENS=512))]}, nprocs=512),
    Planted("contention", None, {"POSIX": [
        shared(20.0, 5.0, 25 * LARGE, **requests("WRITE", 100, LARGE, 40.0, OPENS=4))]}),
    # 36 of 40 s of four processes pass above the requests: of the slowest one's 10 s, 9.
    Planted("one_at_a_time", 9.0, {
        "MPI-IO": [shared(10.0, 9.0, **independent("WRITE", 100, LARGE, 40.0))],
        "POSIX": [shared(1.0, 0.9, **requests("WRITE", 100, LARGE, 4.0))]}, job={"mounts": (("/scratch", "nfs"),)}),
    Planted("one_at_a_time", None, {
        "MPI-IO": [shared(10.0, 9.0, **independent("WRITE", 100, LARGE, 40.0))],
        "POSIX": [shared(5.0, 4.0, **requests("WRITE", 100, LARGE, 20.0))]}),
    # Collective calls wait for each other as they should.
    Planted("one_at_a_time", None, {
        "MPI-IO": [shared(10.0, 9.0, **requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
        "POSIX": [shared(1.0, 0.9, **requests("WRITE", 100, LARGE, 4.0))]}),
    Planted("uneven_ranks", 10.0, {"POSIX": [
        own(rank, **requests("WRITE", 256, LARGE, seconds)) for rank, seconds in enumerate((20.0, 5.0, 5.0, 10.0))]}),
    Planted("uneven_ranks", None, {"POSIX": each(**requests("WRITE", 256, LARGE, 20.0))}),
    # 70 s of something else between the first write and the last: 10 s of writing fit in.
    Planted("blocking", 10.0, {"MPI-IO": [shared(**requests("WRITE", 2000, LARGE, 40.0, "MPI-IO"))]}),
    Planted("blocking", 0.0, {"MPI-IO": [
        shared(**requests("WRITE", 2000, LARGE, 40.0, "MPI-IO", F_WRITE_END_TIMESTAMP=20.0))]}),
    Planted("blocking", None, {"MPI-IO": [
        shared(**requests("WRITE", 2000, LARGE, 40.0, "MPI-IO", NB_WRITES=9))]}),
    # The calls are HDF5's, by its records or by the name of the file.
    Planted("blocking", None, {"MPI-IO": [shared(**requests("WRITE", 2000, LARGE, 40.0, "MPI-IO"))]}, library="HDF5"),
    Planted("blocking", None, {"MPI-IO": [shared(**requests("WRITE", 2000, LARGE, 40.0, "MPI-IO"))]}, name="{}.h5"),
    # One of four nodes has an aggregator.
    Planted("aggregators", 7.5, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
                                 "POSIX": [own(0, file=1, **MPIIO_BELOW)]}, processes_per_node=1),
    Planted("aggregators", None, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
                                  "POSIX": [own(r, file=1, **MPIIO_BELOW) for r in range(4)]}, processes_per_node=1),
    # One record for all: the slowest process moved everything.
    Planted("aggregators", 7.5, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
                                 "POSIX": [shared(part=128 * MIB, **MPIIO_BELOW)]}, processes_per_node=1),
    # Two of eight processes with half of the bytes each: their variance is 3/16 of half the bytes squared.
    Planted("aggregators", 7.5, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 80.0, "MPI-IO"))], "POSIX": [
        shared(part=64 * MIB, **MPIIO_BELOW, F_VARIANCE_RANK_BYTES=3 / 16 * (64 * MIB) ** 2)]}, nprocs=8,
        processes_per_node=1),
    # Four of eight: variance 1/4 of a quarter of the bytes squared; six of eight: 3/16 of a sixth squared.
    Planted("aggregators", 5.0, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 80.0, "MPI-IO"))], "POSIX": [
        shared(part=32 * MIB, **MPIIO_BELOW, F_VARIANCE_RANK_BYTES=1 / 4 * (32 * MIB) ** 2)]}, nprocs=8,
        processes_per_node=1),
    Planted("aggregators", None, {"MPI-IO": [shared(**requests("WRITE", 120, LARGE, 80.0, "MPI-IO"))], "POSIX": [
        shared(part=20 * LARGE, **requests("WRITE", 120, LARGE, 40.0, OPENS=8),
               F_VARIANCE_RANK_BYTES=3 / 16 * (20 * LARGE) ** 2)]}, nprocs=8, processes_per_node=1),
    # Large requests: 50 s on one target; three quarters of that go on four targets.
    Planted("striping", 37.5, {
        "POSIX": [shared(50.0, 49.0, **requests("WRITE", 2048, LARGE, 200.0, OPENS=4))], "LUSTRE": striped(1)}),
    # Collective calls: the targets are busy in the 10 s of the requests below, not while data are exchanged.
    Planted("striping", 7.5, {
        "MPI-IO": [shared(50.0, 49.0, **requests("WRITE", 2048, LARGE, 200.0, "MPI-IO"))],
        "POSIX": [shared(10.0, 9.9, **requests("WRITE", 512, 16 * MIB, 40.0, OPENS=4))], "LUSTRE": striped(1)}),
    # 4 GiB in small ones: 8.2 of 50 s at 500 MiB/s, three quarters of that.
    Planted("striping", 3 * 1024 / 500, {
        "POSIX": [shared(50.0, 49.0, **requests("WRITE", 8192, MIB // 2, 200.0, OPENS=4))], "LUSTRE": striped(1)}),
    # The target did 819 MiB/s, more than is taken for one: its 10 s become 2.5 s, which the fix still needs.
    Planted("striping", 7.5, {
        "POSIX": [shared(10.0, 9.9, **requests("WRITE", 2048, LARGE, 40.0, OPENS=4))], "LUSTRE": striped(1)}),
    Planted("striping", None, {"POSIX": [shared(50.0, 49.0, **requests("WRITE", 2048, LARGE, 200.0, OPENS=4))],
                               "LUSTRE": striped(4)}),
    Planted("unused_targets", 0.0, {
        "POSIX": [shared(50.0, 49.0, **requests("WRITE", 16, LARGE, 200.0, OPENS=4))], "LUSTRE": striped(3)}),
    # As many targets as processes; less than 64 MiB; a layout that is not recorded, on Lustre and elsewhere.
    Planted("unused_targets", None, {
        "POSIX": [shared(50.0, 49.0, **requests("WRITE", 16, LARGE, 200.0, OPENS=4))], "LUSTRE": striped(4)}),
    Planted("unused_targets", None, {
        "POSIX": [shared(50.0, 49.0, **requests("WRITE", 15, LARGE, 200.0, OPENS=4))], "LUSTRE": striped(1)}),
    Planted("unused_targets", 0.0, {"POSIX": [shared(**requests("WRITE", 16, LARGE, 200.0, OPENS=4))]},
            job={"mounts": (("/scratch", "lustre"),)}),
    Planted("unused_targets", None, {"POSIX": [shared(**requests("WRITE", 16, LARGE, 200.0, OPENS=4))]},
            job={"mounts": (("/scratch", "gpfs"),)}),
    # Six targets, three files each of 100 MiB; those on target 0 took 50 s, the others 5.
    Planted("slow_target", 45.0, {
        "POSIX": [own(rank, **requests("WRITE", 25, LARGE, 50.0 if rank % 6 == 0 else 5.0)) for rank in range(18)],
        "LUSTRE": placed(*(rank % 6 for rank in range(18)))}, nprocs=18),
    # Four times as long; two files; one file there was quick.
    *(Planted("slow_target", None, {
        "POSIX": [own(rank, **requests("WRITE", 25, LARGE, seconds(rank))) for rank in range(count)],
        "LUSTRE": placed(*(rank % 6 for rank in range(count)))}, nprocs=count) for count, seconds in (
            (18, lambda rank: 20.0 if rank % 6 == 0 else 5.0), (12, lambda rank: 50.0 if rank % 6 == 0 else 5.0),
            (18, lambda rank: 50.0 if rank in (0, 6) else 5.0))),
    Planted("redundant_reads", 7.5, {"POSIX": [
        shared(**requests("READ", 100, LARGE, 40.0, OPENS=4, MAX_BYTE_READ=100 * MIB - 1))]}),
    Planted("redundant_reads", None, {"POSIX": [shared(**requests("READ", 100, LARGE, 40.0, OPENS=4))]}),
    # 32-bit programs name no byte above 2 GiB: that is no extent.
    Planted("redundant_reads", None, {"POSIX": [
        shared(**requests("READ", 1000, LARGE, 40.0, OPENS=4, MAX_BYTE_READ=2**31 - 1))]}),
    Planted("redundant_writes", 5.0, {"POSIX": [
        own(0, **requests("WRITE", 100, LARGE, 10.0, MAX_BYTE_WRITTEN=200 * MIB - 1))]}),
    Planted("redundant_writes", None, {"POSIX": [own(0, **requests("WRITE", 100, LARGE, 10.0))]}),
    # Opened twice: the second version of a checkpoint is no waste. Opened once more than written: neither.
    Planted("redundant_writes", None, {"POSIX": [
        own(0, **requests("WRITE", 100, LARGE, 10.0, OPENS=2, MAX_BYTE_WRITTEN=200 * MIB - 1))]}),
    # A quarter of the POSIX time below is reading what nobody asked for.
    Planted("data_sieving", 2.5, {
        "MPI-IO": [shared(**requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
        "POSIX": [shared(**requests("WRITE", 100, LARGE, 30.0), READS=9, BYTES_READ=9 * LARGE, F_READ_TIME=10.0)]}),
    # Independent writes wait for locks too: only the 12 s of the writes below remain, a quarter for each process.
    Planted("data_sieving", 7.0, {
        "MPI-IO": [shared(**independent("WRITE", 100, LARGE, 40.0))],
        "POSIX": [shared(**requests("WRITE", 100, LARGE, 12.0), READS=9, BYTES_READ=9 * LARGE, F_READ_TIME=4.0)]}),
    # 200 flushes took 40 s; one remains. Few flushes, and large ones, are fine.
    Planted("flushed_streams", 40.0 * (1 - 1 / 200), {"STDIO": [
        own(0, **requests("WRITE", 400, SMALL, 30.0, "STDIO", OPENS=1, FLUSHES=200, F_META_TIME=10.0))]}),
    Planted("flushed_streams", None, {"STDIO": [
        own(0, **requests("WRITE", 400, SMALL, 30.0, "STDIO", OPENS=1, FLUSHES=99, F_META_TIME=10.0))]}),
    Planted("flushed_streams", None, {"STDIO": [
        own(0, **requests("WRITE", 400, LARGE, 30.0, "STDIO", OPENS=1, FLUSHES=200, F_META_TIME=10.0))]}),
    # The records of MPI-IO are cut; one process did it all; they are whole.
    Planted("unjoined_below", 0.0, {"MPI-IO": CUT_MPIIO, "POSIX": [shared(**requests("WRITE", 200, MIB, 40.0))]}),
    Planted("unjoined_below", None, {
        "MPI-IO": CUT_MPIIO, "POSIX": [shared(part=200 * MIB, **requests("WRITE", 200, MIB, 40.0))]}),
    Planted("unjoined_below", None, {"POSIX": [shared(**requests("WRITE", 200, MIB, 40.0))]}),
    Planted("no_mpiio", None, {"MPI-IO": CUT_MPIIO, "POSIX": [shared(**requests("WRITE", 2000, SMALL, 40.0))]}),
    Planted("data_sieving", None, {"MPI-IO": [shared(**requests("WRITE", 100, LARGE, 40.0, "MPI-IO"))],
                                   "POSIX": [shared(**MPIIO_BELOW)]}),
    # 10 s in calls of 4 MiB, 4 s in the requests below.
    Planted("exchange", 6.0, {"MPI-IO": [shared(**requests("READ", 100, LARGE, 40.0, "MPI-IO"))],
                              "POSIX": [shared(4.0, 3.0, **requests("READ", 100, LARGE, 14.0))]}),
    Planted("exchange", None, {"MPI-IO": [shared(**requests("READ", 100, LARGE, 40.0, "MPI-IO"))],
                               "POSIX": [shared(7.0, 3.0, **requests("READ", 100, LARGE, 26.0))]}),
    *DECLARED,
)  # fmt: skip

# Collective, large, even, aligned, written once: nothing to say.
GOOD: Mapping[str, Rows | Module] = {
    "MPI-IO": [shared(**requests("WRITE", 400, LARGE, 40.0, "MPI-IO"))],
    "POSIX": [shared(**requests("WRITE", 100, 16 * MIB, 30.0))],
    "LUSTRE": striped(4),
}
