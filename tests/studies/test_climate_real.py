"""Twelve hours of a file system in samples of 5 s (ours; Edison's scratch of 24 OSTs): the exhibits against the file
read by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from ioweather.core.results import Exhibit
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.topics.analyse import make_exhibits
from ioweather.topics.catalogue import STUDIES


@pytest.fixture(scope="module")
def exhibits(half_day: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Exhibit]:
    lake = open_lake(tmp_path_factory.mktemp("half-day") / "lake", create=True)
    ingest(lake, [half_day])
    wanted = [
        e for e in STUDIES["climate"].exhibits if e not in ("pat19.fig6", "pat19.fig5", "pat19.fig13", "pat19.fig14")
    ]
    return {e.id: e for e in make_exhibits(lake, [*wanted, "car11.fig7"], use_cache=False)}


def by_hand(half_day: Path, dataset: str) -> np.ndarray:
    """Minutes x samples x components; the file says bytes/sec and holds bytes per 5 s, and -0.0 where nothing was."""
    with h5py.File(half_day) as file:
        samples = file[dataset][...]
    return np.where(np.signbit(samples), 0.0, samples).reshape(-1, 12, samples.shape[1])


def value(exhibit: Exhibit, name: str) -> Any:
    return next(e.value for e in exhibit.estimates if e.name == name)


def test_volume_and_rates(exhibits: dict[str, Exhibit], half_day: Path) -> None:
    read, write = (by_hand(half_day, f"datatargets/{way}bytes").sum(axis=1) for way in ("read", "write"))
    assert value(exhibits["pat19.fig3"], "total_read") == pytest.approx(read.sum(), rel=1e-3)
    assert value(exhibits["pat19.fig3"], "total_write") == pytest.approx(write.sum(), rel=1e-3)
    system = (read + write).sum(axis=1) / 60
    assert value(exhibits["car11.fig7"], "peak_rate") == pytest.approx(system.max(), rel=1e-3)
    totals = read.sum(axis=0)
    assert value(exhibits["pat19.fig10"], "max_over_min_read") == pytest.approx(totals.max() / totals.min(), rel=1e-3)


def test_processor_load_is_small_as_the_paper_says(exhibits: dict[str, Exhibit], half_day: Path) -> None:
    load = by_hand(half_day, "dataservers/cpuload").mean(axis=1) / 100
    found = value(exhibits["pat19.fig15"], "mean_load_all")
    assert found == pytest.approx(load.mean(), rel=0.01)
    assert found < 0.02
    assert value(exhibits["pat19.fig15"], "max_load_servers_ratio") == 1
