"""Ingest from a server that keeps samples: a Prometheus (http://...), an LMT database (mysql://...).

Each piece of time is committed with a ledger entry that says how far it reaches; the next ingest continues there. An
interrupted ingest is completed by running it again: rows in the lake are not added twice.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlencode

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.logs import Progress, silent
from ioweather.core.tables import TABLES, Complaints, concat
from ioweather.core.units import DAY_NS, MINUTE_NS, now_ns
from ioweather.ingestion.derivations import search_new_rows
from ioweather.ingestion.ingest import IngestReport, add_rows
from ioweather.ingestion.reading import FileOutcome
from ioweather.lake.database import literal
from ioweather.lake.lake import Lake, LedgerEntry, new_ingest_id
from ioweather.readers.lmt_database import MysqlServer, open_mysql, read_database, recorded_ns
from ioweather.readers.prometheus.server import Poll, PrometheusServer

# Of a server that was never read; older samples are read with --start.
_FIRST_TIME_NS: Final = DAY_NS
Piece = tuple[int, list[tuple[str, Frame]]]


@dataclass(frozen=True)
class Polled:
    """A server. `where` names it in the ledger, without passwords; `period_ns` is what to read the first time, in whole
    minutes; `note` is what to tell of it at the end."""

    source: str
    where: str
    period_ns: Callable[[], tuple[int, int]]
    pieces: Callable[[int, int], Iterator[Piece]]
    note: Callable[[], str] = str


def server_at(address: str, context: ReadContext, token: str | None = None) -> Polled:
    """The server at an address: http, https or mysql."""
    if address.startswith("mysql://"):
        return _mysql(MysqlServer.from_url(address), context)
    if address.startswith(("http://", "https://")):
        return _prometheus(PrometheusServer.from_url(address, token), context)
    raise UsageError(
        f"{address.partition(':')[0]}:// is no server that ioweather reads.",
        hint="Prometheus: http://HOST:9090. LMT: mysql://USER@HOST/filesystem_NAME.",
    )


def _prometheus(server: PrometheusServer, context: ReadContext) -> Polled:
    poll = Poll(server, context)
    own = hashlib.sha256(repr(sorted((context.mapping or {}).items())).encode()).hexdigest()[:8]
    options = {"mapping": own} if context.mapping else {}
    options |= {"resolution": "raw"} if context.keep_raw else {}

    def period_ns() -> tuple[int, int]:
        until = poll.settled_ns()
        return until - _FIRST_TIME_NS, until

    def note() -> str:
        hosts = poll.known.without_host
        return f"{hosts} series are of an unknown host (give --host)" if hosts else ""

    where = server.where + (f"#{urlencode(options)}" if options else "")
    return Polled("prometheus", where, period_ns, poll.pieces, note)


def _mysql(server: MysqlServer, context: ReadContext) -> Polled:
    def period_ns() -> tuple[int, int]:
        """Samples of the newest minute may still be on their way."""
        with closing(open_mysql(server)) as database:
            first, last = recorded_ns(database, context)
        return _whole_minute(first), _whole_minute(min(last, now_ns() - MINUTE_NS))

    def pieces(since_ns: int, until_ns: int) -> Iterator[Piece]:
        """Day by day: a day of a large system is as much as one commit should hold."""
        with closing(open_mysql(server)) as database:
            while since_ns < until_ns:
                end = min(until_ns, (since_ns // DAY_NS + 1) * DAY_NS)
                found: list[tuple[str, Frame]] = []
                with suppress(EmptyInput):  # a day without samples
                    found = list(read_database(database, context, since_ns=since_ns, until_ns=end))
                yield end, found
                since_ns = end

    where = f"mysql://{server.unix_socket or f'{server.host}:{server.port}'}/{server.database}"
    return Polled("lmt", where, period_ns, pieces)


def _whole_minute(time_ns: int) -> int:
    return time_ns // MINUTE_NS * MINUTE_NS


def ingest_server(
    lake: Lake,
    server: Polled,
    *,
    start_ns: int | None = None,
    again: bool = False,
    progress: Progress = silent,
) -> IngestReport:
    """Read what is new at the server: since --start, else since the last ingest, else its own default."""
    began, report, rows, complaints = time.monotonic(), IngestReport(), Counter[str](), Complaints()
    # A form that a path keeps unchanged, unlike //.
    name = server.where.partition("#")[0].replace("://", " at ").replace("/", "∕")
    reason, message = None, None
    try:
        first, until = server.period_ns()
        known = None if again else _reached_ns(lake, server.where)
        since = _whole_minute(start_ns) if start_ns is not None else first if known is None else known
        at = since
        for end, frames in server.pieces(since, until):
            if frames or end == until:
                rows.update(_write_piece(lake, server, frames, (at, end), complaints, report))
                at = end
            progress((end - since) // MINUTE_NS, (until - since) // MINUTE_NS, "minutes")
        if said := "; ".join(part for part in (server.note(), str(complaints)) if part):
            message = f"{name}: {said}"
    except SourceError as error:
        reason, message = error.reason, str(error)
    status: Literal["ok", "partial", "quarantined"] = "ok" if not reason else "partial" if rows else "quarantined"
    report.rows_added.update(search_new_rows(lake, report.first_ns, report.missing))
    counts = complaints.refused_rows, complaints.flagged_rows
    report.outcomes.append(FileOutcome(name, "", 0, server.source, status, dict(rows), reason, message, *counts))
    report.seconds = time.monotonic() - began
    return report


def _write_piece(
    lake: Lake,
    server: Polled,
    frames: list[tuple[str, Frame]],
    period_ns: tuple[int, int],
    complaints: Complaints,
    report: IngestReport,
) -> Mapping[str, int]:
    """Check the rows of one piece of time, add them and note the piece in the ledger; returns how many good ones there
    are by table."""
    by_table: dict[str, list[Frame]] = {}
    for table, frame in frames:
        checked = TABLES[table].check(frame, now_ns())
        complaints.add(checked)
        by_table.setdefault(table, []).append(checked.frame)
    ingest_id, counts = new_ingest_id(), dict[str, int]()
    for table, pieces in sorted(by_table.items()):
        rows = concat(pieces)
        add_rows(lake, table, rows, server.source, ingest_id, report)
        counts[table] = rows.rows
    entry = LedgerEntry(
        digest=hashlib.sha256(json.dumps([server.where, *period_ns]).encode()).hexdigest()[:32],
        path=server.where,
        bytes=0,
        source=server.source,
        status="ok",
        rows=counts,
        message=f"up to {period_ns[1]}",
        rows_ingest_ids=ingest_id if any(counts.values()) else None,
    )
    lake.record([entry])
    return counts


def _reached_ns(lake: Lake, where: str) -> int | None:
    """Up to when the ledger says that the server was read."""
    with lake.snapshot() as snapshot:
        sql = f"SELECT max(CAST(substr(message, 7) AS BIGINT)) FROM ({snapshot.rows('ingests')}) WHERE path = "
        rows = snapshot.bare.execute(f"{sql}{literal(where)} AND message LIKE 'up to %'").fetchall()
    return None if rows[0][0] is None else int(rows[0][0])
