"""Requests that begin off the file system's blocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.fixes import (
    aligned,
    interface_of,
)
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes, format_value

UNALIGNED_SHARE: Final = 0.1


def _look(profile: Profile) -> Seen | None:
    rows = profile.records.posix & profile.records.known("file_not_aligned_count") & (profile.operations > 0)
    total, off = int(profile.operations[rows].sum()), int(profile.ints("file_not_aligned_count")[rows].sum())
    if total < FEWEST or off <= UNALIGNED_SHARE * total:
        return None
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    blocks = ratio(ratio(moved, profile.operations), profile.ints("file_alignment_bytes"))
    # Off its blocks a request of s bytes touches 1 + s / A of them on average, else the next whole number of s / A.
    extra = np.maximum(1.0 - np.ceil(blocks) / (1.0 + blocks), 0.0)
    share = np.minimum(ratio(profile.ints("file_not_aligned_count"), profile.operations), 1.0)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    block = int(profile.ints("file_alignment_bytes")[rows].max())
    interface = interface_of(profile, rows, profile.operations.astype(np.float64))
    part = format_value(min(off / total, 1.0), "ratio")
    evidence = f"{part} of {total:,} requests begin off the blocks of {format_bytes(block)}"
    saved = profile.lifted(np.where(rows, data * share * extra, 0.0))
    return Seen(evidence, profile.saving(saved), aligned(profile, interface, block))


RULE = Rule(
    name="unaligned_file",
    headline="file alignment",
    dimension="small_or_misaligned",
    part="requests",
    trigger="more than 10% of 100 or more POSIX requests, those below MPI-IO too, off the file system's blocks",
    model="time follows blocks touched: 1 + size/block off the blocks, the next whole size/block on them",
    sources=("Drishti (Bez et al. 2022)", "HDF5 manual: H5Pset_alignment", "TraceBench MSL"),
    before="H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);",
    after=(
        "hid_t fapl = H5Pcreate(H5P_FILE_ACCESS);\n"
        "H5Pset_alignment(fapl, 1 << 20, 1 << 20);  /* the block of the file system */\n"
        "H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, fapl);"
    ),
    look=_look,
)
