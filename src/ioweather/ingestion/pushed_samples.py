"""Samples that a Prometheus server pushes: mapped ones wait in the queue, and the writer makes rows of them.

The growth of a counter needs the sample before, which came with an earlier push: the writer stores the last value of
each counter in the lake. It uses samples in order of time, a minute after the newest one, because the samples of one
scrape come in several pushes. Rows are written first, then the stored values, then the ledger: after any interruption
the next writer makes the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import AccessDenied, CorruptInput, LakeError
from ioweather.core.safe_files import write_whole
from ioweather.core.tables import TABLES, Complaints
from ioweather.core.units import DAY_NS, MINUTE_NS, now_ns
from ioweather.ingestion import queue
from ioweather.ingestion.ingest import IngestReport, add_rows
from ioweather.ingestion.mappings import own_mapping
from ioweather.ingestion.queue import Queued
from ioweather.ingestion.reading import context_of
from ioweather.lake.lake import Lake, LedgerEntry, new_ingest_id
from ioweather.lake.tokens import Token
from ioweather.readers.prometheus.mapping import Amounts, Known, mappings_of
from ioweather.readers.prometheus.server import decoded

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
        checked = TABLES[table].check(frame, now_ns())
        complaints.add(checked)
        has_rows = has_rows or checked.frame.rows > 0
        add_rows(lake, table, checked.frame, _SOURCE, ingest_id, report)
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
