"""What is known of a scan beside its tally: who made it, when, of which file system."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ioweather.sources.mounts import file_system_of


@dataclass(frozen=True)
class TreeFacts:
    """What the system says of the file system that the root lies on."""

    mount: str | None
    type: str | None
    total_bytes: int | None
    free_bytes: int | None
    total_inodes: int | None
    used_inodes: int | None


@dataclass(frozen=True)
class ScanFacts:
    """What is known of a scan beside its tally. `whole` says that the tree was walked, or the list read, to its end;
    `names` that user and group numbers are those of this host."""

    scan_id: str
    start_ns: int
    end_ns: int | None
    root: str
    system: str
    host: str | None = None
    tree: TreeFacts | None = None
    whole: bool = True
    names: bool = False
    cpu_seconds: float | None = None


def tree_facts(root: str) -> TreeFacts:
    mount, kind = file_system_of(root)
    try:
        found = os.statvfs(root)
    except OSError:
        return TreeFacts(mount, kind, None, None, None, None)
    inodes = found.f_files or None  # file systems that make inodes as they need them say 0
    return TreeFacts(
        mount,
        kind,
        found.f_blocks * found.f_frsize,
        found.f_bavail * found.f_frsize,
        inodes,
        found.f_files - found.f_ffree if inodes else None,
    )
