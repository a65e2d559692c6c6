"""Verdicts are made of everybody's rows, whoever asks; of others' jobs no id, user, program or path is told."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from ioweather.core.facility import parse_visibility
from ioweather.core.units import format_time_ns
from ioweather.facts.runs import program_of
from ioweather.ui.web.app import LOOPBACK, create_app
from ioweather.ui.web.tokens import create_token

API = "/api/v1"
OWN = parse_visibility({"mode": "own", "operators": ["anna"]})
# Of each kind of output some: JSON, text, CSV and a page.
SOME = [
    f"{API}/ask/why?job={{job}}", f"{API}/ask/who?job={{job}}", f"{API}/ask/what_if?without={{job}}",
    f"{API}/jobs/{{job}}/text", f"{API}/ask/who?at={{at}}&window=6h&by=job",
    f"{API}/ask/who?at={{at}}&window=6h&by=program", f"{API}/jobs?format=csv&limit=200", "/fragments/who",
]  # fmt: skip
REST = [
    f"{API}/ask/job?job={{job}}&detail=true", f"{API}/ask/compare?runs={{job}},{{other}}", f"{API}/jobs/{{job}}",
    "/fragments/jobs/{job}", "/jobs/{job}", "/fragments/jobs/{job}/evidence",
    f"{API}/ask/who?at={{at}}&window=6h&by=user", f"{API}/ask/who?at={{at}}&window=6h&by=project", f"{API}/ask/runs",
    f"{API}/ask/triage", f"{API}/jobs?limit=200", f"{API}/lake", f"{API}/ask/project?name={{account}}",
    "/fragments/busiest", "/fragments/slowest", "/fragments/runs", "/fragments/projects",
    "/fragments/projects/{account}", "/search?q={user}",
    f"{API}/ask/relieve?target=scratch-OST0000", "/fragments/relief?target=scratch-OST0000",
    f"{API}/ask/who?job={{event}}",
]  # fmt: skip


@pytest.fixture(scope="module")
def rows(lake):
    with lake.snapshot() as snapshot:
        return snapshot.query(
            """SELECT j.user, j.account, a.uid, a.job_id, a.exe, a.log_digest, a.end_ns, coalesce(io.io_seconds, 0),
                   (SELECT list(DISTINCT f.path) FROM files f WHERE f.log_digest = a.log_digest)
               FROM applications a JOIN jobs j ON j.raw_job_id = a.job_id AND j.step = ''
               JOIN job_io io ON io.log_digest = a.log_digest ORDER BY io.io_seconds DESC"""
        ).fetchall()


@pytest.fixture(scope="module")
def person(lake, rows):
    """The one whose runs took longest, and has more than two of them."""
    counts = [row[0] for row in rows]
    user = next(name for name in counts if counts.count(name) > 2)
    mine = [row for row in rows if row[0] == user]
    with lake.snapshot() as snapshot:
        event = snapshot.scalar("SELECT max(event_id) FROM events WHERE end_ns IS NOT NULL")
    return {"user": user, "jobs": list(dict.fromkeys(row[3] for row in mine)), "account": mine[0][1], "event": event,
            "at": format_time_ns(mine[0][6]).replace(" UTC", "Z").replace(" ", "T")}  # fmt: skip


@pytest.fixture(scope="module")
def words_of_others(lake, rows, person):
    """Every name of somebody else that is not also the person's own."""
    with lake.snapshot() as snapshot:
        listed = snapshot.query('SELECT "user", account, raw_job_id, uid, name FROM jobs').fetchall()

    def words(is_mine):
        found = set()
        for user, account, uid, job_id, exe, digest, _, _, paths in rows:
            if (user == person["user"]) == is_mine:
                program = program_of(exe)
                found |= {user, account, str(uid), str(job_id), exe, program, digest, digest[:16], *(paths or ())}
        for user, account, job_id, uid, name in listed:
            if (user == person["user"]) == is_mine:
                found |= {user, account, str(job_id), str(uid), name}
        return {str(word) for word in found if word and word != "None"}

    theirs = words(False) - words(True) - {"climate"}  # also the name of a page
    assert len(theirs) > 50
    return frozenset(theirs)


def told(theirs, text):
    """Those of the words that stand in a text; a number within another one is no job's, nor that of a test's folder."""
    text = re.sub(r"/pytest-\d+/", "/", text)
    return [word for word in theirs if word in text and re.search(rf"(?<![\w.]){re.escape(word)}(?![\w]|\.\d)", text)]


