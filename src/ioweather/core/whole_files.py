"""Files that are there whole or not at all, and that stay when the power fails."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from os import fsync
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """In place of what is there, once all of it is on the disk: a reader sees the old or the new one, whatever
    interrupts this."""
    path = path.resolve()  # what a link points to is replaced, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def sync_to_disk(path: Path) -> None:
    """A file, or the names in a directory. Some file systems promise nothing for directories."""
    fd = os.open(path, os.O_RDONLY)
    try:
        fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)
