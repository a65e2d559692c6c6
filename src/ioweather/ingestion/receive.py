"""Check a spool file that another host pushed and put it into the queue of the lake.

It is on disk then, so the sender may delete its copy; `ingestion.drain` writes it to the lake. Sent again, it adds
nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import AccessDenied, Busy, CorruptInput, LakeError, SourceError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.safe_files import write_whole
from ioweather.core.tables import TABLES, Complaints
from ioweather.core.units import DAY_NS, GIB, KIB, MINUTE_NS, now_ns
from ioweather.ingestion import queue
from ioweather.ingestion.ingest import IngestReport, add_rows
from ioweather.ingestion.mappings import own_mapping
from ioweather.ingestion.queue import Queued
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
from ioweather.lake.lake import Lake, LedgerEntry, new_ingest_id
from ioweather.lake.tokens import Token
from ioweather.readers.prometheus.mapping import Amounts, Known, mappings_of
from ioweather.readers.prometheus.server import decoded
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


_SOURCE: Final = "prometheus"
_VERSION: Final = 1
_MILLISECOND_NS: Final = 1_000_000
_DELAY_NS: Final = MINUTE_NS
# A sender's clock that is further ahead must not make all other samples late.
_AHEAD_NS: Final = 10 * MINUTE_NS
# A series without samples for so long has ended.
_ENDED_NS: Final = DAY_NS


def receive_samples(lake: Lake, body: bytes, token: Token) -> int:
    """Put the mapped samples of a remote-write request into the queue, on disk; returns how many. A Prometheus server
    pushes samples of many hosts, so its token must be valid for all of them."""
    if token.hosts != "*":
        raise AccessDenied(
            f"The token {token.name} is for {token.hosts}, and remote write brings samples of any host.",
            hint="ioweather serve token create NAME --hosts '*'",
        )
    mappings = mappings_of(own_mapping(lake.root))
    lines, taken = [json.dumps({"ioweather_samples": _VERSION, "came_ns": now_ns()})], 0
    for series in decoded(body):
        if series.samples and mappings.of(series.name, series.labels) is not None:
            lines.append(json.dumps([series.key, series.name, series.labels, series.samples]))
            taken += len(series.samples)
    if taken:
        digest = hashlib.sha256("\n".join(lines[1:]).encode()).hexdigest()[:32]
        with queue.draft_in(lake.root) as draft:
            draft.write_bytes("\n".join([*lines, ""]).encode())
            queue.put(lake.root, draft, token.name, f"samples-{digest[:8]}.ndjson", digest)
    return taken


def take_samples(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write queued samples to the lake, one sender after the other, and remove them from the queue."""
    for sender in sorted({file.host for file in files}):
        _take_of_sender(lake, sender, [file for file in files if file.host == sender], report)


def _take_of_sender(lake: Lake, sender: str, files: Sequence[Queued], report: IngestReport) -> None:
    context = ReadContext(cluster=context_of(lake.facility).cluster)
    known = Known(mappings_of(own_mapping(lake.root)), context)
    amounts = Amounts(by_minute=True, cluster=context.cluster)
    path = lake.root / "counters" / f"{sender}.json"
    names, samples, newest_ns = _read_state(path, amounts)
    counts = [_read_file(file, names, samples) for file in files]
    samples.sort()
    newest_ns = max([newest_ns, *(time_ns for time_ns, _, _ in samples[-1:])])
    ready = [sample for sample in samples if sample[0] <= newest_ns - _DELAY_NS]
    later = samples[len(ready) :]
    for time_ns, key, value in ready:
        mapped = known.of(key, *names[key])
        if mapped is not None:
            amounts.add(key, mapped, time_ns, value)
    ingest_id, complaints, has_rows = new_ingest_id(), Complaints(), False
    for table, frame in amounts.rows():
        possible, _ = complaints.check(TABLES[table], frame, now_ns())
        has_rows = has_rows or possible.rows > 0
        add_rows(lake, table, possible, _SOURCE, ingest_id, report)
    amounts.forget(newest_ns - _ENDED_NS)
    state = {
        "version": _VERSION,
        "newest_ns": newest_ns,
        "amounts": amounts.state(),
        "names": {key: names[key] for key in sorted({key for _, key, _ in later})},
        "waiting": later,
    }
    path.parent.mkdir(mode=0o750, exist_ok=True)
    write_whole(path, json.dumps(state).encode())
    gaps = f"{amounts.gaps} difference(s) over a gap left out." if amounts.gaps else ""
    message = " ".join(filter(None, [str(complaints), gaps])) or None
    lake.record(
        [
            LedgerEntry(
                digest=file.digest,
                path=str(file.path.absolute()),
                bytes=file.bytes,
                source=_SOURCE,
                status="ok",
                rows={"samples": count},
                message=message,
                refused_rows=complaints.refused_rows,
                flagged_rows=complaints.flagged_rows,
                rows_ingest_ids=ingest_id if has_rows else None,
            )
            for file, count in zip(files, counts, strict=True)
        ]
    )
    for file in files:
        file.path.unlink(missing_ok=True)


_Names = dict[str, tuple[str, dict[str, str]]]
_Samples = list[tuple[int, str, float]]


def _read_state(path: Path, amounts: Amounts) -> tuple[_Names, _Samples, int]:
    """Names and labels of series, samples that are too new to be used, and the time of the newest sample."""
    with suppress(FileNotFoundError):
        try:
            state = json.loads(path.read_bytes())
            amounts.go_on(state["amounts"])
            names = {key: (name, labels) for key, (name, labels) in state["names"].items()}
            return names, [(time, key, value) for time, key, value in state["waiting"]], int(state["newest_ns"])
        except (ValueError, KeyError, TypeError):
            raise LakeError(
                f"{path} is damaged.", hint="Remove it: the growth since the last push is then not known."
            ) from None
    return {}, [], 0


def _read_file(file: Queued, names: _Names, samples: _Samples) -> int:
    """Add the samples of a queued file; returns how many it has. We wrote the file, so an error in it is damage."""
    try:
        header, *lines = file.path.read_text(encoding="utf-8").splitlines()
        latest = json.loads(header)["came_ns"] + _AHEAD_NS
        count = 0
        for line in lines:
            key, name, labels, found = json.loads(line)
            names[key] = (name, labels)
            times: list[tuple[int, Any]] = [(milliseconds * _MILLISECOND_NS, value) for milliseconds, value in found]
            if times and min(times)[0] < 0:
                raise ValueError(f"{min(times)[0]} ns is before 1970")
            samples += [(time_ns, key, value) for time_ns, value in times if time_ns <= latest]
            count += len(times)
        return count
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptInput(f"{file.path} was pushed and cannot be read any more: {error}.") from None
