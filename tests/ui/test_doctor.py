"""The doctor finds what was planted wrong."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.agent.status import SpoolStatus, Status, write_status
from ioweather.core.units import DAY_NS, NS, now_ns
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run
from ioweather.ui.doctor import examine


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def states(lake, tmp_path):
    return {check.name: check for check in examine(str(lake.root), tmp_path / "spool")}


def test_a_healthy_lake(lake, tmp_path):
    (lake.root / "facility.toml").write_text('[filesystem.scratch]\nlustre = ["scratch"]\n')
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    found = states(lake, tmp_path)
    assert {found[name].state for name in ("python", "lake", "names", "clocks")} == {"ok"}
    assert found["agent"].state == "note"
    assert "block" in found["collect"].found


def test_unmapped_names_and_clocks_from_the_future(lake, tmp_path):
    ahead = series_frame(np.ones((2, 1)), system="snx1", start_ns=now_ns() + 2 * DAY_NS)
    lake.append("series", ahead, source="tts", checked=True)  # by a clock that was ahead
    found = states(lake, tmp_path)
    assert "snx1" in found["names"].found
    assert found["clocks"].state == "problem"
    assert run(["doctor", "--lake", str(lake.root), "--spool", str(tmp_path)]) == 1


def test_without_a_lake(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path / "none"))
    assert run(["doctor", "--spool", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "ioweather demo" in " ".join(out.split())
    assert max(len(line) for line in out.splitlines()) <= 80
    assert list(tmp_path.iterdir()) == []


def test_a_broken_facility_file_is_a_problem_not_a_crash(lake, tmp_path):
    (lake.root / "facility.toml").write_text("nonsense = 1\n")
    assert states(lake, tmp_path)["check failed"].state == "problem"


def agent(folder, host: str, ahead_ns: int, state: str = "running"):
    folder.mkdir()
    now = now_ns() + ahead_ns
    spool = SpoolStatus(str(folder), 0, 0, 1, 0, 0, 0, 0, None, None, "")
    write_status(Status(host, 1, "b", "r", state, now, now, NS, spool, (), (), software_version="0"), folder)
    return folder


def test_jobs_that_are_in_with_their_submission_and_without(lake, tmp_path):
    (tmp_path / "one.txt").write_text("JobID|State|Start|End\n7|COMPLETED|1700000001|1700000009\n")
    assert run(["ingest", str(tmp_path / "one.txt"), "--lake", str(lake.root)]) == 0
    assert "accounting" not in states(lake, tmp_path)
    (tmp_path / "two.txt").write_text("JobID|State|Submit|Start|End\n7|COMPLETED|1700000000|1700000001|1700000009\n")
    assert run(["ingest", str(tmp_path / "two.txt"), "--lake", str(lake.root)]) == 0
    assert states(lake, tmp_path)["accounting"].found.startswith("1 jobs are stored twice")


def test_closed_days_in_many_files(lake, tmp_path):
    for start in (0, 600 * NS):
        lake.append("series", series_frame(np.ones((2, 1)), start_ns=20_000 * DAY_NS + start), source="tts")
    assert states(lake, tmp_path)["sealing"].fix == "ioweather lake compact"
    assert run(["lake", "compact", "--lake", str(lake.root)]) == 0
    assert states(lake, tmp_path)["sealing"].state == "ok"


def test_an_agent_that_was_stopped_is_no_problem_and_one_that_vanished_is(lake, tmp_path):
    old = -3600 * NS
    found = {
        state: next(c for c in examine(str(lake.root), agent(tmp_path / state, "n1", old, state)) if c.name == "agent")
        for state in ("stopped", "running")
    }
    assert found["stopped"].state == "note"
    assert found["running"].state == "problem"


def test_what_an_agent_would_measure(lake, tmp_path):
    (lake.root / "facility.toml").write_text(
        f'[filesystem.scratch]\nprobes = ["/scratch/.weather"]\n[collect]\nroot = "{tmp_path}"\n'
    )
    assert "/scratch/.weather" in states(lake, tmp_path)["collect"].found
    (lake.root / "facility.toml").write_text(f'[collect]\nroot = "{tmp_path}"\n')
    assert states(lake, tmp_path)["collect"].state in ("ok", "note")
