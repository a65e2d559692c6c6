"""A pass-through FUSE file system that delays, fails or hangs the operations it is told to, and counts them.

    python fuse_passthrough.py BACKING MOUNTPOINT CONTROL COUNTS [--uncached]

CONTROL is a JSON file, read before every operation: {"read": {"delay_seconds": 0.02, "errno": 5, "hang_seconds": 20}}.
COUNTS tells of operations that something was done to, a moment later: {"read": 17, "slept_seconds": 0.34}. A hang
happens once per change of CONTROL.

With "nth" an order is for the nth operation of its kind since CONTROL changed (0: for none, they are counted only),
with "lasting" also for all after it, and with "afterwards" the operation is done and then reported as failed. COUNTS is
then written before the operation ends, and "faults" in it counts those that were disturbed.
"""

# ruff: noqa: PTH101, PTH102, PTH104, PTH106, PTH108, PTH208
from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mfusepy


def disturbed(operation: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def wrapped(self: PassThrough, *arguments: Any) -> Any:
        number = self.disturb(operation.__name__)
        result = operation(self, *arguments)
        if number:
            raise mfusepy.FuseOSError(number)
        return result

    return wrapped


class PassThrough(mfusepy.Operations):
    use_ns = True

    def __init__(self, backing: str, control: Path, counts: Path) -> None:
        self.backing, self.control, self.counts_file = backing, control, counts
        self.counts: dict[str, float] = {}
        self.hung: tuple[int, str] | None = None
        self.since: tuple[int, dict[str, int]] = (0, {})
        self.guard = threading.Lock()

    def disturb(self, name: str) -> int:
        """Delay, hang or fail as ordered; returns the error to report when the operation is done, or 0."""
        text = self.control.read_text()
        orders: dict[str, Any] = json.loads(text).get(name, {})
        if not orders:
            return 0
        with self.guard:
            self.counts[name] = self.counts.get(name, 0) + 1
            changed_ns = self.control.stat().st_mtime_ns
            if "nth" in orders and not self._is_meant(name, orders, changed_ns):
                return 0
            changed = (changed_ns, name)
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
        number: int = orders.get("errno", 0)
        if number and not orders.get("afterwards"):
            raise mfusepy.FuseOSError(number)
        return number

    def _is_meant(self, name: str, orders: dict[str, Any], changed_ns: int) -> bool:
        if self.since[0] != changed_ns:
            self.since = (changed_ns, {})
        place = self.since[1][name] = self.since[1].get(name, 0) + 1
        meant = 0 < orders["nth"] <= place if orders.get("lasting") else orders["nth"] == place
        if meant:
            self.counts["faults"] = self.counts.get("faults", 0) + 1
            self._write_counts(json.dumps(self.counts))
        return bool(meant)

    def _write_counts(self, text: str) -> None:
        draft = self.counts_file.with_suffix(f".draft{threading.get_ident()}")
        draft.write_text(text)
        draft.replace(self.counts_file)

    def keep_counts_written(self) -> None:
        """Beside the operations, not inside them."""
        written = ""
        while True:
            time.sleep(0.1)
            with self.guard:
                text = json.dumps(self.counts)
                if text != written:
                    self._write_counts(text)
                    written = text

    def init(self, path: str) -> None:
        threading.Thread(target=self.keep_counts_written, daemon=True).start()

    def real(self, path: str) -> str:
        return self.backing + path

    @disturbed
    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self.real(path))
        names = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid", "st_blocks")
        squashed = json.loads(self.control.read_text()).get("squash", {})  # {"uid": 65534}: everything belongs to it
        return {name: squashed.get(name.removeprefix("st_"), getattr(found, name)) for name in names}

    @disturbed
    def readdir(self, path: str, fh: int) -> list[str]:
        return [".", "..", *os.listdir(self.real(path))]

    @disturbed
    def open(self, path: str, flags: int) -> int:
        return os.open(self.real(path), flags & ~os.O_DIRECT)

    @disturbed
    def create(self, path: str, mode: int, fi: Any = None) -> int:
        return os.open(self.real(path), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    @disturbed
    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    @disturbed
    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        return os.pwrite(fh, data, offset)

    @disturbed
    def fsync(self, path: str, datasync: int, fh: int) -> int:
        return 0

    @disturbed
    def flush(self, path: str, fh: int) -> int:
        return 0

    @disturbed
    def release(self, path: str, fh: int) -> int:
        os.close(fh)
        return 0

    @disturbed
    def unlink(self, path: str) -> int:
        os.unlink(self.real(path))
        return 0

    @disturbed
    def rename(self, old: str, new: str) -> int:
        os.rename(self.real(old), self.real(new))
        return 0

    @disturbed
    def link(self, target: str, source: str) -> int:
        os.link(self.real(source), self.real(target))
        return 0

    @disturbed
    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self.real(path), mode)
        return 0

    @disturbed
    def rmdir(self, path: str) -> int:
        os.rmdir(self.real(path))
        return 0

    @disturbed
    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self.real(path) if fh is None else fh, length)
        return 0

    @disturbed
    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self.real(path), mode)
        return 0

    @disturbed
    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self.real(path), ns=times)
        return 0

    @disturbed
    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self.real(path))
        names = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_frsize")
        return {name: getattr(found, name) for name in names}


def main() -> None:
    backing, mountpoint, control, counts, *rest = sys.argv[1:]
    # libfuse3 changes to '/': all paths are absolute here.
    operations = PassThrough(backing, Path(control), Path(counts))
    # Uncached: the kernel asks for every stat, so that every one can fail.
    timeouts = {"attr_timeout": 0, "entry_timeout": 0} if "--uncached" in rest else {}
    # Without hard_remove an unlink that overtakes the release of the same file becomes a rename to .fuse_hidden.
    mfusepy.FUSE(operations, mountpoint, foreground=True, hard_remove=True, **timeouts)


if __name__ == "__main__":
    main()
