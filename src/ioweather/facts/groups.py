"""Groups of runs that do the same, so that what differs between them is not what they asked for.

`exact` is mad17's: same user, processes, numbers of files and bytes read and written. `similar` [ours] is for codes
whose bytes vary a little: same user, program and processes, bytes moved within a factor of the smallest of the group.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.frames import Frame
from ioweather.facts.signatures import program_of

Grouping: TypeAlias = Literal["exact", "similar"]

LEAST_RUNS: Final = 8
SIMILAR_FACTOR: Final = 1.25
_EXACT: Final = ("uid", "nprocs", "file_count", "unique_file_count", "shared_file_count", "read_bytes", "write_bytes")


@dataclass(frozen=True, eq=False)
class Groups:
    """`of_run` is each run's group; groups are in order of size, the largest first."""

    of_run: Ints
    names: tuple[str, ...]
    sizes: Ints
    grouping: Grouping

    def members(self, group: int) -> Ints:
        return np.flatnonzero(self.of_run == group)

    def number(self, name: str) -> int | None:
        """The group of that name, or of a beginning of it that only one has."""
        if name in self.names:
            return self.names.index(name)
        found = [i for i, known in enumerate(self.names) if known.startswith(name)]
        return found[0] if len(found) == 1 else None

    @property
    def large(self) -> list[int]:
        """Groups with runs enough to compare."""
        return [i for i, size in enumerate(self.sizes.tolist()) if size >= LEAST_RUNS]


def group_runs(runs: Frame, grouping: Grouping, *, factor: float = SIMILAR_FACTOR) -> Groups:
    """`runs` has the columns of `job_io` with `uid` and `exe` of `applications`."""
    programs = program_names(runs)
    if grouping == "exact":
        keys = np.stack([runs.ints(name) for name in _EXACT], axis=1)
    else:
        keys = _similar_keys(runs, programs, factor)
    distinct, of_run, sizes = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    of_run = np.asarray(of_run, np.int64).reshape(-1)
    # Largest first; of equal ones in the order of their keys.
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    example = np.full(len(order), -1, np.int64)
    example[of_run[::-1]] = np.arange(len(of_run))[::-1]
    nprocs = runs.ints("nprocs")
    names = tuple(_name(programs[example[g]], int(nprocs[example[g]]), distinct[g]) for g in order)
    return Groups(rank[of_run].astype(np.int64), names, sizes[order].astype(np.int64), grouping)


def best_grouping(runs: Frame) -> Grouping:
    """`exact` where it gives a group of runs enough to compare, else `similar`."""
    return "exact" if group_runs(runs, "exact").large else "similar"


def find_similar_runs(runs: Frame, run: int, *, factor: float = SIMILAR_FACTOR) -> Ints:
    """Runs to compare one run with: of its user, program and processes, bytes within the factor either way; itself too.

    Around one run there is no smallest to begin from, so the run itself is the middle.
    """
    programs = np.array(program_names(runs))
    moved = _moved(runs)
    same = (
        (runs.ints("uid") == int(runs.array("uid")[run]))
        & (runs.ints("nprocs") == int(runs.array("nprocs")[run]))
        & (programs == programs[run])
        & (moved <= moved[run] * factor)
        & (moved * factor >= moved[run])
    )
    return np.flatnonzero(same)


def program_names(runs: Frame) -> list[str]:
    """Base name of each run's program; of a script, the script's."""
    text = runs.text("exe")
    known = [program_of(command) or "unknown" for command in text.categories]
    lookup = [*known, "unknown"]
    return [lookup[code] for code in text.codes.tolist()]


def _moved(runs: Frame) -> Floats:
    return runs.floats("read_bytes") + runs.floats("write_bytes")


def _similar_keys(runs: Frame, programs: list[str], factor: float) -> Ints:
    """User, program, processes, and a class of bytes that grows from the smallest until the factor is used up."""
    _, program = np.unique(np.array(programs), return_inverse=True)
    uid, nprocs = (runs.ints(name) for name in ("uid", "nprocs"))
    moved = _moved(runs)
    order = np.lexsort((moved, nprocs, program, uid))
    classes = np.zeros(len(order), np.int64)
    begun: tuple[Any, ...] = ()
    least, current = 0.0, -1
    for row in order.tolist():
        key = (uid[row], program[row], nprocs[row])
        if key != begun or moved[row] > least * factor:
            begun, least, current = key, moved[row], current + 1
        classes[row] = current
    return np.stack([uid, program.astype(np.int64), nprocs, classes], axis=1)


def _name(program: str, nprocs: int, key: Ints) -> str:
    """Program, processes and a few digits of the key, which stay the same when other groups come and go."""
    digest = hashlib.sha256(",".join(map(str, key.tolist())).encode()).hexdigest()[:4]
    return f"{program}-{nprocs}-{digest}"
