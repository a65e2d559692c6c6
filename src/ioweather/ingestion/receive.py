"""Check a spool file that another host pushed and put it into the queue of the lake.

It is on disk then, so the sender may delete its copy; `ingestion.drain` writes it to the lake. Sent again, it adds
nothing. A refused file stays with its sender.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ioweather.core.errors import IoweatherError, LakeError, SourceError, UsageError
from ioweather.core.units import GIB, KIB
from ioweather.ingestion import queue
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.reading import (
    UNREADABLE,
    Reading,
    context_of,
    days_of,
    limits_of,
    read_alone_bounded,
    read_file,
)
from ioweather.lake.lake import Lake
from ioweather.readers.segments import segment_host

HOST: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# Files of an agent's spool: its own segments, and the output of `sacct`.
NAME: Final = r"(seg-[A-Za-z0-9._-]{1,200}\.ndjson|sacct-[0-9]{1,20}\.txt)"
# A segment covers minutes to days. Jobs in the accounting may have been submitted within the last year.
MOST_DAYS: Final = 400
# Ten thousand hosts that ship every minute fill the queue in ten minutes.
MOST_FILES: Final = 100_000
MOST_BYTES: Final = 4 * GIB
# A segment of this size takes some milliseconds to read, less than to start a process for it. Larger ones could take
# the server's memory or time, and are read within limits.
_SMALL_BYTES: Final = 128 * KIB
_ONE_READER: Final = threading.Lock()
_REFUSALS: Final = {"foreign_rows": "ForeignRows", "impossible_rows": "ImpossibleRows"}


@dataclass(frozen=True)
class Received:
    """`status` is ok, known (it is in the queue already) or partial (rows after a wrong line are left out, as `message`
    says). `message` also describes flagged rows."""

    status: str
    rows: dict[str, int]
    message: str


def check_names(host: str, name: str) -> None:
    """Raise UsageError where a name could not be part of a path."""
    if re.fullmatch(HOST, host) is None:
        raise UsageError(f"{host!r} is not a valid host name.")
    if re.fullmatch(NAME, name) is None:
        raise UsageError(f"{name!r} is not a spool file name.", hint="Expected seg-*.ndjson or sacct-*.txt.")


def require_room(found: queue.Waiting) -> None:
    """Raise IoweatherError (kind QueueFull): a slow or dead writer must not fill the disk, and agents have spools."""
    if found.files >= MOST_FILES or found.bytes >= MOST_BYTES:
        raise IoweatherError(
            f"The queue is full ({found.files:,} pushed files).", hint="Send the file again later.", kind="QueueFull"
        )


def receive(lake: Lake, draft: Path, host: str, name: str, hosts: str) -> Received:
    """Check the file at `draft` and move it into the queue. `hosts` is a pattern of the hosts that may be in it.

    Raises SourceError for a refused file. Messages have the name of the file, not its path in the lake."""
    check_names(host, name)
    if name.endswith(".ndjson"):
        try:
            named = segment_host(draft)
        except SourceError as error:
            raise error.reworded(error.message.replace(str(draft), name)) from None
        if named != host:
            raise IoweatherError(f"The segment contains rows of {named}, not of {host}.", kind="AccessDenied")
    reading = Reading(context_of(lake.facility, hosts=hosts), queue.source_of(name), limits=limits_of(lake.facility))
    outcome = _check(draft, name, reading)
    message = (outcome.message or "").replace(str(draft), name)
    if outcome.reason == UNREADABLE:  # our disk failed: the sender keeps the file
        raise LakeError(message)
    if outcome.status == "quarantined" or outcome.reason == "foreign_rows":
        kind = _REFUSALS.get(outcome.reason or "", "CorruptInput")
        raise SourceError(message or f"Cannot read {name}.", kind=kind)
    is_new = queue.enqueue(lake.root, draft, name, outcome.digest)
    if outcome.refused_rows:  # an error for the sender, although the other rows are accepted
        raise SourceError(
            message, hint=f"The other {sum(outcome.rows.values()):,} rows were accepted.", kind="ImpossibleRows"
        )
    return Received(outcome.status if is_new or outcome.status == "partial" else "known", dict(outcome.rows), message)


def _check(draft: Path, name: str, reading: Reading) -> FileOutcome:
    """Read the pushed file and return its outcome. Raises SourceError if its rows are of too many days."""
    size, days = draft.stat().st_size, set[int]()
    read = read_alone_bounded(str(draft), size, reading) if size > _SMALL_BYTES else _read_here(draft, size, reading)
    for item in read:
        if isinstance(item, FileOutcome):
            break
        days |= days_of(item[1], item[2])
        if len(days) > MOST_DAYS:
            many = f"{name} has rows of more than {MOST_DAYS} days, the maximum of one push."
            raise SourceError(many, kind="TooManyDays")
    assert isinstance(item, FileOutcome)  # the last item
    return item


def _read_here(path: Path, size: int, reading: Reading) -> list[Any]:
    """Read a small file in this process, one at a time."""
    with _ONE_READER:
        return [*read_file(path, size, reading)]
