"""One job has one headline, one I/O time, one volume, one slowdown and one price of each advice on every surface."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

import ioweather
from ioweather.core.contracts import ALL_TIME
from ioweather.core.results import Answer, FactGroup, Items, to_jsonable
from ioweather.core.units import format_seconds, format_value
from ioweather.diagnosis.recorded_verdicts import job_text
from ioweather.job_io.outcomes import Amount
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.charts.page import answer_html
from ioweather.ui.cli.main import run
from ioweather.ui.report.mail import make_message
from ioweather.ui.report.sheets import find, operator_sheet
from ioweather.ui.report.write import gather
from ioweather.ui.web.app import LOOPBACK, create_app
from ioweather.ui.web.served_lake import ServedLake
from ioweather.ui.web.visible import View
from made_once import made_once


def as_json_live(capsys, name: str, lake: Lake) -> list[dict]:
    """The targets of `fs NAME --live --json`."""
    capsys.readouterr()
    assert run(["fs", name, "--live", "--json", "--lake", str(lake.root)]) == 0
    return json.loads(capsys.readouterr().out)["targets"]


@pytest.fixture
def as_json(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> dict:
        assert run([*map(str, arguments), "--json"]) == 0
        return json.loads(capsys.readouterr().out)["result"]

    return call


def words_of(text: str) -> str:
    """The text of a page or a screen without markup, bars and line breaks."""
    plain = html.unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL))
    return " ".join(re.sub(r"[█▉▊▋▌▍▎▏·`]+", " ", plain).split())


def check_words(text: str, answer: Answer) -> None:
    """The text has the headline, the parts of the extra time and the advice of the answer."""
    shown = words_of(text)
    assert words_of(answer.headline) in shown
    for block in answer.blocks:
        if isinstance(block, FactGroup) and block.name != "runs":
            assert all(format_value(fact.value, fact.unit) in shown for fact in block.facts), (block, shown)
        if isinstance(block, Items):
            assert all(words_of(item.what) in shown for item in block.items), (block, shown)


def check_texts(root, number: int, as_text, page: str) -> None:
    """The terminal, the page for a ticket, the dashboard and the mail at the end of a job say the same."""
    answer = ioweather.why(number, lake=root)
    for text in (as_text("why", number, "--lake", root), answer_html(answer), page):
        check_words(text, answer)
    mailed = job_text(root, str(number))
    assert mailed.headline == answer.headline
    assert mailed.outcome == answer.result
    assert words_of(mailed.block()).count(words_of(answer.headline)) == 1
    for part in ("usual", "system", "own", "unexplained"):
        amount: Amount | None = getattr(answer.result.seconds, part)
        if answer.result.io_seconds and amount is not None and amount.value is not None:
            assert format_seconds(max(0.0, min(amount.value, answer.result.io_seconds))) in mailed.block()


def as_assistants_see(root):
    """A function that calls a tool of the MCP server; skips without its library."""
    tools = pytest.importorskip("ioweather.ui.mcp_server", reason="the MCP library is not installed")
    view = View(ServedLake(root), None)
    return lambda name, job: tools.call_tool(view, name, {"job": str(job)}).structured_content


def check_jobs(root, jobs: list[dict], as_json, as_text) -> None:
    assistant = as_assistants_see(root)
    with TestClient(create_app(root, hosts=(*LOOPBACK, "testserver"))) as client:
        for listed in jobs:
            number = listed["job_id"]
            why = as_json("why", number, "--lake", root)
            served, asked = client.get(f"/api/v1/jobs/{number}").json(), assistant("why", number)
            assert asked["headline"] == served["why"]["headline"]
            for fact in ("kind", "probability", "probabilities", "seconds", "culprits", "unhealthy"):
                assert asked["result"][fact] == served["why"]["result"][fact] == why[fact], (number, fact)
            told = {
                "job": as_json("job", number, "--lake", root),
                "why": why,
                "who": as_json("who", number, "--lake", root),
                "api job": served["job"]["result"],
                "api why": served["why"]["result"],
                "assistant job": assistant("job", number)["result"],
                "assistant why": asked["result"],
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
            check_texts(root, number, as_text, page)


@pytest.fixture
def as_text(capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object) -> str:
        assert run([*map(str, arguments)]) in (0, 2)
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("count", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_every_surface_shows_the_same_numbers_of_a_job(client, lake, as_json, as_text, count):
    listed = as_json("runs", "--lake", lake.root, "--most", 1000)["runs"]
    several = [job for job in listed if job["runs_of_job"] > 1]
    chosen = [*several[: count // 2], *(job for job in listed if job["runs_of_job"] == 1)][:count]
    check_jobs(lake.root, chosen, as_json, as_text)


def test_lists_of_jobs_show_the_same_numbers_in_the_mail_and_on_the_overview(lake: Lake, client, as_json, tmp_path):
    listed = as_json("runs", "--lake", lake.root, "--most", 1000, "--order", "extra", "--every-run")["runs"]
    of_job = {(str(job["job_id"]), job["start_ns"]): job for job in listed}
    (found,) = find(open_lake(lake.root), [ALL_TIME])
    sheet = operator_sheet(found)
    (table,) = [each for each in sheet.tables if each.name == "runs"]
    for job, _, _, seconds, extra, slowness, start, *_ in table.rows:
        known = of_job[job, start]
        assert (seconds, slowness) == (known["io_seconds"], known["slowness"])
        assert extra == pytest.approx(seconds * (1 - 1 / slowness))
    attached = tmp_path / "report.html"
    attached.write_text("<p>the report</p>")
    material = gather(open_lake(lake.root), only=())
    mail = make_message(replace(material, sheets=(sheet,)), attached, ["a@example.org"], "b@example.org")
    plain, rich = (words_of(mail.get_body((kind,)).get_content()) for kind in ("plain", "html"))
    for _, _, _, seconds, extra, slowness, *_ in table.rows:
        assert format_value(slowness, "factor") in rich
        for text in (format_seconds(seconds), format_seconds(extra)):
            assert text in plain
            assert text in rich
    main = as_json("runs", "--lake", lake.root, "--order", "extra", "--most", 8)["runs"]
    overview = words_of(client.get("/fragments/slowest?from=@0").text)
    for job in (job for job in main if (job["slowness"] or 0) > 1):
        assert str(job["job_id"]) in overview
        assert format_seconds(job["io_seconds"] * (1 - 1 / job["slowness"])) in overview


def test_the_live_view_and_the_page_show_the_same_rates_of_targets(lake: Lake, client, capsys):
    name = client.get("/api/v1/ask/storage").json()["result"]["filesystems"][0]["filesystem"]
    live = as_json_live(capsys, name, lake)
    page = words_of(client.get("/fragments/targets", params={"where": name}).text)
    moved = sorted(live, key=lambda t: -((t["read_bytes_per_s"] or 0) + (t["write_bytes_per_s"] or 0)))
    for target in moved[:8]:
        assert target["target"] in page
        for rate in (target["read_bytes_per_s"], target["write_bytes_per_s"]):
            assert rate is None or format_value(rate, "bytes_per_s") in page


def test_what_a_job_cost_others_is_the_same_in_who_and_what_if(tmp_path_factory, as_json):
    from ioweather.ui.local_setup import make_demo

    root = made_once(tmp_path_factory.mktemp("demo"), "demo", make_demo)
    found = as_json("who", "--from", "2026-03-02", "--to", "2026-03-09", "--lake", root)["culprits"]
    assert found
    for culprit in found:
        supposed = as_json("what-if", "--without", culprit["job_id"], "--lake", root)
        gains = {gain["seconds"] for gain in supposed["gains"]}
        assert max(gains) <= culprit["seconds"] + 1e-6 or culprit["seconds"] in gains
        assert supposed["seconds"] >= culprit["seconds"] - 1e-6
