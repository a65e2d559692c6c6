"""Is this part of a file in the client's page cache?

mincore(2) looks without touching. A read with RWF_NOWAIT (where a mapping is refused) answers too, but starts to read
the page that it does not find: one page of the request is then under way before its time is taken.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

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
