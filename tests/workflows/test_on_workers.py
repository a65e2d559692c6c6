"""What runs on workers gives what one process gives, to the last bit: simulation, ingest, exhibits, report, score."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.core.results import Exhibit, to_jsonable
from ioweather.engine import local_executor
from ioweather.report import gather as gathering
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP
from ioweather.workflows.analyse import make_exhibits
from ioweather.workflows.score import score
from ioweather.workflows.simulated import ingest_simulated
from lake_contents import contents

PRESET = replace(
    LAPTOP, days=1, jobs=20, osts=4, largest_processes=500, probe_seconds=600, sampler_seconds=3600, scan_files=300,
    detail_day=None,
)  # fmt: skip
EXHIBITS = ("car11.fig6", "car11.fig7", "pat19.fig7")


@pytest.fixture(scope="module")
def workers():
    with local_executor(2) as executor:
        yield executor


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    made = generate(PRESET, folder / "facility")
    return made, ingest_simulated(made, folder / "lake")


def files(folder: Path) -> dict[str, str]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def said(exhibits: list[Exhibit]) -> list[str]:
    bodies = [to_jsonable(exhibit) for exhibit in exhibits]
    return [json.dumps({k: v for k, v in body.items() if k != "provenance"}, sort_keys=True) for body in bodies]


def test_simulation(workers, tmp_path):
    preset = replace(PRESET, days=2, detail_day=1)
    days = []
    here = generate(preset, tmp_path / "here")
    there = generate(preset, tmp_path / "there", executor=workers, progress=lambda done, total, what: days.append(done))
    assert files(there.out) == files(here.out)
    assert days == [1, 2]


def test_ingest(alone, workers, tmp_path):
    made, lake = alone
    # The ledger names the paths that were read, so both are read from the same place.
    assert contents(ingest_simulated(made, tmp_path / "lake", executor=workers)) == contents(lake)


def test_exhibits(alone, workers):
    _, lake = alone
    seen = []
    there = make_exhibits(
        lake, EXHIBITS, use_cache=False, executor=workers, progress=lambda done, total, what: seen.append((done, total))
    )
    assert said(there) == said(make_exhibits(lake, EXHIBITS, use_cache=False))
    assert seen[-1][0] == seen[-1][1]


def test_a_report(alone, workers, monkeypatch):
    _, lake = alone
    few = [gathering._Task((name,), "", {}, True) for name in EXHIBITS]
    monkeypatch.setattr(gathering, "_tasks", lambda *_: iter(few))
    here, there = (gathering.gather(lake, executor=executor) for executor in (None, workers))
    assert said([m.exhibit for m in there.made]) == said([m.exhibit for m in here.made])
    assert len(there.made) == len(EXHIBITS)


def test_a_score(alone, workers, tmp_path):
    made, _ = alone
    questions = ("volumes", "growth")
    here, there = (
        score(made.out, questions=questions, lake_dir=tmp_path / str(n), executor=executor).jsonable()
        for n, executor in enumerate((None, workers))
    )
    assert here == there
    assert here["scored"] > 0
