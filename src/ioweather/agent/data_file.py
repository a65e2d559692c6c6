"""The large file: filled once with data that do not compress, then read and written at random places.

How a request reaches storage is found out, not assumed: tmpfs accepts O_DIRECT and ignores it.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random
import time
from array import array

from ioweather.agent.sensor import Progress, ShortTransfer
from ioweather.core.errors import SourceError
from ioweather.core.safe_files import PrivateDirectory
from ioweather.core.units import MIB, NS, format_bytes

# Is this part of a file in the client's page cache?
#
# mincore(2) looks without touching. A read with RWF_NOWAIT (where a mapping is refused) answers too, but starts to read
# the page that it does not find: one page of the request is then under way before its time is taken.

_PAGE = mmap.PAGESIZE
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def _load_libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


_LIBC = _load_libc()


def resident_pages(fd: int, offset: int, length: int) -> int | None:
    """How many pages of [offset, offset + length) are cached; None where that cannot be said. `offset` is a multiple of
    the page size, and the range lies inside the file."""
    if _LIBC is not None:
        try:
            # A private writable mapping: ctypes gives addresses of writable buffers alone, and FUSE files opened for
            # direct I/O refuse shared ones.
            with mmap.mmap(fd, length, access=mmap.ACCESS_COPY, offset=offset) as mapping:
                return _mincore(_LIBC, mapping, length)
        except (OSError, ValueError):
            pass
    return _by_reading(fd, offset)


def _mincore(libc: ctypes.CDLL, mapping: mmap.mmap, length: int) -> int:
    first = ctypes.c_char.from_buffer(mapping)
    try:
        vector = (ctypes.c_ubyte * (-(-length // _PAGE)))()
        done = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(length), vector)
        if done != 0:
            raise OSError(ctypes.get_errno(), "mincore")
        return sum(byte & 1 for byte in bytes(vector))
    finally:
        del first  # the mapping cannot be closed while an address of it is exported


def _by_reading(fd: int, offset: int) -> int | None:
    """One byte is enough to know whether any of it is there."""
    try:
        os.preadv(fd, [bytearray(1)], offset, os.RWF_NOWAIT)
    except OSError as error:
        return 0 if error.errno == errno.EAGAIN else None
    return 1


def drop(fd: int, offset: int, length: int) -> None:
    """Ask the kernel to forget clean pages; it may decline."""
    try:
        os.posix_fadvise(fd, offset, length, os.POSIX_FADV_DONTNEED)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise


_REFUSES_DIRECT = (errno.EINVAL, errno.EOPNOTSUPP)
# Linux moves at most IOV_MAX pieces, and a little under 2 GiB, per call.
_MOST_PIECES = 1024
# The file was checked when it was prepared, and the directory is looked at before each use.
_AGAIN = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class DataFile:
    """One file and two aligned buffers, to read and to write: `piece_bytes` of memory serve a request of any size, the
    same piece repeated. `folder` is where it lies; `open` takes any descriptor of that directory."""

    def __init__(self, name: str, file_bytes: int, piece_bytes: int, *, prefer_direct: bool = True) -> None:
        self.name = name
        self.file_bytes = file_bytes
        self._prefer_direct = prefer_direct
        # Pages of memory: aligned for O_DIRECT. What is read is not what is written, or blocks become copies of others.
        self._read_piece = mmap.mmap(-1, piece_bytes)
        self._write_piece = mmap.mmap(-1, piece_bytes)
        self._write_piece.write(random.randbytes(piece_bytes))
        self._stamps = memoryview(self._write_piece).cast("Q")[:: mmap.PAGESIZE // 8]
        self._stamp = time.time_ns()
        self.direct = False
        self.reaches_storage: bool | None = None

    @property
    def access(self) -> str:
        if self.direct:
            return "direct"
        return "cached" if self.reaches_storage is False else "dropped"

    def missing_bytes(self, folder: PrivateDirectory) -> int:
        """What must still be written before it has its size."""
        try:
            return max(0, self.file_bytes - folder.check(self.name).st_size)
        except FileNotFoundError:
            return self.file_bytes

    def fill(self, folder: PrivateDirectory, progress: Progress, bytes_per_s: float) -> None:
        """Write what is missing, not faster than stated; an interrupted filling goes on where it ended."""
        missing = self.missing_bytes(folder)
        if missing == 0:
            return
        fd = folder.open(self.name)
        try:
            offset = (self.file_bytes - missing) // MIB * MIB
            first, started = offset, time.monotonic_ns()
            while offset < self.file_bytes:
                # Fresh random bytes each time: storage that compresses or shares blocks must store every one.
                offset += os.pwrite(fd, random.randbytes(min(MIB, self.file_bytes - offset)), offset)
                progress(offset, self.file_bytes, f"filling {self.name}")
                ahead = (offset - first) / bytes_per_s - (time.monotonic_ns() - started) / NS
                if ahead > 0:
                    time.sleep(ahead)
            os.fdatasync(fd)
            drop(fd, 0, self.file_bytes)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                folder.unlink(self.name)  # what is full must not stay full because of us
            raise
        finally:
            os.close(fd)

    def find_access(self, folder: PrivateDirectory) -> None:
        """Try O_DIRECT and look whether the pages stayed out of the cache; else whether the cache can be emptied."""
        length = min(len(self._read_piece), self.file_bytes)
        plain = folder.reopen(self.name, os.O_RDWR)
        try:
            os.fdatasync(plain)
            os.preadv(plain, [self._read_piece], 0)
            drop(plain, 0, length)
            dropped = resident_pages(plain, 0, length)
            self.direct, pages = False, dropped
            if self._prefer_direct or dropped != 0:
                self.direct = self._reads_directly(folder)
                pages = resident_pages(plain, 0, length)
                if self.direct and pages:  # accepted and ignored
                    self.direct, pages = False, dropped
            self.reaches_storage = None if pages is None else pages == 0
        finally:
            os.close(plain)

    def reach_as(self, other: DataFile) -> None:
        """As another file of this file system, without a look of its own, which waits for its storage."""
        self.direct, self.reaches_storage = other.direct, other.reaches_storage

    def _reads_directly(self, folder: PrivateDirectory) -> bool:
        try:
            fd = folder.reopen(self.name, os.O_RDWR | os.O_DIRECT)
        except OSError as error:
            if error.errno in _REFUSES_DIRECT:
                return False
            raise
        try:
            os.preadv(fd, [self._read_piece], 0)
        except OSError as error:
            if error.errno in _REFUSES_DIRECT:
                return False
            raise
        finally:
            os.close(fd)
        return True

    def open(self, folder: int) -> int:
        return os.open(self.name, _AGAIN | (os.O_DIRECT if self.direct else 0), dir_fd=folder)

    def open_cached(self, folder: int) -> int:
        """Through the page cache, whatever this file system can do."""
        return os.open(self.name, _AGAIN, dir_fd=folder)

    def make_uncached(self, fd: int, offset: int, length: int) -> bool | None:
        """Empty the cache of this range; say whether the client's cache alone could still answer (None: unknown)."""
        if self.direct:
            return False if self.reaches_storage else None
        drop(fd, offset, length)
        return self.is_cached(fd, offset, length)

    def is_cached(self, fd: int, offset: int, length: int) -> bool | None:
        pages = resident_pages(fd, offset, length)
        # A page that is missing must come from storage, and the request waits for it.
        return None if pages is None else pages >= -(-length // mmap.PAGESIZE)

    def read(self, fd: int, offset: int, length: int) -> None:
        moved = 0
        while moved < length:
            got = os.preadv(fd, _pieces(self._read_piece, length - moved), offset + moved)
            if got == 0:
                raise ShortTransfer(None, f"{self.name} ends early")
            moved += got

    def renew(self) -> None:
        """Make every page of the next write one that storage has not seen: some share equal blocks."""
        self._stamp += len(self._stamps)
        self._stamps[:] = memoryview(array("Q", range(self._stamp, self._stamp + len(self._stamps))))

    def write(self, fd: int, offset: int, length: int) -> None:
        moved = 0
        while moved < length:
            moved += os.pwritev(fd, _pieces(self._write_piece, length - moved), offset + moved)


def _pieces(piece: mmap.mmap, length: int) -> list[memoryview | mmap.mmap]:
    whole, rest = divmod(length, len(piece))
    pieces: list[memoryview | mmap.mmap] = [piece] * min(whole, _MOST_PIECES)
    if rest and whole < _MOST_PIECES:
        pieces.append(memoryview(piece)[:rest])
    return pieces


def check_space(folder: PrivateDirectory, needed_bytes: int, needed_files: int) -> None:
    """Refuse before the first byte where the file system would run full; 5% stay free for others."""
    room = os.statvfs(folder.fd)
    free = room.f_bavail * room.f_frsize
    spare = room.f_blocks * room.f_frsize // 20
    if needed_bytes and needed_bytes > free - spare:
        raise SourceError(
            f"{folder.path} has {format_bytes(free)} free; the probe's files need {format_bytes(needed_bytes)} and "
            "leave at least 5% of the file system to others.",
            hint="Take a smaller file, or another place.",
        )
    if room.f_files and needed_files > room.f_favail:
        raise SourceError(
            f"{folder.path} has room for {room.f_favail:,} more files; the probe needs {needed_files:,}.",
            hint="Take a smaller pool, or another place.",
        )
