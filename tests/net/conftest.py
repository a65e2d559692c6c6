"""One simulated facility of three days behind every test of this folder, and a way to run commands on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import ioweather
from ioweather.ui.cli.main import run
from made_once import made_once


def _facility(folder: Path) -> Path:
    ioweather.simulate_facility(folder, preset="laptop", days=3, seed=7)
    run(["lake", "compact", "--lake", str(folder / "lake")])
    return folder


@pytest.fixture(scope="session")
def facility(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its files in `data`, its lake in `lake`. Nobody writes to it."""
    return made_once(tmp_path_factory.mktemp("net"), "net_facility", _facility)


@pytest.fixture(scope="session")
def lake(facility: Path) -> ioweather.Lake:
    return ioweather.open_lake(facility / "lake")


@pytest.fixture(scope="session")
def logs(facility: Path) -> list[Path]:
    return sorted((facility / "data" / "darshan").rglob("*.darshan"))


@pytest.fixture(scope="session")
def jobs(lake: ioweather.Lake) -> list[str]:
    return [row[0] for row in lake.sql("SELECT DISTINCT job_id FROM applications ORDER BY 1").rows]


@pytest.fixture
def command(
    lake: ioweather.Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Any]:
    """Run `ioweather ARGUMENTS --lake LAKE --json`; the exit code and the JSON that it prints."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: object, lake_option: bool = True, as_json: bool = True) -> tuple[int, Any]:
        options = [*(["--lake", str(lake.root)] if lake_option else []), *(["--json"] if as_json else [])]
        code = run([*map(str, arguments), *options])
        printed = capsys.readouterr()
        assert "bug in ioweather" not in printed.err
        text = printed.out
        return code, json.loads(text) if as_json and text else text or printed.err

    return call
