"""`why` through a lake of planted runs: each verdict, logs and ids, and every way there can be nothing to say."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from asking import why
from ioweather.core.frames import Frame
from ioweather.core.results import Amount, Answer, Fact, FactGroup, to_jsonable
from ioweather.core.tables import RESPONSES
from ioweather.core.units import MINUTE_NS, NS
from ioweather.diagnosis.job import why_screen
from ioweather.job_io.outcomes import Change, SplitSeconds, WhyOutcome
from ioweather.ui.cli.main import run as command
from planted_association import START_NS, system_load
from planted_why import ASKED, MINUTES, make_why_lake, planted_runs


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> Path:
    return make_why_lake(tmp_path_factory.mktemp("why") / "lake").root


def asked(lake, what, **request):
    return why(ASKED[what], lake, **request)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("normal", "I/O was as fast as usual"),
        ("system", "Storage was slow"),
        ("you", "Your job was slow"),
        ("both", "Storage and your job were both slow"),
    ],
)
def test_what_was_planted_is_the_headline(lake, what, words):
    answer = asked(lake, what)
    assert answer.headline.startswith(words), answer.headline
    assert [group.title for group in answer.facts][:4] == [
        "What the run did", "I/O time compared with similar runs", "What scratch did during the run",
        "Where the time went",
    ]  # fmt: skip
    assert answer.provenance.table_versions.keys() >= {"job_io", "series"}
    split = {fact.label: fact.value for fact in answer.facts[3].facts}
    took = next(fact.value for fact in answer.facts[0].facts if fact.label == "I/O time")
    assert sum(split.values()) == pytest.approx(took)
    (chart,) = answer.exhibits[0].charts
    assert chart.kind == "scatter"
    assert chart.table.column("run").count("this run") == 1
    to_jsonable(answer)


def test_load_is_compared_with_that_of_similar_runs(lake):
    (fact,) = [fact for group in asked(lake, "system").facts for fact in group.facts if fact.label == "others read"]
    assert "of similar runs" in fact.note
    assert fact.share > 0.9


def test_what_changed_is_named(lake):
    texts = " ".join(finding.text for finding in asked(lake, "you").findings)
    assert "mean request size" in texts


def test_a_run_outside_the_samples_is_unknown(lake):
    answer = asked(lake, "gap")
    assert answer.headline.startswith("Unknown: it took")
    assert "no system samples" in answer.headline
    assert "I/O time compared with similar runs" in [group.title for group in answer.facts]


def test_a_run_without_like_is_unknown(lake):
    answer = asked(lake, "stranger")
    assert answer.headline.startswith("Unknown: no similar runs with system samples; a verdict needs 3")
    assert "Ingest earlier logs" in answer.findings[0].text


def test_another_file_system_is_not_guessed(lake):
    assert "no system data for home" in asked(lake, "system", filesystem="home").headline


def test_as_of_the_day_only_runs_that_had_ended_count(lake):
    whole, early = asked(lake, "normal"), asked(lake, "normal", as_of=START_NS)
    assert whole.result.n > early.result.n == 0


def test_the_command(lake, tmp_path, capsys):
    target = str(ASKED["system"])
    assert command(["why", target, "--lake", str(lake), "--full"]) == 0
    assert "of similar runs" in capsys.readouterr().out
    assert command(["why", target, "--lake", str(lake), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["headline"].startswith("Storage was slow")
    page = tmp_path / "why.html"
    assert command(["why", target, "--lake", str(lake), "--html", str(page)]) == 0
    assert "This run among similar runs" in page.read_text()


def test_a_run_beside_a_stuck_target_is_not_surely_unexplained(tmp_path, capsys):
    made = make_why_lake(tmp_path / "lake", with_stuck_target=True)
    assert command(["why", str(ASKED["stuck"]), "--lake", str(made.root)]) == 0
    screen = capsys.readouterr().out
    first = " ".join(screen.split())
    assert first.startswith("Not sure: most likely (68%) storage; I/O took 36.6 min, usually 16.7 min."), screen
    assert "min requests on OST0000 took 4.5 times as long as expected" in first


def test_a_mount_that_stands_still_shows_in_the_delay_of_the_probe(tmp_path, capsys):
    made = make_why_lake(tmp_path / "lake", with_late_probe=True)
    assert command(["why", str(ASKED["stuck"]), "--lake", str(made.root)]) == 0
    first = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert first.startswith("Slow, but the cause is not proved (70% sure)"), first
    assert "perhaps because the probe waited 17.2 times as long as usual to open its directory" in first


def test_a_log_alone_is_unknown(samples, tmp_path, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "none"))
    answer = why(samples / "causes" / "job_000.darshan")
    assert answer.headline.startswith("Unknown: no system data for this period")
    assert answer.facts[0].facts[0].value == "ior"


def test_without_samples_similar_runs_still_compare(samples, tmp_path):
    logs = sorted((samples / "causes").glob("*.darshan"))
    assert command(["ingest", "--lake", str(tmp_path / "lake"), "--workers", "1", *map(str, logs)]) == 0
    answer = why(str(logs[10]), tmp_path / "lake")
    assert answer.result.kind == "unknown"
    assert answer.result.n >= 60
    assert answer.result.seconds.usual.value > 0


@pytest.mark.parametrize(("most", "shown"), [(300.0, "unknown cost"), (0.5, 0.0)])
def test_a_change_whose_cost_the_model_cannot_tell_is_not_said_to_cost_0_s(most, shown):
    amounts = SplitSeconds(Amount(80.0), Amount(0.0), Amount(1.0, -60.0, most), Amount(320.0))
    changed = (Change("io_rank_count", 1.0, 256.0),)
    result = WhyOutcome(
        "unexplained", None, "unexplained", io_seconds=400.0, harm_seconds=10.0, seconds=amounts, changed=changed
    )
    parts = {"system": 0.0, "own": 0.0, "unexplained": 320.0}
    split = FactGroup("split", "", tuple(Fact(name, name, value, "seconds") for name, value in parts.items()))
    blocks = why_screen(Answer("q", "h", facts=(split,), result=result), {})
    (extra,) = [block for block in blocks if isinstance(block, FactGroup) and block.name == "extra"]
    assert {fact.name: fact.value for fact in extra.facts} == parts | {"own": shown}


def probes_of_two_targets(slow: int) -> Frame:
    """Reads of 6 sizes every 10 minutes on two targets; the first `slow` sizes on OST0001 take 9 times as long around
    the run that the system slowed."""
    load = system_load(np.random.default_rng(11), MINUTES, 0.985)
    run = next(each for each in planted_runs(load) if each["job_id"] == ASKED["system"])
    tick, size, target = (
        each.ravel() for each in np.meshgrid(np.arange(0, MINUTES, 10), np.arange(6), np.arange(2), indexing="ij")
    )
    start = START_NS + tick * MINUTE_NS
    near = (start > run["start_ns"] - 30 * MINUTE_NS) & (start < run["start_ns"] + int(run["io"] * NS) + 30 * MINUTE_NS)
    took = np.where(near & (target == 1) & (size < slow), 45_000_000, 5_000_000)
    names = [f"OST000{number}" for number in target.tolist()]
    return RESPONSES.frame(
        start_ns=start, scheduled_ns=start, duration_ns=took, host="c1", target=names, op="read",
        request_bytes=2**20 << size, mode="nocache", system="scratch", status="ok", cached=False, run_id="a",
        component=names, rows=len(tick),
    )  # fmt: skip


@pytest.mark.parametrize("slow", [1, 6])
def test_one_extreme_kind_of_probe_is_no_evidence_against_a_target(tmp_path, capsys, slow):
    lake = make_why_lake(tmp_path / "lake")
    lake.append("responses", probes_of_two_targets(slow), source="probe")
    assert command(["why", str(ASKED["system"]), "--lake", str(lake.root), "--full"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert screen.startswith("Storage was slow")
    evidence = "data probes on OST0001 took 9.0 times as long as usual (median); elsewhere, at most 1.0 times."
    assert (evidence in screen) == (slow == 6)
    assert ("probes on OST0001" in screen) == (slow == 6)


def test_health_shows_the_end_of_each_incident_and_how_many_are_shown(tmp_path, capsys):
    lake = str(make_why_lake(tmp_path / "lake", with_stuck_target=True).root)
    assert command(["health", "--lake", lake]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    assert re.match(r"1 component was unhealthy: OST0000 \w{3} \d+ \w{3} [\d:]+ - [\w :]+\. Still unhealthy at", screen)
    assert "the end of the period: none." in screen
    assert command(["health", "--component", "OST0001", "--full", "--lake", lake]) == 0
    assert "0 of 1 incidents shown" in " ".join(capsys.readouterr().out.split())
