"""Files and directories of ours: default places, mount points, atomic writes, private directories.

In /tmp or /scratch a name can be a link of another user, and it can become one between a check and the use. Therefore:

- A directory is made by us (0700), or it is checked after it was opened without following a link: it belongs to us,
  and no other user can write it. Where our own is too open, its mode is narrowed. All else is refused.
- Every later step starts from that descriptor. What others do to names on the way to it then changes nothing.
- A file is created exclusively, or it is opened again where it is a regular file of ours with one name.
- A name is removed only where that holds too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from os import fsync
from pathlib import Path
from types import TracebackType
from typing import Final

from ioweather.core.errors import UnsafePlace


def _of_user(variable: str, *default: str) -> Path:
    """Our directory below a base directory of the XDG specification: that of the variable, else below the home."""
    return Path(os.environ.get(variable) or Path.home().joinpath(*default)) / "ioweather"


def default_lake_dir() -> Path:
    """IOWEATHER_LAKE, else under XDG data home."""
    named = os.environ.get("IOWEATHER_LAKE")
    return lake_place(named) if named else _of_user("XDG_DATA_HOME", ".local", "share") / "lake"


# In the working directory of a lake in object storage: its address.
STORE_MARKER: Final = ".store"


def lake_place(named: str | os.PathLike[str]) -> Path:
    """The directory of a lake. Of `s3://bucket/prefix` it is its working directory on this machine, which is made."""
    found = re.fullmatch(r"(s3a?):/+(.+?)/*", os.fspath(named))  # a Path has one slash
    if found is None:
        return Path(named)
    address = f"{found[1]}://{found[2]}"
    name = re.sub(r"[^\w.-]+", "-", found[2])
    digest = hashlib.blake2b(address.encode(), digest_size=4).hexdigest()
    place = _of_user("XDG_DATA_HOME", ".local", "share") / "s3" / f"{name}-{digest}"
    if not (place / STORE_MARKER).exists():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(place / STORE_MARKER, address.encode(), 0o600)
    return place


def default_spool_dir() -> Path:
    """IOWEATHER_SPOOL, else what systemd made for the service, else under XDG state home."""
    if named := os.environ.get("IOWEATHER_SPOOL"):
        return Path(named)
    made = os.environ.get("STATE_DIRECTORY", "").split(":")[0]  # systemd.exec(5): several are joined by colons
    return Path(made or _of_user("XDG_STATE_HOME", ".local", "state")) / "spool"


_ESCAPED = re.compile(r"\\([0-7]{3})")


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies below it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def file_system_of(path: str, mountinfo: str | None = None) -> tuple[str | None, str | None]:
    """Mount point and type of the file system that holds an absolute path, by name alone: links are not followed."""
    best: tuple[str | None, str | None] = (None, None)
    for point, kind in _mounts(mountinfo):
        # Of two mounts on one place the later one is seen.
        if is_inside(path, point) and len(point) >= len(best[0] or ""):
            best = (point, kind)
    return best


def mount_point(path: str, mountinfo: str | None = None) -> str:
    """The mount point of the file system that holds an absolute path; / if none is known."""
    return file_system_of(path, mountinfo)[0] or "/"


def mount_points_below(root: str) -> frozenset[str]:
    """Mount points inside a directory tree, bind mounts of the same file system too; empty if the kernel lists none."""
    return frozenset(point for point, _ in _mounts() if point != root and is_inside(point, root))


def system_of(path: str) -> str:
    """The raw name of a probed system: 'mount:/scratch'."""
    return f"mount:{mount_point(os.path.abspath(path))}"  # noqa: PTH100 - Path.absolute keeps '..'


def _mounts(mountinfo: str | None = None) -> list[tuple[str, str | None]]:
    """Mount points and types, in the order of mounting; empty where the kernel does not say."""
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return []
    found = []
    for row in (line.split(" ") for line in mountinfo.splitlines()):
        if len(row) > 4:
            after_dash = row[row.index("-") + 1 :] if "-" in row else []  # proc(5): it ends the optional fields
            found.append((unescape_octal(row[4]), after_dash[0] if after_dash else None))
    return found


def unescape_octal(text: str) -> str:
    """Decode the octal escapes of /proc/mounts: blanks and backslashes, proc(5)."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)


