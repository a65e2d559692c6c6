"""The demonstration: a small simulated facility, read through the normal door into its own lake; the first exhibits."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from ioweather.core.errors import UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP
from ioweather.store import layout
from ioweather.store.lake import open_lake
from ioweather.workflows.analyse import make_exhibits
from ioweather.workflows.simulated import ingest_simulated

FIRST_EXHIBITS = ("car11.fig6", "car11.fig7", "car11.table4", "pat19.fig7")
_SEED = 1
# The same week once: the copies of a day in other formats, and most of the probes, only cost time here.
PRESET = replace(LAPTOP, detail_day=None, probe_seconds=600, sampler_seconds=3600, scan_files=1500)


@dataclass(frozen=True)
class Demo:
    lake: Path
    days: int
    servers: int
    exhibits: tuple[Exhibit, ...]


def make_demo(out: Path | None = None, *, progress: Progress = silent) -> Demo:
    """Made anew each time; only a lake that is itself simulated is overwritten."""
    root = out or layout.default_lake_dir().with_name("demo")
    if layout.is_lake(root) and not open_lake(root).facility.simulated:
        raise UsageError(f"{root} is a real lake.", hint="Name another place with --out.")
    with tempfile.TemporaryDirectory(prefix="ioweather-demo-") as folder:
        made = generate(PRESET, Path(folder) / "facility", seed=_SEED, progress=progress)
        lake = ingest_simulated(made, root, progress=progress)
    exhibits = make_exhibits(lake, FIRST_EXHIBITS, progress=progress)
    return Demo(root, PRESET.days, PRESET.oss_count, tuple(exhibits))
