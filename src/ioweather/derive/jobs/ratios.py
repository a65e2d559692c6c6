"""Ratios of a job's amounts: one definition, for single logs and for the merged instances of a job."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Column, Frame


def ratio_columns(jobs: Frame) -> dict[str, Column]:
    """Every column of `job_io` that is a quotient of others; null where the divisor is 0 or null."""
    read_bytes, write_bytes = _floats(jobs, "read_bytes"), _floats(jobs, "write_bytes")
    moved = read_bytes + write_bytes
    meta, nprocs = _floats(jobs, "meta_seconds"), _floats(jobs, "nprocs")
    accesses = _floats(jobs, "fs_read_count") + _floats(jobs, "fs_write_count")
    return {
        "bytes_per_s": quotient(moved, _floats(jobs, "io_seconds")),
        "read_bytes_per_s": quotient(read_bytes, _floats(jobs, "d_read_seconds")),
        "write_bytes_per_s": quotient(write_bytes, _floats(jobs, "d_write_seconds")),
        "metadata_ratio": quotient(meta, meta + _floats(jobs, "read_seconds") + _floats(jobs, "write_seconds")),
        "files_per_process": quotient(_floats(jobs, "file_count"), nprocs),
        "creates_per_process": quotient(_floats(jobs, "create_count"), nprocs),
        "bytes_per_process": quotient(moved, nprocs),
        "sequential_ratio": quotient(_floats(jobs, "sequential_count"), accesses),
        "aligned_ratio": 1 - quotient(_floats(jobs, "not_aligned_count"), _floats(jobs, "alignment_tested_count")),
    }


def quotient(numerator: NDArray[Any], denominator: NDArray[Any]) -> NDArray[np.float64]:
    """NaN where the divisor is 0 or NaN."""
    result = np.full(len(numerator), np.nan)
    with np.errstate(over="ignore"):  # infinite, where a damaged log has absurd times
        np.divide(numerator, denominator, out=result, where=denominator > 0)
    return result


def _floats(jobs: Frame, name: str) -> NDArray[np.float64]:
    return np.asarray(jobs.array(name), np.float64)
