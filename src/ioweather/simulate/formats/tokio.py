"""TOKIO time series (HDF5): arrays (time, column), stamps at the start of the step, -0.0 where nothing was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from ioweather.core.arrays import Floats
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.observed import Observed
from ioweather.simulate.resources import Calendar, Resources

_CHUNK_ROWS = 1440
_HOUR = 3600
_TARGET_BYTES = 50 * 10**12


class TokioWriter:
    """One file a day; windows of a day are appended to it."""

    def __init__(self, folder: Path, resources: Resources, calendar: Calendar) -> None:
        self._folder, self._resources, self._calendar = folder, resources, calendar
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, observed: Observed, used_bytes: float) -> None:
        start = self._calendar.start + round(observed.readings.start)
        step = observed.readings.step_seconds
        date = self._calendar.local(observed.readings.day * 86400.0).strftime("%Y-%m-%d")
        names = self._resources.ost_names
        stamps = start + step * np.arange(observed.readings.steps)
        hourly = stamps[:: max(1, _HOUR // step)]
        with h5py.File(self._folder / f"{self._resources.fsname}_{date}.hdf5", "a", libver="earliest") as file:
            file.attrs["version"] = np.bytes_("1")
            targets = {"readbytes": observed.read_bytes, "writebytes": observed.write_bytes,
                       "readops": observed.read_requests, "writeops": observed.write_requests}  # fmt: skip
            self._group(file, "datatargets", stamps, {
                name: (_with_holes(values, observed.missing), names, "bytes" if "bytes" in name else "operations")
                for name, values in targets.items()
            })  # fmt: skip
            mdt = (f"{self._resources.fsname}-MDT0000",)
            self._group(file, "mdtargets", stamps, {
                f"{name}s": (observed.operations[:, [column]], mdt, "operations")
                for column, name in enumerate(OPERATIONS)
            })  # fmt: skip
            self._group(
                file, "dataservers", stamps, {"cpuload": (observed.oss_cpu_percent, self._resources.oss_names, "%")}
            )
            self._group(file, "mdservers", stamps, {"cpuload": (observed.mds_cpu_percent, ("mds001",), "%")})
            full = np.full((len(hourly), len(names)), float(round(used_bytes / len(names))))
            total = np.full_like(full, float(_TARGET_BYTES))
            self._group(
                file, "fullness", hourly, {"bytes": (full, names, "bytes"), "bytestotal": (total, names, "bytes")}
            )

    def _group(
        self, file: Any, name: str, stamps: Any, datasets: dict[str, tuple[Floats, tuple[str, ...], str]]
    ) -> None:
        group = file.require_group(name)
        group.attrs["source"] = np.bytes_("simulated")
        _append(group, "timestamps", stamps.astype("i8"))
        for dataset, (values, columns, unit) in datasets.items():
            made = _append(group, dataset, values)
            made.attrs["columns"] = np.array([column.encode() for column in columns])
            made.attrs["units"] = np.bytes_(unit)


def _with_holes(values: Floats, missing: Any) -> Floats:
    return np.where(missing, -0.0, values)


def _append(group: Any, name: str, values: Any) -> Any:
    if name in group:
        dataset = group[name]
        before = len(dataset)
        dataset.resize(before + len(values), axis=0)
        dataset[before:] = values
        return dataset
    chunks = (min(_CHUNK_ROWS, max(1, len(values))), *values.shape[1:])
    return group.create_dataset(
        name, data=values, maxshape=(None, *values.shape[1:]), chunks=chunks, compression="gzip", compression_opts=1,
        shuffle=True,
    )  # fmt: skip
