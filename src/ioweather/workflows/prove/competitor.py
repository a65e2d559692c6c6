"""A process that writes to its own file while it is told to. Started without ioweather: standard library alone.

    python -I -S competitor.py FD REQUEST_BYTES FILE_BYTES MOST_BYTES

A line on standard input starts it, the next one stops it, the end of the input ends it. It writes `MOST_BYTES` at most
each time.
"""

from __future__ import annotations

import mmap
import os
import select
import sys


def main(fd: int, request_bytes: int, file_bytes: int, most_bytes: int) -> None:
    data = mmap.mmap(-1, request_bytes)  # aligned, as O_DIRECT wants it
    data.write(os.urandom(request_bytes))
    while os.read(0, 1):
        written = 0
        while written < most_bytes and not select.select([0], [], [], 0)[0]:
            written += os.pwrite(fd, data, written % file_bytes)
        if not os.read(0, 1):
            return


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
