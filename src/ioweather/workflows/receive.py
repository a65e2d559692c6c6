"""What another host sends: a file of its spool, taken into the lake by the one way in.

It lies in `<lake>/inbox/<host>/` while it is read, and is deleted after: the sender keeps it until it hears that it is
in. Sent again, it adds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from ioweather.collect.remote import inbox
from ioweather.core.clock import zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import AccessDenied, CorruptInput, ForeignRows, LakeError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.engine import Serial
from ioweather.sources.spool import segment_host
from ioweather.store.lake import Lake
from ioweather.workflows.ingest import ingest

HOST: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# What an agent's spool holds: its own segments, and what `sacct` printed.
NAME: Final = r"(seg-[A-Za-z0-9._-]{1,200}\.ndjson|sacct-[0-9]{1,20}\.txt)"


@dataclass(frozen=True)
class Received:
    """`known`: it was in already. `partial`: what follows a wrong line was left out, as `message` says."""

    status: Literal["ok", "known", "partial"]
    rows: Mapping[str, int] = field(default_factory=dict)
    rows_added: Mapping[str, int] = field(default_factory=dict)
    message: str = ""


def check_names(host: str, name: str) -> None:
    """Both become parts of a path."""
    if re.fullmatch(HOST, host) is None:
        raise UsageError(f"{host!r} is not the name of a host.")
    if re.fullmatch(NAME, name) is None:
        raise UsageError(
            f"{name!r} is not the name of a file of a spool.", hint="Expected seg-*.ndjson or sacct-*.txt."
        )


def receive(lake: Lake, draft: Path, host: str, name: str, hosts: str) -> Received:
    """Read what lies at `draft`, which is gone afterwards. One at a time per host and name. `hosts` is the pattern of
    those whose rows it may hold."""
    check_names(host, name)
    path = inbox(lake.root) / host / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise LakeError(f"The inbox cannot be written: {error.strerror}.") from None
    try:
        return _taken(lake, path, host, hosts)
    finally:
        path.unlink(missing_ok=True)


def _taken(lake: Lake, path: Path, host: str, hosts: str) -> Received:
    is_segment = path.suffix == ".ndjson"
    if is_segment:
        named = _host_in(path)
        if named != host:
            raise AccessDenied(f"The segment is of {named}, and not of {host}.")
    source = "spool" if is_segment else "sacct"
    report = ingest(lake, [path], context=_context(lake.facility, hosts), source=source, executor=Serial())
    if not report.outcomes:
        return Received("known")
    outcome = report.outcomes[0]
    message = (outcome.message or "").replace(str(path), path.name)
    if outcome.status == "quarantined":
        kind = ForeignRows if outcome.reason == "foreign_rows" else CorruptInput
        raise kind(message or f"{path.name} cannot be read.")
    added = {table: count for table, count in report.rows_added.items() if count}
    return Received(outcome.status, dict(outcome.rows), added, message)


def _host_in(path: Path) -> str:
    """With messages that do not tell where the lake lies."""
    try:
        return segment_host(path)
    except SourceError as error:
        raise type(error)(error.message.replace(str(path), path.name), hint=error.hint) from None


def _context(facility: Facility, hosts: str) -> ReadContext:
    return ReadContext(
        zone=zone_named(facility.zone) if facility.zone else None,
        cluster=facility.clusters[0] if len(facility.clusters) == 1 else None,
        hosts=hosts,
    )
