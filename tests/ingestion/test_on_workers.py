"""What runs on workers gives what one process gives, to the last bit: ingest, exhibits,
scan. Workers are processes of this machine, or of a Dask cluster."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from dask_clusters import loopback_cluster
from ioweather.core.results import Exhibit, to_jsonable
from ioweather.lake.lake import open_lake
from ioweather.lake.workers import open_executor
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP
from ioweather.studies.pat19 import matrices
from ioweather.topics.analyse import make_exhibits
from lake_contents import contents
from made_once import made_once
from scan_trees import counted, runs_tree

PRESET = replace(
    LAPTOP, days=1, jobs=16, osts=4, largest_processes=500, probe_seconds=600, sampler_seconds=600, scan_files=300,
    detail_day=0,
)  # fmt: skip
# Of studies that are one task, and of those that spread their work: days of climate, replicates of tails.
QUICK = ("car11.fig6", "car11.fig7", "pat19.fig7", "pat19.fig12", "pat19.fig16")
EXHIBITS = (*QUICK, "don15.fig5")
FEW = {"replicates": "10"}


@pytest.fixture(scope="module", autouse=True)
def short_stretches():
    """So that a day is many pieces of work."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "_STRETCH_DAYS", 0.1)
        yield


@pytest.fixture(scope="module", params=["processes", "dask"])
def workers(request):
    with ExitStack() as stack:
        if request.param == "dask":
            cluster = stack.enter_context(loopback_cluster())
            yield stack.enter_context(open_executor(dask=cluster.scheduler_address))
        else:
            yield stack.enter_context(open_executor(workers=2))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The facility and its lake."""
    made = made_once(tmp_path_factory.mktemp("alone"), "alone", _made_alone)
    return made, open_lake(made.out.parent / "lake")


def _made_alone(folder):
    made = generate(PRESET, folder / "facility")
    ingest_simulated(made, folder / "lake")
    return made


@pytest.fixture(scope="module")
def exhibits_alone(alone):
    _, lake = alone
    return made_once(lake.root, "exhibits_alone", lambda _: make_exhibits(lake, EXHIBITS, params=FEW, use_cache=False))


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def said(exhibits: list[Exhibit]) -> list[str]:
    """What each exhibit says, to 9 digits: BLAS adds in another order with another number of threads."""
    bodies = [rounded(to_jsonable(exhibit)) for exhibit in exhibits]
    return [json.dumps({k: v for k, v in body.items() if k != "provenance"}, sort_keys=True) for body in bodies]


def test_exhibits(alone, exhibits_alone, workers):
    _, lake = alone
    seen = []

    def tell(*told):
        seen.append(told)

    there = make_exhibits(lake, EXHIBITS, params=FEW, use_cache=False, executor=workers, progress=tell)
    assert said(there) == said(exhibits_alone)
    assert seen[-1][0] == seen[-1][1]
    assert "climate: part 3 of 5" in [what for _, _, what in seen]


@pytest.mark.parametrize("workers", ["processes"], indirect=True)  # on Dask: lake/test_dask_cluster
def test_ingest(alone, workers, tmp_path):
    """The ledger names the paths that were read, so both are read from the same place."""
    made, lake = alone
    assert contents(ingest_simulated(made, tmp_path / "lake", executor=workers)) == contents(lake)


def test_a_scan(workers, tmp_path):
    plan = plan_scan(runs_tree(tmp_path / "tree", 200), start_ns=(int(time.time()) + 1) * 10**9)
    here, there = (Scan(plan, ScanState(), executor, 2).run() for executor in (None, workers))
    assert counted(there) == counted(here)
