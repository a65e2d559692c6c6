"""The layout of files: stripes and targets."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import setstripe
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Seen
from ioweather.core.arrays import Bools, Floats, Ints
from ioweather.core.units import GIB, MIB, format_bytes

# A file wants a target for each of so many bytes, as far as the run has nodes to feed them.
STRIPE_BYTES: Final = GIB
FEWEST_STRIPES: Final = 4


def moved_per_file(profile: Profile) -> Ints:
    return np.asarray(profile.records.per_file(profile.moved, profile.counted), np.int64)


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
    moved = profile.moved.astype(np.float64)
    return targets, np.asarray((share * np.where(rows, moved, 0.0)).sum(axis=1), np.float64), share


def striping(profile: Profile) -> Seen | None:
    """A large shared file on few targets."""
    stripes, wanted = profile.ints("stripe_count").astype(np.float64), wanted_stripes(profile)
    rows = profile.counted & (profile.records.rank < 0) & (stripes > 0) & (wanted > stripes)
    rows &= profile.shared_seconds > 0
    if profile.nprocs < 2 or not rows.any():
        return None
    moved = moved_per_file(profile)[profile.records.file].astype(np.float64)
    data = profile.data_seconds
    spent = profile.shared_seconds * ratio(data, profile.spent)
    # What a target can do is at least what it did here. The rest of the time has other causes, and the wider stripe
    # still needs its part.
    rate = np.maximum(profile.target_bytes_per_s, ratio(moved, spent * stripes))
    seconds = float(np.where(rows, ratio(moved, stripes) / rate * (1.0 - ratio(stripes, wanted)), 0.0).sum())
    largest = int(np.argmax(np.where(rows, moved, -1.0)))
    count, width = int(stripes[largest]), int(wanted[largest])
    evidence = (
        f"{format_bytes(moved[largest])} of a file shared by all on {count} target{'s' if count != 1 else ''}, "
        f"taken at {format_bytes(float(rate[largest]))}/s each"
    )
    return Seen(evidence, seconds, (setstripe(profile, rows, width),))


FEWEST_BYTES: Final = 64 * MIB


def unused_targets(profile: Profile) -> Seen | None:
    """The run's data on fewer storage targets than there are and than it has processes to feed."""
    rows = profile.counted & profile.moved_rows
    moved = float(profile.moved[rows].sum(dtype=np.float64))
    if not profile.parallel or moved < FEWEST_BYTES:
        return None
    stripes = profile.ints("stripe_count")
    laid_out = rows & (stripes > 0)
    if laid_out.any():
        used, known = targets_used(profile, laid_out), profile.known_targets
        if used >= min(known, profile.nprocs) or (profile.incomplete and not profile.shared[laid_out].any()):
            return None
        there = f" of {int(known):,}" if math.isfinite(known) else ""
        evidence = f"{format_bytes(moved)} of {profile.nprocs:,} processes on {used:,}{there} storage targets"
    else:
        rows &= profile.shared & mounted_as(profile, "lustre")
        if not rows.any() or profile.files_moved(rows) > 1:
            return None
        used = 1
        evidence = f"{format_bytes(moved)} in one file on Lustre, its layout not recorded: the default is one target"
    width = int(min(profile.known_targets, max(profile.nodes, FEWEST_STRIPES)))
    return Seen(evidence, 0.0, (setstripe(profile, rows & profile.shared, width),))


UNEVEN: Final = 1.5


def uneven_targets(profile: Profile) -> Seen | None:
    """Files whose stripes meet on the same targets."""
    rows = profile.counted & profile.moved_rows & (profile.ints("stripe_count") > 0)
    targets, load, share = target_load(profile, rows)
    if profile.incomplete or len(targets) < 2 or load.sum() < FEWEST_BYTES or load.max() <= UNEVEN * load.mean():
        return None
    busiest = int(np.argmax(load))
    data = profile.data_seconds
    even = float(load.mean() / load.max())
    saved = np.where(rows, data * share[busiest] * (1.0 - even), 0.0)
    evidence = (
        f"target {targets[busiest]} has {format_bytes(float(load[busiest]))} of the run's files, "
        f"{len(targets):,} targets {format_bytes(float(load.mean()))} on average"
    )
    return Seen(evidence, profile.saving(saved), (setstripe(profile, rows, -1),))
