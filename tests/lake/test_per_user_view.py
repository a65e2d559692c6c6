"""A lake as one person sees it: own rows, the facility's rows, and nothing of others, by whatever way one asks."""

from __future__ import annotations

import pytest
from small_facility import make_small_lake

from ioweather.core.errors import UsageError
from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.core.units import utc_day
from ioweather.lake.lake import OF_PEOPLE, OF_THE_FACILITY, open_lake
from ioweather.lake.sandbox import run_user_sql


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("owned"))


@pytest.fixture(scope="module")
def people(lake):
    with lake.snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT j.user, any_value(a.uid), count(*) FROM applications a JOIN jobs j ON j.raw_job_id = a.job_id "
            "WHERE j.step = '' GROUP BY 1 ORDER BY 3 DESC"
        ).fetchall()
    assert len(rows) > 1
    return rows


def test_every_table_is_of_the_facility_or_of_people():
    assert {*OF_THE_FACILITY, *OF_PEOPLE} == set(TABLES)
    assert not OF_THE_FACILITY & set(OF_PEOPLE)


def test_own_rows_and_the_facilitys(lake, people):
    user, uid, count = people[0]
    with lake.snapshot() as everything, lake.seen_by(Owner(user)).snapshot() as mine:
        all_rows, own_rows = everything.tables(), mine.tables()
        assert {own for (own,) in mine.query("SELECT DISTINCT uid FROM applications").fetchall()} == {uid}
        assert {own for (own,) in mine.query('SELECT DISTINCT "user" FROM jobs').fetchall()} == {user}
        digests = "SELECT DISTINCT log_digest FROM"
        logs = set(mine.query(f"{digests} applications").fetchall())
        for table in ("files", "job_io"):
            assert set(mine.query(f"{digests} {table}").fetchall()) <= logs
        owners = set(mine.query("SELECT DISTINCT owner_kind, owner FROM scan_bins").fetchall())
        assert owners <= {("all", ""), ("user", str(uid))}
        assert set(mine.query("SELECT DISTINCT errors, largest FROM scans").fetchall()) == {(None, None)}
    for table in OF_THE_FACILITY:
        assert own_rows[table] == all_rows[table]
    assert own_rows["applications"] == count < all_rows["applications"]
    assert own_rows["files"] < all_rows["files"]


def test_rows_of_single_days_are_the_persons_too(lake, people):
    user, uid, count = people[0]
    with lake.seen_by(Owner(user)).snapshot() as mine:
        starts = [start for (start,) in mine.query("SELECT start_ns FROM applications").fetchall()]
        frame = mine.frame("applications", ("uid", "start_ns"), days={utc_day(start) for start in starts})
    assert frame.rows == count
    assert set(frame.array("uid").tolist()) == {uid}


@pytest.mark.parametrize("other_cluster", ["big", "small"])
def test_what_servers_counted_of_jobs_is_the_persons_by_uid_or_by_job(tmp_path, other_cluster):
    """Rows without a cluster are of the only one that accounting knows, if it does not know several."""
    lake = open_lake(tmp_path / "lake", create=True)
    jobs = TABLES["jobs"].frame(
        cluster=["big", "big", other_cluster], raw_job_id=[7, 8, 9], step=[""] * 3, job_id=["7", "8", "9"],
        uid=[1000, 2000, 2000], user=["ann", "bob", "bob"], state=["RUNNING"] * 3, submit_ns=[10**18] * 3,
    )  # fmt: skip
    lake.append("jobs", jobs, source="sacct")
    table = TABLES["job_operations"]
    rows = [("7", 7, "big", None), ("8", 8, "big", None), ("7:2000:n", 7, "big", 2000), ("cp.1000", None, None, 1000),
            ("7", 7, None, None), ("", None, None, None)]  # fmt: skip
    frame = table.frame(
        start_ns=[10**18 + n for n in range(len(rows))], interval_ns=[1] * len(rows), system="fs", component_kind="ost",
        component="o", job_key=[row[0] for row in rows], job_id=[row[1] for row in rows],
        cluster=[row[2] for row in rows], uid=[row[3] for row in rows], operation="read", count=[1] * len(rows),
        quality=[0] * len(rows),
    )  # fmt: skip
    lake.append("job_operations", frame, source="lustre")
    with lake.seen_by(Owner("ann")).snapshot() as mine:
        seen = mine.query("SELECT job_key, cluster FROM job_operations ORDER BY 1").fetchall()
    alone = [("7", None)] if other_cluster == "big" else []
    assert seen == [("7", "big"), *alone, ("cp.1000", None)]


@pytest.mark.parametrize("user", ["", "nobody", "' OR 1=1 --", '" OR 1=1 --'])
def test_a_stranger_sees_nobodys_rows(lake, user):
    with lake.seen_by(Owner(user)).snapshot() as snapshot:
        found = snapshot.tables()
        filled = snapshot.filled()
    for table in ("applications", "files", "job_io", "jobs", "ingests", "scan_entries"):
        assert found[table] == 0
        assert table not in filled
    assert found["series"] > 0
    assert "series" in filled


def test_a_number_from_the_facility_file_serves_without_accounting(lake, people):
    _, uid, count = people[1]
    with lake.seen_by(Owner("somebody", (uid,))).snapshot() as snapshot:
        assert snapshot.tables()["applications"] == count


def test_sql_is_not_for_a_part_of_the_lake(lake):
    with lake.seen_by(Owner("x")).snapshot() as snapshot, pytest.raises(UsageError, match="whole lake"):
        run_user_sql(snapshot, "SELECT 1")
