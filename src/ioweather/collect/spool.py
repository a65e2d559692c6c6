"""The spool: rows on their way to the lake, as append-only NDJSON segments.

<spool>/segments/      segments, and documents for other sources: all that `ioweather ingest` is given
<spool>/refused/       what it refused
<spool>/status.json    how things stand now
<spool>/baseline.json  the live baselines, for the next agent
<spool>/lock           held by the one agent that writes here

A segment is a header line `{"ioweather_spool": 1, "host": ..., "boot_id": ..., ...}` and one line per row:
`{"table": "responses", "start_ns": ...}`. The open segment is hidden (`.seg-...`); closing it is a rename. After a kill
the last line may be torn; readers drop it. Whoever finds a hidden segment after taking the lock closes it.

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
from pathlib import Path
from typing import Literal, TypeAlias

from ioweather.core.errors import UsageError
from ioweather.core.units import GIB, MIB, MINUTE_NS

SPOOL_VERSION = 1
_SEGMENT_BYTES = 8 * MIB
_SEGMENT_NS = 5 * MINUTE_NS
_MOST_HELD_ROWS = 10_000  # some megabytes: minutes of an agent, and a disk that was full is emptied in that time
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)

Keep: TypeAlias = Literal["newest", "oldest"]


class SpoolBusy(UsageError):
    """Another process owns the spool."""


def boot_id() -> str:
    """Tells two starts of a machine apart; counters begin anew with it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "unknown"


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
        self._keep = keep
        self._segment_ns = segment_ns
        self._header = {"ioweather_spool": SPOOL_VERSION, "host": host, "boot_id": boot_id(), "run_id": run_id}
        self._host = host
        self._fd = -1
        self._path: Path | None = None
        self._good_bytes = self._good_rows = self._opened_ns = self._number = self._closed_bytes = 0
        self._pending: list[str] = []
        self._unnamed: list[tuple[Path, int]] = []  # closed, but the rename failed; with their rows
        try:
            self._make()
        except OSError as error:
            raise UsageError(f"{self.directory} cannot be made: {error.strerror}.", hint="Give --spool DIR.") from None
        self._lock = self._take_lock()
        for orphan in self.segments.glob(".seg-*.ndjson"):
            orphan.rename(orphan.with_name(orphan.name[1:]))
        self.keep_within_limit()

    def _make(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.segments.mkdir(exist_ok=True, mode=0o700)

    def _take_lock(self) -> int:
        fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:  # some network file systems know none; then nobody watches
                return fd
            os.close(fd)
            raise SpoolBusy(
                f"Another agent writes to {self.directory}.", hint="Stop it, or give this one its own with --spool DIR."
            ) from None
        return fd

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
        self.dropped_rows += given_up
        count, what = (given_up, "not written") if given_up else (len(self._pending), "wait in memory")
        self.message = f"{count} rows {what}: {reason}"

    def _append(self, data: bytes, now_ns: int) -> None:
        if self._fd < 0:
            self._open(now_ns)
        try:
            self._write(data)
        except OSError:
            # Half a line would spoil the ones after it; at the end of a segment it is dropped by readers.
            try:
                os.ftruncate(self._fd, self._good_bytes)
                os.lseek(self._fd, 0, os.SEEK_END)
            except OSError:
                self.close_segment()
            raise
        self._good_bytes += len(data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def _open(self, now_ns: int) -> None:
        self._make()  # somebody may have removed it
        self._number += 1
        self._path = self.segments / f".seg-{self._host}-{now_ns}-{self._number}.ndjson"
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._opened_ns, self._good_bytes, self._good_rows = now_ns, 0, 0
        header = json.dumps({**self._header, "opened_ns": now_ns}).encode() + b"\n"
        try:
            self._write(header)
        except OSError:
            os.close(self._fd)
            self._fd = -1
            self._path.unlink()
            raise
        self._good_bytes = len(header)

    def rotate(self, now_ns: int, *, force: bool = False) -> None:
        """Close the segment when it is old or large enough, and keep the spool within its limit."""
        age = now_ns - self._opened_ns
        # A clock that was set back makes an age below 0; then close too.
        if self._fd >= 0 and (force or not 0 <= age < self._segment_ns or self._good_bytes >= _SEGMENT_BYTES):
            self.close_segment()
            self.keep_within_limit()

    def close_segment(self) -> None:
        if self._fd < 0 or self._path is None:
            return
        fd, path, self._fd, self._path = self._fd, self._path, -1, None
        try:
            os.fdatasync(fd)
        except OSError as error:
            self.message = f"{path.name}: {error.strerror}"
        try:
            os.close(fd)
        except OSError as error:
            self.message = f"{path.name}: {error.strerror}"
        self._unnamed.append((path, self._good_rows))
        self._name_closed()

    def _name_closed(self) -> None:
        """What is closed gets the name under which it is shipped; where that fails, the next time."""
        waiting, self._unnamed = self._unnamed, []
        for path, rows in waiting:
            try:
                path.rename(path.with_name(path.name[1:]))
            except FileNotFoundError:
                self.dropped_rows += rows
                self.message = f"{path.name} with {rows} rows was removed"
            except OSError as error:
                self._unnamed.append((path, rows))
                self.message = f"{path.name}: {error.strerror}"

    def closed_files(self) -> list[Path]:
        """What can be shipped, oldest first: segments, and documents for other sources."""
        found = [entry for entry in self.segments.iterdir() if not entry.name.startswith(".")]
        return sorted(found, key=lambda path: (_number_in(path.name), path.name))

    @property
    def used_bytes(self) -> int:
        """As last counted, and what was written since."""
        return self._closed_bytes + (self._good_bytes if self._fd >= 0 else 0)

    def keep_within_limit(self) -> None:
        """Count what lies here, and give up the oldest where it is too much."""
        self._name_closed()
        files = self.closed_files()
        sizes = {path: path.stat().st_size for path in files}
        total = sum(sizes.values())
        while files and total > self.limit_bytes:
            path = files.pop(0)
            rows = _count_rows(path)
            path.unlink()
            total -= sizes[path]
            self.dropped_rows += rows
            self.message = f"the spool is full: {rows} rows of {path.name} given up"
        self.files, self._closed_bytes = len(files), total

    def close(self, now_ns: int) -> None:
        """Flush, close the segment, let go of the lock."""
        self.flush(now_ns, last=True)
        self.close_segment()
        os.close(self._lock)


_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


def row_line(table: str, values: Mapping[str, object]) -> str:
    return _ENCODE({"table": table, **values})


def _number_in(name: str) -> int:
    """The time in 'seg-HOST-TIME-1.ndjson' and 'sacct-TIME.txt': the longest run of digits."""
    digits = [part for part in name.replace(".", "-").split("-") if part.isdigit()]
    return int(max(digits, key=len, default="0"))


def _count_rows(path: Path) -> int:
    with path.open("rb") as file:
        return max(0, sum(1 for _ in file) - 1)
