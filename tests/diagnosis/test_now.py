"""`now` and `events` on planted status files and roll-ups."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from store_lakes import series_frame

from asking import events, weather_now
from ioweather.agent.status import (
    InFlight,
    OperationStatus,
    Outcome,
    Recent,
    SpoolStatus,
    Status,
    TargetStatus,
    write_status,
)
from ioweather.core.errors import DataUnavailable
from ioweather.core.tables import RESPONSES
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS, now_ns
from ioweather.diagnosis.events import find_episodes
from ioweather.ingestion.derivations import refresh_rollups
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run


def operation(op: str, seconds: float | None, expected: float | None, **changes) -> OperationStatus:
    made = OperationStatus(
        op, 1 << 20, "nocache", ok_count=100, last=Outcome(now_ns(), "ok"), expected_count=100,
        expected_ns=None if expected is None else round(expected * NS),
        recent=Recent(60 * NS, 60, None if seconds is None else round(seconds * NS)),
    )  # fmt: skip
    return dataclasses.replace(made, **changes)


def status(*operations: OperationStatus, in_flight: InFlight | None = None) -> Status:
    target = TargetStatus("/work/p", "mount:/work", "waiting", NS, operations=operations, in_flight=in_flight)
    return Status("h", 1, "b", "r", "running", now_ns(), now_ns(), NS, SpoolStatus("/s"), (target,))


def ask(tmp_path, state: Status, lake=None):
    write_status(state, tmp_path)
    return weather_now([tmp_path], None if lake is None else str(lake.root))


@pytest.fixture(autouse=True)
def no_lake_of_mine(tmp_path, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "none"))


def test_as_usual_and_slow(tmp_path):
    answer, wrong = ask(tmp_path, status(operation("read", 0.01, 0.01), operation("stat", 0.001, 0.001)))
    assert (answer.headline, wrong) == ("Storage is as fast as usual.", False)
    answer, wrong = ask(tmp_path, status(operation("read", 0.042, 0.01), operation("stat", 0.001, 0.001)))
    assert wrong
    assert answer.headline == "read on /work takes 4.2 times as long as usual; metadata is normal."


def test_a_hang_is_seen_while_it_lasts(tmp_path):
    hang = InFlight("write", 1 << 20, now_ns() - 20 * NS, 20 * NS)
    answer, wrong = ask(tmp_path, status(operation("read", 0.01, 0.01), in_flight=hang))
    assert wrong
    assert answer.headline.startswith("Storage hangs: a write on /work")


def test_no_baseline_no_agent_and_errors(tmp_path):
    answer, wrong = ask(tmp_path, status(operation("read", 0.01, None, errors={"EIO": 3}, error_count=3)))
    assert (answer.headline[:15], wrong) == ("No baseline yet", False)
    assert "EIO" in answer.findings[0].text
    with pytest.raises(DataUnavailable, match="ioweather probe"):
        weather_now([tmp_path / "absent"])


def test_an_agent_that_is_gone_is_said(tmp_path):
    old = dataclasses.replace(status(operation("read", 0.01, 0.01)), written_ns=now_ns() - HOUR_NS)
    answer, _ = ask(tmp_path, old)
    assert "has stopped" in answer.caveats[0]


@pytest.fixture
def lake(tmp_path):
    """Two days at 10 ms; the last 20 minutes at 40 ms."""
    lake = open_lake(tmp_path / "lake", create=True)
    end = now_ns() // MINUTE_NS * MINUTE_NS
    starts = end - np.arange(2 * 24 * 60, 0, -1) * MINUTE_NS
    seconds = np.where(starts >= end - 20 * MINUTE_NS, 0.04, 0.01)
    frame = RESPONSES.frame(
        start_ns=starts, host="h", target="/work/p", op="read", request_bytes=1 << 20, mode="nocache", status="ok",
        system="mount:/work", duration_ns=np.round(seconds * NS).astype(np.int64), rows=len(starts),
    )  # fmt: skip
    lake.append("responses", frame, source="spool")
    refresh_rollups(lake, frame)
    return lake


def test_the_lake_gives_baseline_history_and_since_when(tmp_path, lake):
    answer, wrong = ask(tmp_path, status(operation("read", 0.04, None)), lake)
    assert wrong
    assert "4.0 times as long as usual since" in answer.headline
    assert answer.exhibits[0].tables[0].rows[0][2:5] == ("read", pytest.approx(4, rel=0.05), 0.04)


def test_episodes_are_found_stored_once_and_listed(lake, capsys):
    assert find_episodes(lake) >= 1
    assert find_episodes(lake) == 0
    (event,) = events(lake, "episode")
    assert event.end_ns is None
    assert event.strength_ratio == pytest.approx(4, rel=0.05)
    assert run(["events", "--lake", str(lake.root)]) == 0
    out = capsys.readouterr().out
    assert "since" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_command_tells_by_its_exit_code(tmp_path, capsys):
    write_status(status(operation("read", 0.05, 0.01)), tmp_path)
    assert run(["now", "--spool", str(tmp_path)]) == 1
    write_status(status(operation("read", 0.01, 0.01)), tmp_path)
    assert run(["now", "--spool", str(tmp_path), "--json"]) == 0
    assert run(["now", "--spool", str(tmp_path / "absent")]) == 1
    capsys.readouterr()


def test_a_sick_target_is_found_stored_and_listed(tmp_path, capsys):
    from store_lakes import DAY

    rng = np.random.default_rng(2)
    values = 1e9 * rng.lognormal(0, 0.1, (3 * 1440, 8))
    values[2000:2600, 5] *= 0.1
    values[:, 2] *= rng.choice([0.2, 1.0], 3 * 1440)  # uneven work is no sickness
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(values, metric="write_bytes"), source="tts")
    # Stored by a version that did not search: found when all days are sealed and searched.
    assert run(["health", "--lake", str(lake.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["result"]["unhealthy"] == []
    assert run(["lake", "compact", "--everything", "--lake", str(lake.root)]) == 0
    assert "1 event is new or changed" in capsys.readouterr().out
    assert run(["events", "--lake", str(lake.root), "--kind", "component_health", "--json"]) == 0
    (event,) = json.loads(capsys.readouterr().out)["result"]["events"]
    assert "OST0005" in event["label"]
    assert event["start_ns"] == pytest.approx(DAY + 2000 * MINUTE_NS, abs=2 * HOUR_NS)
    assert event["end_ns"] == pytest.approx(DAY + 2600 * MINUTE_NS, abs=2 * HOUR_NS)
