"""What another host sends: a file of its spool, checked and put into the queue of the lake.

The sender may forget it then: it is on the disk, and the writer (`workflows.ingest.drain`) brings it to the lake.
Sent again, it adds nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ioweather.collect import queue
from ioweather.collect.remote import keep_heard
from ioweather.core.clock import zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import (
    AccessDenied,
    CorruptInput,
    ForeignRows,
    ImpossibleRows,
    LakeError,
    QueueFull,
    SourceError,
    TooManyDays,
    UsageError,
)
from ioweather.core.facility import Facility
from ioweather.core.units import GIB
from ioweather.sources.spool import segment_host
from ioweather.store.lake import Lake, LedgerEntry
from ioweather.workflows.ingest.bounded_reading import check_bounded
from ioweather.workflows.ingest.reading import UNREADABLE, FileOutcome, Reading, digest_of, limits_of

HOST: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# What an agent's spool holds: its own segments, and what `sacct` printed.
NAME: Final = r"(seg-[A-Za-z0-9._-]{1,200}\.ndjson|sacct-[0-9]{1,20}\.txt)"
# A segment is of minutes to days. Jobs that are accounted for may have been submitted within the last year.
MOST_DAYS: Final = 400
# Beyond this, each day costs the writer: such a file waits until no other does.
FEW_DAYS: Final = 3
# A hundred hosts that ship every five minutes fill it in four hours.
MOST_FILES: Final = 5000
MOST_BYTES: Final = 4 * GIB
_REFUSALS: Final[Mapping[str, type[SourceError]]] = {
    "foreign_rows": ForeignRows,
    "impossible_rows": ImpossibleRows,
    "too_many_days": TooManyDays,
}


@dataclass(frozen=True)
class Received:
    """`known`: it waits in the queue already. `partial`: what follows a wrong line was left out, as `message` says.
    `message` also tells of rows that were flagged."""

    status: Literal["ok", "known", "partial"]
    rows: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


def check_names(host: str, name: str) -> None:
    """Both become parts of a path."""
    if re.fullmatch(HOST, host) is None:
        raise UsageError(f"{host!r} is not the name of a host.")
    if re.fullmatch(NAME, name) is None:
        raise UsageError(
            f"{name!r} is not the name of a file of a spool.", hint="Expected seg-*.ndjson or sacct-*.txt."
        )


def check_room(found: queue.Waiting) -> None:
    """A writer that is behind, or dead, must not fill the disk: the agents' spools have room of their own."""
    if found.files >= MOST_FILES or found.bytes >= MOST_BYTES:
        raise QueueFull(f"{found.files:,} files that were pushed wait for the lake.", hint="Send it again later.")


def receive(lake: Lake, draft: Path, host: str, name: str, hosts: str) -> Received:
    """Check what lies at `draft` and put it into the queue. `hosts` is the pattern of those whose rows it may hold."""
    check_names(host, name)
    reading = reading_of(lake.facility, name, hosts)
    digest = digest_of(draft, reading)
    if name.endswith(".ndjson"):
        named = _host_in(draft, name)
        if named != host:
            raise AccessDenied(f"The segment is of {named}, and not of {host}.")
    outcome, days = check_bounded(draft, digest, draft.stat().st_size, reading, MOST_DAYS)
    message = (outcome.message or "").replace(str(draft), name)
    if outcome.reason == UNREADABLE:  # on our disk: the sender keeps it
        raise LakeError(message)
    if outcome.status == "quarantined" or outcome.reason == "foreign_rows":
        _note_refusal(lake.root, outcome, host, name, message)
        raise _REFUSALS.get(outcome.reason or "", CorruptInput)(message or f"{name} cannot be read.")
    keep_heard(lake.root, host)
    is_new = queue.put(lake.root, draft, host, name, digest, "wide" if days > FEW_DAYS else "rows")
    if outcome.refused_rows:
        # Whoever sends what cannot be hears of it, though the other rows are taken: sent again, they add nothing.
        raise ImpossibleRows(message, hint=f"The other {sum(outcome.rows.values()):,} rows are taken.")
    status = outcome.status if is_new or outcome.status == "partial" else "known"
    return Received(status, dict(outcome.rows), message)


def _note_refusal(root: Path, outcome: FileOutcome, host: str, name: str, message: str) -> None:
    """For the ledger, which the writer alone writes."""
    entry = LedgerEntry(
        digest=outcome.digest, path=str((queue.queue_dir(root) / host / name).absolute()), bytes=outcome.bytes,
        source=outcome.source or "unknown", status="quarantined", rows={}, reason=outcome.reason, message=message,
        refused_rows=outcome.refused_rows,
    )  # fmt: skip
    with queue.draft_in(root) as draft:
        draft.write_text(json.dumps(entry._asdict()), encoding="utf-8")
        queue.put(root, draft, host, name, outcome.digest, "refusal")


def _host_in(path: Path, name: str) -> str:
    """With messages that do not tell where the lake lies."""
    try:
        return segment_host(path)
    except SourceError as error:
        raise type(error)(error.message.replace(str(path), name), hint=error.hint) from None


def source_of(name: str) -> str:
    """Of a file in the queue."""
    if name.startswith("samples-"):
        return "prometheus"
    return "spool" if name.endswith(".ndjson") else "sacct"


def reading_of(facility: Facility, name: str, hosts: str | None = None) -> Reading:
    context = ReadContext(
        zone=zone_named(facility.zone) if facility.zone else None,
        cluster=facility.clusters[0] if len(facility.clusters) == 1 else None,
        hosts=hosts,
    )
    return Reading(context, source_of(name), None, limits_of(facility))
