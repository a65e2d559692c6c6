"""The lines to type, by the interface that the records in question were used through."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile, Verb
from ioweather.core.arrays import Bools, Floats

_LARGER: Final = {
    "HDF5": ("H5Pset_chunk_cache(dapl, 12421, 64 << 20, 1.0);", "H5Pset_alignment(fapl, 1 << 20, 4 << 20);"),
    "PnetCDF": ("ncmpi_iput_vara(...); ncmpi_wait_all(...);",),
    "MPI-IO": ("one MPI_File_{verb}_at per 4 MiB or more",),
    "POSIX": ("{verb}(fd, buffer, 4 << 20) instead of each piece",),
    "STDIO": ("setvbuf(file, NULL, _IOFBF, 4 << 20);",),
}
_COLLECTIVE: Final = {
    "HDF5": ("H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);", "H5Pset_all_coll_metadata_ops(fapl, true);"),
    "PnetCDF": ("ncmpi_{put_or_get}_vara_all instead of ncmpi_{put_or_get}_vara",),
    "MPI-IO": ("MPI_File_{verb}_at_all instead of MPI_File_{verb}_at",),
    "POSIX": ("MPI_File_{verb}_at_all instead of {verb}",),
    "STDIO": ("MPI_File_{verb}_at_all instead of f{verb}",),
}
BROADCAST: Final = ("if (rank == 0) read(fd, buffer, bytes);", "MPI_Bcast(buffer, bytes, MPI_BYTE, 0, comm);")


def interface_of(profile: Profile, rows: Bools, weight: Floats) -> str:
    """The interface with most of `weight` in these rows; what a library was used for is the library's."""
    records = profile.records
    library = records.text("library")
    kinds = {
        "HDF5": library.equals("HDF5"),
        "PnetCDF": library.equals("PnetCDF"),
        "MPI-IO": records.mpiio,
        "POSIX": records.posix,
        "STDIO": records.stdio,
    }
    totals: dict[str, float] = {}
    left = rows
    for name, mine in kinds.items():
        totals[name] = float(weight[left & mine].sum())
        left = left & ~mine
    return max(totals, key=lambda name: totals[name])


def main_verb(profile: Profile, rows: Bools) -> Verb:
    read, written = (float(profile.ints(f"{verb}_count")[rows].sum(dtype=np.float64)) for verb in ("read", "write"))
    return "read" if read > written else "write"


def larger_requests(interface: str, verb: Verb) -> tuple[str, ...]:
    return _filled(_LARGER[interface], verb)


def collective_calls(interface: str, verb: Verb) -> tuple[str, ...]:
    hint = f'MPI_Info_set(info, "romio_cb_{verb}", "enable");'
    return (*_filled(_COLLECTIVE[interface], verb), hint)


def setstripe(profile: Profile, rows: Bools, width: int, size: str = "4M") -> str:
    return f"lfs setstripe -c {width} -S {size} {folder_of(profile, rows)}"


def folder_of(profile: Profile, rows: Bools) -> str:
    """The directory of the file with most bytes, where its path is known and can be typed."""
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    first = int(np.argmax(np.where(rows, moved, -1.0))) if rows.any() else -1
    path = profile.records.text("path")[first : first + 1].tolist()[0] if first >= 0 else None
    folder = path.rpartition("/")[0] if path else ""
    plain = folder.startswith("/") and all(c.isalnum() or c in "/._-+" for c in folder)
    return folder if plain else "DIRECTORY"


def _filled(lines: tuple[str, ...], verb: Verb) -> tuple[str, ...]:
    call = "put" if verb == "write" else "get"
    return tuple(line.replace("{verb}", verb).replace("{put_or_get}", call) for line in lines)
