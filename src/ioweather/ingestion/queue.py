"""The queue of what was pushed and is not in the lake yet: checked rows in `<lake>/queue/`, files in a folder by host.

A queued file is complete, checked and synced to disk, so its sender may delete its copy. The name is a letter for the
kind, the digest of the content and the original name: a file that is pushed again while it waits is the same file.
`ingestion.drain` is the only process that removes files.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from ioweather.core.errors import LakeError
from ioweather.core.safe_files import sync_to_disk

Kind = Literal["c", "n", "w", "r"]
# Columns of checked rows; a file of rows of a few days; one of many days, written when nothing else waits; a ledger
# entry about a refused file. Most are columns: those of all hosts are in one folder, which is listed faster.
COLUMNS: Final[Kind] = "c"
ROWS: Final[Kind] = "n"
WIDE: Final[Kind] = "w"
REFUSAL: Final[Kind] = "r"
# 32 and 211 characters at most: within the 255 that a file name may have.
_NAME: Final = re.compile(r"([cnwr])([0-9a-f]{32})-(.+)")
DRAFT: Final = re.compile(r"\.[0-9a-f]{16}")
# The writer's file has this size from the beginning, so that an error message can be written to a full disk.
TROUBLE_BYTES: Final = 512


@dataclass(frozen=True)
class Queued:
    path: Path
    kind: str
    digest: str
    name: str
    bytes: int
    came_ns: int

    @property
    def host(self) -> str:
        return self.path.parent.name


@dataclass(frozen=True)
class Waiting:
    """Length of the queue. `oldest_ns` is the arrival time of its oldest file, `trouble` the error of the writer's last
    attempt, empty after a success."""

    files: int = 0
    bytes: int = 0
    oldest_ns: int | None = None
    trouble: str = ""

    def age_seconds(self, at_ns: int) -> float:
        return 0.0 if self.oldest_ns is None else max(0.0, (at_ns - self.oldest_ns) / 1e9)


def queue_dir(root: Path) -> Path:
    return root / "queue"


def refused_dir(root: Path) -> Path:
    """Files that passed the check and still could not be written to the lake, for an operator to look at."""
    return root / "refused"


def writer_file(root: Path) -> Path:
    """Locked by the one writer, which writes its last error here."""
    return queue_dir(root) / ".writer"


@contextmanager
def draft_in(root: Path) -> Iterator[Path]:
    """A new hidden file in the queue directory, removed afterwards unless `put` moved it."""
    folder = queue_dir(root)
    try:
        folder.mkdir(exist_ok=True, mode=0o750)
        draft = folder / f".{secrets.token_hex(8)}"
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LakeError(f"The queue cannot be written: {error.strerror}.") from None
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def put(root: Path, draft: Path, host: str, name: str, digest: str, kind: Kind = ROWS) -> bool:
    """Move the draft into the queue and sync it to disk. Returns False if the same file is in the queue already."""
    folder = queue_dir(root) if kind == COLUMNS else queue_dir(root) / host
    path = folder / f"{kind}{digest}-{name}"
    try:
        is_new_host = not folder.is_dir()
        folder.mkdir(exist_ok=True, mode=0o750)
        is_known = path.exists()
        if not is_known:
            sync_to_disk(draft)
            draft.replace(path)
        sync_to_disk(folder)  # also for a known file: the request that put it there may have died before this
        if is_new_host:
            sync_to_disk(folder.parent)
    except OSError as error:
        raise LakeError(f"The queue cannot be written: {error.strerror}.") from None
    return not is_known


def queued(root: Path) -> list[Queued]:
    """All queued files, oldest first."""
    found: list[Queued] = []
    with suppress(FileNotFoundError):
        for first in os.scandir(queue_dir(root)):
            is_folder = first.is_dir(follow_symlinks=False)
            for entry in os.scandir(first.path) if is_folder else (first,):
                if named := _NAME.fullmatch(entry.name):
                    with suppress(FileNotFoundError):  # removed since it was listed
                        status = entry.stat(follow_symlinks=False)
                        kind, digest, name = named.groups()
                        place = Path(entry.path)
                        found.append(Queued(place, kind, digest, name, status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda file: (file.came_ns, file.path.name))


def waiting(root: Path) -> Waiting:
    """Empty if there is no queue or this user may not read it."""
    try:
        files = queued(root)
    except OSError:
        return Waiting()
    if not files:
        return Waiting()
    trouble = ""
    with suppress(OSError):
        trouble = writer_file(root).read_bytes()[:TROUBLE_BYTES].decode(errors="replace").strip()
    return Waiting(len(files), sum(file.bytes for file in files), files[0].came_ns, trouble)
