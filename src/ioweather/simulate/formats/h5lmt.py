"""pyLMT's daily HDF5: arrays (component, time), rates, stamps at the end of the step, and its own losses.

The first step of every hour is lost (zero for all targets); step 0 repeats the day before; a sample that a server did
not send is zero and marked.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

from ioweather.core.arrays import Floats
from ioweather.simulate.flows import OPERATIONS
from ioweather.simulate.observed import Observed
from ioweather.simulate.resources import Calendar, Resources

_STEP = 5
_HOUR_STEPS = 720


def write_h5lmt(path: Path, observed: Observed, resources: Resources, calendar: Calendar) -> None:
    steps = observed.readings.steps
    stamps = calendar.start + round(observed.readings.start) + _STEP * np.arange(steps + 1)
    # pyLMT has no place for a single target: a server sent everything or nothing.
    silent = np.zeros((steps, resources.servers), bool)
    np.logical_or.at(silent.T, resources.server_of, observed.missing.T)
    gone = silent[:, resources.server_of]
    with h5py.File(path, "w", libver="earliest") as file:
        file.create_dataset("FSStepsGroup/FSStepsDataSet", data=stamps.astype("i4"))
        file["FSStepsGroup/FSStepsDataSet"].attrs["fs"] = np.bytes_(resources.fsname)
        for name, values in (("OSTReadGroup/OSTBulkReadDataSet", observed.read_bytes),
                             ("OSTWriteGroup/OSTBulkWriteDataSet", observed.write_bytes)):  # fmt: skip
            made = _put(file, name, np.where(gone, 0.0, values) / _STEP)
            made.attrs["OSTNames"] = np.array([n.encode() for n in resources.ost_names])
        made = _put(file, "MDSOpsGroup/MDSOpsDataSet", observed.operations / _STEP)
        made.attrs["OpNames"] = np.array([name.encode() for name in OPERATIONS])
        made = _put(file, "OSSCPUGroup/OSSCPUDataSet", np.where(silent, 0.0, observed.oss_cpu_percent), lost=False)
        made.attrs["OSSNames"] = np.array([n.encode() for n in resources.oss_names])
        cpu = np.concatenate([observed.mds_cpu_percent[:1, 0], observed.mds_cpu_percent[:, 0]])
        file.create_dataset("MDSCPUGroup/MDSCPUDataSet", data=cpu)
        _put(file, "FSMissingGroup/FSMissingDataSet", silent.astype("i4"), lost=False)


def _put(file: h5py.File, name: str, values: Floats, *, lost: bool = True) -> h5py.Dataset:
    """(time, component) to (component, time), with a step before the first and without the first of each hour."""
    turned = np.concatenate([values[:1], values]).T.copy()
    if lost:
        turned[:, _HOUR_STEPS::_HOUR_STEPS] = 0
    return file.create_dataset(name, data=turned, compression="gzip", compression_opts=1, shuffle=True)
