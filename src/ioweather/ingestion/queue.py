"""The queue of what was pushed and is not in the lake yet: spool files in `<lake>/queue/`.

A queued file is complete, checked and synced to disk, so its sender may delete its copy. Its name is its digest and the
original name: a file that is pushed again while it waits is the same file. `ingestion.drain` is the
only process that removes files.

Prometheus metrics tell how long the queue is, and what the last pass of `ingest --watch` did.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, get_args

from ioweather.agent.exporter import gauge, gauges
from ioweather.core.errors import LakeError
from ioweather.core.safe_files import sync_to_disk
from ioweather.job_io.outcomes import VerdictKind

# 33 and 211 characters at most: within the 255 that a file name may have.
_NAME: Final = re.compile(r"[0-9a-f]{32}-(.+)")
DRAFT: Final = re.compile(r"\.[0-9a-f]{16}")
# The writer's file has this size from the beginning, so that an error message can be written to a full disk.
TROUBLE_BYTES: Final = 512


class Queued(NamedTuple):
    """A file of the queue; `name` is that under which it was pushed, `came_ns` is when."""

    path: Path
    name: str
    bytes: int
    came_ns: int


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


def source_of(name: str) -> str:
    """The source that reads a pushed file of this name."""
    return "spool" if name.endswith(".ndjson") else "sacct"


def writer_file(root: Path) -> Path:
    """The file that the one writer locks, and writes its last error to."""
    return queue_dir(root) / ".writer"


@contextmanager
def draft_in(root: Path) -> Iterator[Path]:
    """A new hidden file in the queue directory, removed afterwards unless `enqueue` moved it."""
    folder = queue_dir(root)
    try:
        folder.mkdir(exist_ok=True, mode=0o750)
        draft = folder / f".{secrets.token_hex(8)}"
        os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as error:
        raise LakeError(f"Cannot write the queue: {error.strerror}.") from None
    try:
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def enqueue(root: Path, draft: Path, name: str, digest: str) -> bool:
    """Move the draft into the queue and sync it to disk. Returns False if the same file is in the queue already."""
    path = queue_dir(root) / f"{digest}-{name}"
    try:
        is_known = path.exists()
        if not is_known:
            sync_to_disk(draft)
            draft.replace(path)
        sync_to_disk(path.parent)  # also for a known file: the request that put it there may have died before this
    except OSError as error:
        raise LakeError(f"Cannot write the queue: {error.strerror}.") from None
    return not is_known


def queued(root: Path) -> list[Queued]:
    """All queued files, oldest first."""
    found: list[Queued] = []
    with suppress(FileNotFoundError):
        for entry in os.scandir(queue_dir(root)):
            if named := _NAME.fullmatch(entry.name):
                with suppress(FileNotFoundError):  # removed since it was listed
                    status = entry.stat(follow_symlinks=False)
                    found.append(Queued(Path(entry.path), named[1], status.st_size, status.st_mtime_ns))
    return sorted(found, key=lambda file: (file.came_ns, file.path.name))


def waiting(root: Path) -> Waiting:
    """The length of the queue; empty if there is none or this user may not read it."""
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


class Sized(Protocol):
    @property
    def bytes(self) -> int: ...


T = TypeVar("T", bound=Sized)


def first_within(files: Sequence[T], most_files: int, most_bytes: int) -> list[T]:
    """The first files within these limits, at least one."""
    taken: list[T] = []
    size = 0
    for file in files[:most_files]:
        if taken and size + file.bytes > most_bytes:
            break
        taken.append(file)
        size += file.bytes
    return taken


def caught_up_file(root: Path) -> Path:
    """Where the next pass of `ingest --watch` begins, and what the last one did."""
    return root / "catch_up.json"


def read_caught_up(root: Path) -> dict[str, Any]:
    """The state of `ingest --watch`. Empty where there was no pass yet, or it cannot be read: nothing depends on it."""
    try:
        body = json.loads(caught_up_file(root).read_bytes())
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) and isinstance(body.get("last", {}), dict) else {}


def collect_queue(lake: Path, now_ns: Callable[[], int] = time.time_ns) -> Iterator[str]:
    """Metrics of the queue and of the last pass. Verdicts are counted as of the ends of runs, never by job."""
    now = now_ns()
    if queue_dir(lake).is_dir():
        found = waiting(lake)
        yield gauge("ioweather_queue_files", "Pushed files in the queue.", found.files)
        yield gauge("ioweather_queue_bytes", "Size of the pushed files in the queue.", found.bytes)
        yield gauge("ioweather_queue_oldest_seconds", "Age of the oldest file in the queue.", found.age_seconds(now))
    last = read_caught_up(lake).get("last", {})
    kinds, made_ns = last.get("kinds_last_day"), last.get("made_ns")
    if not isinstance(kinds, dict) or not isinstance(made_ns, int):
        return
    counted = {kind: kinds.get(kind, 0) for kind in get_args(VerdictKind)}
    counts = [((kind,), count if isinstance(count, int) else 0) for kind, count in counted.items()]
    yield gauges("ioweather_verdicts_last_day", "Runs in the last day, by verdict.", ("kind",), counts)
    yield gauge(
        "ioweather_catch_up_age_seconds", "Seconds since verdicts were last computed.", max(0.0, (now - made_ns) / 1e9)
    )
    for name, text in (("left_verdicts", "Pending verdicts."), ("left_files", "New files that are not read yet.")):
        if isinstance(last.get(name), int):
            yield gauge(f"ioweather_catch_up_{name}", text, float(last[name]))
