"""Rules of where data lies and what is moved in vain: stripes, repeated bytes, blocks read to be written."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import BROADCAST, setstripe
from ioweather.advice.advisor.profile import Profile, Verb, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.arrays import Floats, Ints
from ioweather.core.units import GIB, MIB, format_bytes, format_value
from ioweather.derive.jobs.file_records import NEVER_LAST, maximum

# A file wants a target for each of so many bytes, as far as the run has nodes to feed them.
STRIPE_BYTES: Final = GIB
FEWEST_STRIPES: Final = 4
REPEATED_SHARE: Final = 0.1
FEWEST_REPEATED_BYTES: Final = MIB
# Programs of 32 bits cannot name a higher byte: an extent that ends there is none.
_LAST_OF_32_BITS: Final = 1 << 31


def _moved_per_file(profile: Profile) -> Ints:
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    return np.asarray(profile.records.per_file(moved, profile.counted), np.int64)


def _wanted_stripes(profile: Profile) -> Floats:
    """Per row: as many as GiB in the file, at most as many as nodes (at least 4), or as there are targets."""
    size = _moved_per_file(profile)[profile.records.file]
    most = max(profile.nodes, FEWEST_STRIPES)
    return np.minimum(np.ceil(size / STRIPE_BYTES), min(float(most), profile.known_targets))


def _striping(profile: Profile) -> Seen | None:
    stripes, wanted = profile.ints("stripe_count").astype(np.float64), _wanted_stripes(profile)
    rows = profile.counted & (profile.records.rank < 0) & (stripes > 0) & (wanted > stripes)
    rows &= profile.shared_seconds > 0
    if profile.nprocs < 2 or not rows.any():
        return None
    moved = _moved_per_file(profile)[profile.records.file].astype(np.float64)
    # The time that the targets need for the bytes, now and then; the rest of the time has other causes.
    now, then = ratio(moved, stripes), ratio(moved, wanted)
    data = profile.seconds("read_seconds") + profile.seconds("write_seconds")
    most = profile.shared_seconds * ratio(data, profile.spent)
    seconds = float(np.minimum((now - then) / profile.target_bytes_per_s, most)[rows].sum())
    largest = int(np.argmax(np.where(rows, moved, -1.0)))
    count, width = int(stripes[largest]), int(wanted[largest])
    evidence = f"{format_bytes(moved[largest])} of a file shared by all on {count} target{'s' if count != 1 else ''}"
    return Seen(evidence, seconds, (setstripe(profile, rows, width),))


def _repeated(profile: Profile, verb: Verb) -> tuple[float, float, float]:
    """(seconds, bytes moved more than once, bytes of these files)."""
    records = profile.records
    moved = records.per_file(profile.ints(f"{verb}_bytes"), profile.counted)
    known = records.known(f"{verb}_extent_bytes") & (profile.ints(f"{verb}_extent_bytes") != _LAST_OF_32_BITS)
    # MPI-IO has no extents: those of the POSIX calls below stand for it.
    extent = maximum(profile.ints(f"{verb}_extent_bytes"), records.file, records.files, known)
    again = np.where(extent == NEVER_LAST, 0.0, np.maximum(moved - np.maximum(extent, 0).astype(np.float64), 0.0))
    share = ratio(again, moved)
    often = (share > REPEATED_SHARE) & (again >= FEWEST_REPEATED_BYTES)
    saved = profile.seconds(f"{verb}_seconds") * np.where(often, share, 0.0)[records.file]
    return profile.saving(saved), float(again[often].sum()), float(moved[often].sum())


def _redundant_reads(profile: Profile) -> Seen | None:
    seconds, again, moved = _repeated(profile, "read")
    if not again:
        return None
    shared = profile.nprocs > 1 and bool((profile.shared & profile.counted & (profile.ints("read_bytes") > 0)).any())
    lines = BROADCAST if shared else ("keep what was read in memory",)
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were read before, by this process or another"
    return Seen(evidence, seconds, lines)


def _redundant_writes(profile: Profile) -> Seen | None:
    seconds, again, moved = _repeated(profile, "write")
    if not again:
        return None
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were written over what was written"
    return Seen(evidence, seconds, ("change it in memory, write it once",))


def _data_sieving(profile: Profile) -> Seen | None:
    """Below MPI-IO that only writes, POSIX reads: ROMIO fills the holes of strided writes."""
    records = profile.records
    asked = records.per_file(profile.ints("read_count"), records.mpiio)
    done = records.per_file(profile.ints("read_bytes"), records.posix)
    wrote = records.per_file(profile.ints("write_bytes"), records.mpiio)
    files = (wrote > 0) & (asked == 0) & (done > 0)
    if not files.any():
        return None
    reading, writing = (records.per_file(profile.seconds(f"{v}_seconds"), records.posix) for v in ("read", "write"))
    share = np.where(files, ratio(reading, reading + writing), 0.0)
    saved = np.where(records.mpiio, profile.seconds("write_seconds") * share[records.file], 0.0)
    amount = float(done[files].sum())
    part = format_value(amount / float(wrote[files].sum()), "ratio")
    evidence = f"{format_bytes(amount)} read to be written again: {part} of what MPI-IO wrote"
    line = 'MPI_Info_set(info, "romio_ds_write", "disable");'
    return Seen(evidence, profile.saving(saved), (line, 'MPI_Info_set(info, "romio_cb_write", "enable");'))


LAYOUT_RULES: Final = (
    Rule("striping", "few stripes", "layout",
         "a shared file of more GiB than its Lustre stripes, where nodes and targets allow more",
         "the bytes at 500 MiB/s per target (or as facility.toml says): with these stripes, less with those",
         _striping),
    Rule("redundant_reads", "read again", "requests",
         "more bytes read than the file's extent: over 10% and 1 MiB of them",
         "the repeated bytes at the rate at which the file was read", _redundant_reads),
    Rule("redundant_writes", "written again", "requests",
         "more bytes written than the file's extent: over 10% and 1 MiB of them",
         "the repeated bytes at the rate at which the file was written", _redundant_writes),
    Rule("data_sieving", "read to write", "requests",
         "POSIX reads below MPI-IO that only writes", "the share of reading in the POSIX time below", _data_sieving),
)  # fmt: skip
