"""All processes open the same file, and that takes long."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    BROADCAST,
    interface_of,
)
from ioweather.advice.advisor.metadata_costs import LONG_SECONDS, opening_seconds
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import GIB, format_seconds
from ioweather.derive.jobs.signatures import METADATA_BOUND

BROADCAST_BYTES: Final = GIB


def _look(profile: Profile) -> Seen | None:
    meta = profile.seconds("meta_seconds")
    rows = profile.counted & profile.shared & (meta > 0)
    rows &= (meta > LONG_SECONDS) | (meta >= METADATA_BOUND * profile.spent)
    if not profile.parallel or not rows.any():
        return None
    keep = min(1.0, profile.nodes / profile.nprocs)
    saved = np.where(rows, opening_seconds(profile) * (1.0 - keep), 0.0)
    longest = float(profile.seconds("meta_seconds")[rows].max())
    files = profile.files_moved(rows)
    which = "a shared file" if files == 1 else f"{files:,} shared files"
    evidence = f"all processes open {which}; up to {format_seconds(longest)} of metadata on one, all processes together"
    hint = 'MPI_Info_set(info, "romio_no_indep_rw", "true");'
    opened = "MPI_File_open(MPI_COMM_WORLD, path, ..., info, &f);"
    # What is only read, and fits a process, is best read by one.
    moved = float(profile.ints("read_bytes")[rows].sum(dtype=np.float64)) / profile.nprocs
    read_only = not profile.ints("write_bytes")[rows].any() and moved <= BROADCAST_BYTES
    by_mpiio = bool(profile.records.mpiio[rows].any())
    hdf5 = interface_of(profile, rows, meta) == "HDF5"
    lines = (hint,) if by_mpiio else BROADCAST if read_only else (opened, hint)
    if hdf5:
        lines = ("H5Pset_all_coll_metadata_ops(fapl, true);", "H5Pset_coll_metadata_write(fapl, true);")
    return Seen(evidence, profile.saving(saved), lines)


RULE = Rule(
    name="shared_metadata",
    headline="opened by all",
    dimension="metadata",
    part="metadata",
    trigger="metadata over 30 s, or half of the time, on a file shared by all",
    model="metadata time of first opens, if one process per node opened instead of all",
    sources=("Drishti (Bez et al. 2022)", "HDF5 manual: collective metadata", "ROMIO user's guide: romio_no_indep_rw"),
    before=("int fd = open(path, O_RDONLY);  /* every process */\nread(fd, table, bytes);"),
    after=(
        "if (rank == 0) {\n"
        "    int fd = open(path, O_RDONLY);\n"
        "    read(fd, table, bytes);\n"
        "}\n"
        "MPI_Bcast(table, bytes, MPI_BYTE, 0, comm);"
    ),
    look=_look,
)