def write_whole(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace a file atomically, after the data is synced to disk: a reader sees the old file or the new one, also
    after a crash. Without `mode` the umask decides."""
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
    """Make the missing directories between `top` and `path`: readable by all who can enter `top`, and writable by its
    group if `top` is. The umask is ignored."""
    if path.is_dir():
        return
    make_directories(path.parent, top)
    with suppress(FileExistsError):
        path.mkdir()
        path.chmod(0o755 | (top.stat().st_mode & 0o2020))


_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Only a starting point for other calls: it needs no right to list the directory.
_PLACE: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_WRITABLE: Final = 0o022
_MOST_LINKS: Final = 8


class PrivateDirectory:
    """An open directory that no other user can change. `path` is for messages, and for programs that take no
    descriptor."""

    def __init__(self, fd: int, path: Path) -> None:
        found = os.fstat(fd)
        self.fd, self.path, self.identity = fd, path, (found.st_dev, found.st_ino)

    @classmethod
    def at(cls, path: Path, *, mode: int = 0o700, keep: int | None = None) -> PrivateDirectory:
        """Open a directory, or make it with `mode`; mode bits that are not in `keep` (default: `mode`) are removed."""
        with _place(path.parent) as parent:
            return _opened(parent, path, mode, mode if keep is None else keep, one_device=True)

    @classmethod
    def named(cls, path: Path, *, mode: int = 0o700, keep: int | None = None, shared: bool = False) -> PrivateDirectory:
        """Open or make a directory that a user named (a lake, a spool), with its parents. It may be a mount point, or a
        link of ours or of root. `shared`: it may belong to root, or to a user who lets our group write; root itself
        shares nothing."""
        path = _followed(path.absolute())
        path.parent.mkdir(parents=True, exist_ok=True)
        with _place(path.parent) as parent:
            return _opened(parent, path, mode, mode if keep is None else keep, one_device=False, shared=shared)

    def inside(
        self, name: str, *, mode: int = 0o700, keep: int | None = None, shared: bool = False
    ) -> PrivateDirectory:
        """Open or make a directory in this one."""
        keep = mode if keep is None else keep
        return _opened(self.fd, self.path / name, mode, keep, one_device=not shared, shared=shared)

    def again(self, parent: int | None = None) -> int:
        """Open the directory again by name, as a starting point for other calls (O_PATH). Raises ESTALE if the name is
        another directory now. For callers that close it between two uses, so that its file system can be unmounted."""
        return self._by_name(_PLACE | os.O_NOFOLLOW, parent)

    def reopened(self, parent: int | None = None) -> PrivateDirectory:
        """The same directory, opened again after it was closed. Raises ESTALE if the name is another one now."""
        return PrivateDirectory(self._by_name(_DIRECTORY, parent), self.path)

    def _by_name(self, flags: int, parent: int | None) -> int:
        """Open the path (a name in `parent`); returns the descriptor. Raises ESTALE if it is another directory now."""
        fd = os.open(self.path if parent is None else self.path.name, flags, dir_fd=parent)
        found = os.fstat(fd)
        is_private = found.st_uid == os.geteuid() and not found.st_mode & _WRITABLE
        if is_private and (found.st_dev, found.st_ino) == self.identity:
            return fd
        os.close(fd)
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self.path))

    def names(self) -> list[str]:
        """The names in the directory."""
        if self.fd < 0:
            raise ValueError(f"{self.path} is closed")  # os.listdir(-1) is the working directory
        return os.listdir(self.fd)  # noqa: PTH208 - of a descriptor

    def create(self, name: str, flags: int = os.O_WRONLY, mode: int = 0o600) -> int:
        """Create a file that must not exist; returns its descriptor."""
        flags |= os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, mode, dir_fd=self.fd)

    def reopen(self, name: str, flags: int = os.O_RDONLY) -> int:
        """Open a file of ours; returns its descriptor. Checked before it is opened, too: to open a device or a pipe can
        do harm by itself."""
        self.check(name)
        fd = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            _check_file(os.fstat(fd), self.path / name)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def open(self, name: str, flags: int = os.O_RDWR) -> int:
        """Open a file of ours, or create it; returns its descriptor."""
        while True:
            with suppress(FileNotFoundError):
                return self.reopen(name, flags)
            with suppress(FileExistsError):  # another process of ours made it first
                return self.create(name, flags)

    def discard(self, name: str) -> None:
        """Remove the file if it is ours; a file of another user stays."""
        with suppress(UnsafePlace):
            self.unlink(name)

    def rename(self, name: str, folder: PrivateDirectory, new: str) -> None:
        """Move a file into `folder`. A link of the new name is replaced, not followed."""
        os.rename(name, new, src_dir_fd=self.fd, dst_dir_fd=folder.fd)

    def check(self, name: str) -> os.stat_result:
        """The status of a regular file of ours with one name. Raises UnsafePlace for anything else."""
        found = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        _check_file(found, self.path / name)
        return found

    def unlink(self, name: str) -> None:
        """Remove a file of ours, if it exists. Raises UnsafePlace for anything else."""
        with suppress(FileNotFoundError):
            self.check(name)
            os.unlink(name, dir_fd=self.fd)

    def replace(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Replace a file atomically. A link is replaced, not followed."""
        draft = f".{name}.{os.getpid()}"
        try:
            fd = self.create(draft, mode=mode)
        except FileExistsError:  # of a process of this number that was killed
            self.unlink(draft)
            fd = self.create(draft, mode=mode)
        try:
            try:
                write_all(fd, data)
            finally:
                os.close(fd)
            self.rename(draft, self, name)
        except OSError:
            self.unlink(draft)
            raise

    def read(self, name: str) -> bytes:
        """The content of a file of ours."""
        with os.fdopen(self.reopen(name), "rb") as file:
            return file.read()

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> PrivateDirectory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes, however few the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


@contextlib.contextmanager
def _place(path: Path) -> Iterator[int]:
    """A descriptor of a directory for calls relative to it."""
    fd = os.open(path, _PLACE)
    try:
        yield fd
    finally:
        os.close(fd)


def _followed(path: Path) -> Path:
    """Resolve links that we or root made; each is read from the descriptor that was checked."""
    for _ in range(_MOST_LINKS):
        try:
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            break
        try:
            found = os.fstat(fd)
            if not stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, os.geteuid()):
                break
            path = path.parent / os.readlink("", dir_fd=fd)
        finally:
            os.close(fd)
    return path


