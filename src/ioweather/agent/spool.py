"""The spool: rows on their way to the lake, as append-only NDJSON segments.

<spool>/segments/      segments: what `ioweather ingest` is given
<spool>/refused/       what it refused
<spool>/status.json    the current state of the agent
<spool>/baseline.json  the live baselines, for the next agent
<spool>/lock           locked by the one agent that writes here, with its name

A segment is a header line `{"ioweather_spool": 1, "host": ..., "boot_id": ..., ...}` and one line per row:
`{"table": "responses", "start_ns": ...}`. The open segment is hidden (`.seg-...`); it is renamed when it is closed.
After a kill the last line may be torn; readers drop it. An agent that has taken the lock closes the hidden
segments it finds, and removes those without a whole header, which have no rows.

The spool has a limit. If the lake is away for long, whole closed segments are dropped from the oldest on. Rows that the
disk does not take wait in memory, up to a limit too.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ioweather.core.errors import UnsafePlace, UsageError
from ioweather.core.safe_files import PrivateDirectory, write_all
from ioweather.core.units import GIB, MIB, MINUTE_NS, boot_id

SPOOL_VERSION = 1
_SEGMENT_BYTES = 8 * MIB
_SEGMENT_NS = 5 * MINUTE_NS
_MAX_HEADER_BYTES = 4096
_MAX_WAITING_ROWS = 10_000  # some megabytes, minutes of an agent: time to make room on a full disk
# Directories are made private; the right of a group to read them, to see the status, is not taken away.
READABLE = 0o750
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


class SpoolBusy(UsageError):
    """Another process owns the spool."""


class Spool:
    """The spool of one agent; one at a time per directory. Raises SpoolBusy if another process has the lock."""

    def __init__(
        self,
        directory: Path,
        host: str,
        run_id: str,
        *,
        limit_bytes: int = GIB,
        segment_ns: int = _SEGMENT_NS,
    ) -> None:
        self.directory = directory
        self.segments = directory / "segments"
        self.limit_bytes = limit_bytes
        self.written_rows = self.dropped_rows = self.files = 0
        self.message = ""
        self.dropped_why = ""  # of the last rows that were given up
        self._segment_ns = segment_ns
        self._header = {"ioweather_spool": SPOOL_VERSION, "host": host, "boot_id": boot_id(), "run_id": run_id}
        self._host = host
        self._fd = -1
        self._name = ""
        self._good_bytes = self._good_rows = self._opened_ns = self._number = self._closed_bytes = 0
        self._pending: list[str] = []
        try:
            self.folder, self._closed = self._make_folders()
        except OSError as error:
            raise UsageError(f"Cannot create {self.directory}: {error.strerror}.", hint="Use --spool DIR.") from None
        self._lock = self._take_lock()
        self.keep_within_limit()

    def _make_folders(self) -> tuple[PrivateDirectory, PrivateDirectory]:
        """Make and open the directory of the spool and that of its segments."""
        folder = PrivateDirectory.named(self.directory, keep=READABLE)
        try:
            return folder, folder.inside("segments", keep=READABLE)
        except BaseException:
            folder.close()
            raise

    def _take_lock(self) -> int:
        """Lock the spool for this process; return the descriptor of the file `lock`."""
        fd = self.folder.open("lock")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:  # some network file systems have none; the directory is then not protected
                return fd
            holder = os.pread(fd, 1000, 0).decode(errors="replace").strip()
            os.close(fd)
            raise SpoolBusy(
                f"Another agent writes to {self.directory}{f' ({holder})' if holder else ''}.",
                hint="Stop it, or use another directory with --spool DIR.",
            ) from None
        with suppress(OSError):  # on a full disk the lock has no name
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"pid {os.getpid()} on {self._host}, run {self._header['run_id']}\n".encode(), 0)
        return fd

    def _close_old_segments(self) -> None:
        """Close segments that another agent left open, or that could not be renamed, so that they are shipped."""
        for name in self._closed.names():
            if not (name.startswith(".seg-") and name.endswith(".ndjson")) or (self._fd >= 0 and name == self._name):
                continue
            with suppress(UnsafePlace):  # not our file
                with os.fdopen(self._closed.reopen(name), "rb") as file:
                    has_header = file.readline(_MAX_HEADER_BYTES).endswith(b"\n")
                if has_header:
                    self._closed.rename(name, self._closed, name[1:])
                else:
                    self._closed.unlink(name)

    def add(self, line: str) -> None:
        """Add a row, as `row_line` makes it."""
        self._pending.append(line)

    def flush(self, now_ns: int, *, last: bool = False) -> None:
        """Write the rows to the open segment, where a kill of the agent cannot lose them. Rows that the disk does not
        take are tried again the next time, up to a number of them, unless this is the last flush."""
        if not self._pending:
            return
        try:
            self._append("".join(f"{row}\n" for row in self._pending).encode(), now_ns)
        except OSError as error:
            reason = error.strerror or str(error)
            given_up = len(self._pending) if last else max(0, len(self._pending) - _MAX_WAITING_ROWS)
            del self._pending[:given_up]
            self.message = f"{len(self._pending)} rows queued in memory: {reason}"
            if given_up:
                self._drop(given_up, f"{given_up} rows not written: {reason}")
            return
        self.written_rows += len(self._pending)
        self._good_rows += len(self._pending)
        self._pending = []
        self.message = ""

    def _drop(self, rows: int, why: str) -> None:
        """Count rows that are lost, with the reason."""
        self.dropped_rows += rows
        self.message = self.dropped_why = why

    def _append(self, data: bytes, now_ns: int) -> None:
        """Append whole lines to the open segment. After an error none of them is in it."""
        if self._fd < 0:
            self._open(now_ns)
        try:
            write_all(self._fd, data)
        except OSError:
            # Half a line would damage the next one; at the end of a segment readers drop it.
            try:
                os.ftruncate(self._fd, self._good_bytes)
                os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:
                self.close_segment()
            raise
        self._good_bytes += len(data)

    def _open(self, now_ns: int) -> None:
        """Open a new hidden segment and write its header."""
        before = self.folder, self._closed
        try:
            self.folder, self._closed = self._make_folders()  # again, if they were removed
        except UnsafePlace as error:
            raise OSError(errno.EACCES, str(error)) from None
        for directory in before:
            directory.close()
        self._number += 1
        self._name = f".seg-{self._host}-{now_ns}-{self._number}.ndjson"
        self._opened_ns, self._good_rows = now_ns, 0
        header = json.dumps({**self._header, "opened_ns": now_ns}).encode() + b"\n"
        fd = -1
        try:
            fd = self._closed.create(self._name)
            write_all(fd, header)
        except OSError:
            # A create that failed may have made the file. If it cannot be removed now, it is later.
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
        """Sync and close the open segment, if there is one, and give it the name under which it is shipped."""
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        for call in (os.fdatasync, os.close):
            try:
                call(fd)
            except OSError as error:
                self.message = f"{self._name}: {error.strerror}"
        try:
            self._closed.rename(self._name, self._closed, self._name[1:])
        except FileNotFoundError:
            self._drop(self._good_rows, f"{self._name} with {self._good_rows} rows was removed")
        except OSError as error:  # it is named later
            self.message = f"{self._name}: {error.strerror}"

    def closed_files(self) -> list[Path]:
        """Return the files that can be shipped, oldest first."""
        return [self.segments / name for name in self._sizes()]

    def _sizes(self) -> dict[str, int]:
        """Return the size of each of our files in bytes, oldest first; other files are ignored."""
        found = {}
        for name in self._closed.names():
            if not name.startswith("."):
                with suppress(FileNotFoundError, UnsafePlace):
                    found[name] = self._closed.check(name).st_size
        return dict(sorted(found.items(), key=lambda entry: (_number_in(entry[0]), entry[0])))

    @property
    def used_bytes(self) -> int:
        """Bytes in the spool: as counted last, plus the open segment."""
        return self._closed_bytes + (self._good_bytes if self._fd >= 0 else 0)

    def keep_within_limit(self) -> None:
        """Count the closed files, and drop the oldest ones while they exceed the limit."""
        self._close_old_segments()
        sizes = self._sizes()
        total = sum(sizes.values())
        for name in [*sizes]:
            if total <= self.limit_bytes:
                break
            with os.fdopen(self._closed.reopen(name), "rb") as file:
                rows = max(0, sum(1 for _ in file) - 1)
            self._closed.unlink(name)
            total -= sizes.pop(name)
            self._drop(rows, f"the spool is full: dropped {rows} rows of {name}")
        self.files, self._closed_bytes = len(sizes), total

    def close(self, now_ns: int) -> None:
        """Flush, close the segment, and release the lock."""
        self.flush(now_ns, last=True)
        self.close_segment()
        os.close(self._lock)
        self._closed.close()
        self.folder.close()


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def row_line(table: str, values: Mapping[str, object]) -> str:
    """Return a row as a line of a segment, without the newline."""
    return _ENCODE({"table": table, **values})


def _number_in(name: str) -> int:
    """Return the time in 'seg-HOST-TIME-1.ndjson': the longest run of digits."""
    digits = [part for part in name.replace(".", "-").split("-") if part.isdigit()]
    return int(max(digits, key=len, default="0"))
