"""The lines to type, by the interface that the records in question were used through."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile, Verb
from ioweather.core.arrays import Bools, Floats, Ints

_LARGER: Final = {
    "HDF5": ("H5Pset_chunk_cache(dapl, 12421, 64 << 20, 1.0);", "H5Pset_alignment(fapl, 1 << 20, 4 << 20);"),
    "PnetCDF": ("ncmpi_iput_vara(...); ncmpi_wait_all(...);",),
    "MPI-IO": ("one MPI_File_{verb}_at per 4 MiB or more",),
    "POSIX": ("{verb}(fd, buffer, 4 << 20) instead of each piece",),
    "STDIO": ("setvbuf(file, NULL, _IOFBF, 4 << 20);",),
}
_LARGER_PYTHON: Final = {
    "HDF5": ("h5py.File(path, rdcc_nbytes=64 << 20)", "file.create_dataset(name, data=a, chunks=(64, *s))"),
    "PnetCDF": _LARGER["PnetCDF"],
    "MPI-IO": ("one File.{Verb}_at of 4 MiB or more (mpi4py)",),
    "POSIX": ("open(path, mode, buffering=4 << 20)", "zarr.create_array(store, chunks=..., shards=...)"),
    "STDIO": ("open(path, mode, buffering=4 << 20)",),
}
_COLLECTIVE: Final = {
    "HDF5": ("H5Pset_dxpl_mpio(dxpl, H5FD_MPIO_COLLECTIVE);", "H5Pset_all_coll_metadata_ops(fapl, true);"),
    "PnetCDF": ("ncmpi_{put_or_get}_vara_all instead of ncmpi_{put_or_get}_vara",),
    "MPI-IO": ("MPI_File_{verb}_at_all instead of MPI_File_{verb}_at",),
    "POSIX": ("MPI_File_{verb}_at_all instead of {verb}",),
    "STDIO": ("MPI_File_{verb}_at_all instead of f{verb}",),
}
_COLLECTIVE_PYTHON: Final = {
    "HDF5": ("h5py.File(path, 'a', driver='mpio', comm=comm)", "with dataset.collective: dataset[part] = data"),
    "PnetCDF": _COLLECTIVE["PnetCDF"],
    "MPI-IO": ("File.{Verb}_at_all instead of File.{Verb}_at",),
    "POSIX": ("MPI.File.Open(comm, path, mode).{Verb}_at_all(...)",),
    "STDIO": ("MPI.File.Open(comm, path, mode).{Verb}_at_all(...)",),
}
BROADCAST: Final = ("if (rank == 0) read(fd, buffer, bytes);", "MPI_Bcast(buffer, bytes, MPI_BYTE, 0, comm);")


def interface_of(profile: Profile, rows: Bools, weight: Floats | Ints) -> str:
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
        totals[name] = float(weight[left & mine].sum(dtype=np.float64))
        left = left & ~mine
    return max(totals, key=lambda name: totals[name])


def main_verb(profile: Profile, rows: Bools) -> Verb:
    read, written = (float(profile.ints(f"{verb}_count")[rows].sum(dtype=np.float64)) for verb in ("read", "write"))
    return "read" if read > written else "write"


def larger_requests(profile: Profile, interface: str, verb: Verb) -> tuple[str, ...]:
    return _filled((_LARGER_PYTHON if profile.python else _LARGER)[interface], verb)


def collective_calls(profile: Profile, interface: str, verb: Verb) -> tuple[str, ...]:
    lines = _filled((_COLLECTIVE_PYTHON if profile.python else _COLLECTIVE)[interface], verb)
    return (*lines, _hint(profile, f"romio_cb_{verb}", "enable"))


def buffering(profile: Profile, interface: str, verb: Verb, buffer_bytes: int) -> tuple[str, ...]:
    """Collective buffering on, one aggregator per node, and the library's part in scattered requests."""
    lines = (
        _hint(profile, f"romio_cb_{verb}", "enable"),
        _hint(profile, "cb_nodes", str(profile.nodes)),
        _hint(profile, "cb_buffer_size", str(buffer_bytes)),
    )
    # A file that NetCDF-4 or HDF5 fills or chunks against the grain is written in short pieces whatever MPI-IO does.
    by_library: dict[str, tuple[str, ...]] = {
        "HDF5": ("H5Pset_chunk(dcpl, rank, block_of_one_process);",),
        "PnetCDF": ("nc_var_par_access(nc, var, NC_COLLECTIVE);",),
    }
    library = by_library.get(interface, ())
    if not library and _netcdf(profile):
        library = ("nc_def_var_chunking(nc, v, NC_CHUNKED, block);", "nc_set_fill(nc, NC_NOFILL, NULL);")
    return (*lines, *library)


