"""The spool: rows on their way to the lake, as append-only NDJSON segments.

<spool>/segments/      segments, and documents for other sources: all that `ioweather ingest` is given
<spool>/refused/       what it refused
<spool>/status.json    how things stand now
<spool>/baseline.json  the live baselines, for the next agent
<spool>/lock           held by the one agent that writes here; says which

A segment is a header line `{"ioweather_spool": 1, "host": ..., "boot_id": ..., ...}` and one line per row:
`{"table": "responses", "start_ns": ...}`. The open segment is hidden (`.seg-...`); closing it is a rename. After a kill
the last line may be torn; readers drop it. Whoever finds a hidden segment after taking the lock closes it; one whose
header is not whole holds no row, and is removed.

The spool has a limit. Where the lake is away for long, whole closed segments are given up: the oldest
(`keep="newest"`, the default), or what comes now (`keep="oldest"`). Rows that the disk does not take wait in memory, up
to a limit too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from ioweather.core.clock import boot_id
from ioweather.core.errors import UnsafePlace, UsageError
from ioweather.core.safe_files import PrivateDirectory, write_all
from ioweather.core.units import GIB, MIB, MINUTE_NS

SPOOL_VERSION = 1
_SEGMENT_BYTES = 8 * MIB
_SEGMENT_NS = 5 * MINUTE_NS
_LONGEST_HEADER = 4096
_MOST_HELD_ROWS = 10_000  # some megabytes: minutes of an agent, and a disk that was full is emptied in that time
# Made for us alone; a group that may read it, so that it sees the status, stays so.
READABLE = 0o750
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)

Keep: TypeAlias = Literal["newest", "oldest"]


class SpoolBusy(UsageError):
    """Another process owns the spool."""


class Spool:
    def __init__(
        self, directory: Path, host: str, run_id: str, *, limit_bytes: int = GIB, keep: Keep = "newest",
        segment_ns: int = _SEGMENT_NS,
    ) -> None:  # fmt: skip
        self.directory = directory
        self.segments = directory / "segments"
        self.limit_bytes = limit_bytes
        self.written_rows = self.dropped_rows = self.files = 0
        self.message = ""
        self.dropped_why = ""  # of the last rows that were given up
        self._keep = keep
        self._segment_ns = segment_ns
        self._header = {"ioweather_spool": SPOOL_VERSION, "host": host, "boot_id": boot_id(), "run_id": run_id}
        self._host = host
        self._fd = -1
        self._name = ""
        self._good_bytes = self._good_rows = self._opened_ns = self._number = self._closed_bytes = 0
        self._pending: list[str] = []
        self._unnamed: list[tuple[str, int]] = []  # closed, but the rename failed; with their rows
        try:
            self.folder, self._closed = self._make()
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be made: {error.strerror}.", hint="Give --spool DIR.") from None
        self._lock = self._take_lock()
        self._close_what_was_left()
        self.keep_within_limit()

    def _make(self) -> tuple[PrivateDirectory, PrivateDirectory]:
        folder = PrivateDirectory.named(self.directory, keep=READABLE)
        try:
            return folder, folder.inside("segments", keep=READABLE)
        except BaseException:
            folder.close()
            raise

    def _make_again(self) -> None:
        """Where somebody has removed it."""
        try:
            os.close(self.folder.again())
            os.close(self._closed.again(self.folder.fd))
        except OSError:
            before = self.folder, self._closed
            try:
                self.folder, self._closed = self._make()
            except UnsafePlace as error:
                raise OSError(errno.EACCES, str(error)) from None
            for directory in before:
                directory.close()

    def _take_lock(self) -> int:
        fd = self.folder.open("lock")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:  # some network file systems know none; then nobody watches
                return fd
            holder = os.pread(fd, 1000, 0).decode(errors="replace").strip()
            os.close(fd)
            raise SpoolBusy(
                f"Another agent writes to {self.directory}{f' ({holder})' if holder else ''}.",
                hint="Stop it, or give this one its own with --spool DIR.",
            ) from None
        with suppress(OSError):  # a full disk: then it is held, and does not say by whom
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"pid {os.getpid()} on {self._host}, run {self._header['run_id']}\n".encode(), 0)
        return fd

    def _close_what_was_left(self) -> None:
        """By an agent that was killed, or whose disk failed."""
        for name in self._closed.names():
            if not (name.startswith(".seg-") and name.endswith(".ndjson")):
                continue
            with suppress(UnsafePlace):  # what somebody else put there is left alone
                with os.fdopen(self._closed.reopen(name), "rb") as file:
                    has_header = file.readline(_LONGEST_HEADER).endswith(b"\n")
                if has_header:
                    self._closed.rename(name, self._closed, name[1:])
                else:
                    self._closed.unlink(name)

    def add(self, line: str) -> None:
        """A row, as `row_line` makes it."""
        self._pending.append(line)

    def flush(self, now_ns: int, *, last: bool = False) -> None:
        """Hand what was added to the kernel: from here on a kill of the agent cannot lose it. What the disk does not
        take is tried again the next time, unless this is the last one."""
        if not self._pending:
            return
        data = "".join(f"{row}\n" for row in self._pending).encode()
        if self._keep == "oldest" and self.used_bytes + len(data) > self.limit_bytes:
            self._give_up(0, f"the spool holds its limit of {self.limit_bytes} bytes")
            return
        try:
            self._append(data, now_ns)
        except OSError as error:
            self._give_up(0 if last else _MOST_HELD_ROWS, error.strerror or str(error))
            return
        self.written_rows += len(self._pending)
        self._good_rows += len(self._pending)
        self._pending = []
        self.message = ""

    def _give_up(self, most: int, reason: str) -> None:
        """All that waits but the newest `most` rows."""
        given_up = max(0, len(self._pending) - most)
        del self._pending[:given_up]
        if given_up:
            self._drop(given_up, f"{given_up} rows not written: {reason}")
        else:
            self.message = f"{len(self._pending)} rows wait in memory: {reason}"

    def _drop(self, rows: int, why: str) -> None:
        self.dropped_rows += rows
        self.message = self.dropped_why = why

    def _append(self, data: bytes, now_ns: int) -> None:
        if self._fd < 0:
            self._open(now_ns)
        try:
            write_all(self._fd, data)
        except OSError:
            # Half a line would spoil the ones after it; at the end of a segment it is dropped by readers.
            try:
                os.ftruncate(self._fd, self._good_bytes)
                os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:
                self.close_segment()
            raise
        self._good_bytes += len(data)

    def _open(self, now_ns: int) -> None:
        self._make_again()
        self._number += 1
        self._name = f".seg-{self._host}-{now_ns}-{self._number}.ndjson"
        self._opened_ns, self._good_rows = now_ns, 0
        header = json.dumps({**self._header, "opened_ns": now_ns}).encode() + b"\n"
        fd = -1
        try:
            fd = self._closed.create(self._name)
            write_all(fd, header)
        except OSError:
            # A create that failed may have made it too. What cannot be removed now, the next agent removes.
            if fd >= 0:
                with suppress(OSError):
                    os.close(fd)
            with suppress(OSError, UnsafePlace):
                self._closed.unlink(self._name)
            raise
        self._fd, self._good_bytes = fd, len(header)

    def rotate(self, now_ns: int, *, force: bool = False) -> None:
        """Close the segment when it is old or large enough, and keep the spool within its limit."""
        age = now_ns - self._opened_ns
        # A clock that was set back makes an age below 0; then close too.
        if self._fd >= 0 and (force or not 0 <= age < self._segment_ns or self._good_bytes >= _SEGMENT_BYTES):
            self.close_segment()
            self.keep_within_limit()

    def close_segment(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            os.fdatasync(fd)
        except OSError as error:
            self.message = f"{self._name}: {error.strerror}"
        try:
            os.close(fd)
        except OSError as error:
            self.message = f"{self._name}: {error.strerror}"
        self._unnamed.append((self._name, self._good_rows))
        self._name_closed()

    def _name_closed(self) -> None:
        """What is closed gets the name under which it is shipped; where that fails, the next time."""
        waiting, self._unnamed = self._unnamed, []
        for name, rows in waiting:
            try:
                if not self._has_renamed(name):
                    self._drop(rows, f"{name} with {rows} rows was removed")
            except OSError as error:
                self._unnamed.append((name, rows))
                self.message = f"{name}: {error.strerror}"

    def _has_renamed(self, name: str) -> bool:
        """Or was it removed? One that was said to have failed may have been done."""
        try:
            self._closed.rename(name, self._closed, name[1:])
        except FileNotFoundError:
            return name[1:] in self._closed.names()
        return True

    def closed_files(self) -> list[Path]:
        """What can be shipped, oldest first: segments, and documents for other sources."""
        return [self.segments / name for name in self._sizes()]

    def _sizes(self) -> dict[str, int]:
        """Of our files, oldest first. What else somebody put there is left alone."""
        found = {}
        for name in self._closed.names():
            if not name.startswith("."):
                with suppress(FileNotFoundError, UnsafePlace):
                    found[name] = self._closed.check(name).st_size
        return dict(sorted(found.items(), key=lambda entry: (_number_in(entry[0]), entry[0])))

    @property
    def used_bytes(self) -> int:
        """As last counted, and what was written since."""
        return self._closed_bytes + (self._good_bytes if self._fd >= 0 else 0)

    def keep_within_limit(self) -> None:
        """Count what lies here, and give up the oldest where it is too much."""
        self._name_closed()
        sizes = self._sizes()
        total = sum(sizes.values())
        for name in [*sizes]:
            if total <= self.limit_bytes:
                break
            rows = _count_rows(self._closed, name)
            self._closed.unlink(name)
            total -= sizes.pop(name)
            self._drop(rows, f"the spool is full: {rows} rows of {name} given up")
        self.files, self._closed_bytes = len(sizes), total

    def close(self, now_ns: int) -> None:
        """Flush, close the segment, let go of the lock."""
        self.flush(now_ns, last=True)
        self.close_segment()
        os.close(self._lock)
        self._closed.close()
        self.folder.close()


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def row_line(table: str, values: Mapping[str, object]) -> str:
    return _ENCODE({"table": table, **values})


def _number_in(name: str) -> int:
    """The time in 'seg-HOST-TIME-1.ndjson' and 'sacct-TIME.txt': the longest run of digits."""
    digits = [part for part in name.replace(".", "-").split("-") if part.isdigit()]
    return int(max(digits, key=len, default="0"))


def _count_rows(folder: PrivateDirectory, name: str) -> int:
    with os.fdopen(folder.reopen(name), "rb") as file:
        return max(0, sum(1 for _ in file) - 1)
