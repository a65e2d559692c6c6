"""Use and limits of users, groups, projects and filesets, as last recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ioweather.core.results import Cell
    from ioweather.lake.lake import Snapshot

# From this share of a limit on, a job shows the quota of its user on the first screen.
NEARLY_FULL: Final = 0.9


@dataclass(frozen=True)
class Quota:
    """Use and limits of one owner on a file system; a limit is None where there is none.

    `full_ratio` is the larger of the used shares of space and files, of the hard limit or else the soft one; None
    without limits. `fileset` is empty if the limits hold in the whole file system.
    """

    filesystem: str
    owner_kind: str
    owner: str
    fileset: str
    recorded_ns: int
    used_bytes: int
    soft_bytes: int | None
    hard_bytes: int | None
    used_files: int | None
    soft_files: int | None
    hard_files: int | None
    full_ratio: float | None


def latest_quotas(snapshot: Snapshot, condition: str = "TRUE", values: tuple[Cell, ...] = ()) -> list[Quota]:
    """Return the newest row of each owner and file system that meets an SQL condition, the fullest first.

    A person's snapshot has the person's own user quotas, and those of all groups, projects and filesets.
    """
    if not snapshot.pinned["quotas"].uris:
        return []
    sql = f"""SELECT system, owner_kind, owner, fileset, start_ns, used_bytes, soft_bytes, hard_bytes, used_files,
            soft_files, hard_files, greatest(used_bytes / coalesce(hard_bytes, soft_bytes),
            used_files / coalesce(hard_files, soft_files)) AS full_ratio
        FROM quotas WHERE {condition}
        QUALIFY start_ns = max(start_ns) OVER (PARTITION BY system, owner_kind, owner, fileset)
        ORDER BY full_ratio DESC NULLS LAST, system, owner_kind, owner, fileset"""
    rows = snapshot.query(sql, values).fetchall()
    return [Quota(snapshot.facility.filesystem_of(system).removeprefix("mount:"), *rest) for system, *rest in rows]


def quotas_of_user(snapshot: Snapshot, user: str, uid: int | None = None) -> list[Quota]:
    """Return the newest quotas of a user by name or number, the fullest first."""
    return latest_quotas(snapshot, "owner_kind = 'user' AND (owner = ? OR uid = ?)", (user, uid))
