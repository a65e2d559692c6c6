"""A Cori-size day of server counters: 17,280 steps of 5 s, 248 OSTs, read and write (8.6 million cells) to minutes.

Peer: pytokio's `to_dataframe` and pandas' `resample`, where pytokio can be imported (it is no dependency: install it
beside h5py and pandas in an environment of its own and run this script there with src on PYTHONPATH); always plain
h5py + pandas, the least that anybody would write. The archive is made here, with planted values, and both must find
the planted totals. CPU and wall seconds, the best of three.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd

from ioweather.core.contracts import ReadContext
from ioweather.readers.lmt_hdf5 import TTS as SOURCE

STEPS, OSTS, START = 17_280, 248, 1_517_126_400
DATASETS = {"read_bytes": "readbytes", "write_bytes": "writebytes"}
MISSING_SHARE = 0.0005


def make_archive(path: Path) -> dict[str, float]:
    """Bursty amounts with holes, as pytokio lays them out; returns the planted totals."""
    rng = np.random.default_rng(2018)
    totals = {}
    with h5py.File(path, "w") as file:
        file.attrs["version"] = "1"
        group = file.create_group("datatargets")
        group.attrs["source"] = "lmt"
        group["timestamps"] = START + 5 * np.arange(STEPS)
        for metric, name in DATASETS.items():
            busy = rng.random((STEPS, OSTS)) < 0.3
            amounts = np.where(busy, np.rint(rng.lognormal(17, 2, (STEPS, OSTS))), 0.0)
            amounts[rng.random((STEPS, OSTS)) < MISSING_SHARE] = -0.0
            dataset = group.create_dataset(name, data=amounts, chunks=(2160, 31), compression="gzip")
            dataset.attrs["columns"] = np.array([b"fs1-OST%04x" % i for i in range(OSTS)])
            dataset.attrs["units"] = "bytes"
            dataset.attrs["version"] = "1"
            totals[metric] = float(amounts.sum())
    return totals


def ours(path: Path) -> dict[str, float]:
    """To rows of the lake: what the peers' tables would still have to become."""
    totals = dict.fromkeys(DATASETS, 0.0)
    for _, frame in SOURCE.read(path, ReadContext()):
        totals[frame.text("metric").categories[0]] += float(frame.array("value").sum())
    return totals


def plain(path: Path) -> dict[str, float]:
    totals = {}
    with h5py.File(path) as file:
        index = pd.to_datetime(file["datatargets/timestamps"][:], unit="s")
        for metric, name in DATASETS.items():
            values = file[f"datatargets/{name}"][:]
            values[(values == 0) & np.signbit(values)] = np.nan
            names = [text.decode() for text in file[f"datatargets/{name}"].attrs["columns"]]
            minutes = pd.DataFrame(values, index, names).resample("60s").sum()
            rows = minutes.stack().reset_index()  # long rows, as ours
            totals[metric] = float(rows[0].sum())
    return totals


def pytokio(path: Path) -> dict[str, float]:
    import tokio.connectors.hdf5

    totals = {}
    with tokio.connectors.hdf5.Hdf5(str(path), mode="r") as file:
        for metric, name in DATASETS.items():
            minutes = file.to_dataframe(f"datatargets/{name}").resample("60s").sum()
            totals[metric] = float(minutes.to_numpy().sum())
    return totals


def measure(work: Callable[[Path], dict[str, float]], path: Path, planted: dict[str, float]) -> tuple[float, float]:
    wall, cpu = [], []
    for _ in range(3):
        begin, begin_cpu = time.perf_counter(), time.process_time()
        found = work(path)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - begin_cpu)
        assert found == planted, f"{work.__name__} found {found}, planted were {planted}"
    return min(wall), min(cpu)


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "fs1_2018-01-28.hdf5"
        planted = make_archive(path)
        print(f"{STEPS * OSTS * 2 / 1e6:.1f} million cells, {path.stat().st_size / 1e6:.0f} MB")
        own = measure(ours, path, planted)
        print(f"ioweather, to rows of minutes  {own[0]:6.2f} s wall {own[1]:6.2f} s CPU")
        peers: dict[str, Any] = {"h5py + pandas, to long rows": plain}
        try:
            import tokio.connectors.hdf5  # noqa: F401

            peers["pytokio + pandas resample"] = pytokio
        except ImportError as error:
            print(f"pytokio is not here ({error}): compared with plain h5py + pandas only")
        for name, work in peers.items():
            wall, cpu = measure(work, path, planted)
            print(f"{name:30} {wall:6.2f} s wall {cpu:6.2f} s CPU: {cpu / own[1]:.1f} x ours (CPU)")


if __name__ == "__main__":
    main()
