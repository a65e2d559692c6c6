"""One job has one I/O time, one volume, one slowdown and one price of each advice, whoever shows them."""

from __future__ import annotations

import json

import pytest
from fastapi.testclient import TestClient

import ioweather
from ioweather.core.results import to_jsonable
from ioweather.core.units import format_seconds
from ioweather.ui.cli.main import run
from ioweather.ui.web.app import LOOPBACK, create_app
from made_once import made_once


@pytest.fixture
def as_json(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> dict:
        assert run([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)["result"]

    return call


def check_jobs(root, jobs: list[dict], as_json) -> None:
    with TestClient(create_app(root, hosts=(*LOOPBACK, "testserver"))) as client:
        for listed in jobs:
            number = listed["job_id"]
            why = as_json("why", number, "--lake", root)
            served = client.get(f"/api/v1/jobs/{number}").json()
            told = {
                "job": as_json("job", number, "--lake", root),
                "why": why,
                "who": as_json("who", number, "--lake", root),
                "api job": served["job"]["result"],
                "api why": served["why"]["result"],
                "python": to_jsonable(ioweather.job(number, lake=root).result),
            }
            for fact in ("io_seconds", "read_bytes", "write_bytes", "slowness", "run"):
                for name, result in told.items():
                    if fact in result:
                        expected = listed[fact] if listed[fact] is None else pytest.approx(listed[fact], rel=1e-9)
                        assert result[fact] == expected, (number, name, fact)
            saved = {name: {a["name"]: a["seconds"] for a in r["worth"]} for name, r in told.items() if "worth" in r}
            assert all(each == pytest.approx(saved["why"]) for each in saved.values()), (number, saved)
            page = client.get(f"/fragments/jobs/{number}").text
            assert listed["io_seconds"] is None or format_seconds(listed["io_seconds"]) in page
            if listed["runs_of_job"] > 1:
                assert f"run {listed['run']} of {listed['runs_of_job']}" in page
                assert told["job"]["all_runs"]["io_seconds"] > listed["io_seconds"]


def test_every_surface_shows_the_same_numbers_of_a_job(client, lake, as_json):
    listed = as_json("runs", "--lake", lake.root, "--most", 1000)["runs"]
    several = [job for job in listed if job["runs_of_job"] > 1]
    check_jobs(lake.root, [*several[:3], *(job for job in listed if job["runs_of_job"] == 1)][:5], as_json)


def test_what_a_job_cost_others_is_the_same_in_who_and_what_if(tmp_path_factory, as_json):
    from ioweather.ui.local_setup import make_demo

    root = made_once(tmp_path_factory.mktemp("demo"), "demo", make_demo).lake
    found = as_json("who", "--from", "2026-03-02", "--to", "2026-03-09", "--lake", root)["culprits"]
    assert found
    for culprit in found:
        supposed = as_json("what-if", "--without", culprit["job_id"], "--lake", root)
        gains = {gain["seconds"] for gain in supposed["gains"]}
        assert max(gains) <= culprit["seconds"] + 1e-6 or culprit["seconds"] in gains
        assert supposed["seconds"] >= culprit["seconds"] - 1e-6
