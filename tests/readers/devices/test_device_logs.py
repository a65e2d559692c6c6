"""What holds for every device log: growing files, damage, detection, and agreement between formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import SourceError
from ioweather.core.tables import Quality
from ioweather.readers.reader_catalogue import SOURCES

NAMES = ("collectl", "diskstats", "iostat", "sadf")

Read = Callable[..., dict[tuple[Any, ...], float | None]]
UTC_CONTEXT = ReadContext(zone=ZoneInfo("UTC"), host="h")
CONTEXT = {"zone": "UTC", "host": "h"}


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
        "diskstats",
        "".join(
            f"179472633{i}\n" + "".join(f"   8 0 {d} {' '.join(['7' * i] * 11)}\n" for d in ("sda", "sdb"))
            for i in (1, 2, 3)
        ),
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


SECOND = 10**9
T0 = 1794726355242525983
RECORDED = Path(__file__).parents[2] / "data" / "recorded"  # this project's own: record_diskstats.py

Pick = Callable[..., dict[int, float | None]]


def test_one_interval_by_hand(read: Read) -> None:
    path = RECORDED / "diskstats.log"
    lines = path.read_text("ascii").replace("vda", "").splitlines()
    before, after = ([int(text) for text in line.split()] for line in lines[:2])
    # Field 1 of the kernel's documentation stands behind the time and the two numbers of the device.
    grown = [0, *(new - old for old, new in zip(before[3:], after[3:], strict=True))]
    interval = after[0] - before[0]
    rows = read("diskstats", path)
    first = {key[5]: value for key, value in rows.items() if key[0] == before[0]}
    assert {key[1:3] for key in rows if key[0] == before[0]} == {(interval, "localhost:vda")}
    assert grown[5] > 0
    assert first["read_ops"] == grown[1]
    assert first["read_bytes"] == grown[3] * 512
    assert first["write_bytes"] == grown[7] * 512
    assert first["write_await_seconds"] == pytest.approx(grown[8] / grown[5] / 1000)
    spent, done = grown[4] + grown[8] + grown[15], grown[1] + grown[5] + grown[12]  # discards count, as iostat has it
    assert first["await_seconds"] == pytest.approx(spent / done / 1000)
    assert first["busy_ratio"] == pytest.approx(min(1.0, grown[10] / 1000 / (interval / 1e9)))
    assert first["queue_length"] == pytest.approx(grown[11] / 1000 / (interval / 1e9))


def line(time: int | str, device: str = "sda", **fields: int) -> str:
    """A stamped line; fields by their number in the kernel's documentation, f1 to f17."""
    counters = [fields.get(f"f{number}", 0) for number in range(1, 18)]
    return f"{time} 8 0 {device} {' '.join(map(str, counters))}\n"


def read_quality(path: Path) -> dict[tuple[str, int, str], tuple[float | None, int]]:
    return {
        (row["component"], row["start_ns"], row["metric"]): (row["value"], row["quality"])
        for _, frame in SOURCES["diskstats"].read(path, ReadContext())
        for row in frame.records()
    }


def test_wraps_are_followed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=5, f4=2**32 - 100, f5=2**32 - 2, f7=2**64 - 8) + line(T0 + SECOND, f1=6, f4=150, f5=3, f7=16)
    )
    rows = read_quality(path)
    assert rows["sda", T0, "read_busy_seconds"] == (0.25, 0)
    assert rows["sda", T0, "write_ops"] == (5.0, 0)
    assert rows["sda", T0, "write_bytes"] == (24.0 * 512, 0)


def test_a_restart_gives_what_was_counted_since(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=1000, f3=8000, f4=70, f10=60)
        + line(T0 + SECOND, f1=10, f3=9000, f4=7, f10=6)
        + line(T0 + 2 * SECOND, f1=15, f3=9001, f4=8, f10=7)
    )
    rows = read_quality(path)
    reset = int(Quality.RESET)
    assert rows["sda", T0, "read_ops"] == (10.0, reset)
    # The sectors did not fall, but they began anew as well.
    assert rows["sda", T0, "read_bytes"] == (9000 * 512.0, reset)
    assert rows["sda", T0 + SECOND, "read_ops"] == (5.0, 0)


