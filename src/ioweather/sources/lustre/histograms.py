"""Histograms of requests: `brw_stats` of targets, `rpc_stats` of clients. Standard library only.

    pages per bulk r/w     rpcs  % cum % |  rpcs        % cum %
    1:                      13  56  56   |  153   0   0
    1K:                      0   0 100   | 4059303  94 100

A line counts what is larger than the line before and at most as large as it says (`lprocfs_oh_tally_log2`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ioweather.core.errors import CorruptInput
from ioweather.sources.lustre.parse import time_of

_BUCKET = re.compile(
    r"([0-9]{1,18})([KMGT]?):\s+([0-9]{1,18})\s+[0-9]{1,18}\s+[0-9]{1,18}\s+\|\s+([0-9]{1,18})\s+[0-9]{1,18}\s+[0-9]{1,18}\s*"
)
_SCALE = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SMALL_PAGES = 128
_SLOW_MS = 128


class Bucket(NamedTuple):
    most: int
    reads: int
    writes: int


class Histograms(NamedTuple):
    snapshot_ns: int
    start_ns: int | None
    sections: dict[str, list[Bucket]]


def parse_histograms(text: str, where: str) -> Histograms:
    sections: dict[str, list[Bucket]] = {}
    times: dict[str, int] = {}
    section: list[Bucket] = []
    for line in text.splitlines():
        if match := _BUCKET.fullmatch(line):
            section.append(Bucket(int(match[1]) * _SCALE[match[2]], int(match[3]), int(match[4])))
        elif "% cum %" in line:
            section = sections.setdefault(line.strip().partition("  ")[0], [])
        elif (found := time_of(line.strip(), where)) is not None:
            times.setdefault(*found)
    if "snapshot_time" not in times:
        raise CorruptInput(f"{where} has no snapshot_time.")
    return Histograms(times["snapshot_time"], times.get("start_time"), sections)


def counted_requests(sections: Mapping[str, list[Bucket]]) -> dict[str, int]:
    """Counters by metric, of what the histograms can tell exactly."""
    result: dict[str, int] = {}
    bulk = sections.get("pages per bulk r/w", sections.get("pages per rpc"))
    if bulk is not None:
        _add(result, "bulk", bulk)
        _add(result, "small_bulk", [bucket for bucket in bulk if bucket.most <= _SMALL_PAGES])
    if "disk I/O size" in sections:
        _add(result, "disk", sections["disk I/O size"])
    if "I/O time (1/1000s)" in sections:
        _add(result, "slow_disk", [bucket for bucket in sections["I/O time (1/1000s)"] if bucket.most > _SLOW_MS])
    return result


def _add(result: dict[str, int], kind: str, buckets: list[Bucket]) -> None:
    result[f"{kind}_read_ops"] = sum(bucket.reads for bucket in buckets)
    result[f"{kind}_write_ops"] = sum(bucket.writes for bucket in buckets)
