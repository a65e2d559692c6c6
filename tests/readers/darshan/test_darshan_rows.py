"""Rows of `applications` and `files`: every counter where it belongs, null where it was not measured."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import pickle
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioweather.core.errors import UsageError
from ioweather.core.frames import Frame
from ioweather.readers.darshan.darshan_reader import MODULES, read_log, rows_of_logs
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged
from ioweather.readers.darshan.writer import log_bytes, new_records, write_log

NS = 1_000_000_000
START = 1_700_000_000 * NS
MOUNTS = (("/scratch", "lustre"), ("/scratch/fast", "ext4"), ("/", "xfs"))


def job(**changes: Any) -> DarshanJob:
    given: dict[str, Any] = {
        "uid": 1000, "job_id": 42, "nprocs": 4, "start_ns": START, "end_ns": START + 90 * NS, "run_seconds": 90.0,
        "metadata": {}, "exe": "/home/ann/bin/app --in /scratch/secret", "mounts": MOUNTS,
    }  # fmt: skip
    return DarshanJob(**(given | changes))


def made(modules: dict[str, list[dict[str, Any]]], names: dict[int, str], **changes: Any) -> DarshanLog:
    arrays = {}
    for module, rows in modules.items():
        records = new_records(module, len(rows))
        for i, row in enumerate(rows):
            for name, value in row.items():
                records[name][i] = value
        arrays[module] = records
    return read_log(log_bytes(job(**changes), arrays, names), modules=MODULES)


def one_file(name: str = "/scratch/a/data", **counters: Any) -> DarshanLog:
    return made({"POSIX": [{"id": 1, "rank": 0, **counters}]}, {1: name})


def first(frame: Frame) -> dict[str, Any]:
    return frame.records()[0]


def test_times_become_absolute_and_zero_means_never() -> None:
    row = first(rows_of_logs([one_file(POSIX_F_OPEN_START_TIMESTAMP=1.5, POSIX_F_WRITE_END_TIMESTAMP=2.25)])[1])
    assert row["first_open_ns"] == START + 1_500_000_000
    assert row["last_write_ns"] == START + 2_250_000_000
    assert row["first_read_ns"] is None


def test_what_was_not_measured_is_null() -> None:
    row = first(
        rows_of_logs([one_file(POSIX_FILE_ALIGNMENT=-1, POSIX_READS=3, POSIX_BYTES_READ=30, POSIX_STATS=-1)])[1]
    )
    assert row["file_not_aligned_count"] is None
    assert row["file_alignment_bytes"] is None
    assert row["stat_count"] is None
    assert row["collective_read_count"] is None  # no POSIX counter
    assert row["slowest_rank_seconds"] is None  # one rank's own record
    assert row["size_at_open_bytes"] is None
    assert (row["read_extent_bytes"], row["write_extent_bytes"]) == (1, None)


@pytest.mark.parametrize(
    ("path", "mount"),
    [
        ("/scratch/a/data", "/scratch"),
        ("/scratch/fast/x", "/scratch/fast"),
        ("/scratch/faster/x", "/scratch"),
        ("/scratchy", "/"),
        ("<STDOUT>", None),
    ],
)
def test_longest_mount_wins(path: str, mount: str | None) -> None:
    row = first(rows_of_logs([one_file(path)])[1])
    assert row["mount"] == mount
    assert row["standard_stream"] == (path == "<STDOUT>")


def test_path_policies() -> None:
    log = one_file("/scratch/secret")
    kept, hashed, dropped = (rows_of_logs([log], policy) for policy in ("keep", "hash", "drop"))
    assert first(kept[1])["path"] == "/scratch/secret"
    assert len(first(hashed[1])["path"]) == 16
    assert first(dropped[1])["path"] is None
    for applications, files in (hashed, dropped):
        text = json.dumps(applications.records() + files.records())
        assert "secret" not in text
        assert "ann" not in text
        assert first(files)["mount"] == "/scratch"
    assert first(dropped[0])["exe"] == "app"
    assert first(hashed[0])["exe"].startswith("app #")


def with_modules(log: DarshanLog, *modules: Module) -> DarshanLog:
    return dataclasses.replace(log, modules={**log.modules, **{module.name: module for module in modules}})


def test_stripes_of_a_file() -> None:
    lustre = new_records("LUSTRE", 1)
    lustre["id"], lustre["LUSTRE_STRIPE_SIZE"], lustre["LUSTRE_STRIPE_WIDTH"] = 2, 1 << 20, 2
    log = with_modules(
        made({"POSIX": [{"id": 1, "rank": 0}, {"id": 2, "rank": 0}]}, {1: "/a", 2: "/b"}),
        Module("LUSTRE", 1, False, lustre, {"ost_ids": Ragged(np.array([0, 2]), np.array([7, 9]))}),
    )
    rows = rows_of_logs([one_file(), log])[1].records()
    assert [(row["stripe_count"], row["stripe_bytes"], row["osts"]) for row in rows] == [
        (None, None, None), (None, None, None), (2, 1 << 20, "7,9"),
    ]  # fmt: skip


def test_darshan_2_has_the_size_at_open(samples: Path) -> None:
    logs = [read_log(path, modules=MODULES) for path in sorted((samples / "darshan/v2").glob("*.gz"))]
    _, files = rows_of_logs(logs)
    assert "STDIO" not in files.text("module").tolist()
    posix = files.text("module").equals("POSIX")
    sizes = files.array("size_at_open_bytes")
    assert not np.ma.getmaskarray(sizes[posix]).all()
    assert np.ma.getmaskarray(sizes[~posix]).all()


@pytest.fixture(params=["pandas", "polars"])
def convert(request):
    pytest.importorskip(request.param)
    return lambda module: getattr(module, f"to_{request.param}")()


def test_fixed_records(log_parts, fixed_record, convert):
    data = log_parts(modules=[("POSIX", 4, [fixed_record("<", 2**64 - 1, -1, 69, 17)] * 2)]).build()
    frame = convert(read_log(data).modules["POSIX"])
    assert list(frame.columns)[:4] == ["id", "rank", "POSIX_OPENS", "POSIX_FILENOS"]
    assert frame.shape == (2, 88)
    assert list(frame["id"]) == [2**64 - 1] * 2
    assert list(frame["POSIX_F_OPEN_START_TIMESTAMP"]) == [0.5, 0.5]


def test_traces(log_parts, convert):
    raw = struct.pack("<Qqq", 11, 1, -1) + b"nid1".ljust(64, b"\0") + struct.pack("<2q", 1, 1)
    raw += struct.pack("<qqddqqdd", 0, 10, 0.5, 1.0, 10, 20, 1.5, 2.0)
    frame = convert(read_log(log_parts(modules=[("DXT_POSIX", 1, [raw])]).build()).modules["DXT_POSIX"])
    assert list(frame.columns) == [
        "id",
        "rank",
        "hostname",
        "write",
        "offset",
        "length",
        "start_seconds",
        "end_seconds",
    ]
    assert list(frame["hostname"]) == ["nid1", "nid1"]
    assert list(frame["write"]) == [True, False]
    assert list(frame["length"]) == [10, 20]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_without_the_package(log_parts, fixed_record, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    module = read_log(log_parts(modules=[("POSIX", 4, [fixed_record("<", 1, 0, 69, 17)])]).build()).modules["POSIX"]
    with pytest.raises(UsageError, match=f"{package} is not installed"):
        getattr(module, f"to_{package}")()


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
