"""A pass-through FUSE file system that delays, fails or hangs the operations it is told to, and counts them.

    python fuse_passthrough.py BACKING MOUNTPOINT CONTROL COUNTS

CONTROL is a JSON file, read before every operation: {"read": {"delay_seconds": 0.02, "errno": 5, "hang_seconds": 20}}.
COUNTS tells of operations that something was done to, a moment later: {"read": 17, "slept_seconds": 0.34}. A hang
happens once per change of CONTROL.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH208
from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

import mfusepy

OPERATIONS = ("create", "fsync", "getattr", "mkdir", "open", "read", "release", "unlink", "write")


class PassThrough(mfusepy.Operations):
    use_ns = True

    def __init__(self, backing: str, control: Path, counts: Path) -> None:
        self.backing, self.control, self.counts_file = backing, control, counts
        self.counts: dict[str, float] = {}
        self.hung: tuple[int, str] | None = None
        self.guard = threading.Lock()

    def disturb(self, name: str) -> None:
        text = self.control.read_text()
        orders: dict[str, Any] = json.loads(text).get(name, {})
        if not orders:
            return
        with self.guard:
            self.counts[name] = self.counts.get(name, 0) + 1
            changed = (self.control.stat().st_mtime_ns, name)
            hangs = "hang_seconds" in orders and self.hung != changed
            if hangs:
                self.hung = changed
        if hangs:
            time.sleep(orders["hang_seconds"])
        began = time.monotonic()
        time.sleep(orders.get("delay_seconds", 0))
        with self.guard:
            # A busy machine sleeps longer than it was told to.
            self.counts["slept_seconds"] = self.counts.get("slept_seconds", 0) + time.monotonic() - began
        if orders.get("errno"):
            raise mfusepy.FuseOSError(orders["errno"])

    def keep_counts_written(self) -> None:
        """Beside the operations, not inside them."""
        draft, written = self.counts_file.with_suffix(".draft"), ""
        while True:
            time.sleep(0.1)
            with self.guard:
                text = json.dumps(self.counts)
            if text != written:
                draft.write_text(text)
                draft.replace(self.counts_file)
                written = text

    def init(self, path: str) -> None:
        threading.Thread(target=self.keep_counts_written, daemon=True).start()

    def real(self, path: str) -> str:
        return self.backing + path

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        self.disturb("getattr")
        found = os.lstat(self.real(path))
        names = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid", "st_blocks")
        return {name: getattr(found, name) for name in names}

    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self.real(path))]

    def open(self, path: str, flags: int) -> int:
        self.disturb("open")
        return os.open(self.real(path), flags & ~os.O_DIRECT)

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        self.disturb("create")
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        self.disturb("read")
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        self.disturb("write")
        return os.pwrite(fh, data, offset)

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self.disturb("fsync")
        return 0

    def flush(self, path: str, fh: int) -> int:
        return 0

    def release(self, path: str, fh: int) -> int:
        self.disturb("release")
        os.close(fh)
        return 0

    def unlink(self, path: str) -> int:
        self.disturb("unlink")
        os.unlink(self.real(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self.real(old), self.real(new))
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        self.disturb("mkdir")
        os.mkdir(self.real(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self.real(path))
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self.real(path), length)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self.real(path), mode)
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self.real(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")
        return {name: getattr(found, name) for name in names}


def main() -> None:
    backing, mountpoint, control, counts = sys.argv[1:]
    # libfuse3 changes to '/': all paths are absolute here.
    operations = PassThrough(backing, Path(control), Path(counts))
    # Without hard_remove an unlink that overtakes the release of the same file becomes a rename to .fuse_hidden.
    mfusepy.FUSE(operations, mountpoint, foreground=True, hard_remove=True)


if __name__ == "__main__":
    main()
