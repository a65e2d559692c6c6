"""Small requests and the cost of each, shared by the rules; and the lines to type, by interface.

The cost model: a row of a log moved B bytes in n requests in T seconds. At R bytes per second, the rate of large
requests, B alone takes B / R, so a request costs (T - B / R) / n beyond its bytes. Joining requests saves that, but
never the B / R that remains.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final, Literal

import numpy as np

from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.units import GIB, KIB, MIB, format_bytes
from ioweather.facts.job_metrics import ratio
from ioweather.job_io.advisor.profile import VERBS, Profile, Verb

# The fewest small requests that make a pattern, and their share of all (Drishti's).
FEWEST: Final = 100
SMALL_SHARE: Final = 0.1
# Size of joined requests: by hand, and by MPI-IO's aggregators (ROMIO's default buffer).
JOINED_BYTES: Final = 4 * MIB
BUFFER_BYTES: Final = 16 * MIB
HDF5_NAMES: Final = (".h5", ".hdf5", ".he5")
NETCDF_NAMES: Final = (".nc", ".nc4", ".cdf")
# A synced write waits for the device at any place: with a sync for each write, order saved 15% and 43% of the overhead
# in the two public pairs.
_SYNCED_SHARE: Final = 0.15


@dataclass(frozen=True)
class Pattern:
    """Result of a rule's function if the pattern is there; `rows` are the records that show it. No change saves more
    than `most_seconds`."""

    evidence: str
    seconds_lost: float
    fix_lines: tuple[str, ...]
    rows: Bools
    most_seconds: float = math.inf


def describe_small(profile: Profile, rows: Bools, share: Floats | float = 1.0) -> str | None:
    """Describe the small requests of these rows; None if they are too few to be a pattern.

    `share` of the operations of each row count. Darshan's sizes do not tell which: as many as possible are small.
    """
    each = np.round(profile.operations * share)
    total = int(each[rows].sum())
    small = min(sum(int(np.minimum(profile.small_count[verb], each)[rows].sum()) for verb in VERBS), total)
    if small < FEWEST or small <= SMALL_SHARE * total:
        return None
    mean = ""
    if total == int(profile.operations[rows].sum()):  # else larger requests may be among them
        moved = sum(float(profile.small_bytes[verb][rows].sum()) for verb in VERBS)
        mean = f", {format_bytes(moved / small)} on average"
    # car11 V.D: 64 KiB writes, blocks of 4 MiB.
    block = int(profile.ints("file_alignment_bytes")[rows].max(initial=0))
    blocks = f"; the file system's block is {format_bytes(block)}" if 64 * KIB <= block <= GIB else ""
    return f"{small:,} of {total:,} requests are under 1 MiB{mean}{blocks}"


def seconds_saved_by_joining(profile: Profile, joined_bytes: int) -> Floats:
    """Return the seconds of each row that are saved if its small requests are joined to requests of so many bytes."""
    saved = np.zeros(len(profile.counted))
    for verb in VERBS:
        fewer = np.maximum(profile.small_count[verb] - np.ceil(profile.small_bytes[verb] / joined_bytes), 0.0)
        saved += profile.overhead[verb] * fewer
    return saved


def order_share(profile: Profile, verb: Verb) -> Floats:
    """Return the share of a request's overhead that depends on its place in the file."""
    if verb == "read":
        return np.ones(len(profile.counted))
    synced = np.minimum(ratio(profile.ints("sync_count"), profile.ints("write_count")), 1.0)
    return 1.0 - (1.0 - _SYNCED_SHARE) * synced


def describe_rate(profile: Profile, rows: Bools) -> str:
    """Return a clause on the rate of large requests."""
    rate, origin = profile.process_rate[main_verb(profile, rows)]
    return f"assuming {format_bytes(rate)}/s for large requests ({origin})"


def joined_by_collectives(profile: Profile, rows: Bools, plain: str, how: str, share: Floats | float = 1.0) -> Pattern:
    """Return a pattern of requests that could be collective, which saves time if they are small and on shared files.

    `how` describes these requests; `plain` is the evidence if there are none. `share` of the operations of each row
    are of that kind.
    """
    evidence, seconds, mine = plain, 0.0, rows & profile.shared
    if (found := describe_small(profile, mine, share)) is not None:
        seconds = profile.saving(np.where(mine, seconds_saved_by_joining(profile, BUFFER_BYTES) * share, 0.0))
        evidence = f"{found}, {how}; {describe_rate(profile, mine)}"
    return Pattern(evidence, seconds, request_lines(profile, "collective", rows), rows)


