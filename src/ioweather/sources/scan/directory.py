"""Opening directories so that nothing can lead a scan astray: by descriptor, never through a link, only to read."""

from __future__ import annotations

import errno
import os
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


def joined(parent: str, name: str) -> str:
    """The path of a directory; '.' is the place itself."""
    if name == ".":
        return parent
    return f"{parent}/{name}" if parent else name
