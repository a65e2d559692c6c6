"""Darshan 1.x logs: no magic number, no job id, fewer counters, the end of the name behind them."""

from __future__ import annotations

import bz2
import gzip
import struct

import pytest

from error_kinds import source_error
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.readers.darshan.darshan_reader import DARSHAN, column, read_log, rows_of_logs

# Counters of a record, and the places of some of them, per version.
SIZES = {"1.21": (133, 12), "1.22": (138, 14), "1.23": (140, 14), "1.24": (140, 14)}
POSIX_OPENS, BYTES_READ = 13, {"1.21": 44, "1.22": 47, "1.23": 47, "1.24": 47}
F_OPEN, F_POSIX_READ = 0, 6


def log_of(version, order=">", rank=-1, device=13):
    ints, floats = SIZES[version]
    counters, times = [0] * ints, [0.0] * floats
    counters[0], counters[POSIX_OPENS], counters[BYTES_READ[version]] = 8, 4, 500
    times[F_OPEN], times[F_POSIX_READ] = 0.25, 0.5
    if version >= "1.23":
        counters[-2] = device
    text = b"./app -n 1\n10\tnfs\t/home\n13\tgpfs\t/gpfs"
    head = version.encode().ljust(8, b"\0") + struct.pack(f"{order}qiii", 500, 1_200_000_000, 1_200_000_009, 4)
    record = struct.pack(f"{order}Qi4x{ints}q{floats}d", 9, rank, *counters, *times) + b"ir/file.dat".ljust(16, b"\0")
    return gzip.compress((head + text).ljust(1024, b"\0") + record)


@pytest.mark.parametrize("version", list(SIZES))
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_version(version, order, tmp_path):
    path = tmp_path / "ann_app_id178062_12-31-64877_1.darshan.gz"
    path.write_bytes(log_of(version, order))
    assert DARSHAN.detect(path.read_bytes(), path) == 0.9
    log = read_log(path)
    assert (log.version, log.byte_order) == (version, "little" if order == "<" else "big")
    assert (log.job.uid, log.job.nprocs, log.job.job_id, log.job.exe) == (500, 4, 178062, "./app -n 1")
    assert (log.job.start_ns, log.job.run_seconds) == (1_200_000_000 * 10**9, 10)
    assert log.job.mounts == (("/home", "nfs"), ("/gpfs", "gpfs"))
    assert log.names == {9: "/gpfs/…ir/file.dat" if version >= "1.23" else "…ir/file.dat"}
    posix, mpi = log.modules["POSIX"], log.modules["MPI-IO"]
    assert [module.records["rank"][0] for module in (posix, mpi)] == [-1, -1]
    assert (posix.records["POSIX_OPENS"][0], posix.records["POSIX_BYTES_READ"][0]) == (4, 500)
    assert (posix.records["POSIX_F_READ_TIME"][0], mpi.records["MPIIO_INDEP_OPENS"][0]) == (0.5, 8)
    assert column(posix, "POSIX_SLOWEST_RANK") is None
    assert (column(posix, "POSIX_F_MAX_READ_TIME") is None) == (version == "1.21")
    applications, files = rows_of_logs([log])
    assert (applications.records()[0]["job_id"], files.rows) == (178062, 2)
    assert files.records()[0]["size_at_open_bytes"] in (None, 0)


def test_what_is_refused():
    raw = gzip.decompress(log_of("1.24"))
    with pytest.raises(CorruptInput, match="multiple"):
        read_log(gzip.compress(raw[:-8]))
    for length in range(0, len(data := log_of("1.22")), 7):
        with pytest.raises(SourceError):
            read_log(data[:length])


# Positions of some counters in the record, from the format of Darshan 2.
INDEP_OPENS, COLL_READS, POSIX_READS, POSIX_OPENS_2, FREADS, FOPENS = 0, 4, 11, 13, 17, 19
BYTES_READ_2, BYTES_WRITTEN, SIZE_READ_0_100, DEVICE, SLOWEST_RANK = 47, 48, 62, 138, 142
F_OPEN_2, F_CLOSE, F_POSIX_READ_2, F_MPI_READ, F_SLOWEST = 0, 3, 6, 10, 15


def record(order, record_id, rank, suffix, counters=(), floats=()):
    ints, doubles = [0] * 144, [0.0] * 18
    for index, value in dict(counters).items():
        ints[index] = value
    for index, value in dict(floats).items():
        doubles[index] = value
    return (
        struct.pack(f"{order}Qq", record_id, rank)
        + suffix.ljust(16, b"\0")
        + struct.pack(f"{order}144q", *ints)
        + struct.pack(f"{order}18d", *doubles)
    )


def job_region(version, order, start=1_300_000_000, end=1_300_000_009):
    size, metadata = (4096, 1024) if version >= "2.04" else (1024, 0 if version == "2.00" else 64)
    head = version.encode().ljust(8, b"\0") + struct.pack(f"{order}6q", 6567223, 500, start, end, 4, 77)
    text = b"./app -n 1\n10\tnfs\t/home\n-12\tgpfs\t/gpfs/fs0\n15\tgpfs\t/"
    return (head + b"lib_ver=2.2\nh=cb=4\n".ljust(1024, b"\0")[:metadata] + text).ljust(size, b"\0")