def aligned(profile: Profile, interface: str, block: int) -> tuple[str, ...]:
    if profile.python and interface == "HDF5":
        return (f"h5py.File(path, alignment_interval={block})",)
    return {
        "HDF5": (f"H5Pset_alignment(fapl, 1 << 20, {block});",),
        "PnetCDF": (f'MPI_Info_set(info, "nc_var_align_size", "{block}");',),
        "MPI-IO": (f'MPI_Info_set(info, "striping_unit", "{block}");',),
    }.get(interface, (f"begin each request at a multiple of {block} bytes",))


def in_order(profile: Profile, verb: Verb) -> tuple[str, ...]:
    if profile.python:
        call = "os.pread" if verb == "read" else "os.pwrite"
        return (f"for i in sorted(items): {call}(fd, ..., i * size)",)
    lines = (f"sort by offset, then {verb} in that order",)
    return (*lines, _hint(profile, f"romio_cb_{verb}", "enable")) if profile.parallel else lines


def kept_in_memory(profile: Profile, shared: bool) -> tuple[str, ...]:
    if profile.python or profile.separate:
        return ("cp -r DATA $TMPDIR  # once per node, read there", "functools.lru_cache on what reads a sample")
    return BROADCAST if shared else ("keep what was read in memory",)


def by_all(profile: Profile) -> tuple[str, ...]:
    lines = ("MPI_File_write_at_all or _read_at_all on all ranks", _hint(profile, "cb_nodes", str(profile.nodes)))
    return ("MPI.File.Open(comm, path, mode).Write_at_all(...)", lines[1]) if profile.python else lines


def packed(profile: Profile) -> tuple[str, ...]:
    """Many files in few."""
    if profile.python or profile.separate:
        return (
            "webdataset.WebDataset('shard-{0000..0099}.tar')",
            "DataLoader(..., num_workers=8, persistent_workers=True)",
        )
    return ("H5Dcreate2 in one HDF5 file instead of a new file", "tar cf all.tar DIRECTORY  # and read from it")


def _netcdf(profile: Profile) -> bool:
    return any(path.endswith((".nc", ".nc4", ".cdf")) for path in profile.records.text("path").categories if path)


def _hint(profile: Profile, name: str, value: str) -> str:
    return f'info.Set("{name}", "{value}")' if profile.python else f'MPI_Info_set(info, "{name}", "{value}");'


def setstripe(profile: Profile, rows: Bools, width: int, size: str = "4M") -> str:
    return f"lfs setstripe -c {width} -S {size} {folder_of(profile, rows)}"


def folder_of(profile: Profile, rows: Bools) -> str:
    """The directory of the file with most bytes, where its path is known, can be typed, and is no mount's root."""
    first = int(np.argmax(np.where(rows, profile.moved, -1))) if rows.any() else -1
    path = profile.records.text("path")[first : first + 1].tolist()[0] if first >= 0 else None
    folder = path.rpartition("/")[0] if path else ""
    if folder in profile.mounts or folder in ("", "/"):
        # Never the root of a file system: everybody's new files would follow.
        return "DIRECTORY"
    plain = folder.startswith("/") and all(c.isalnum() or c in "/._-+" for c in folder)
    return folder if plain else "DIRECTORY"


def _filled(lines: tuple[str, ...], verb: Verb) -> tuple[str, ...]:
    call = "put" if verb == "write" else "get"
    words = {"{verb}": verb, "{Verb}": verb.capitalize(), "{put_or_get}": call}
    for word, meant in words.items():
        lines = tuple(line.replace(word, meant) for line in lines)
    return lines