@pytest.fixture(scope="module")
def app(lake, tmp_path_factory):
    return create_app(lake.root, [tmp_path_factory.mktemp("spool")], hosts=(*LOOPBACK, "testserver"), visibility=OWN)


@pytest.fixture(scope="module")
def clients(app, lake, person):
    """By the proxy's word, by a token, as operator, and as nobody."""
    token = create_token(lake.root, "laptop", "", user=person["user"])
    headers = {
        "person": {"X-Remote-User": person["user"]}, "token": {"Authorization": f"Bearer {token}"},
        "operator": {"X-Remote-User": "anna"}, "nobody": {},
    }  # fmt: skip
    return {
        who: TestClient(app, headers=named, client=("127.0.0.1", 40000), raise_server_exceptions=False)
        for who, named in headers.items()
    }


def addresses(person, listed):
    known = {**person, "job": person["jobs"][0], "other": person["jobs"][1]}
    return [address.format_map(known) for address in listed]


@pytest.mark.parametrize(("who", "first", "most"), [("person", 0, 2), ("token", 2, 1)])
def test_the_verdict_is_the_same_for_a_person_and_the_operator(clients, person, who, first, most):
    for job in person["jobs"][first : first + most]:
        seen, whole = (clients[name].get(f"{API}/ask/why?job={job}").json() for name in (who, "operator"))
        for part in ("headline", "exhibits", "facts", "coverage", "caveats"):
            assert seen[part] == whole[part], part
        assert "rows_of" not in seen["provenance"]["params"]
        for name, value in whole["result"].items():
            if name != "culprits":
                assert seen["result"][name] == value, name
        for mine, theirs in zip(seen["result"]["culprits"], whole["result"]["culprits"], strict=True):
            assert (mine["seconds"], mine["probability"]) == (theirs["seconds"], theirs["probability"])


def test_what_a_person_lost_is_the_same_for_the_operator(clients, person):
    seen, whole = (
        clients[who].get(f"{API}/ask/who?job={person['jobs'][0]}").json()["result"] for who in ("person", "operator")
    )
    assert seen["lost_seconds"] == whole["lost_seconds"]
    assert [c["seconds"] for c in seen["culprits"]] == [c["seconds"] for c in whole["culprits"]]


@pytest.mark.parametrize(
    ("who", "listed"),
    [
        ("person", SOME),
        pytest.param("person", REST, marks=pytest.mark.slow),
        pytest.param("token", [*SOME, *REST], marks=pytest.mark.slow),
    ],
    ids=["some", "rest", "by token"],
)
def test_nothing_names_others(clients, person, words_of_others, who, listed):
    for address in addresses(person, listed):
        response = clients[who].get(address)
        assert response.status_code == 200, (address, response.text)
        assert not told(words_of_others, response.text), address


def test_the_operator_is_told_names(clients, person, words_of_others):
    """Else the test above would see nothing because there is nothing."""
    for address in addresses(person, SOME[4:7]):
        assert told(words_of_others, clients["operator"].get(address).text), address


def test_nobody_is_told_nothing(clients, person, words_of_others):
    for address in addresses(person, [*SOME, *REST]):
        response = clients["nobody"].get(address)
        assert not told(words_of_others, response.text), address
        if not address.startswith("/jobs"):  # a page without content
            assert response.status_code == 403, address
            assert person["user"] not in response.text


def test_a_job_of_others_is_as_one_that_is_not_there(clients, person, rows):
    theirs = next(row[3] for row in rows if row[0] != person["user"])
    for address in SOME[:4]:
        refused, absent = (clients["person"].get(address.format(job=number)) for number in (theirs, 999_999_999))
        assert refused.status_code == absent.status_code
        assert refused.text.replace(str(theirs), "N") == absent.text.replace("999999999", "N"), address


def test_a_log_that_claims_to_be_anothers_is_compared_with_no_run_of_theirs(clients, lake, rows, person, tmp_path):
    """Whoever sends it would see that person's runs listed as similar."""
    from planted_logs import write_climate

    data = write_climate(tmp_path / "run.darshan").read_bytes()
    response = clients["person"].post(f"{API}/jobs", content=data, headers={"content-type": "application/octet-stream"})
    assert response.status_code == 200
    assert "your own jobs" in response.text