@pytest.mark.parametrize("version", ["2.00", "2.01", "2.02", "2.03", "2.04", "2.05", "2.06"])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_every_version_of_2(version, order, pack):
    counters = {
        POSIX_OPENS_2: 2,
        POSIX_READS: 5,
        BYTES_READ_2: 500,
        SIZE_READ_0_100: 5,
        DEVICE: -12,
        SLOWEST_RANK: 3,
    }
    raw = job_region(version, order) + record(order, 9, -1, b"dir/file.000001", counters, {F_POSIX_READ_2: 0.5})
    log = read_log(pack(raw))
    assert (log.version, log.byte_order) == (version, "little" if order == "<" else "big")
    assert (log.job.uid, log.job.nprocs, log.job.job_id) == (500, 4, 77)
    assert (log.job.start_ns, log.job.end_ns) == (1_300_000_000 * 10**9, 1_300_000_009 * 10**9)
    assert log.job.run_seconds == 10
    assert log.job.exe == "./app -n 1"
    assert log.job.mounts == (("/gpfs/fs0", "gpfs"), ("/home", "nfs"), ("/", "gpfs"))
    assert log.job.metadata == ({} if version == "2.00" else {"lib_ver": "2.2", "h": "cb=4"})
    assert log.names == {9: "/gpfs/fs0/…dir/file.000001"}
    assert list(log.modules) == ["CP", "POSIX"]
    raw_record = log.modules["CP"].records[0]
    assert (raw_record["CP_POSIX_OPENS"], raw_record["CP_BYTES_READ"], raw_record["CP_SLOWEST_RANK"]) == (2, 500, 3)
    posix = log.modules["POSIX"].records[0]
    assert (posix["id"], posix["rank"], posix["POSIX_OPENS"], posix["POSIX_READS"]) == (9, -1, 2, 5)
    assert (posix["POSIX_BYTES_READ"], posix["POSIX_SIZE_READ_0_100"], posix["POSIX_SLOWEST_RANK"]) == (500, 5, 3)
    assert posix["POSIX_F_READ_TIME"] == 0.5


def test_the_interfaces_are_told_apart():
    rows = [
        record("<", 1, 0, b"posix", {POSIX_OPENS_2: 1, BYTES_READ_2: 10}),
        record(
            "<",
            2,
            0,
            b"mpi",
            {INDEP_OPENS: 4, COLL_READS: 3, POSIX_OPENS_2: 4, BYTES_READ_2: 20},
            {F_MPI_READ: 2.5},
        ),
        record("<", 3, 0, b"stdio", {FOPENS: 1, FREADS: 7, BYTES_READ_2: 30}),
    ]
    log = read_log(gzip.compress(job_region("2.05", "<") + b"".join(rows)))
    assert list(log.modules) == ["CP", "POSIX", "MPI-IO", "STDIO"]
    assert log.modules["POSIX"].records["id"].tolist() == [1, 2, 3]
    mpi, stdio = log.modules["MPI-IO"], log.modules["STDIO"]
    assert mpi.records["id"].tolist() == [2]
    assert (mpi.records["MPIIO_INDEP_OPENS"][0], mpi.records["MPIIO_COLL_READS"][0]) == (4, 3)
    assert (mpi.records["MPIIO_BYTES_READ"][0], mpi.records["MPIIO_F_READ_TIME"][0]) == (20, 2.5)
    assert column(mpi, "MPIIO_ACCESS1_ACCESS") is None
    assert column(mpi, "MPIIO_F_SLOWEST_RANK_TIME") is not None
    assert stdio.records["id"].tolist() == [3]
    assert (stdio.records["STDIO_OPENS"][0], stdio.records["STDIO_READS"][0]) == (1, 7)
    assert column(stdio, "STDIO_BYTES_READ") is None
    assert list(read_log(gzip.compress(job_region("2.05", "<") + b"".join(rows)), modules={"STDIO"}).modules) == [
        "STDIO"
    ]


@pytest.mark.parametrize(
    ("version", "opened", "closed", "expected"),
    [
        ("2.02", 1_300_000_001.5, 1_300_000_004.0, (1.5, 4.0)),  # seconds since 1970
        ("2.02", 0.5, 9.0, (0.5, 9.0)),  # since about the start
        ("2.02", 100.5, 109.0, (1.5, 10.0)),  # since the boot: set back to end with the job
        ("2.02", 0.0, 5.0, (0.0, 5.0)),  # 0 is: never opened
        ("2.03", 100.5, 109.0, (100.5, 109.0)),  # normalized by Darshan itself
    ],
)
def test_clocks(version, opened, closed, expected):
    row = record("<", 2, 0, b"f", {POSIX_OPENS_2: 1}, {F_OPEN_2: opened, F_CLOSE: closed})
    posix = read_log(gzip.compress(job_region(version, "<") + row)).modules["POSIX"].records[0]
    assert (posix["POSIX_F_OPEN_START_TIMESTAMP"], posix["POSIX_F_CLOSE_END_TIMESTAMP"]) == expected


def test_what_is_refused_of_2():
    good = job_region("2.06", "<") + record("<", 2, 0, b"f")
    with source_error("UnsupportedVersion", match=r"version 1\.4 are not"):
        read_log(gzip.compress(b"1.4\0\0\0\0\0" + good[8:]))
    with source_error("UnsupportedVersion", match=r"version 3\.41"):
        read_log(gzip.compress(b"3.41\0\0\0\0" + good[8:]))
    with pytest.raises(SourceError, match="not a Darshan log"):
        read_log(gzip.compress(b"just some text"))
    with source_error("TruncatedInput", match="its job region"):
        read_log(gzip.compress(good[:3000]))
    with pytest.raises(CorruptInput, match="multiple"):
        read_log(gzip.compress(good[:-8]))
    with pytest.raises(CorruptInput, match="ranks"):
        read_log(gzip.compress(job_region("2.06", "<") + record("<", 2, 4, b"f")))
    with pytest.raises(CorruptInput, match="Cannot decompress"):
        read_log(gzip.compress(good)[:-8] + b"\0" * 8)
