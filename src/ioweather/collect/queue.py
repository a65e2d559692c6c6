"""What other hosts pushed and the lake does not hold yet: `<lake>/queue/<host>/`, one file each.

A file there is whole, was checked, and survives a crash: its sender may forget it. The name begins with its kind and
the digest of its content, so a file that is pushed again while it waits is the same file. One writer takes them away.
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

from ioweather.core.clock import now_ns
from ioweather.core.errors import LakeError
from ioweather.core.units import HOUR_NS
from ioweather.core.whole_files import sync_to_disk

# rows: of a few days. wide: of many, which goes when nothing else waits. refusal: what the ledger shall say of a file.
Kind = Literal["rows", "wide", "refusal"]
_LETTERS: Final[dict[Kind, str]] = {"rows": "n", "wide": "w", "refusal": "r"}
_KINDS: Final = {letter: kind for kind, letter in _LETTERS.items()}
# 32 and 211 characters at most: within the 255 that a file name may have.
_NAME: Final = re.compile(r"([nwr])([0-9a-f]{32})-(.+)")
_OLD_DRAFT_NS: Final = HOUR_NS
# Room that the writer's file has from the beginning: on a full disk a text can take its place.
_TROUBLE_BYTES: Final = 512


@dataclass(frozen=True)
class Queued:
    path: Path
    kind: Kind
    digest: str
    name: str
    bytes: int
    came_ns: int

    @property
    def host(self) -> str:
        return self.path.parent.name


@dataclass(frozen=True)
class Waiting:
    """How long the queue is. `oldest_ns` is the time at which its oldest file came, `trouble` why the writer could not
    write them the last time; empty where it could."""

    files: int = 0
    bytes: int = 0
    oldest_ns: int | None = None
    trouble: str = ""

    def age_seconds(self, at_ns: int) -> float:
        return 0.0 if self.oldest_ns is None else max(0.0, (at_ns - self.oldest_ns) / 1e9)


def queue_dir(root: Path) -> Path:
    return root / "queue"


def refused_dir(root: Path) -> Path:
    """What the lake would not take although it was checked: kept for a person to look at."""
    return root / "refused"


@contextmanager
def draft_in(root: Path) -> Iterator[Path]:
    """A new file beside the queue, which is gone afterwards unless it was put into the queue."""
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


def put(root: Path, draft: Path, host: str, name: str, digest: str, kind: Kind = "rows") -> bool:
    """Move the draft into the queue. When this returns it is on the disk. False: it was there already."""
    folder = queue_dir(root) / host
    path = folder / f"{_LETTERS[kind]}{digest}-{name}"
    try:
        is_new_host = not folder.is_dir()
        folder.mkdir(exist_ok=True, mode=0o750)
        is_known = path.exists()
        if not is_known:
            sync_to_disk(draft)
            draft.replace(path)
        # Also of one that is known: whoever put it there may not have come as far as this.
        sync_to_disk(folder)
        if is_new_host:
            sync_to_disk(folder.parent)
    except OSError as error:
        raise LakeError(f"The queue cannot be written: {error.strerror}.") from None
    return not is_known


def queued(root: Path) -> list[Queued]:
    """The oldest first."""
    found: list[Queued] = []
    with suppress(FileNotFoundError):
        for folder in os.scandir(queue_dir(root)):
            if not folder.name.startswith(".") and folder.is_dir(follow_symlinks=False):
                found += _queued_of(folder.path)
    return sorted(found, key=lambda file: (file.came_ns, file.path.name))


def _queued_of(folder: str) -> Iterator[Queued]:
    for entry in os.scandir(folder):
        named = _NAME.fullmatch(entry.name)
        if named is None:
            continue
        with suppress(FileNotFoundError):  # taken away meanwhile
            status = entry.stat(follow_symlinks=False)
            kind, digest, name = named.groups()
            yield Queued(Path(entry.path), _KINDS[kind], digest, name, status.st_size, status.st_mtime_ns)


def waiting(root: Path) -> Waiting:
    """Nothing waits where there is no queue, or it is not for us to see."""
    try:
        files = queued(root)
    except OSError:
        return Waiting()
    if not files:
        return Waiting()
    return Waiting(len(files), sum(file.bytes for file in files), files[0].came_ns, _trouble(root))


def writer_file(root: Path) -> Path:
    """Locked by the one writer, which tells here what is wrong."""
    return queue_dir(root) / ".writer"


def tell_trouble(root: Path, text: str = "") -> None:
    """Best effort: the disk that failed is the one that this goes to."""
    data = text.encode()[:_TROUBLE_BYTES].ljust(_TROUBLE_BYTES)
    with suppress(OSError):
        fd = os.open(writer_file(root), os.O_WRONLY)
        try:
            os.pwrite(fd, data, 0)
        finally:
            os.close(fd)


def _trouble(root: Path) -> str:
    try:
        return writer_file(root).read_bytes()[:_TROUBLE_BYTES].decode(errors="replace").strip()
    except OSError:
        return ""


def take_away(file: Queued) -> None:
    """After the ledger speaks of it."""
    file.path.unlink(missing_ok=True)


def set_aside(root: Path, file: Queued) -> Path:
    folder = refused_dir(root) / file.host
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    place = folder / f"{file.digest}-{file.name}"
    file.path.replace(place)
    return place


def clear_drafts(root: Path) -> None:
    """Drafts of a server that was killed: their senders were told nothing, and send again."""
    with suppress(OSError):
        for entry in os.scandir(queue_dir(root)):
            if re.fullmatch(r"\.[0-9a-f]{16}", entry.name) and now_ns() - entry.stat().st_mtime_ns > _OLD_DRAFT_NS:
                Path(entry.path).unlink(missing_ok=True)
