"""What programs read of answers: named facts and findings, a typed result, and JSON as the published schema says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from small_facility import make_small_lake

from ioweather.advice.transfers.predict import predict_transfer
from ioweather.advice.transfers.stripe import recommend_stripe
from ioweather.cli.main import run as command
from ioweather.core.answer_schema import answer_schema
from ioweather.core.outcomes import OUTCOMES
from ioweather.core.results import to_jsonable
from ioweather.core.units import GIB, MIB
from ioweather.store.lake import Lake
from ioweather.tables import concat
from planted_responses import FACILITY, SIZES, rows

NAME = re.compile(r"[a-z][a-z0-9_]*")
RECORDED = Path(__file__).with_name("answer_names.json")
SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "answer.schema.json"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_small_lake(tmp_path_factory.mktemp("answers"))


@pytest.fixture(scope="module")
def jobs(lake: Lake) -> list[str]:
    """The slowest job, and another one."""
    with lake.snapshot() as snapshot:
        sql = "SELECT job_id FROM applications JOIN job_io USING (log_digest) ORDER BY io_seconds DESC, job_id LIMIT 2"
        return [str(job) for (job,) in snapshot.con.sql(sql).fetchall()]


def questions(lake: Lake, jobs: list[str]) -> dict[str, list[str]]:
    with lake.snapshot() as snapshot:
        ((project,),) = snapshot.con.sql("SELECT min(account) FROM jobs WHERE account <> ''").fetchall()
    return {
        "compare": jobs,
        "forecast": [],
        "job": jobs[:1],
        "predict": ["1GiB", "--request", "16MiB"],
        "project": [str(project)],
        "stripe": ["1GiB", "--read"],
        "why": jobs[:1],
    }


@pytest.fixture(scope="module")
def answers(lake: Lake, jobs: list[str]) -> dict[str, dict[str, Any]]:
    found = {}
    for name, arguments in questions(lake, jobs).items():
        with pytest.MonkeyPatch.context() as patch:
            written: list[str] = []
            patch.setattr("ioweather.cli.answers.say_json", lambda body, kept=written: kept.append(json.dumps(body)))
            assert command([name, *arguments, "--lake", str(lake.root), "--json"]) == 0
        found[name] = json.loads(written[0])
    return found


def names_of(answer: dict[str, Any]) -> Iterator[str]:
    for group in answer["facts"]:
        yield group["name"]
        yield from (f"{group['name']}.{fact['name']}" for fact in group["facts"])
    yield from (f"finding {finding['name']}" for finding in answer["findings"])


def test_the_published_schema_is_that_of_the_dataclasses() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == answer_schema()
    jsonschema_rs.meta.validate(answer_schema())


def test_every_answer_is_as_the_schema_says(answers: dict[str, dict[str, Any]]) -> None:
    validator = jsonschema_rs.validator_for(answer_schema())
    for name, answer in answers.items():
        validator.validate(answer)
        assert answer["name"] == name
        kind: Any = OUTCOMES[name]
        assert answer["result"].keys() >= {field.name for field in fields(kind)}
        assert not validator.is_valid({**answer, "result": {}})


def test_names_are_names_and_unique(answers: dict[str, dict[str, Any]]) -> None:
    for answer in answers.values():
        names = list(names_of(answer))
        assert len(names) == len(set(names))
        for name in names:
            assert all(map(NAME.fullmatch, name.removeprefix("finding ").split("."))), name


def test_names_stay(answers: dict[str, dict[str, Any]]) -> None:
    """What a script matches on. A new name is added to the list; none of them goes or changes."""
    sampled = concat([rows(size, 200, op="write", targets=8) for size in SIZES])
    asked: dict[str, Any] = {"op": "write", "replicates": 10}
    planted = {
        "predict": predict_transfer(sampled, FACILITY, total_bytes=GIB, request_bytes=16 * MIB, **asked),
        "stripe": recommend_stripe(sampled, FACILITY, file_bytes=64 * MIB, **asked),
    }
    made = answers | {name: to_jsonable(answer) for name, answer in planted.items()}
    found = {name: sorted(names_of(answer)) for name, answer in made.items()}
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert [name for question, names in recorded.items() for name in set(names) - set(found[question])] == []


def test_the_result_of_why(answers: dict[str, dict[str, Any]]) -> None:
    result = answers["why"]["result"]
    assert result["kind"] in ("normal", "system", "you", "both", "unknown")
    assert (result["reason"] is None) == (result["kind"] != "unknown")
    assert result["culprits"] == []
    assert isinstance(result["unhealthy"], list)
    if result["kind"] != "unknown":
        assert result["probability"] == pytest.approx(result["probabilities"][result["kind"]])
        assert result["seconds"]["usual"]["low"] <= result["seconds"]["usual"]["value"]


def test_the_result_of_job_has_the_advice(answers: dict[str, dict[str, Any]]) -> None:
    result = answers["job"]["result"]
    assert {item["name"] for item in result["worth"]} <= {item["name"] for item in result["seen"]}
    for item in result["seen"]:
        assert item.keys() == {"name", "dimension", "evidence", "seconds", "low", "high", "fix"}


def test_exhibits_are_as_the_schema_says(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", "car11.fig6", "--lake", str(lake.root), "--json"]) == 0
    jsonschema_rs.validate(answer_schema(), json.loads(capsys.readouterr().out))
