"""A lake of a small simulated facility with something for every part: made once for a test run, in seconds."""

from __future__ import annotations

import fcntl
import shutil
from dataclasses import replace
from pathlib import Path

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from ioweather.store.lake import Lake, open_lake
from ioweather.workflows.simulated import ingest_simulated

PRESET = replace(for_days(LAPTOP, 1), detail_day=None, probe_seconds=1200, sampler_seconds=7200, scan_files=200)


def make_small_lake(folder: Path) -> Lake:
    """A copy in `folder`, one of pytest's: all workers of a run share the first."""
    of_run = next((parent for parent in folder.parents if parent.name.startswith("pytest-")), folder.parent)
    first = of_run / "small_facility"
    with (of_run / "small_facility.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (first / "lake" / "lake.json").exists():
            shutil.rmtree(first, ignore_errors=True)
            ingest_simulated(generate(PRESET, first / "facility", seed=5), first / "lake")
    shutil.copytree(first / "lake", folder / "lake")
    return open_lake(folder / "lake")
