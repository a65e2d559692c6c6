"""Ratios of a job's amounts: one definition, for single logs and for the merged instances of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats
from ioweather.core.frames import Column, Frame


def ratio_columns(jobs: Frame) -> dict[str, Column]:
    """Every column of `job_io` that is a quotient of others; null where the divisor is 0 or null."""
    read_bytes, write_bytes = jobs.floats("read_bytes"), jobs.floats("write_bytes")
    moved = read_bytes + write_bytes
    meta, nprocs = jobs.floats("meta_seconds"), jobs.floats("nprocs")
    accesses = jobs.floats("fs_read_count") + jobs.floats("fs_write_count")
    return {
        "bytes_per_s": quotient(moved, jobs.floats("io_seconds")),
        "read_bytes_per_s": quotient(read_bytes, jobs.floats("d_read_seconds")),
        "write_bytes_per_s": quotient(write_bytes, jobs.floats("d_write_seconds")),
        "metadata_ratio": quotient(meta, meta + jobs.floats("read_seconds") + jobs.floats("write_seconds")),
        "files_per_process": quotient(jobs.floats("file_count"), nprocs),
        "creates_per_process": quotient(jobs.floats("create_count"), nprocs),
        "bytes_per_process": quotient(moved, nprocs),
        "sequential_ratio": quotient(jobs.floats("sequential_count"), accesses),
        "aligned_ratio": 1 - quotient(jobs.floats("not_aligned_count"), jobs.floats("alignment_tested_count")),
    }


def quotient(numerator: NDArray[Any], denominator: NDArray[Any]) -> Floats:
    """NaN where the divisor is 0 or NaN."""
    result = np.full(len(numerator), np.nan)
    with np.errstate(over="ignore"):  # infinite, where a damaged log has absurd times
        np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result
