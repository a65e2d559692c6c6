"""Samples that a Prometheus server pushes: those that a mapping names wait in the queue, and become rows in the writer.

A counter's growth needs the sample before, which came with an earlier push: the writer keeps, beside the lake's tables,
what each counter showed last. It takes samples in the order of their time, when they are a minute old: those of one
scrape come in several pushes. Rows are written first, then what was kept, then the ledger: whatever interrupts this,
the next writer gives the same rows.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ioweather.collect import queue
from ioweather.collect.queue import Queued
from ioweather.core.clock import now_ns
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import AccessDenied, CorruptInput, LakeError
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.sources.labelled.amounts import Amounts
from ioweather.sources.labelled.mapping import Mappings, mappings_of
from ioweather.sources.labelled.remote_write import decoded
from ioweather.sources.labelled.taking import Known
from ioweather.store import layout
from ioweather.store.lake import Lake, LedgerEntry, new_ingest_id
from ioweather.store.tokens import Token
from ioweather.tables import TABLES, Complaints
from ioweather.workflows.ingest.site_mapping import own_mapping

PREFIX: Final = "samples-"
_SOURCE: Final = "prometheus"
_VERSION: Final = 1
_MILLISECOND_NS: Final = 1_000_000
_HELD_NS: Final = MINUTE_NS
# A clock that is wrong must not make everybody else's samples late.
_AHEAD_NS: Final = 10 * MINUTE_NS
# What was not seen for so long has ended.
_FORGOTTEN_NS: Final = DAY_NS


def receive_samples(lake: Lake, body: bytes, token: Token) -> int:
    """Into the queue, and on the disk when this returns; how many samples a mapping names. A Prometheus server speaks
    for many hosts, so its token must be one for all of them."""
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
        data = "\n".join([*lines, ""]).encode()
        digest = hashlib.sha256("\n".join(lines[1:]).encode()).hexdigest()[:32]
        with queue.draft_in(lake.root) as draft:
            draft.write_bytes(data)
            queue.put(lake.root, draft, token.name, f"{PREFIX}{digest[:8]}.ndjson", digest)
    return taken


def take_samples(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    """All that waits of each sender: rows, state, ledger, out of the queue. Returns the times of the first new rows."""
    first_ns: dict[str, int] = {}
    for sender in sorted({file.host for file in files}):
        own = [file for file in files if file.host == sender]
        for table, moment in _Sender(lake, sender).take(own).items():
            first_ns[table] = min(moment, first_ns.get(table, moment))
        for file in own:
            queue.take_away(file)
    return first_ns


class _Sender:
    """One server that pushes, as it was left by the writer before."""

    def __init__(self, lake: Lake, name: str) -> None:
        facility = lake.facility
        cluster = facility.clusters[0] if len(facility.clusters) == 1 else None
        self._lake, self._file = lake, state_file(lake.root, name)
        self._known = _known(mappings_of(own_mapping(lake.root)), cluster)
        self._amounts = Amounts(by_minute=True, cluster=cluster)
        self._names: dict[str, tuple[str, dict[str, str]]] = {}
        self._waiting: list[tuple[int, str, float]] = []
        self._newest_ns = 0
        with suppress(FileNotFoundError):
            self._go_on(self._file.read_bytes())

    def _go_on(self, body: bytes) -> None:
        try:
            state = json.loads(body)
            self._amounts.go_on(state["amounts"])
            self._names = {key: (name, labels) for key, (name, labels) in state["names"].items()}
            self._waiting = [(time, key, value) for time, key, value in state["waiting"]]
            self._newest_ns = int(state["newest_ns"])
        except (ValueError, KeyError, TypeError):
            raise LakeError(
                f"{self._file} is damaged.", hint="Remove it: the growth since the last push is then not known."
            ) from None

    def take(self, files: Sequence[Queued]) -> dict[str, int]:
        first_ns: dict[str, int] = {}
        counts = [self._read(file) for file in files]
        ingest_id, complaints, rows = new_ingest_id(), Complaints(), Counter[str]()
        for table, frame in self._ready():
            checked = TABLES[table].check(frame, now_ns())
            complaints.add(checked)
            rows[table] += checked.frame.rows
            if self._lake.append(table, checked, source=_SOURCE, ingest_id=ingest_id):
                first_ns[table] = int(checked.frame.ints("start_ns").min())
        self._keep()
        gaps = f"{self._amounts.gaps} difference(s) over a gap left out." if self._amounts.gaps else ""
        said = " ".join(filter(None, [str(complaints), gaps])) or None
        entries = [
            LedgerEntry(
                digest=file.digest, path=str(file.path.absolute()), bytes=file.bytes, source=_SOURCE, status="ok",
                rows={"samples": count}, message=said, refused_rows=complaints.refused_rows,
                flagged_rows=complaints.flagged_rows, rows_ingest_ids=ingest_id if rows else None,
            )
            for file, count in zip(files, counts, strict=True)
        ]  # fmt: skip
        self._lake.record(entries)
        return first_ns

    def _read(self, file: Queued) -> int:
        """Our own writing: what is wrong in it is the disk's fault, and costs this file alone."""
        try:
            header, *lines = file.path.read_text(encoding="utf-8").splitlines()
            latest = json.loads(header)["came_ns"] + _AHEAD_NS
            count = 0
            for line in lines:
                key, name, labels, samples = json.loads(line)
                self._names[key] = (name, labels)
                for milliseconds, value in samples:
                    time_ns = milliseconds * _MILLISECOND_NS
                    if time_ns < 0:
                        raise ValueError(f"{milliseconds} ms is before 1970")
                    if time_ns <= latest:
                        self._waiting.append((time_ns, key, value))
                        self._newest_ns = max(self._newest_ns, time_ns)
                count += len(samples)
            return count
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptInput(f"{file.path} was pushed and cannot be read any more: {error}.") from None

    def _ready(self) -> Iterator[tuple[str, Any]]:
        border = self._newest_ns - _HELD_NS
        self._waiting.sort()
        ready = [sample for sample in self._waiting if sample[0] <= border]
        self._waiting = self._waiting[len(ready) :]
        for time_ns, key, value in ready:
            mapped = self._known.of(key, *self._names[key])
            if mapped is not None:
                self._amounts.add(key, mapped, time_ns, value)
        yield from self._amounts.rows()

    def _keep(self) -> None:
        self._amounts.forget(self._newest_ns - _FORGOTTEN_NS)
        wanted = {key for _, key, _ in self._waiting}
        state = {
            "version": _VERSION,
            "newest_ns": self._newest_ns,
            "amounts": self._amounts.state(),
            "names": {key: self._names[key] for key in sorted(wanted)},
            "waiting": self._waiting,
        }
        self._file.parent.mkdir(mode=0o750, exist_ok=True)
        draft = self._file.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._file)


def state_file(root: Path, sender: str) -> Path:
    return layout.counters_dir(root) / f"{sender}.json"


def _known(mappings: Mappings, cluster: str | None) -> Known:
    return Known(mappings, ReadContext(cluster=cluster))
