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
from pathlib import Path
from typing import Final, Literal, Protocol
from urllib.parse import urlencode

from ioweather.core.clock import now_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, UsageError
from ioweather.core.frames import Frame
from ioweather.core.progress import Progress, silent
from ioweather.core.tables import TABLES, Complaints, concat
from ioweather.core.units import DAY_NS, MINUTE_NS
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


class Polled(Protocol):
    """A server: `where` names it in the ledger, without passwords; `period_ns` is what to read the first time, in whole
    minutes."""

    source: str
    where: str

    def period_ns(self) -> tuple[int, int]: ...
    def pieces(self, since_ns: int, until_ns: int) -> Iterator[Piece]: ...
    def note(self) -> str: ...


class PolledPrometheus:
    source = "prometheus"

    def __init__(self, server: PrometheusServer, context: ReadContext) -> None:
        self._poll = Poll(server, context)
        own = hashlib.sha256(repr(sorted((context.mapping or {}).items())).encode()).hexdigest()[:8]
        options = {"mapping": own} if context.mapping else {}
        options |= {"resolution": "raw"} if context.keep_raw else {}
        self.where = server.where + (f"#{urlencode(options)}" if options else "")

    def period_ns(self) -> tuple[int, int]:
        until = self._poll.settled_ns()
        return until - _FIRST_TIME_NS, until

    def pieces(self, since_ns: int, until_ns: int) -> Iterator[Piece]:
        return self._poll.pieces(since_ns, until_ns)

    def note(self) -> str:
        hosts = self._poll.known.without_host
        return f"{hosts} series are of an unknown host (give --host)" if hosts else ""


class PolledMysql:
    source = "lmt"

    def __init__(self, server: MysqlServer, context: ReadContext) -> None:
        self._server, self._context = server, context
        self.where = f"mysql://{server.unix_socket or f'{server.host}:{server.port}'}/{server.database}"

    def period_ns(self) -> tuple[int, int]:
        """Samples of the newest minute may still be on their way."""
        with closing(open_mysql(self._server)) as database:
            first, last = recorded_ns(database, self._context)
        return _whole_minute(first), _whole_minute(min(last, now_ns() - MINUTE_NS))

    def pieces(self, since_ns: int, until_ns: int) -> Iterator[Piece]:
        """Day by day: a day of a large system is as much as one commit should hold."""
        with closing(open_mysql(self._server)) as database:
            while since_ns < until_ns:
                end = min(until_ns, (since_ns // DAY_NS + 1) * DAY_NS)
                found: list[tuple[str, Frame]] = []
                with suppress(EmptyInput):  # a day without samples
                    found = list(read_database(database, self._context, since_ns=since_ns, until_ns=end))
                yield end, found
                since_ns = end

    def note(self) -> str:
        return ""


def _whole_minute(time_ns: int) -> int:
    return time_ns // MINUTE_NS * MINUTE_NS


def server_at(address: str, context: ReadContext, token: str | None = None) -> Polled:
    if address.startswith("mysql://"):
        return PolledMysql(MysqlServer.from_url(address), context)
    if address.startswith(("http://", "https://")):
        return PolledPrometheus(PrometheusServer.from_url(address, token), context)
    raise UsageError(
        f"{address.partition(':')[0]}:// is no server that ioweather reads.",
        hint="Prometheus: http://HOST:9090. LMT: mysql://USER@HOST/filesystem_NAME.",
    )


def ingest_server(
    lake: Lake,
    server: Polled,
    *,
    start_ns: int | None = None,
    again: bool = False,
    progress: Progress = silent,
    clock: Callable[[], int] = now_ns,
) -> IngestReport:
    """Read what is new at the server: since --start, else since the last ingest, else its own default."""
    began, report = time.monotonic(), IngestReport()
    path, rows, complaints = Path(_readable(server.where)), Counter[str](), Complaints()
    try:
        first, until = server.period_ns()
        known = None if again else _reached_ns(lake, server.where)
        since = first if known is None else known
        since = since if start_ns is None else _whole_minute(start_ns)
        at = since
        for end, frames in server.pieces(since, until):
            if frames or end == until:
                ingest_id = new_ingest_id()
                new = _add_frames(lake, server.source, frames, ingest_id, complaints, report, clock())
                rows.update(new)
                lake.record([_entry(server, at, end, new, ingest_id)])
                at = end
            progress((end - since) // MINUTE_NS, (until - since) // MINUTE_NS, "minutes")
        message = "; ".join(part for part in (server.note(), str(complaints)) if part)
        outcome = FileOutcome(
            str(path), "", 0, server.source, "ok", dict(rows), message=f"{path}: {message}" if message else None
        )
    except SourceError as error:
        status: Literal["partial", "quarantined"] = "partial" if rows else "quarantined"
        outcome = FileOutcome(str(path), "", 0, server.source, status, dict(rows), error.reason, str(error))
    report.rows_added.update(search_new_rows(lake, report.first_ns, report.missing))
    counted = outcome._replace(refused_rows=complaints.refused_rows, flagged_rows=complaints.flagged_rows)
    report.outcomes.append(counted)
    report.seconds = time.monotonic() - began
    return report


def _readable(where: str) -> str:
    """The address in a form that a path keeps unchanged, unlike //."""
    return where.partition("#")[0].replace("://", " at ").replace("/", "∕")


def _add_frames(
    lake: Lake,
    source: str,
    frames: list[tuple[str, Frame]],
    ingest_id: str,
    complaints: Complaints,
    report: IngestReport,
    now: int,
) -> Counter[str]:
    """Check the rows of one piece of time and add them to the lake; returns how many good ones there are by table."""
    by_table: dict[str, list[Frame]] = {}
    for table, frame in frames:
        checked = TABLES[table].check(frame, now)
        complaints.add(checked)
        by_table.setdefault(table, []).append(checked.frame)
    joined = {table: concat(pieces) for table, pieces in sorted(by_table.items())}
    for table, rows in joined.items():
        add_rows(lake, table, rows, source, ingest_id, report)
    return Counter({table: rows.rows for table, rows in joined.items()})


def _entry(server: Polled, since_ns: int, until_ns: int, rows: Mapping[str, int], ingest_id: str) -> LedgerEntry:
    return LedgerEntry(
        digest=hashlib.sha256(json.dumps([server.where, since_ns, until_ns]).encode()).hexdigest()[:32],
        path=server.where,
        bytes=0,
        source=server.source,
        status="ok",
        rows=rows,
        message=f"up to {until_ns}",
        rows_ingest_ids=ingest_id if any(rows.values()) else None,
    )


def _reached_ns(lake: Lake, where: str) -> int | None:
    """Up to when the ledger says that the server was read."""
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["ingests"].uris:
            return None
        sql = f"SELECT max(CAST(substr(message, 7) AS BIGINT)) FROM ({snapshot.rows('ingests')}) WHERE path = "
        rows = snapshot.bare.execute(f"{sql}{literal(where)} AND message LIKE 'up to %'").fetchall()
    return None if rows[0][0] is None else int(rows[0][0])
