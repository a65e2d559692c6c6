"""What holds for every device log: growing files, damage, detection, and agreement between formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.readers.reader_catalogue import SOURCES

NAMES = ("collectl", "diskstats", "iostat", "sadf")

Read = Callable[..., dict[tuple[Any, ...], float | None]]
UTC_CONTEXT = ReadContext(zone=ZoneInfo("UTC"), host="h", start_ns=0, interval_ns=10**9)
CONTEXT = {"zone": "UTC", "host": "h", "start_ns": 0, "interval_ns": 10**9}


def _iostat_json() -> str:
    disk = {"disk_device": "sda", "r/s": 1.5, "w/s": 0.0, "w_await": 0.0, "rkB/s": 6.25, "util": 10.5}
    cpu = {"user": 1.0, "iowait": 2.5, "idle": 90.0}
    records = [
        {"timestamp": f"2026-11-15T06:32:{second}+0000", "avg-cpu": cpu, "disk": [disk]} for second in (10, 11, 12)
    ]
    body = ",\n".join(json.dumps(record) for record in records)
    return '{"sysstat": {"hosts": [{"nodename": "oss1", "statistics": [\n\n' + body + "\n]}]}}\n"


def _iostat_plain() -> str:
    table = (
        "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n  1.00 2.00 3.00 4.00 5.00 85.00\n\n"
        "Device  r/s  rkB/s  w/s  w_await  %util\nsda  1.50 6.25 0.00 0.00 10.50\nsdb  2.00 8.00 1.00 7.00 1.00\n\n\n"
    )
    stamps = [f"11/15/26 06:32:{second}\n" for second in (10, 11, 12)]
    return "Linux 6.1.0 (oss1) \t11/15/26 \t_x86_64_\t(2 CPU)\n\n\n" + "".join(stamp + table for stamp in stamps)


SMALL_FILES: dict[str, tuple[str, str]] = {
    "iostat text": ("iostat", _iostat_plain()),
    "iostat undated": ("iostat", "Linux 6 (h) \t_x86_64_\n\n\n" + "Device tps kB_read/s\nsda 1.00 2.50\n\n\n" * 3),
    "iostat json": ("iostat", _iostat_json()),
    "sadf semicolons": (
        "sadf",
        "# hostname;interval;timestamp;DEV;tps;rkB/s;await\n"
        + "".join(f"h;1;17947243{i};{d};1.00;2.50;0.00\n" for i in (37, 38, 39) for d in ("sda", "sdb"))
        + "# hostname;interval;timestamp;tps;rtps;bread/s\n"
        + "".join(f"h;1;17947243{i};1.00;2.50;8.00\n" for i in (37, 38)),
    ),
    "sadf tabs": (
        "sadf",
        "".join(
            f"h\t1\t17947243{i}\t{d}\t{name}\t{value}\n"
            for i in (37, 38)
            for d in ("sda", "sdb")
            for name, value in (("tps", "0.00"), ("rkB/s", "2.50"), ("await", "0.00"))
        )
        + "".join(f"h\t1\t1794724337\tall\t{name}\t40.00\n" for name in ("%user", "%iowait", "%idle")),
    ),
    "sadf json": (
        "sadf",
        '{"sysstat": {"hosts": [{"nodename": "h", "file-date": "2026-11-15", "statistics": [\n'
        + ",\n".join(
            f'{{"timestamp": {{"date": "2026-11-15", "time": "06:32:{i}", "utc": 1, "interval": 1}},\n'
            '"io": {"tps": 1.0, "io-reads": {"rtps": 2.0, "bread": 8.0}},\n'
            '"disk": [{"disk-device": "sda", "tps": 1.0, "rkB": 2.5, "await": 0.5}]}'
            for i in (10, 11)
        )
        + "\n], \"restarts\": []}]}}\n",
    ),
    "collectl": (
        "collectl",
        "#Date Time [CPU]Wait% [CPU]Idle% [DSK:sda]Name [DSK:sda]Reads [DSK:sda]WaitR\n"
        + "".join(f"20261115 06:32:{i} 10 20 sda 5 0\n" for i in (10, 11, 12)),
    ),
    "diskstats": (
        "diskstats",
        "".join(
            f"179472633{i} 8 0 {d} {' '.join(str(i * k) for k in range(1, 18))}\n"
            for i in (0, 1, 2)
            for d in ("sda", "sdb")
        ),
    ),
    "diskstats snapshots": (
        "diskstats", "".join(f"   8 0 {d} {' '.join(['7' * i] * 11)}\n" for i in (1, 2, 3) for d in ("sda", "sdb")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("which", SMALL_FILES)
def test_a_growing_log_yields_the_same_rows_for_its_old_part(which: str, tmp_path: Path, read: Read) -> None:
    """At every byte: nothing but a SourceError, and no row that the whole file does not have."""
    name, text = SMALL_FILES[which]
    path = tmp_path / "log"
    path.write_text(text)
    whole = read(name, path, **CONTEXT)
    assert whole
    most = 0
    for length in range(len(text)):
        path.write_text(text[:length])
        try:
            part = read(name, path, **CONTEXT)
        except SourceError:
            continue
        assert part.items() <= whole.items(), f"after {length} bytes: {part.items() - whole.items()}"
        most = max(most, len(part))
    # All but a last line without its end come in before the file is complete.
    assert most >= len(whole) // 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "data", [b"", b"\n\n", b"\x00" * 5000, bytes(range(256)) * 40, b"\x1f\x8b\x08garbage", b"{" * 9000]
)
def test_garbage_that_is_read_all_the_same_is_refused(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(data)
    with pytest.raises(SourceError):
        list(SOURCES[name].read(path, UTC_CONTEXT))
