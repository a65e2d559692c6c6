"""[visibility] at the door of the server: every endpoint has a class, and nobody sees what is another's."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ioweather.core.errors import UsageError
from ioweather.core.facility import Visibility, parse_visibility
from ioweather.core.papers import exhibits
from ioweather.lake.lake import OF_THE_FACILITY
from ioweather.topics.analyse import study_of
from ioweather.ui.web.app import _PLAIN_PATHS, LOOPBACK, bind, bind_socket, check_reach, create_app, running
from ioweather.ui.web.shell import NAVIGATION
from ioweather.ui.web.visible import check_declared, classes_of

API = "/api/v1"
OWN = parse_visibility({"mode": "own", "operators": ["anna"]})


@pytest.fixture(scope="module")
def app(lake, tmp_path_factory):
    return create_app(
        lake.root, [tmp_path_factory.mktemp("spool")], hosts=(*LOOPBACK, "testserver"), visibility=OWN,
        metrics=lambda: b"up 1\n",
    )  # fmt: skip


@pytest.fixture(scope="module")
def people(lake):
    """Two users with jobs: name, uid, a job's id, and a word of the other's that must not be seen."""
    with lake.snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT j.user, any_value(a.uid), max(a.job_id), any_value(j.account), count(*) AS n FROM applications a "
            "JOIN jobs j ON j.raw_job_id = a.job_id WHERE j.step = '' GROUP BY 1 ORDER BY n DESC LIMIT 2"
        ).fetchall()
    return [dict(zip(("user", "uid", "job_id", "account"), row, strict=False)) for row in rows]


@pytest.fixture
def as_(app):
    def client(user: str | None, peer: str = "127.0.0.1") -> TestClient:
        headers = {} if user is None else {"X-Remote-User": user}
        return TestClient(app, headers=headers, client=(peer, 40000), raise_server_exceptions=False)

    return client


def get_routes(app: FastAPI) -> list[APIRoute]:
    return [route for route in app.routes if isinstance(route, APIRoute)]


def address(route: APIRoute, person: dict[str, object]) -> str:
    known = {"exhibit_id": "car11.table4", "job_id": person["job_id"], "name": person["account"], "host": "n1",
             "event_id": "e", "segment": "seg-n1-1-1.ndjson"}  # fmt: skip
    return re.sub(r"\{(\w+)\}", lambda found: str(known[found[1]]), route.path)


def test_every_endpoint_declares_its_class(app):
    found = {route.path: classes_of(route) for route in get_routes(app)}
    assert len(found) > 25
    for path, classes in found.items():
        assert len(classes) == 1 or path in _PLAIN_PATHS, path
    assert found[f"{API}/sql"] == found["/fragments/sql"] == found["/sql"] == ["operators"]
    assert found[f"{API}/jobs/{{job_id}}"] == found["/fragments/jobs/{job_id}"] == ["own"]
    assert found[f"{API}/exhibits/{{exhibit_id}}"] == ["own"]
    assert found[f"{API}/now"] == found[f"{API}/ask/now"] == ["public"]
    assert found[f"{API}/ask/why"] == found[f"{API}/ask/project"] == ["own"]
    assert found[f"{API}/spool/{{host}}/{{segment}}"] == ["token"]


def test_an_endpoint_without_a_class_is_refused():
    app = FastAPI()
    app.add_api_route("/new", lambda: {"new": True})
    with pytest.raises(RuntimeError, match="/new"):
        check_declared(
            app, frozenset(app.openapi_url and {"/openapi.json", "/docs", "/docs/oauth2-redirect", "/redoc"})
        )


def test_who_is_not_known_sees_what_is_public_and_no_more(app, as_, people):
    for route in get_routes(app):
        (method,) = route.methods - {"HEAD"}
        response = as_(None).request(method, address(route, people[0]))
        classes = classes_of(route)
        if classes == ["own"] or classes == ["operators"]:
            assert response.status_code == 403, route.path
        elif classes == ["token"]:
            assert response.status_code == 401
        else:
            assert response.status_code in (200, 400, 404), route.path
        for person in people:
            assert str(person["user"]) not in response.text


def test_people_see_their_own_jobs(as_, people):
    mine, other = people
    found = as_(mine["user"]).get(f"{API}/jobs?limit=200").json()["jobs"]
    assert {job["user"] for job in found} == {mine["user"]}
    assert as_(mine["user"]).get(f"{API}/jobs?q={other['user']}").json()["jobs"] == []
    assert as_(mine["user"]).get(f"{API}/jobs/{mine['job_id']}").status_code == 200
    for question in ("why", "job"):
        refused = as_(mine["user"]).get(f"{API}/ask/{question}?job={other['job_id']}")
        assert refused.status_code == 404
        assert str(other["user"]) not in refused.text
    for name, says in ((mine["user"], True), ("anna", False)):
        answer = as_(name).get(f"{API}/ask/project?name={mine['account']}").json()
        assert any("your own jobs" in caveat for caveat in answer["caveats"]) == says
    assert as_(mine["user"]).get(f"{API}/ask/project?name={other['account']}").status_code == 404
    response = as_(mine["user"]).get(f"{API}/jobs/{other['job_id']}")
    assert response.status_code == 404
    assert str(other["user"]) not in response.text
    for part in ("", "/evidence"):
        assert "problem" in as_(mine["user"]).get(f"/fragments/jobs/{other['job_id']}{part}").text
    csv = as_(mine["user"]).get(f"{API}/jobs?format=csv&limit=200").text
    assert mine["user"] in csv
    assert str(other["user"]) not in csv


def test_operators_see_all(as_, people):
    operator = as_("anna")
    found = {job["user"] for job in operator.get(f"{API}/jobs?limit=200").json()["jobs"]}
    assert {person["user"] for person in people} <= found
    for person in people:
        assert operator.get(f"{API}/jobs/{person['job_id']}").status_code == 200
    assert operator.post(f"{API}/sql", json={"query": "SELECT 1 AS one"}).json()["rows"] == [[1]]
    assert operator.get("/sql").status_code == 200
    assert "data-sql" in operator.get("/data").text


def test_sql_is_the_operators(as_, people):
    person = as_(people[0]["user"])
    for response in (
        person.post(f"{API}/sql", json={"query": "SELECT 1"}),
        person.post("/fragments/sql", json={"query": "SELECT 1"}),
        person.get("/sql"),
    ):
        assert response.status_code == 403
    assert "data-sql" not in person.get("/data").text


@pytest.mark.parametrize("path", [path for path, _ in NAVIGATION if path != "/sql"])
def test_pages_come_for_a_known_person(as_, people, path):
    assert as_(people[0]["user"]).get(path).status_code == 200


def of_people(*, all_of_a_study: bool) -> list[str]:
    """Exhibits that read rows of people; of each study one or all."""
    found: dict[str, list[str]] = {}
    for entry in exhibits():
        study = study_of(entry.id)
        if study is not None and study.tables - OF_THE_FACILITY:
            found.setdefault(study.name, []).append(entry.id)
    return [name for names in found.values() for name in (names if all_of_a_study else names[:1])]


@pytest.mark.parametrize("all_of_a_study", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_exhibits_of_people_are_made_of_ones_own_rows(as_, people, lake, all_of_a_study):
    """And none fails for a stranger."""
    user, other = people[0]["user"], people[1]["user"]
    with lake.snapshot() as snapshot:
        theirs, mine = (
            {account for (account,) in snapshot.query(
                'SELECT DISTINCT account FROM jobs WHERE "user" = ?', [name]).fetchall()}
            for name in (other, user)
        )  # fmt: skip
    chosen = of_people(all_of_a_study=all_of_a_study)
    assert len(chosen) > 8
    for exhibit_id in chosen:
        for name in (user, "stranger"):
            response = as_(name).get(f"{API}/exhibits/{exhibit_id}")
            assert response.status_code in (200, 404), (exhibit_id, name, response.text)
            for word in (other, *(theirs - mine)):
                assert f'"{word}"' not in response.text, (exhibit_id, word)
            if response.status_code == 200:
                assert response.json()["provenance"]["params"]["rows_of"] == name


def test_exhibits_of_the_facility_are_the_same_for_all(as_):
    whole, seen = (as_(name).get(f"{API}/exhibits/car11.fig7").json() for name in ("anna", "stranger"))
    assert seen["tables"] == whole["tables"]


def test_answers_that_are_kept_are_not_given_to_others(as_, people):
    path = f"{API}/exhibits/car11.table4?from=2026-01-01"
    whole = as_("anna").get(path)
    again = as_(people[0]["user"]).get(path)
    assert whole.status_code == 200
    assert again.content != whole.content
    assert as_(people[1]["user"]).get(path).content != again.content
    assert as_("anna").get(path).content == whole.content


def test_an_uploaded_log_is_compared_with_ones_own_runs_alone(as_, people, tmp_path):
    from planted_logs import write_climate

    data = write_climate(tmp_path / "run.darshan").read_bytes()
    headers = {"content-type": "application/octet-stream"}
    response = as_("stranger").post(f"{API}/jobs", content=data, headers=headers)
    assert response.status_code == 200
    for person in people:
        assert str(person["user"]) not in response.text
    assert as_(None).post(f"{API}/jobs", content=data, headers=headers).status_code == 403


def test_the_name_counts_only_from_the_proxy(as_, app, people):
    assert as_("anna", peer="10.0.0.9").get(f"{API}/jobs").status_code == 403
    assert as_("anna", peer="10.0.0.9").get(f"{API}/now").status_code == 403
    assert as_(None, peer="10.0.0.9").get(f"{API}/healthz").status_code == 200
    twice = as_(None).get(f"{API}/jobs", headers=[("X-Remote-User", "anna"), ("X-Remote-User", people[0]["user"])])
    assert twice.status_code == 403
    for name in ("", "  ", "x" * 300):
        assert as_(name).get(f"{API}/jobs").status_code == 403


def test_the_peer_is_the_proxy_and_not_whom_it_speaks_of(lake):
    """A real server: X-Forwarded-For must neither make the proxy unknown nor anybody else known."""
    with running(create_app(lake.root, visibility=OWN), bind("127.0.0.1", 0)) as where:

        def status(**headers: str) -> int:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            request = urllib.request.Request(f"{where}api/v1/jobs", headers=named)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return int(response.status)
            except urllib.error.HTTPError as error:
                return error.code

        assert status(X_Remote_User="anna", X_Forwarded_For="203.0.113.7") == 200
        assert status(X_Forwarded_For="127.0.0.1") == 403


def test_behind_a_socket_the_proxy_is_whoever_its_rights_let_in(lake, tmp_path):
    visibility = parse_visibility({"trusted_proxies": ["socket"], "operators": ["anna"]})
    path = tmp_path / "socket"
    left = bind_socket(path)
    left.close()  # as after a kill: the file is there, and nobody answers
    bound = bind_socket(path)
    assert path.stat().st_mode & 0o777 == 0o660
    with running(create_app(lake.root, visibility=visibility), bound) as where:
        assert where == str(path)
        with pytest.raises(UsageError, match="already listening"):
            bind_socket(path)
        for user, status in ((b"anna", b"200"), (b"", b"403")):
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(60)
                client.connect(where)
                header = b"x-remote-user: " + user + b"\r\n" if user else b""
                client.sendall(
                    b"GET /api/v1/jobs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + header + b"\r\n"
                )
                assert client.recv(100).split()[1] == status
    with running(create_app(lake.root, visibility=visibility), bind("127.0.0.1", 0)) as where:
        request = urllib.request.Request(f"{where}api/v1/jobs", headers={"X-Remote-User": "anna"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=60)


def test_the_section_of_the_main_lake_counts(tmp_path):
    (tmp_path / "facility.toml").write_text('[visibility]\noperators = ["anna"]\n')
    app = create_app(tmp_path, hosts=["testserver"])
    assert app.state.visibility.mode == "own"
    (tmp_path / "facility.toml").unlink()
    assert TestClient(app, client=("127.0.0.1", 1)).get(f"{API}/jobs").status_code == 403


def test_only_who_said_who_sees_what_listens_to_other_machines():
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.53"):
        check_reach(host, Visibility())
    for host in ("0.0.0.0", "::", "10.0.0.1", "weather.example.org"):
        with pytest.raises(UsageError, match="visibility"):
            check_reach(host, Visibility())
        check_reach(host, OWN)
        check_reach(host, parse_visibility({"mode": "open"}))
