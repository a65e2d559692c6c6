"""The demonstration: a sample made here, read through the normal door into its own lake, and the first exhibits."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ioweather.core.errors import UsageError
from ioweather.core.progress import Progress, silent
from ioweather.core.results import Exhibit
from ioweather.simulate.sample import write_sample
from ioweather.store import layout
from ioweather.store.lake import open_lake
from ioweather.store.seal import compact
from ioweather.workflows.analyse import make_exhibits
from ioweather.workflows.ingest import ingest

FIRST_EXHIBITS = ("car11.fig6", "car11.fig7")


@dataclass(frozen=True)
class Demo:
    lake: Path
    days: int
    servers: int
    exhibits: tuple[Exhibit, ...]


def make_demo(out: Path | None = None, *, progress: Progress = silent) -> Demo:
    """Made anew each time; only a lake that is itself a demo is overwritten."""
    root = out or layout.default_lake_dir().with_name("demo")
    if layout.is_lake(root):
        if not open_lake(root).facility.simulated:
            raise UsageError(f"{root} is a real lake.", hint="Name another place with --out.")
        shutil.rmtree(root)
    with tempfile.TemporaryDirectory(prefix="ioweather-demo-") as folder:
        sample = write_sample(Path(folder))
        lake = open_lake(root, create=True)
        layout.facility_file(root).write_text(sample.facility_toml, encoding="utf-8")
        ingest(lake, [sample.folder], progress=progress)
    compact(lake)
    made = make_exhibits(lake, FIRST_EXHIBITS, progress=progress)
    return Demo(root, sample.days, sample.servers, tuple(made))
