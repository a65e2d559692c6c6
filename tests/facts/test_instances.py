"""Jobs of instances: amounts add up, ratios follow from the sums, and who belongs together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.frames import Frame
from ioweather.core.tables import APPLICATIONS, FILES, JOB_IO
from ioweather.facts.accounting import job_numbers, match_jobs, merge_instances
from ioweather.facts.job_metrics import job_io

NS = 1_000_000_000
T = 1_700_000_000 * NS
DAY = 86_400


def applications(rows: list[dict[str, Any]]) -> Frame:
    base = {"job_id": 1, "uid": 7, "exe": "app", "nprocs": 4, "start": 0, "end": 10}
    full = [base | row for row in rows]
    return APPLICATIONS.frame(
        {name: [row[name] for row in full] for name in ("job_id", "uid", "exe", "nprocs")},
        log_digest=[f"log{i}" for i in range(len(full))],
        start_ns=[T + row["start"] * NS for row in full],
        end_ns=[T + row["end"] * NS for row in full],
        log_version=["3.41"] * len(full), partial_modules=[""] * len(full), modules=["POSIX"] * len(full),
    )  # fmt: skip


def files(rows: list[dict[str, Any]]) -> Frame:
    base: dict[str, Any] = {spec.name: None for spec in FILES.columns} | {
        "start_ns": T, "record_id": 1, "rank": 0, "module": "POSIX", "standard_stream": False, "open_count": 1,
        "read_count": 1, "write_count": 0, "read_bytes": 100, "write_bytes": 0, "meta_seconds": 1.0,
        "read_seconds": 1.0, "write_seconds": 0.0,
    }  # fmt: skip
    full = [base | row for row in rows]
    return FILES.frame({spec.name: [row[spec.name] for row in full] for spec in FILES.columns}, rows=len(full))


def merged(apps: Frame, records: Frame, matches: Frame | None = None) -> list[dict[str, Any]]:
    return merge_instances(job_io(apps, records), apps, matches or match_jobs(apps, None)).records()


def test_instances_of_one_job_add_up() -> None:
    apps = applications([{"start": 0, "end": 10, "nprocs": 2}, {"start": 20, "end": 50, "exe": "big"}])
    rows = merged(
        apps,
        files(
            [
                {"log_digest": "log0", "access1_bytes": 64, "access1_count": 5, "mount": "/a"},
                {"log_digest": "log1", "read_bytes": 300, "read_seconds": 5.0, "access1_bytes": 8, "access1_count": 9,
                 "mount": "/b", "library": "HDF5"},
            ]
        ),
    )  # fmt: skip
    assert len(rows) == 1
    row = rows[0]
    assert (row["instance_count"], row["nprocs"], row["file_count"], row["read_bytes"]) == (2, 4, 2, 400)
    assert row["io_seconds"] == pytest.approx(8.0)
    assert row["bytes_per_s"] == pytest.approx(50.0)
    assert row["metadata_ratio"] == pytest.approx(2 / 8)
    assert row["run_seconds"] == pytest.approx(40.0)
    assert (row["log_digest"], row["exe"], row["main_mount"]) == ("log0", "big", "/b")
    assert row["interfaces"] == "HDF5,POSIX"
    assert (row["common_access_bytes"], row["common_access_count"]) == (8, 9)
    assert row["first_open_ns"] is None


def test_a_long_pause_is_another_job() -> None:
    apps = applications(
        [{"start": 0, "end": 10}, {"start": 10 + DAY, "end": 11 + DAY}, {"start": 12 + 2 * DAY, "end": 13 + 2 * DAY}]
    )
    assert job_numbers(apps, match_jobs(apps, None)).tolist() == [0, 0, 1]


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "job_id": st.integers(1, 2),
                "uid": st.integers(7, 8),
                "start": st.integers(0, 3).map(lambda d: d * 25 * 3600),
            }
        ),
        max_size=6,
    )
)
def test_sums_are_kept_and_single_instances_unchanged(rows: list[dict[str, Any]]) -> None:
    apps = applications([row | {"end": row["start"] + 10} for row in rows])
    single = job_io(apps, files([{"log_digest": f"log{i}", "read_bytes": 1 << i} for i in range(len(rows))]))
    jobs = merge_instances(single, apps, match_jobs(apps, None))
    assert jobs.array("read_bytes").sum() == (1 << len(rows)) - 1
    assert jobs.array("instance_count").sum() == len(rows)
    assert np.all(np.diff(jobs.array("start_ns")) >= 0)
    before = {row["log_digest"]: row for row in single.records()}
    for row in jobs.records():
        if row["instance_count"] == 1:
            assert {name: row[name] for name in JOB_IO.names} == before[row["log_digest"]]
