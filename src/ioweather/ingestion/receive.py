"""Check a spool file that another host pushed and put it into the queue of the lake.

It is on disk then, so the sender may delete its copy; `ingestion.drain` writes it to the lake. Sent again, it adds
nothing.
"""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any, Final, NamedTuple

from ioweather.agent.status import keep_heard
from ioweather.core.errors import AccessDenied, Busy, LakeError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.units import GIB, KIB
from ioweather.ingestion import queue
from ioweather.ingestion.reading import (
    UNREADABLE,
    FileOutcome,
    Reading,
    context_of,
    days_of,
    digest_of,
    limits_of,
    read_alone_bounded,
    read_file,
)
from ioweather.lake.lake import Lake, LedgerEntry
from ioweather.readers.segments import segment_host

HOST: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# Files of an agent's spool: its own segments, and the output of `sacct`.
NAME: Final = r"(seg-[A-Za-z0-9._-]{1,200}\.ndjson|sacct-[0-9]{1,20}\.txt)"
# A segment covers minutes to days. Jobs in the accounting may have been submitted within the last year.
MOST_DAYS: Final = 400
# Each day costs the writer a partition: a file of more days waits until no other file does.
FEW_DAYS: Final = 3
# Ten thousand hosts that ship every minute fill the queue in ten minutes.
MOST_FILES: Final = 100_000
MOST_BYTES: Final = 4 * GIB
# A segment of this size takes some milliseconds to read, less than to start a process for it. Larger ones could take
# the server's memory or time, and are read within limits.
_SMALL_BYTES: Final = 128 * KIB
_ONE_READER: Final = threading.Lock()
_REFUSALS: Final = {"foreign_rows": "ForeignRows", "impossible_rows": "ImpossibleRows", "too_many_days": "TooManyDays"}


class Received(NamedTuple):
    """`status` is ok, known (it is in the queue already) or partial (rows after a wrong line are left out, as `message`
    says). `message` also describes flagged rows."""

    status: str
    rows: dict[str, int]
    message: str


def check_names(host: str, name: str) -> None:
    """Raise UsageError where a name could not be part of a path."""
    if re.fullmatch(HOST, host) is None:
        raise UsageError(f"{host!r} is not the name of a host.")
    if re.fullmatch(NAME, name) is None:
        raise UsageError(
            f"{name!r} is not the name of a file of a spool.", hint="Expected seg-*.ndjson or sacct-*.txt."
        )


def check_room(found: queue.Waiting) -> None:
    """Raise Busy: a slow or dead writer must not fill the disk, and agents have spools of their own."""
    if found.files >= MOST_FILES or found.bytes >= MOST_BYTES:
        raise Busy(
            f"{found.files:,} files that were pushed wait for the lake.", hint="Send it again later.", kind="QueueFull"
        )


def receive(lake: Lake, draft: Path, host: str, name: str, hosts: str) -> Received:
    """Check the file at `draft` and put it into the queue. `hosts` is the pattern of hosts whose rows it may contain.

    A refused file is described in the ledger. Messages have the name of the file, not its path in the lake."""
    check_names(host, name)
    reading = reading_of(lake.facility, name, hosts)
    digest = digest_of(draft, reading)
    if name.endswith(".ndjson"):
        try:
            named = segment_host(draft)
        except SourceError as error:
            raise error.reworded(error.message.replace(str(draft), name)) from None
        if named != host:
            raise AccessDenied(f"The segment is of {named}, and not of {host}.")
    if (columns := _columns_of_small(draft, name, reading)) is not None:
        keep_heard(lake.root, host)
        rows = {table: len(next(iter(found.values()))) for table, found in columns.items()}
        draft.write_text(json.dumps({"host": host, "columns": columns}), encoding="utf-8")
        is_new = queue.put(lake.root, draft, host, name, digest, queue.COLUMNS)
        return Received("ok" if is_new else "known", rows, "")
    size, days = draft.stat().st_size, set[int]()
    for item in read_alone_bounded(str(draft), size, reading):
        if isinstance(item, FileOutcome):
            outcome = item
        elif len(days := days | days_of(item[1], item[2])) > MOST_DAYS:
            many = f"{draft} has rows of more than {MOST_DAYS} days, which is the most of one push."
            outcome = FileOutcome(str(draft), digest, size, item[0], "quarantined", {}, "too_many_days", many)
            break
    message = (outcome.message or "").replace(str(draft), name)
    if outcome.reason == UNREADABLE:  # our disk failed: the sender keeps the file
        raise LakeError(message)
    if outcome.status == "quarantined" or outcome.reason == "foreign_rows":
        place = (queue.queue_dir(lake.root) / host / name).absolute()
        source, reason = outcome.source or "unknown", outcome.reason or ""
        entry = refusal(outcome.digest, place, outcome.bytes, source, reason, message, outcome.refused_rows)
        with queue.draft_in(lake.root) as note:
            note.write_text(json.dumps(entry._asdict()), encoding="utf-8")
            queue.put(lake.root, note, host, name, outcome.digest, queue.REFUSAL)
        kind = _REFUSALS.get(outcome.reason or "", "CorruptInput")
        raise SourceError(message or f"{name} cannot be read.", kind=kind)
    keep_heard(lake.root, host)
    is_new = queue.put(lake.root, draft, host, name, digest, queue.WIDE if len(days) > FEW_DAYS else queue.ROWS)
    if outcome.refused_rows:  # an error for the sender, although the other rows are accepted
        raise SourceError(
            message, hint=f"The other {sum(outcome.rows.values()):,} rows are taken.", kind="ImpossibleRows"
        )
    return Received(outcome.status if is_new or outcome.status == "partial" else "known", dict(outcome.rows), message)


def _columns_of_small(draft: Path, name: str, reading: Reading) -> dict[str, dict[str, list[Any]]] | None:
    """The columns of a small segment by table; None if it is large, or there is something to say about it."""
    size = draft.stat().st_size
    if size > _SMALL_BYTES or not name.endswith(".ndjson"):
        return None
    with _ONE_READER:
        found: list[Any] = [*read_file(draft, size, reading)]
    *pieces, outcome = found
    if not isinstance(outcome, FileOutcome) or outcome.status != "ok" or outcome.message or not pieces:
        return None
    columns: dict[str, dict[str, list[Any]]] = {}
    days: set[int] = set()
    for _, table, frame in pieces:
        days |= days_of(table, frame)
        mine = columns.setdefault(table, {name: [] for name in frame})
        for column, values in mine.items():
            values += frame[column].tolist()
    return columns if len(days) <= FEW_DAYS else None


def refusal(
    digest: str, path: Path, size: int, source: str, reason: str, message: str, refused_rows: int = 0
) -> LedgerEntry:
    """The ledger entry of a pushed file that was refused."""
    return LedgerEntry(digest, str(path), size, source, "quarantined", {}, reason, message, refused_rows)


def source_of(name: str) -> str:
    """The source that reads a queued file."""
    if name.startswith("samples-"):
        return "prometheus"
    return "spool" if name.endswith(".ndjson") else "sacct"


def reading_of(facility: Facility, name: str, hosts: str | None = None) -> Reading:
    """How to read a pushed file. `hosts` is the pattern of hosts whose rows it may contain."""
    return Reading(context_of(facility, hosts=hosts), source_of(name), None, limits_of(facility))
