"""Reading only the days that rows lie in, and only some columns, gives the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from planted_jobs import NS, T, planted

from ioweather.core.clock import utc_day
from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS
from ioweather.lake import database
from ioweather.lake.lake import open_lake


def test_only_the_named_days_are_read(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    frames = planted([{"start_ns": T + k * DAY_NS, "run_seconds": 10.0} for k in range(4)])
    lake.append("applications", frames["applications"], source="darshan")
    with lake.snapshot() as snapshot:
        everything = snapshot.frame("applications", ("log_digest", "start_ns"))
        some = snapshot.frame("applications", ("log_digest", "start_ns"), days={utc_day(T), utc_day(T + 2 * DAY_NS)})
        none = snapshot.frame("applications", ("log_digest",), days={utc_day(T - 40 * DAY_NS)})
        empty = snapshot.frame("applications", ("log_digest",), days=())
    assert everything.rows == 4
    assert sorted(int(t) // NS for t in some.array("start_ns")) == [T // NS, (T + 2 * DAY_NS) // NS]
    assert none.rows == 0
    assert empty.rows == 0


@pytest.mark.parametrize("few", [100_000, 2])
def test_some_columns_are_those_of_all(tmp_path, monkeypatch, few):
    """Also of revisable rows, which are chosen by columns that nobody asked for; and however many rows there are."""
    monkeypatch.setattr(database, "_FEW_ROWS", few)
    lake = open_lake(tmp_path / "lake", create=True)
    jobs = TABLES["jobs"].frame(
        cluster="c", raw_job_id=[1, 2, 3, 1], job_id=["1", "2", "3", "1"], step="", restart=0, uid=[7, 7, 8, 7],
        user=["a", "a", "b", "a"], state=["RUNNING", "COMPLETED", "COMPLETED", "COMPLETED"], submit_ns=T, start_ns=T,
        end_ns=[None, T + 2, T, T + 1],
    )  # fmt: skip
    for row in range(jobs.rows):
        lake.append("jobs", jobs.take(np.array([row])), source="slurm")
    for seen in (lake, lake.seen_by(Owner("a"))):
        with seen.snapshot() as snapshot:
            whole = snapshot.frame("jobs").records()
            names = ("state", "end_ns")
            some = snapshot.frame("jobs", names, {"uid <": 8}).records()
            count = snapshot.bare.execute(f"SELECT count(*) FROM ({snapshot.rows('jobs', columns=names)})").fetchall()
        assert len(whole) == count[0][0] == (3 if seen is lake else 2)
        expected = [{name: row[name] for name in names} for row in whole if row["uid"] < 8]
        assert sorted(map(str, some)) == sorted(map(str, expected))
        assert all(row["state"] == "COMPLETED" for row in some)


def test_a_column_that_files_lack_is_null_where_it_is_asked_for_alone(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    frames = planted([{"start_ns": T, "run_seconds": 10.0}])
    lake.append("applications", frames["applications"], source="darshan")
    with lake.snapshot() as snapshot:
        (uri,) = snapshot.pinned["applications"].uris
        con = snapshot.bare
        stored = f"read_parquet('{uri}', hive_partitioning=false)"
        con.execute(f"CREATE TEMP TABLE t AS SELECT * EXCLUDE (exe) FROM {stored}")
        con.execute(f"COPY t TO '{uri}' (FORMAT parquet)")
    with lake.snapshot() as snapshot:
        assert snapshot.frame("applications", ("exe",)).text("exe").tolist() == [None]
        assert snapshot.frame("applications", ("nprocs", "exe")).rows == 1
