"""One simulated facility of three days behind every test of this folder, and a way to run commands on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import ioweather
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import for_days, preset_named
from ioweather.ui.cli.main import run
from made_once import made_once
from object_stores import object_store, place_in_store


@pytest.fixture(scope="session")
def bucket() -> Iterator[str | None]:
    """An address for lakes in object storage, with IOWEATHER_NET_STORE=1 and one worker; else None."""
    if os.environ.get("IOWEATHER_NET_STORE") != "1":
        yield None
        return
    with object_store(os.environ) as address:
        yield address


def _facility(folder: Path, bucket: str | None) -> Path:
    if bucket is None:
        ioweather.simulate_facility(folder, preset="laptop", days=3, seed=7)
    else:
        made = generate(for_days(preset_named("laptop"), 3), folder, seed=7)
        ingest_simulated(made, place_in_store(folder / "lake", bucket))
    run(["lake", "compact", "--lake", str(folder / "lake")])
    return folder


@pytest.fixture(scope="session")
def facility(tmp_path_factory: pytest.TempPathFactory, bucket: str | None) -> Path:
    """Its files in `data`, its lake in `lake`. Nobody writes to it."""
    return made_once(tmp_path_factory.mktemp("net"), "net_facility", partial(_facility, bucket=bucket))


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
