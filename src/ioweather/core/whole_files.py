"""Files that are there whole or not at all, and that stay when the power fails."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from os import fsync
from pathlib import Path


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """In place of what is there, once all of it is on the disk: a reader sees the old or the new one, whatever
    interrupts this. The umask decides about its mode, unless one is given."""
    path = path.resolve()  # what a link points to is replaced, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            fsync(file.fileno())
        draft.replace(path)
    except OSError:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def sync_to_disk(path: Path, mode: int | None = None) -> None:
    """Sync a file, or the names in a directory, after setting its mode. Some file systems cannot sync directories."""
    fd = os.open(path, os.O_RDONLY)
    try:
        if mode is not None:
            os.fchmod(fd, mode)
        fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            raise
    finally:
        os.close(fd)


def make_directories(path: Path, top: Path) -> None:
    """Make the directories that are missing between `top` and `path`, whatever the umask: readable by everyone who can
    enter `top`, and writable by its group where `top` is."""
    if path.is_dir():
        return
    make_directories(path.parent, top)
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(0o755 | (top.stat().st_mode & 0o2020))
