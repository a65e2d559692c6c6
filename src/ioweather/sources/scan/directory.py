"""Opening directories so that nothing can lead a scan astray: by descriptor, never through a link, only to read."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

# Directory entries that lead to older states of the same tree.
SNAPSHOTS: Final = frozenset({".snap", ".snapshot", ".snapshots", ".zfs"})

_READ: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_PASS: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Gone, or something else than the directory it was when it was listed.
GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ESTALE})


def open_to_read(name: str, parent_fd: int | None = None) -> int:
    """A directory to list. Its access time stays as it is where we may ask for that: as its owner, or as root."""
    try:
        return os.open(name, _READ | os.O_NOATIME, dir_fd=parent_fd)
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
    return os.open(name, _READ, dir_fd=parent_fd)


def open_below(root_fd: int, relative: str) -> int:
    """A directory to open others from. Each step is taken alone, so paths longer than PATH_MAX do no harm and no
    step can be a link."""
    fd = os.dup(root_fd)
    for step in filter(None, relative.split("/")):
        try:
            following = os.open(step, _PASS, dir_fd=fd)
        finally:
            os.close(fd)
        fd = following
    return fd


def error_name(error: OSError) -> str:
    return errno.errorcode.get(error.errno or 0, type(error).__name__)


def _mounts() -> list[tuple[str, str]]:
    """Mount points and types, in the order of mounting; empty where the kernel does not say."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
        fields = [line.split(" ") for line in lines]
        return [(_unescaped(line[4]), line[line.index("-") + 1]) for line in fields]
    except (OSError, ValueError, IndexError):
        return []


def mount_points_below(root: str) -> frozenset[str]:
    """Mount points inside the tree, those of the same file system (bind mounts) too. Where none are known, the device
    number alone tells where another file system begins."""
    inside = root.rstrip("/") + "/"
    return frozenset(point for point, _ in _mounts() if point.startswith(inside))


def file_system_of(root: str) -> tuple[str | None, str | None]:
    """Mount point and type of the file system that holds the directory."""
    best: tuple[str | None, str | None] = (None, None)
    for point, kind in _mounts():
        holds = root == point or root.startswith(point.rstrip("/") + "/")
        if holds and len(point) >= len(best[0] or ""):  # of two mounts on one place the later one is seen
            best = (point, kind)
    return best


def _unescaped(text: str) -> str:
    """The kernel writes blanks and backslashes of mount points as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def joined(parent: str, name: str) -> str:
    """The path of a directory; '.' is the place itself."""
    if name == ".":
        return parent
    return f"{parent}/{name}" if parent else name
