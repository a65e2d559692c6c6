"""A lake of a small simulated facility with something for every part: made in seconds, only read by tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.store.lake import Lake
from ioweather.workflows.simulated import ingest_simulated

PRESET = replace(for_days(LAPTOP, 1), detail_day=None, probe_seconds=1200, sampler_seconds=7200, scan_files=200)


def make_small_lake(folder: Path) -> Lake:
    made = generate(PRESET, folder / "facility", seed=5)
    return ingest_simulated(made, folder / "lake")
