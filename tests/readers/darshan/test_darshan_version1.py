"""Darshan 1.x logs: no magic number, no job id, fewer counters, the end of the name behind them."""

from __future__ import annotations

import gzip
import struct

import pytest

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


def test_devices_of_ranks_above_0_are_not_believed_in_1_23():
    assert read_log(log_of("1.23", rank=1)).names == {9: "…ir/file.dat"}
    assert read_log(log_of("1.24", rank=1)).names == {9: "/gpfs/…ir/file.dat"}


def test_what_is_refused():
    raw = gzip.decompress(log_of("1.24"))
    with pytest.raises(CorruptInput, match="multiple"):
        read_log(gzip.compress(raw[:-8]))
    for length in range(0, len(data := log_of("1.22")), 7):
        with pytest.raises(SourceError):
            read_log(data[:length])
