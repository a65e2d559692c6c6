"""What lies in the file system before and after: files with sizes, ages and owners, and their growth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.simulate.applications import Program
from ioweather.simulate.presets import Preset
from ioweather.simulate.resources import stream

DAY = 86400.0
# car11 IV: most files are below 1 MiB, a few hold most of the bytes.
_SMALL_MEAN_LOG, _SMALL_SPREAD = np.log(96e3), 1.6
_LARGE_MEAN_LOG, _LARGE_SPREAD = np.log(2e9), 1.3
_LARGE_RATIO = 0.03
# Of what is there at the first look, this share is gone at the second; of each project, so much is new.
_DELETED_RATIO = 0.04
GROWTH_RATIO = 0.3
DOMINANT_GROWTH_RATIO = 1.5


@dataclass(frozen=True, eq=False)
class Content:
    """Files: sizes in bytes, times in seconds since the facility's start (negative: before it)."""

    uid: Ints
    project: Ints
    number: Ints
    size: Ints
    mtime: Floats
    atime: Floats
    projects: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.size)


def make_contents(preset: Preset, programs: tuple[Program, ...], seed: int) -> tuple[Content, Content]:
    """(at the start, at the end). The first project grows most, as one did in 2010."""
    rng = stream(seed, "scans")
    owners = sorted({(program.account, program.uid) for program in programs})
    projects = tuple(sorted({account for account, _ in owners}))
    first = _draw(preset.scan_files, 0.0, 400 * DAY, owners, projects, 0, rng, None)
    kept = np.flatnonzero(rng.random(len(first)) >= _DELETED_RATIO)
    length = preset.days * DAY
    per_project = np.bincount(first.project, minlength=len(projects))
    growth = [DOMINANT_GROWTH_RATIO, *[GROWTH_RATIO] * (len(per_project) - 1)]
    counts = [int(n * ratio) for n, ratio in zip(per_project.tolist(), growth, strict=True)]
    same = (length, length, owners, projects)
    added = [_draw(n, *same, len(first) * (p + 2), rng, p) for p, n in enumerate(counts)]
    pieces = [_take(first, kept), *added]
    names = ("uid", "project", "number", "size", "mtime", "atime")
    arrays: dict[str, Any] = {name: np.concatenate([getattr(piece, name) for piece in pieces]) for name in names}
    return first, Content(**arrays, projects=projects)


def _draw(
    count: int,
    now: float,
    oldest: float,
    owners: list[tuple[str, int]],
    projects: tuple[str, ...],
    first: int,
    rng: np.random.Generator,
    project: int | None,
) -> Content:
    usable = [(account, uid) for account, uid in owners if project is None or account == projects[project]]
    chosen = rng.integers(0, len(usable), count)
    large = rng.random(count) < _LARGE_RATIO
    logs = np.where(
        large, rng.normal(_LARGE_MEAN_LOG, _LARGE_SPREAD, count), rng.normal(_SMALL_MEAN_LOG, _SMALL_SPREAD, count)
    )
    mtime = now - rng.uniform(0.0, oldest, count)
    return Content(
        np.array([uid for _, uid in usable], np.int64)[chosen],
        np.array([projects.index(account) for account, _ in usable], np.int64)[chosen],
        first + np.arange(count),
        np.rint(np.exp(logs)).astype(np.int64),
        mtime,
        np.minimum(mtime + rng.exponential(20 * DAY, count), now),
        projects,
    )


def _take(content: Content, rows: Ints) -> Content:
    names = ("uid", "project", "number", "size", "mtime", "atime")
    return replace(content, **{name: getattr(content, name)[rows] for name in names})
