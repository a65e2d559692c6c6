"""Rows of `applications` and `files`: every counter where it belongs, null where it was not measured."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioweather.core.frames import Frame
from ioweather.readers.darshan.darshan_reader import (
    MODULES,
    read_log,
    rows_of_logs,
)
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged
from ioweather.readers.darshan.writer import log_bytes, new_records

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
