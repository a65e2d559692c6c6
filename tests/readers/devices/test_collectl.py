"""collectl -P, on the terminal and in files with a preamble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.errors import CorruptInput, EmptyInput

SECOND = 10**9

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]

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
    ("text", "error", "message"),
    [
        (COLUMNS + LINES.replace(" 50 9\n", " 50\n"), CorruptInput, "line 2: expected 18 fields, found 17"),
        (COLUMNS + LINES.replace("sdb 2 50", "sdb 2 full"), CorruptInput, r"line 2: .*'full'"),
        (COLUMNS + LINES.replace("20261115", "today"), CorruptInput, "line 2"),
        (COLUMNS + LINES.splitlines(keepends=True)[0], EmptyInput, "no two samples"),
        ("waiting for 1 second sample...\n", EmptyInput, "collectl"),
    ],
)
def test_what_is_refused(tmp_path: Path, read: Read, text: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "tab"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read("collectl", path, zone="UTC", host="h")
