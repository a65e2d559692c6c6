"""What each may read of who, what-if, health, job and project over the API: nobody known, a person, an operator."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ioweather.core.facility import parse_visibility
from ioweather.core.units import MINUTE_NS, format_time_ns
from ioweather.diagnosis.health_incidents import Incident
from ioweather.diagnosis.incident_events import to_events
from ioweather.ui.web.app import LOOPBACK, create_app
from planted_culprit import BEGAN, HEAVY, LIGHT, SLOWED, make_culprit_lake

API = "/api/v1"
PEOPLE = {"anna": SLOWED, "ben": HEAVY, "carl": LIGHT}
OWN = parse_visibility({"mode": "own", "operators": ["olga"]})
Get = Callable[..., Any]


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("seen")
    lake = make_culprit_lake(folder / "lake")
    slow = Incident(
        "OST0001", "slow", BEGAN, BEGAN + 30 * MINUTE_NS, 0.97, 3.0, ("service",), runs=2, lost_seconds=600.0
    )
    lake.append("events", to_events([slow], "scratch"), source="health")
    return create_app(lake.root, [folder / "spool"], hosts=(*LOOPBACK, "testserver"), visibility=OWN)


@pytest.fixture
def get(app: Any) -> Get:
    def asked(user: str | None, question: str, **params: Any) -> Any:
        headers = {} if user is None else {"X-Remote-User": user}
        client = TestClient(app, headers=headers, client=("127.0.0.1", 40000), raise_server_exceptions=False)
        return client.get(f"{API}/{question}", params=params)

    return asked


def names_nobody_but(text: str, user: str | None) -> None:
    for name, job in PEOPLE.items():
        if name != user:
            assert f'"{name}"' not in text, name
            assert f" {name}" not in text, name
            assert f"({name}" not in text, name
            assert re.search(rf"(?<![\w.]){job}(?![\w.])", text) is None, job  # digits of a time are no id


def test_nobody_known_reads_health_and_nothing_of_jobs(get: Get) -> None:
    for question, params in (
        ("who", {"at": format_time_ns(BEGAN)}), ("what_if", {"without": HEAVY}), ("job", {"job": HEAVY}),
        ("project", {"name": "p1"}), ("why", {"job": SLOWED}),
    ):  # fmt: skip
        response = get(None, f"ask/{question}", **params)
        assert response.status_code == 403, question
        names_nobody_but(response.text, None)
    response = get(None, "ask/health")
    assert response.status_code == 200
    (sick,) = response.json()["result"]["unhealthy"]
    assert (sick["component"], sick["probability"], sick["lost_seconds"]) == ("OST0001", 0.97, 600.0)
    names_nobody_but(response.text, None)


def test_health_is_the_same_for_all(get: Get) -> None:
    seen = [get(user, "ask/health").json()["result"] for user in (None, "anna", "stranger", "olga")]
    assert all(each == seen[0] for each in seen)


def test_whose_run_was_slowed_reads_that_it_was_another_job(get: Get) -> None:
    response = get("anna", "ask/who", job=SLOWED)
    (culprit,) = response.json()["result"]["culprits"]
    assert (culprit["job_id"], culprit["user"], culprit["project"]) == (None, None, None)
    assert culprit["seconds"] == pytest.approx(600.0, rel=0.3)
    names_nobody_but(response.text, "anna")
    for user in ("ben", "stranger"):
        refused = get(user, "ask/who", job=SLOWED)
        assert refused.status_code == 404
        names_nobody_but(refused.text.replace(str(SLOWED), ""), user)


@pytest.mark.parametrize("user", ["anna", "ben", "carl", "stranger"])
def test_a_person_is_named_to_nobody_else(get: Get, user: str) -> None:
    response = get(user, "ask/who", at=format_time_ns(BEGAN + 5 * MINUTE_NS))
    assert response.status_code == 200
    result = response.json()["result"]
    assert [c["job_id"] for c in result["culprits"]] == [HEAVY if user == "ben" else None]
    assert {t["user"] for t in result["talkers"]} <= {user, None}
    names_nobody_but(response.text, user)


def test_a_job_without_a_log_is_its_owners_and_the_operators(get: Get) -> None:
    for user, status in (("ben", 200), ("olga", 200), ("anna", 404), ("stranger", 404)):
        assert get(user, "ask/job", job=HEAVY).status_code == status, user
        assert get(user, f"jobs/{HEAVY}").status_code == status, user
    body = get("ben", f"jobs/{HEAVY}").json()
    assert body["why"]["result"]["evidence"] == "accounting"
    names_nobody_but(json.dumps(body["why"]), "ben")
    result = body["job"]["result"]
    assert (result["user"], result["project"], result["logs"]) == ("ben", "p1", 0)
    assert result["read_bytes"] == 30 * 40_000_000_000
    assert "by server counters" in body["job"]["headline"]


def test_what_if_is_asked_of_ones_own_job(get: Get) -> None:
    own = get("ben", "ask/what_if", without=HEAVY)
    assert [gain["user"] for gain in own.json()["result"]["gains"]] == [None]
    names_nobody_but(own.text, "ben")
    for user in ("anna", "carl", "stranger"):
        assert get(user, "ask/what_if", without=HEAVY).status_code == 404
    assert [gain["user"] for gain in get("olga", "ask/what_if", without=HEAVY).json()["result"]["gains"]] == ["anna"]


def test_a_project_is_what_the_one_who_asks_may_see_of_it(get: Get) -> None:
    counted = {user: get(user, "ask/project", name="p1") for user in ("olga", "anna", "stranger")}
    names_nobody_but(counted["anna"].text, "anna")
    assert counted["stranger"].status_code == 404


def test_operators_read_the_names(get: Get) -> None:
    result = get("olga", "ask/who", job=SLOWED).json()["result"]
    assert [(c["job_id"], c["user"]) for c in result["culprits"]] == [(HEAVY, "ben")]
