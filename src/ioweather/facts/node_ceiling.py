"""The most that a compute node can move, by job size (car11 II-D): its own link, or its part of the file system."""

from __future__ import annotations

import numpy as np

from ioweather.core.arrays import Floats
from ioweather.core.facility import Facility
from ioweather.core.frames import Text
from ioweather.core.units import MIB


def peak_of(mount: str | None, facility: Facility) -> float | None:
    """Nominal peak of the file system that holds `mount`; where that is not known, the highest of all of them."""
    own = facility.filesystem_of_path(mount) if mount else None
    if own is not None and own.peak_bytes_per_s is not None:
        return own.peak_bytes_per_s
    return max((fs.peak_bytes_per_s for fs in facility.filesystems if fs.peak_bytes_per_s is not None), default=None)


def ceiling_mib_per_s_per_node(nodes: Floats, mounts: Text, facility: Facility) -> Floats:
    """min(per-node limit, file-system peak / Ncn) in MiB/s/CN; NaN where the facility file gives neither."""
    peaks = [peak_of(mount, facility) for mount in (*mounts.categories, None)]
    by_filesystem = np.array([np.nan if peak is None else peak for peak in peaks])[mounts.codes] / nodes
    limit = np.nan if facility.node_limit_bytes_per_s is None else facility.node_limit_bytes_per_s
    # fmin passes over NaN: one known bound is a bound.
    return np.asarray(np.fmin(by_filesystem, limit) / MIB, np.float64)
