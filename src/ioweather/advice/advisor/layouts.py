"""What rules of the layout share: stripes, targets, and bytes that were moved more than once."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.profile import Profile, Verb, ratio
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.units import GIB, MIB
from ioweather.derive.jobs.file_records import NEVER_LAST, maximum

# A file wants a target for each of so many bytes, as far as the run has nodes to feed them.
STRIPE_BYTES: Final = GIB
FEWEST_STRIPES: Final = 4
REPEATED_SHARE: Final = 0.1
FEWEST_REPEATED_BYTES: Final = MIB
# Programs of 32 bits cannot name a higher byte: an extent that ends there is none.
_LAST_OF_32_BITS: Final = 1 << 31


def moved_per_file(profile: Profile) -> Ints:
    moved = profile.ints("read_bytes") + profile.ints("write_bytes")
    return np.asarray(profile.records.per_file(moved, profile.counted), np.int64)


def wanted_stripes(profile: Profile) -> Floats:
    """Per row: as many as GiB in the file, at most as many as nodes (at least 4), or as there are targets."""
    size = moved_per_file(profile)[profile.records.file]
    most = max(profile.nodes, FEWEST_STRIPES)
    return np.minimum(np.ceil(size / STRIPE_BYTES), min(float(most), profile.known_targets))


def mounted_as(profile: Profile, kind: str) -> Bools:
    """Rows of files on a file system of this type."""
    mount = profile.records.text("mount")
    of_kind = [name for name in mount.categories if profile.mounts.get(name) == kind]
    return np.logical_or.reduce([mount.equals(name) for name in of_kind]) if of_kind else np.zeros(len(mount), np.bool_)


def targets_used(profile: Profile, rows: Bools) -> int:
    """Different targets of these rows' files; where their numbers are not recorded, at most the sum of stripes."""
    targets, _, _ = target_load(profile, rows)
    if len(targets):
        return len(targets)
    stripes = np.zeros(profile.records.files, np.int64)
    np.maximum.at(stripes, profile.records.file[rows], profile.ints("stripe_count")[rows])
    return int(stripes.sum())


def target_load(profile: Profile, rows: Bools) -> tuple[tuple[str, ...], Floats, Floats]:
    """Targets, bytes on each (a file's divided evenly over its targets), and the share of each row on each target."""
    osts = profile.records.text("osts")
    lists = [tuple(filter(None, category.split(","))) for category in osts.categories]
    targets = tuple(sorted({target for code in np.unique(osts.codes[rows]) if code >= 0 for target in lists[code]}))
    place = {target: number for number, target in enumerate(targets)}
    weight = np.zeros((len(targets), len(lists) + 1))
    for code, names in enumerate(lists):
        for name in names:
            if name in place:
                weight[place[name], code] = 1.0 / len(names)
    share = weight[:, osts.codes]
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    return targets, np.asarray((share * np.where(rows, moved, 0.0)).sum(axis=1), np.float64), share


def repeated(profile: Profile, verb: Verb) -> tuple[float, float, float]:
    """(seconds, bytes moved more than once, bytes of these files)."""
    records = profile.records
    moved = records.per_file(profile.ints(f"{verb}_bytes"), profile.counted)
    known = records.known(f"{verb}_extent_bytes") & (profile.ints(f"{verb}_extent_bytes") != _LAST_OF_32_BITS)
    # MPI-IO has no extents: those of the POSIX calls below stand for it.
    extent = maximum(profile.ints(f"{verb}_extent_bytes"), records.file, records.files, known)
    again = np.where(extent == NEVER_LAST, 0.0, np.maximum(moved - np.maximum(extent, 0).astype(np.float64), 0.0))
    share = ratio(again, moved)
    often = share > REPEATED_SHARE
    if again[often].sum() < FEWEST_REPEATED_BYTES:
        return 0.0, 0.0, 0.0
    saved = profile.seconds(f"{verb}_seconds") * np.where(often, share, 0.0)[records.file]
    return profile.saving(saved), float(again[often].sum()), float(moved[often].sum())
