"""The doctor finds what was planted wrong."""

from __future__ import annotations

import numpy as np
import pytest
from store_lakes import series_frame

from ioweather.cli.main import run
from ioweather.core.clock import now_ns
from ioweather.core.units import DAY_NS
from ioweather.store.lake import open_lake
from ioweather.workflows.doctor import examine


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def states(lake, tmp_path):
    return {check.name: check for check in examine(str(lake.root), tmp_path / "spool")}


def test_a_healthy_lake(lake, tmp_path):
    (lake.root / "facility.toml").write_text('[filesystem.scratch]\nlustre = ["scratch"]\n')
    lake.append("series", series_frame(np.ones((2, 1))), source="tts")
    found = states(lake, tmp_path)
    assert {found[name].state for name in ("python", "packages", "lake", "commits", "names", "clocks")} == {"ok"}
    assert found["agent"].state == "note"


def test_unmapped_names_and_clocks_from_the_future(lake, tmp_path):
    lake.append("series", series_frame(np.ones((2, 1)), system="snx1", start_ns=now_ns() + 2 * DAY_NS), source="tts")
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
