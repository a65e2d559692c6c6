"""Fill levels of targets, from their capacity and free bytes: on `fs` and on the pages of the same places."""

from __future__ import annotations

import numpy as np
import pytest
from fastapi.testclient import TestClient
from store_lakes import DAY, series_frame

from ioweather.core.units import HOUR_NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import run
from ioweather.ui.web.app import create_app

TIB = 1 << 40


@pytest.fixture
def lake(tmp_path):
    """Four targets of 10 TiB, sampled twice. OST0002 fills from 50% to 95%, the others stay at 20%."""
    lake = open_lake(tmp_path / "lake", create=True)
    lake.append("series", series_frame(np.ones((180, 4))), source="tts")
    free = np.full((2, 4), 8.0) * TIB
    free[:, 2] = 5 * TIB, 0.5 * TIB
    for metric, values in (("capacity_bytes", np.full((2, 4), 10.0) * TIB), ("free_bytes", free)):
        lake.append("series", series_frame(values, start_ns=DAY, step_ns=HOUR_NS, metric=metric), source=metric)
    return lake


def shown(lake: Lake, capsys, *arguments: str) -> str:
    assert run(["fs", *arguments, "--lake", str(lake.root)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_fs_names_the_fullest_target_and_targets_above_90_percent(lake, capsys):
    text = shown(lake, capsys, "scratch")
    assert "fullest target 95% OST0002: 512 GiB free" in text
    assert "More than 90% full: OST0002 (95%)." in text


def test_fs_of_a_target_shows_its_own_level(lake, capsys):
    assert "95% OST0002: 512 GiB free" in shown(lake, capsys, "OST0002")
    other = shown(lake, capsys, "OST0001")
    assert "20% OST0001: 8 TiB free" in other
    assert "More than 90%" not in other


def test_a_past_period_has_the_level_of_that_time(lake, capsys):
    text = shown(lake, capsys, "scratch", "--to", "2024-10-04T01:00")
    assert "fullest target 50%" in text
    assert "More than 90%" not in text


def test_the_pages_have_the_same_block(lake):
    with TestClient(create_app(lake.root, hosts=("testserver",))) as client:
        whole = client.get("/fragments/storage?where=scratch").text
        assert "fullest target" in whole
        assert "More than 90% full: OST0002 (95%)" in whole
        assert "512 GiB free" in client.get("/fragments/storage?where=OST0002").text
