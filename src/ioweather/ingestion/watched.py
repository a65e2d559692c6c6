"""Which files of a watched directory are new: by the time of their last change, without opening any of them.

The ledger decides what is in; this only keeps a pass over a directory of many months cheap. A file is a candidate when
it changed after the newest file that was handed over, or shortly before: clients that write to one directory have
clocks of their own. The time is that of the inode (ctime), which a file also gets when it is moved or copied with its
old date. Folders without subfolders that have been quiet for days are not listed again until they change.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from ioweather.core.units import DAY_NS, GIB, MIB, MINUTE_NS, NS
from ioweather.lake import layout

# One pass hands over so much; the rest waits for the next one.
MOST_FILES: Final = 500
MOST_BYTES: Final = GIB
# Older files are history, which `ioweather ingest` reads once.
FIRST_LOOK_NS: Final = DAY_NS
OVERLAP_NS: Final = 30 * MINUTE_NS
_QUIET_NS: Final = 2 * DAY_NS
# A file that somebody is writing this moment is left for the next pass.
_SETTLED_NS: Final = 3 * NS
# A large file that grows (a day of LMT in HDF5) is read again no more often than this.
_LARGE_BYTES: Final = 16 * MIB
_GROWING_NS: Final = 10 * MINUTE_NS
# Darshan writes under this name, and renames at the end.
_UNFINISHED: Final = "_partial"


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


@dataclass(frozen=True)
class Changed:
    path: str
    bytes: int
    changed_ns: int


@dataclass
class Watched:
    """One directory. `mark_ns`: the newest change that was handed over; `recent`: files handed over that may be
    candidates again: size, change, and when; `quiet`: folders that need no listing while their time stays."""

    top: Path
    mark_ns: int = 0
    recent: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    quiet: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"mark_ns": self.mark_ns, "recent": {k: list(v) for k, v in self.recent.items()}, "quiet": self.quiet}

    @classmethod
    def from_json(cls, top: Path, body: Any) -> Watched:
        """The stored state, or an empty one if it is damaged: the ledger knows which files are in the lake."""
        try:
            recent = {str(path): (int(a), int(b), int(c)) for path, (a, b, c) in body["recent"].items()}
            quiet = {str(path): int(moment) for path, moment in body["quiet"].items()}
            return cls(top, int(body["mark_ns"]), recent, quiet)
        except (KeyError, TypeError, ValueError, AttributeError):
            return cls(top)

    def candidates(self, at_ns: int, *, everything: bool = False) -> list[Changed]:
        """The longest unchanged first."""
        since = 0 if everything else (self.mark_ns - OVERLAP_NS if self.mark_ns else at_ns - FIRST_LOOK_NS)
        if everything:
            self.quiet, self.recent = {}, {}
        found = [
            file for file in self._below(self.top, at_ns) if file.changed_ns >= since and self._is_new(file, at_ns)
        ]
        return sorted(found, key=lambda file: (file.changed_ns, file.path))

    def hand_over(self, files: Sequence[Changed], unreadable: Mapping[str, str], at_ns: int) -> None:
        """Note files that were read or refused. Unreadable ones are tried again."""
        for file in files:
            if file.path not in unreadable:
                self.recent[file.path] = (file.bytes, file.changed_ns, at_ns)
        # A host whose clock is ahead must not make the files of all others old.
        self.mark_ns = max([self.mark_ns, *(min(file.changed_ns, at_ns) for file in files)])
        self.recent = {path: seen for path, seen in self.recent.items() if seen[1] >= self.mark_ns - OVERLAP_NS}

    def _is_new(self, file: Changed, at_ns: int) -> bool:
        if 0 <= at_ns - file.changed_ns < _SETTLED_NS:
            return False
        size, changed, handed = self.recent.get(file.path, (-1, -1, 0))
        if (size, changed) == (file.bytes, file.changed_ns):
            return False
        return not (size >= _LARGE_BYTES and at_ns - handed < _GROWING_NS)

    def _below(self, folder: Path, at_ns: int) -> Iterator[Changed]:
        """Regular files, without hidden ones, links, lakes, unfinished logs, and files that were just removed."""
        try:
            changed = folder.stat().st_mtime_ns
            if self.quiet.get(str(folder)) == changed:
                return
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            if folder == self.top:
                raise
            return
        if any(entry.name == layout.lake_marker(Path()).name for entry in entries):
            return
        newest, subfolders = changed, []
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                subfolders.append(Path(entry.path))
            elif stat.S_ISREG(status.st_mode):
                newest = max(newest, status.st_ctime_ns)
                yield Changed(entry.path, status.st_size, status.st_ctime_ns)
        for subfolder in subfolders:
            yield from self._below(subfolder, at_ns)
        self.quiet.pop(str(folder), None)
        if not subfolders and at_ns - newest > _QUIET_NS and folder != self.top:
            self.quiet[str(folder)] = changed


def one_pass(files: Sequence[T], most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES) -> list[T]:
    """The first files within these limits, at least one."""
    taken: list[T] = []
    size = 0
    for file in files[:most_files]:
        if taken and size + file.bytes > most_bytes:
            break
        taken.append(file)
        size += file.bytes
    return taken


# `<lake>/catch_up.json`: where the next pass looks first, and what the last one did (`last`), for the exporter and the
# dashboard, which do not open the lake for it


def state_file(root: Path) -> Path:
    return root / "catch_up.json"


def read_caught_up(root: Path) -> dict[str, Any]:
    """Empty where there was no pass yet, or the file cannot be read: nothing depends on it."""
    try:
        body = json.loads(state_file(root).read_bytes())
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) and isinstance(body.get("last", {}), dict) else {}
