"""Spool segments: one header line, then one JSON object per row."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ioweather.simulate.resources import Calendar
from ioweather.simulate.responses import Responses

_VERSION = 1


def write_segments(folder: Path, batches: Iterable[Responses], calendar: Calendar, number: int, system: str) -> None:
    """One closed segment per host, rows in the order of time."""
    folder.mkdir(parents=True, exist_ok=True)
    by_host: dict[str, list[Responses]] = {}
    for batch in batches:
        if len(batch.start):
            by_host.setdefault(batch.host, []).append(batch)
    for host, members in by_host.items():
        rows = [row for batch in members for row in _rows(batch, calendar, system)]
        rows.sort()
        first_ns = rows[0][0]
        header = {"ioweather_spool": _VERSION, "host": host, "boot_id": "simulated", "run_id": members[0].run_id,
                  "opened_ns": first_ns}  # fmt: skip
        with (folder / f"seg-{host}-{first_ns}-{number}.ndjson").open("w", encoding="utf-8") as file:
            file.write(json.dumps(header) + "\n")
            file.writelines(line for _, line in rows)


def _rows(batch: Responses, calendar: Calendar, system: str) -> list[tuple[int, str]]:
    whole = np.floor(batch.start)
    start_ns = (calendar.start + whole.astype(np.int64)) * 10**9 + np.rint((batch.start - whole) * 1e9).astype(np.int64)
    duration_ns = np.maximum(np.rint(batch.seconds * 1e9).astype(np.int64), 1)
    component = json.dumps(batch.component)
    cached = ["null"] * len(start_ns) if batch.cached is None else ["true" if c else "false" for c in batch.cached]
    before = f'{{"table":"responses","host":"{batch.host}","target":"{batch.target}","op":"{batch.op}",'
    after = (
        f'"request_bytes":{batch.request_bytes},"mode":"{batch.mode}","system":"{system}","component":{component},'
        f'"status":"ok","errno":null,"run_id":"{batch.run_id}"'
    )
    return [
        (at, f'{before}{after},"start_ns":{at},"scheduled_ns":{at},"duration_ns":{took},"cached":{hit}}}\n')
        for at, took, hit in zip(start_ns.tolist(), duration_ns.tolist(), cached, strict=True)
    ]
