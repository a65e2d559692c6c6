"""The writer: what is written is read back, by this reader and by PyDarshan."""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ioweather.readers.darshan.darshan_reader import DarshanJob, Module, Ragged
from ioweather.readers.darshan.writer import new_records, write_log

HERE = Path(__file__).parent
JOB = DarshanJob(
    uid=1000,
    job_id=42,
    nprocs=8,
    start_ns=1_700_000_000_123_456_789,
    end_ns=1_700_000_060_987_654_321,
    run_seconds=60.864197532,
    metadata={"lib_ver": "3.4.0"},
    exe="./ior -a POSIX",
    mounts=(("/scratch", "lustre"), ("/", "ext4")),
)


def example(lustre_module):
    posix = new_records("POSIX", 3)
    posix["id"] = [11, 12, 13]
    posix["rank"] = [-1, 0, 7]
    posix["POSIX_BYTES_WRITTEN"] = [1 << 40, 5, 6]
    posix["POSIX_F_WRITE_TIME"] = [1.5, 2.5, 3.5]
    mpiio, stdio = new_records("MPI-IO", 1), new_records("STDIO", 1)
    mpiio["id"], mpiio["rank"], mpiio["MPIIO_COLL_WRITES"] = 11, -1, 128
    stdio["id"], stdio["STDIO_F_META_TIME"] = 14, 0.25
    heat = new_records("HEATMAP", 2)
    heat["id"], heat["rank"], heat["bins"], heat["bin_width_seconds"] = 99, [0, 1], 3, 0.1
    bins = {"write_bins": Ragged.of([[1, 2, 3], [4, 5, 6]]), "read_bins": Ragged.of([[0, 0, 1], [7, 8, 9]])}
    modules = {"POSIX": posix, "MPI-IO": mpiio, "STDIO": stdio, "LUSTRE": lustre_module,
               "HEATMAP": Module("HEATMAP", 1, False, heat, bins)}  # fmt: skip
    names = {11: "/scratch/a", 12: "/scratch/b", 13: "/tmp/é", 14: "<STDOUT>", 99: "heatmap:POSIX"}
    return modules, names


def lustre_v1():
    records = new_records("LUSTRE", 1)
    records["id"], records["rank"], records["LUSTRE_STRIPE_SIZE"], records["LUSTRE_STRIPE_WIDTH"] = 11, -1, 1 << 20, 2
    return Module("LUSTRE", 1, False, records, {"ost_ids": Ragged.of([[17, 3]])})


@pytest.mark.skipif(importlib.util.find_spec("darshan") is None, reason="PyDarshan is not installed")
def test_pydarshan_reads_what_is_written(tmp_path):
    modules, names = example(lustre_v1())
    path = tmp_path / "written.darshan"
    write_log(path, JOB, modules, names)
    command = [sys.executable, HERE / "oracle_pydarshan.py", path]
    answer = pickle.loads(subprocess.run(command, capture_output=True, check=True).stdout.split(b"PICKLE", 1)[1])
    theirs = answer["logs"][str(path)]
    assert theirs["names"] == names
    assert theirs["exe"] == JOB.exe
    assert theirs["mounts"] == list(JOB.mounts)
    job = theirs["job"]
    assert (job["uid"], job["jobid"], job["nprocs"], job["log_ver"]) == (1000, 42, 8, "3.41")
    assert (job["start_time_sec"], job["start_time_nsec"]) == (1_700_000_000, 123_456_789)
    assert (job["end_time_sec"], job["end_time_nsec"]) == (1_700_000_060, 987_654_321)
    assert job["metadata"] == JOB.metadata
    for name in ("POSIX", "MPI-IO", "STDIO"):
        counters, fcounters = answer["names"][name]
        assert len(theirs["records"][name]) == len(modules[name])
        for i, record in enumerate(theirs["records"][name]):
            assert (record["id"], record["rank"]) == (modules[name]["id"][i], modules[name]["rank"][i])
            assert record["counters"].tolist() == [modules[name][c][i] for c in counters]
            assert record["fcounters"].tolist() == [modules[name][c][i] for c in fcounters]
    (stripes,) = theirs["records"]["LUSTRE"]
    osts = np.concatenate([c["ost_ids"] for c in stripes["components"]])
    assert osts.tolist() == modules["LUSTRE"].ragged["ost_ids"][0].tolist()
    assert stripes["components"][0]["counters"][0] == 1 << 20
    heat = theirs["records"]["HEATMAP"]
    assert [h["write_bins"].tolist() for h in heat] == [[1, 2, 3], [4, 5, 6]]
    assert [h["read_bins"].tolist() for h in heat] == [[0, 0, 1], [7, 8, 9]]
