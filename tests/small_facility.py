"""A lake of a small simulated facility with something for every part: made once for a test run, in seconds."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from ioweather.lake.lake import Lake, open_lake
from ioweather.simulate.generate import generate
from ioweather.simulate.ingest_simulated import ingest_simulated
from ioweather.simulate.presets import LAPTOP, for_days
from made_once import made_once

PRESET = replace(for_days(LAPTOP, 1), detail_day=None, probe_seconds=1200, sampler_seconds=7200, scan_files=200)


def make_small_lake(folder: Path) -> Lake:
    """A copy in `folder`, one of pytest's."""
    first = made_once(folder, "small_facility", _make)
    shutil.copytree(first, folder / "lake")
    return open_lake(folder / "lake")


def _make(folder: Path) -> Path:
    return ingest_simulated(generate(PRESET, folder / "facility", seed=5), folder / "lake").root