def test_doubled_backward_and_missing_samples(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "log"
    path.write_text(
        line(T0, f1=0) + line(T0, f1=1)  # the same moment twice
        + line(T0, "sdb", f1=100)
        + line(T0 + 1 * SECOND, f1=10) + line(T0 + 1 * SECOND, "sdb", f1=101)
        + line(T0 - 5 * SECOND, f1=20)  # the clock was set back; sdb is gone
        + line(T0 - 4 * SECOND, f1=30)
        + line(T0 + 9 * SECOND, f1=31) + line(T0 + 9 * SECOND, "sdb", f1=109)  # and is back
    )  # fmt: skip
    rows = read("diskstats", path)
    assert pick(rows, metric="read_ops", component="sda") == {
        T0: 10, T0 - 5 * SECOND: 10, T0 - 4 * SECOND: 1
    }  # fmt: skip
    assert pick(rows, metric="read_ops", component="sdb") == {T0: 1, T0 + SECOND: 8}
    assert all(key[1] > 0 for key in rows)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (line(T0) + f"{T0 + SECOND} 8 0 sda 1 2 3 4 5\n", "CorruptInput", "line 2"),
        (line(T0) + f"{T0 + SECOND} 8 0 sda {'x ' * 17}\n", "CorruptInput", "line 2"),
        (line(T0) + "hello\n", "CorruptInput", "line 2.*neither"),
        (line(T0) + line("9999999999999999999"), "CorruptInput", "line 2"),
        (line(T0), "TruncatedInput", "two snapshots"),
        ("\n", "EmptyInput", "no line"),
        ("2026-11-15 07:05:55\n" + line(" "), "UndatedInput", "line 1.*zone"),
    ],
)
def test_what_is_refused(tmp_path: Path, read: Read, text: str, kind: str, message: str) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with source_error(kind, match=message):
        read("diskstats", path)


PREAMBLE = """\
################################################################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -scdD -P
# Host:       oss1  DaemonOpts:
# Date:       20261115-092000  Secs: 1794734400 TZ: +0000
# SubSys:     cdD Options: {options} Interval: 10 NumCPUs: 2  NumBud: 0 Flags: i
################################################################################
"""
COLUMNS = (
    "#Date Time [CPU]User% [CPU]Wait% [CPU]Idle% [CPU]Totl% [DSK]ReadTot [DSK]WriteTot [DSK]ReadKBTot [DSK]WriteKBTot "
    "[DSK:sda]Name [DSK:sda]Reads [DSK:sda]RKBytes [DSK:sda]WaitR [DSK:sdb]Name [DSK:sdb]Reads [DSK:sdb]Util "
    "[NET]RxPktTot\n"
)
LINES = "".join(
    f"20261115 06:32:{second} 10 20 65 15 3 4 12 16 sda 1 4 0 sdb 2 50 9\n" for second in ("10", "20", "30")
)


def test_file_with_preamble(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "oss1-20261115.tab"
    path.write_text(PREAMBLE.format(options="z") + COLUMNS + LINES)
    rows = read("collectl", path, zone="UTC")
    assert {key[1] for key in rows} == {10 * SECOND}
    assert list(pick(rows, metric="cpu_ratio", kind="host").values()) == pytest.approx([0.15] * 3)
    assert set(pick(rows, metric="read_bytes", kind="host").values()) == {12 * 1024 * 10}
    assert set(pick(rows, metric="read_bytes", component="sda").values()) == {4 * 1024 * 10}
    assert set(pick(rows, metric="busy_ratio", component="sdb").values()) == {0.5}
    assert len(pick(rows, metric="read_ops", component="sda")) == 3
    assert {key[2] for key in rows} == {"oss1", "oss1:sda", "oss1:sdb"}


def test_amounts_under_on(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "tab"
    path.write_text(PREAMBLE.format(options="nz") + COLUMNS + LINES)
    assert set(pick(read("collectl", path, zone="UTC"), metric="read_bytes", component="sda").values()) == {4 * 1024}


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (COLUMNS + LINES.replace(" 50 9\n", " 50\n"), "CorruptInput", "line 2: expected 18 fields, found 17"),
        (COLUMNS + LINES.replace("sdb 2 50", "sdb 2 full"), "CorruptInput", r"line 2: .*'full'"),
        (COLUMNS + LINES.replace("20261115", "today"), "CorruptInput", "line 2"),
        (COLUMNS + LINES.splitlines(keepends=True)[0], "EmptyInput", "fewer than two samples"),
        ("waiting for 1 second sample...\n", "EmptyInput", "collectl"),
    ],
)
def test_what_is_refused_of_collectl(tmp_path: Path, read: Read, text: str, kind: str, message: str) -> None:
    path = tmp_path / "tab"
    path.write_text(text)
    with source_error(kind, match=message):
        read("collectl", path, zone="UTC", host="h")