_LINES: Final = tomllib.loads(files("ioweather.job_io.advisor").joinpath("fixes.toml").read_text("utf-8"))
BROADCAST: Final = ("if (rank == 0) read(fd, buffer, bytes);", "MPI_Bcast(buffer, bytes, MPI_BYTE, 0, comm);")


def request_lines(
    profile: Profile, change: Literal["larger", "collective"], rows: Bools, interface: str = ""
) -> tuple[str, ...]:
    """Return lines that make the requests of these rows larger or collective, by interface and language."""
    verb = main_verb(profile, rows)
    lines = _LINES[change][interface or interface_of(profile, rows, profile.operations)]
    words = {"{verb}": verb, "{Verb}": verb.capitalize(), "{put_or_get}": "put" if verb == "write" else "get"}
    found = []
    for line in lines.get("python", lines["c"]) if profile.python else lines["c"]:
        for word, meant in words.items():
            line = line.replace(word, meant)
        found.append(line)
    return (*found, hint_line(profile, f"romio_cb_{verb}", "enable")) if change == "collective" else tuple(found)


def interface_of(profile: Profile, rows: Bools, weight: Floats | Ints) -> str:
    """Return the interface with most of `weight` in these rows; rows of a library count for the library."""
    records = profile.records
    library = records.text("library")
    kinds = {
        "HDF5": library.equals("HDF5") | with_endings(profile, HDF5_NAMES),
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
    most = max(totals, key=lambda name: totals[name])
    return "MPI-IO" if most == "POSIX" and profile.without_mpiio_calls else most


@lru_cache(2)  # rules of one run ask the same again and again
def with_endings(profile: Profile, endings: tuple[str, ...]) -> Bools:
    """Mark the records of files with one of these endings: old logs have no records of libraries."""
    path = profile.records.text("path")
    return np.array([*(name.lower().endswith(endings) for name in path.categories), False], np.bool_)[path.codes]


def main_verb(profile: Profile, rows: Bools) -> Verb:
    """Return the direction with most requests in these rows."""
    read, written = (float(profile.ints(f"{verb}_count")[rows].sum(dtype=np.float64)) for verb in VERBS)
    return "read" if read > written else "write"


def buffering_lines(profile: Profile, rows: Bools) -> tuple[str, ...]:
    """Return lines for collective buffering with one aggregator per node, and for the library that scatters
    requests."""
    settings = {"cb_nodes": str(profile.nodes), "cb_buffer_size": str(BUFFER_BYTES)}
    lines = hint_lines(profile, {f"romio_cb_{main_verb(profile, rows)}": "enable", **settings})
    # NetCDF-4 and HDF5 write fill values, and chunks across the processes' blocks, in short pieces despite MPI-IO.
    interface = interface_of(profile, rows, profile.operations)
    if interface == "HDF5":
        return (*lines, "H5Pset_chunk(dcpl, rank, block_of_one_process);")
    if interface == "PnetCDF":
        return (*lines, "nc_var_par_access(nc, var, NC_COLLECTIVE);")
    if with_endings(profile, NETCDF_NAMES).any():
        return (*lines, "nc_def_var_chunking(nc, v, NC_CHUNKED, block);", "nc_set_fill(nc, NC_NOFILL, NULL);")
    return lines


def alignment_lines(profile: Profile, rows: Bools, block: int) -> tuple[str, ...]:
    """Return lines that align requests to blocks."""
    interface = interface_of(profile, rows, profile.operations)
    if profile.python and interface == "HDF5":
        return (f"h5py.File(path, alignment_interval={block})",)
    return {
        "HDF5": (f"H5Pset_alignment(fapl, 1 << 20, {block});",),
        "PnetCDF": (f'MPI_Info_set(info, "nc_var_align_size", "{block}");',),
        "MPI-IO": (f'MPI_Info_set(info, "striping_unit", "{block}");',),
    }.get(interface, (f"start each request at a multiple of {block} bytes",))


def sorting_lines(profile: Profile, rows: Bools, shared: bool = False) -> tuple[str, ...]:
    """Return lines that sort requests by offset; on files shared by all, MPI-IO sorts and joins those of all
    processes."""
    verb = main_verb(profile, rows)
    if profile.python:
        call = "os.pread" if verb == "read" else "os.pwrite"
        return (f"for i in sorted(items): {call}(fd, ..., i * size)",)
    if profile.parallel and shared:
        # One collective call for each request joins only as many as there are processes.
        return f"MPI_File_set_view(indexed); MPI_File_{verb}_all();", hint_line(profile, f"romio_cb_{verb}", "enable")
    return (f"sort by offset, then {verb} in that order",)


def distribution_lines(profile: Profile) -> tuple[str, ...]:
    """Return lines that distribute the I/O over all processes."""
    call = "MPI_File_write_at_all or _read_at_all on all ranks"
    if profile.python:
        call = "MPI.File.Open(comm, path, mode).Write_at_all(...)"
    return (call, hint_line(profile, "cb_nodes", str(profile.nodes)))


def packing_lines(profile: Profile) -> tuple[str, ...]:
    """Return lines that pack many files into few."""
    if profile.python or profile.separate:
        return (
            "webdataset.WebDataset('shard-{0000..0099}.tar')",
            "DataLoader(..., num_workers=8, persistent_workers=True)",
        )
    return ("H5Dcreate2 in one HDF5 file instead of a new file", "tar cf all.tar DIRECTORY  # then read all.tar")


# Settings of Open MPI's OMPIO in place of ROMIO's hints. It has collective buffering whenever a call is collective.
_OMPIO: Final = {
    "cb_nodes": "io_ompio_num_aggregators {}",
    "cb_buffer_size": "io_ompio_bytes_per_agg {}",
    "romio_cb_write": "fcoll vulcan",
    "romio_cb_read": "fcoll two_phase",
}


def hint_line(profile: Profile, name: str, value: str) -> str:
    """Return the line that gives a hint to the MPI-IO of this run: an info key of ROMIO, an environment variable of
    Cray MPICH, which needs no new program, or a parameter of OMPIO."""
    if any("/cray" in mount for mount in profile.mounts):
        return f"export MPICH_MPIIO_HINTS=*:{name}={value}"
    if "openmpi" in profile.command.lower() and name in _OMPIO:
        return f"mpirun --mca {_OMPIO[name].format(value)}"
    return f'info.Set("{name}", "{value}")' if profile.python else f'MPI_Info_set(info, "{name}", "{value}");'


def hint_lines(profile: Profile, values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the lines for several hints: one for Cray MPICH, whose variable has them all."""
    if any("/cray" in mount for mount in profile.mounts):
        return ("export MPICH_MPIIO_HINTS=*:" + ":".join(f"{name}={value}" for name, value in values.items()),)
    return tuple(hint_line(profile, name, value) for name, value in values.items())


def directory_of(profile: Profile, rows: Bools) -> str:
    """Return the directory of the file with most bytes, if its path is known and can be typed; else DIRECTORY."""
    first = int(np.argmax(np.where(rows, profile.moved, -1))) if rows.any() else -1
    path = profile.records.text("path")[first : first + 1].tolist()[0] if first >= 0 else None
    folder = path.rpartition("/")[0] if path else ""
    plain = folder.startswith("/") and all(c.isalnum() or c in "/._-+" for c in folder)
    # Never the root of a file system: the new files of all users would be striped.
    return folder if plain and folder not in profile.mounts and folder != "/" else "DIRECTORY"


def most_stripes(profile: Profile) -> float:
    """Return the targets that a shared file should use at most: one for each node, at least four, if there are such."""
    return min(float(max(profile.nodes, 4)), profile.known_targets)


def layout_lines(profile: Profile, rows: Bools, width: int) -> tuple[str, ...]:
    """Return the command that lays new files over `width` targets, for the file system at hand; none where there is no
    such command."""
    folder = directory_of(profile, rows)
    if profile.filesystem == "lustre":
        return (f"lfs setstripe -c {width} -S 4M {folder}", "# before the run: old files keep their striping")
    if profile.filesystem == "beegfs":
        return (f"beegfs-ctl --setpattern --numtargets={width} {folder}",)
    return ()


def describe_count(count: int, one: str, many: str) -> str:
    """Return `one` for 1, else the number and `many`."""
    return one if count == 1 else f"{count:,} {many}"
