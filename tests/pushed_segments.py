"""Segments as agents push them, and their rows as the lake should hold them."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ioweather.agent.sensor import Operation, Origin, Timing, response_row
from ioweather.agent.spool import row_line
from ioweather.core.units import NS
from ioweather.lake.lake import open_lake

START_NS = 1_772_409_600 * NS


def segment(host: str, starts_ns: Sequence[int]) -> bytes:
    """One read operation per start."""
    header = json.dumps({"ioweather_spool": 1, "host": host, "boot_id": "b", "run_id": "r"})
    origin, read = Origin(host, "/s", "mount:/s", "r"), Operation("read", 1 << 20, "nocache")
    rows = [row_line("responses", response_row(origin, read, Timing(start, 7_000_000), NS)) for start in starts_ns]
    return "".join(f"{text}\n" for text in (header, *rows)).encode()


def operations_in(root: Path) -> Counter[tuple[str, int]]:
    with open_lake(root).snapshot() as snapshot:
        return Counter(snapshot.query("SELECT host, start_ns FROM responses").fetchall())


def post(server: str, token: str, host: str, name: str, data: bytes, timeout: float = 30.0) -> int:
    """The status of the answer; 0 where none came."""
    request = urllib.request.Request(
        f"{server}/api/v1/spool/{host}/{name}", data, {"authorization": f"Bearer {token}"}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError):
        return 0