def _opened(
    parent: int, path: Path, mode: int, keep: int, *, one_device: bool, shared: bool = False
) -> PrivateDirectory:
    """Make the directory, or open it without following a link; check its owner, and narrow the mode if it is ours."""
    try:
        os.mkdir(path.name, mode, dir_fd=parent)
        made = True
    except FileExistsError:
        made = False
    try:
        fd = os.open(path.name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.EACCES):  # say so where it is not what it should be
            found = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
            _check_kind(found, path, stat.S_IFDIR)
            _check_owner(found, path)
        raise
    try:
        found, us = os.fstat(fd), os.geteuid()
        if made and found.st_uid != us:
            with suppress(OSError):
                os.rmdir(path.name, dir_fd=parent)
            raise UnsafePlace(
                f"{path} was created by uid {us} but belongs to uid {found.st_uid}.",
                hint="The file system maps this user to another one (root_squash). Run as a regular user.",
            )
        _check_owner(found, path, shared=shared)
        if one_device and found.st_dev != os.fstat(parent).st_dev:
            raise UnsafePlace(f"Something is mounted on {path}.", hint="Unmount it, or use another directory.")
        if found.st_uid == us and (found.st_mode & 0o777 & ~keep):  # of an older version or a generous umask
            with suppress(OSError):
                os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~(0o777 & ~keep))
            if os.fstat(fd).st_mode & _WRITABLE & ~keep:
                raise UnsafePlace(
                    f"Other users can write to {path}, and its mode cannot be changed.",
                    hint="Use a directory on a file system with Unix permissions.",
                )
        return PrivateDirectory(fd, path)
    except BaseException:
        os.close(fd)
        raise


def _check_owner(found: os.stat_result, path: Path, *, shared: bool = False) -> None:
    """Raise UnsafePlace unless it is ours or, with `shared`, of a user whom we trust."""
    us = os.geteuid()
    if found.st_uid == us:
        return
    if shared and found.st_mode & 0o002:
        raise UnsafePlace(
            f"{path} belongs to uid {found.st_uid}; every user can write to it.",
            hint=f"Its owner can run: chmod o-w {path}",
        )
    if not shared or us == 0:
        raise UnsafePlace(f"{path} belongs to uid {found.st_uid}, not to uid {us}.", hint=_NOTHING_WRITTEN)


def _check_file(found: os.stat_result, path: Path) -> None:
    """Raise UnsafePlace unless it is a regular file of ours with one name."""
    _check_kind(found, path, stat.S_IFREG)
    _check_owner(found, path)
    if found.st_nlink > 1:
        text = f"{path} has {found.st_nlink} hard links, so it may belong to another user."
        raise UnsafePlace(text, hint="Nothing was written. Remove this link.")


_KINDS: Final = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a regular file",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a block device",
    stat.S_IFCHR: "a character device",
}
_NOTHING_WRITTEN: Final = "Nothing was written. Remove it, use another directory, or run as that user."


def _check_kind(found: os.stat_result, path: Path, expected: int) -> None:
    """Raise UnsafePlace unless the file is of the kind `expected` (a stat.S_IF constant)."""
    kind = stat.S_IFMT(found.st_mode)
    if kind != expected:
        text = f"{path} is {_KINDS.get(kind, 'something')} of uid {found.st_uid}, not {_KINDS[expected]}."
        raise UnsafePlace(text, hint=_NOTHING_WRITTEN)
