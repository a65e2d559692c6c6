"""Quotas of users: on the job, on the page of the user and in the API; a user sees the own ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from ioweather.core.facility import Owner
from ioweather.core.tables import TABLES
from ioweather.core.units import NS
from ioweather.facts.accounting import latest_quotas
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.web.app import create_app

BEGIN = 1_700_000_000 * NS
GIB = 1 << 30
VISIBILITY = '[visibility]\nmode = "own"\noperators = ["root"]\n'


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Job 1 of ada and job 2 of bob; ada has used 95% of her quota, an hour before 10%."""
    made = open_lake(tmp_path / "lake", create=True)
    (made.root / "facility.toml").write_text('[filesystem.scratch]\nmounts = ["/scratch"]\n')
    jobs = TABLES["jobs"].frame(
        cluster=["one"] * 2, raw_job_id=[1, 2], step=[""] * 2, restart=[0] * 2, job_id=["1", "2"], uid=[1000, 2000],
        user=["ada", "bob"], name=["a", "b"], state=["COMPLETED"] * 2, submit_ns=[BEGIN] * 2, start_ns=[BEGIN] * 2,
        end_ns=[BEGIN + 60 * NS] * 2,
    )  # fmt: skip
    made.append("jobs", jobs, source="sacct")
    rows = [
        (BEGIN - 3600 * NS, "user", "ada", 1000, 10, 100),
        (BEGIN, "user", "ada", 1000, 95, 100),
        (BEGIN, "user", "bob", 2000, 20, None),
        (BEGIN, "group", "hpc", None, 50, 100),
    ]
    start, kind, owner, uid, used, most = (list(column) for column in zip(*rows, strict=True))
    quotas = TABLES["quotas"].frame(
        start_ns=start, system=["mount:/scratch"] * 4, owner_kind=kind, owner=owner, fileset=[""] * 4, uid=uid,
        used_bytes=[each * GIB for each in used], soft_bytes=[None] * 4,
        hard_bytes=[None if each is None else each * GIB for each in most], used_files=[7] * 4, soft_files=[None] * 4,
        hard_files=[None] * 4,
    )  # fmt: skip
    made.append("quotas", quotas, source="selected")
    return made


def test_the_newest_row_of_each_owner_counts_and_no_limit_is_not_full(lake: Lake) -> None:
    with lake.snapshot() as snapshot:
        found = [(each.filesystem, each.owner, each.full_ratio) for each in latest_quotas(snapshot)]
    assert found == [("scratch", "ada", 0.95), ("scratch", "hpc", 0.5), ("scratch", "bob", None)]


def test_a_user_sees_the_own_quotas_and_those_of_groups(lake: Lake) -> None:
    for owner, expected in (
        (Owner("ada"), {"ada", "hpc"}),
        (Owner("x", (2000,)), {"bob", "hpc"}),
        (Owner("x"), {"hpc"}),
    ):
        with lake.seen_by(owner).snapshot() as snapshot:
            assert {each.owner for each in latest_quotas(snapshot)} == expected


def test_the_api_and_the_page_of_a_user_show_quotas_to_those_who_may_see_them(lake: Lake) -> None:
    text = (lake.root / "facility.toml").read_text()
    (lake.root / "facility.toml").write_text(text + VISIBILITY)
    with TestClient(create_app(lake.root), base_url="http://127.0.0.1", client=("127.0.0.1", 5)) as client:

        def ask(path: str, user: str) -> str:
            return client.get(path, headers={"X-Remote-User": user}).text

        assert '"owner":"ada"' in ask("/api/v1/quotas", "ada").replace(" ", "")
        assert '"owner":"bob"' not in ask("/api/v1/quotas", "ada").replace(" ", "")
        assert '"owner":"bob"' in ask("/api/v1/quotas", "root").replace(" ", "")
        assert "95%" in ask("/fragments/users/ada/quotas", "ada")
        assert "you cannot see it" in ask("/fragments/users/ada/quotas", "bob")
        assert "/fragments/users/ada/quotas" in ask("/users/ada", "ada")
