"""Every question of the catalogue: its JSON is as published, it says where it comes from, its names stay, and command,
Python and API give the same answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from fastapi.testclient import TestClient
from small_facility import make_small_lake

import ioweather
from ioweather._version import __version__
from ioweather.agent.status import OperationStatus, Outcome, Recent, SpoolStatus, Status, TargetStatus, write_status
from ioweather.core.results import Answer, result_json, to_jsonable
from ioweather.core.tables import concat
from ioweather.core.units import GIB, MIB, NS, now_ns
from ioweather.lake.lake import Lake
from ioweather.planning.transfers import predict_transfer, recommend_stripe
from ioweather.topics.catalogue import QUESTIONS
from ioweather.ui.web.api import answer_schema
from ioweather.ui.web.app import LOOPBACK, create_app
from planted_responses import FACILITY, SIZES, rows

RECORDED = Path(__file__).with_name("answer_names.json")
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "answer.schema.json"
EVERY = pytest.mark.parametrize("name", list(QUESTIONS))


@dataclass(frozen=True)
class Site:
    """A lake, an agent's spool, and what to ask: arguments and options by question."""

    lake: Lake
    spool: Path
    arguments: dict[str, tuple[str, ...]]
    options: dict[str, dict[str, str]]

    def line(self, name: str, *more: str) -> list[str]:
        options = [part for key, value in self.options.get(name, {}).items() for part in (f"--{key}", value)]
        spool = ["--spool", str(self.spool)] if name == "now" else []
        return [name, *self.arguments.get(name, ()), *options, *spool, "--lake", str(self.lake.root), *more]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("questions")
    lake = make_small_lake(folder)
    lake.append(
        "responses",
        concat([rows(size, 200, op=op, targets=8) for size in SIZES for op in ("read", "write")]),
        source="spool",
    )
    with lake.snapshot() as snapshot:
        sql = "SELECT job_id FROM applications JOIN job_io USING (log_digest) ORDER BY io_seconds DESC, job_id LIMIT 2"
        jobs = tuple(str(job) for (job,) in snapshot.query(sql).fetchall())
        ((project,),) = snapshot.query("SELECT min(account) FROM jobs WHERE account <> ''").fetchall()
    read = OperationStatus(
        "read", MIB, "nocache", ok_count=100, last=Outcome(now_ns(), "ok"), expected_count=100,
        expected_ns=NS // 100, recent=Recent(60 * NS, 60, NS // 100),
    )  # fmt: skip
    target = TargetStatus("/scratch/p", "mount:/scratch", "waiting", NS, operations=(read,))
    seen = Status("h", 1, "b", "r", "running", now_ns(), now_ns(), 1 << 60, SpoolStatus("/s"), (target,))
    (folder / "spool").mkdir()
    write_status(seen, folder / "spool")
    arguments = {
        "compare": jobs, "job": jobs[:1], "predict": ("1GiB",), "project": (str(project),),
        "why": jobs[:1],
    }  # fmt: skip
    return Site(
        lake,
        folder / "spool",
        arguments,
        {
            "predict": {"request": "16MiB"},
            "events": {"kind": "phase"},
            "what_if": {"without": jobs[0]},
            "claims": {"paper": "kun19"},
        },
    )


@pytest.fixture(scope="module")
def client(site: Site) -> Iterator[TestClient]:
    app = create_app(site.lake.root, [site.spool], hosts=(*LOOPBACK, "testserver"))
    with TestClient(app, raise_server_exceptions=False) as made:
        yield made


_MADE: dict[str, dict[str, Any]] = {}


@pytest.fixture
def answer(name: str, site: Site) -> dict[str, Any]:
    """From Python, made once."""
    if name not in _MADE:
        extra: dict[str, Any] = {"spool": [site.spool]} if name == "now" else {}
        asked = getattr(ioweather, name)(
            *site.arguments.get(name, ()), **site.options.get(name, {}), **extra, lake=site.lake
        )
        assert isinstance(asked, Answer)
        _MADE[name] = json.loads(json.dumps(result_json(asked)))
    return _MADE[name]


def names_of(answer: dict[str, Any]) -> Iterator[str]:
    for group in answer["facts"]:
        yield group["name"]
        yield from (f"{group['name']}.{fact['name']}" for fact in group["facts"])
    yield from (f"finding {finding['name']}" for finding in answer["findings"])


def test_the_published_schema_is_that_of_the_dataclasses() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == answer_schema()
    jsonschema_rs.meta.validate(answer_schema())


@EVERY
def test_json_is_as_the_schema_says(name: str, answer: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(answer_schema())
    validator.validate(answer)
    kind: Any = QUESTIONS[name].result
    assert answer["name"] == name
    assert answer["result"].keys() == {field.name for field in fields(kind)}
    assert not validator.is_valid({**answer, "result": {}})


@EVERY
def test_an_answer_says_where_it_comes_from(name: str, answer: dict[str, Any], site: Site) -> None:
    provenance = answer["provenance"]
    assert provenance["table_versions"]
    assert set(provenance["table_versions"]) <= QUESTIONS[name].tables
    assert provenance["software_version"] == __version__
    assert provenance["facility_digest"] == site.lake.facility.digest
    assert provenance["lake"] == str(site.lake.root)
    assert ("This facility is simulated." in answer["caveats"]) == (name != "now"), "agents measure this machine"
    assert answer["coverage"] or answer["headline"] == "No unhealthy component found."


def test_names_stay(site: Site) -> None:
    """What a script matches on. A new name is added to the list; none of them goes or changes."""
    sampled = concat([rows(size, 200, op="write", targets=8) for size in SIZES])
    asked: dict[str, Any] = {"op": "write", "replicates": 10}
    planted = {
        "predict": predict_transfer(sampled, FACILITY, total_bytes=GIB, request_bytes=16 * MIB, **asked),
        "stripe": recommend_stripe(sampled, FACILITY, file_bytes=64 * MIB, **asked),
    }
    made = _MADE | {name: to_jsonable(answer) for name, answer in planted.items()}
    found = {name: sorted(names_of(answer)) for name, answer in made.items()}
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    gone = {name: sorted(set(names) - set(found[name])) for name, names in recorded.items() if name in found}
    assert {name: names for name, names in gone.items() if names} == {}


def test_a_path_is_not_read_for_the_network(client: TestClient, tmp_path: Path) -> None:
    log = tmp_path / "a.darshan"
    log.write_bytes(b"secret")
    for name in ("job", "why"):
        response = client.get(f"/api/v1/ask/{name}", params={"job": str(log)})
        assert response.status_code == 400
        assert "is not a job ID" in response.json()["error"]["message"]
    assert client.get("/api/v1/ask/predict", params={"size": str(log)}).status_code == 400
    assert client.get("/api/v1/ask/now", params={"spool": str(tmp_path)}).status_code == 400
