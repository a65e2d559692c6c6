"""sadf in its three forms: the same data file must give the same rows."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput, UnsupportedVersion
from ioweather.core.tables import concat
from ioweather.ingestion.reading import choose_source
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.sysstat import SADF

_SADC = Path("/usr/lib/sysstat/sadc")
SECOND = 10**9

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]


def table(*lines: str, header: str = "DEV;tps;rkB/s;wkB/s;await;%util") -> str:
    return f"# hostname;interval;timestamp;{header}\n" + "".join(f"{line}\n" for line in lines)


def test_restarts_comments_and_empty_intervals(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "sa.csv"
    path.write_text(
        table(
            "oss1;600;2026-11-15 00:10:01 UTC;sda;1.00;2.00;3.00;0.00;5.00",
            "oss1;-1;2026-11-15 00:15:00 UTC;LINUX-RESTART\t(2 CPU)",
            "oss1;-1;2026-11-15 00:15:01 UTC;COM hello; world",
            "oss1;0;2026-11-15 00:15:01 UTC;sda;100.00;300.00;300.00;0.00;0.00",
            "oss1;299;2026-11-15 00:20:01 UTC;sda;0.00;2.00;3.00;0.00;5.00",
        )
    )
    rows = read("sadf", path)
    assert {key[1] for key in rows} == {600 * SECOND, 299 * SECOND}
    assert set(pick(rows, metric="read_bytes").values()) == {2 * 1024 * 600, 2 * 1024 * 299}
    # A response time of 0.00 is one where there were requests, and none where there were not.
    assert list(pick(rows, metric="await_seconds").values()) == [0.0, None]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00"), CorruptInput, "line 2: expected .* numbers"),
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00;5.00;6.00"), CorruptInput, "line 2"),
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00;much"), CorruptInput, "line 2"),
        (table("h;one;1794724337;sda;1.00;2.00;3.00;4.00;5.00"), CorruptInput, "line 2"),
        (table("h;99999999999;1794724337;sda;1.00;2.00;3.00;4.00;5.00"), CorruptInput, "interval"),
        (table("h;1;yesterday;sda;1.00;2.00;3.00;4.00;5.00"), CorruptInput, "not a time"),
        (table("h;1;1;", header="tps;DEV;tps"), UnsupportedVersion, "without -h"),
        ("# comment\n", CorruptInput, "line 1"),
        (table(), EmptyInput, "sadf -j"),
        (table("h;1;1794724337;3.00", header="kbmemfree"), EmptyInput, "sadf -j"),
        ("h\t1\t1794724337\tsda\ttps\tmany\nx\n", CorruptInput, "line 1.*between tabs"),
    ],
)
def test_what_is_refused(tmp_path: Path, read: Read, text: str, error: type[Exception], message: str) -> None:
    path = tmp_path / "sa"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read("sadf", path, zone="UTC")


def test_json_local_time_and_notes(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "sa.json"
    stamp = '{"date": "2026-11-15", "time": "06:32:17", "utc": 0, "interval": %d}'
    disk = '"disk": [{"disk-device": "sda", "tps": 1.0, "rkB": 2.0}]'
    records = [f'{{"timestamp": {stamp % 60}, {disk}}}', f'{{"timestamp": {stamp % 0}, {disk}}}', '{"x": 1}']
    head = '{"sysstat": {"hosts": [{"nodename": "oss1", "file-date": "2026-11-15", "statistics": ['
    path.write_text(head + ",\n".join(records) + "]}]}}\n")
    assert SOURCES["sadf"].detect(path.read_bytes(), path) == 0.9
    with pytest.raises(UndatedInput, match="--zone"):
        read("sadf", path)
    rows = read("sadf", path, zone="UTC")
    assert set(rows.values()) == {2 * 1024 * 60.0}
    assert {key[2] for key in rows} == {"oss1:sda"}


def test_activities_that_nobody_needs_are_passed_over(tmp_path):
    """`sar -A` has interrupts of every CPU, batteries and more, in forms of their own."""
    disks = "h;60;2026-11-15 10:00:00 UTC;sda;1.00;2.00;4.00;0.00;5.00;0.00;0.10;1.00\n"
    header = "# hostname;interval;timestamp;DEV;tps;rkB/s;wkB/s;dkB/s;areq-sz;aqu-sz;await;%util\n"
    text = (
        "# hostname;interval;timestamp;INTR;CPU*;CPU0;CPU1\nh;60;2026-11-15 10:00:00 UTC;sum;1;2;3\n"
        + "# hostname;interval;timestamp;BAT;%cap;cap/min;status\nh;60;2026-11-15 10:00:00 UTC;0;99;0.0;Full\n"
        + header
        + disks
    )
    path = tmp_path / "sadf.csv"
    path.write_text(text)
    rows = concat([frame for _, frame in SADF.read(path, ReadContext())]).records()
    assert {row["component"] for row in rows} == {"sda"}
    assert [row["value"] for row in rows if row["metric"] == "write_bytes"] == [4.0 * 1024 * 60]
    lines = [
        ("sda", "tps", "1.00"),
        ("sda", "rkB/s", "2.00"),
        ("sda", "wkB/s", "4.00"),
        ("BAT0", "status", "Not charging"),
    ]
    lines += [("eth0", "rxkB/s", "1.00"), ("-", "%memused", "10.00")]
    path.write_text("".join(f"h\t60\t2026-11-15 10:00:00 UTC\t{what}\t{name}\t{n}\n" for what, name, n in lines))
    rows = concat([frame for _, frame in SADF.read(path, ReadContext())]).records()
    assert {(row["component"], row["metric"]) for row in rows} == {("sda", "read_bytes"), ("sda", "write_bytes")}


@pytest.mark.real
@pytest.mark.skipif(not _SADC.exists() or shutil.which("sadf") is None, reason="sysstat is not installed")
def test_a_daily_file_recorded_here_through_the_command_that_its_refusal_names(tmp_path):
    daily = tmp_path / "sa15"
    subprocess.run([_SADC, "-S", "DISK", "1", "4", daily], check=True, timeout=60)
    with pytest.raises(SourceError, match=r"sadf -j FILE -- -d -b -u > file\.json"):
        choose_source(daily.read_bytes(), daily)
    path = tmp_path / "sa15.json"
    with path.open("wb") as output:
        subprocess.run(["sadf", "-j", daily, "--", "-d", "-b", "-u"], stdout=output, check=True, timeout=60)
    assert choose_source(path.read_bytes(), path) is SADF
    rows = concat([frame for _, frame in SADF.read(path, ReadContext())]).records()
    assert {"read_bytes", "write_bytes", "cpu_ratio"} <= {row["metric"] for row in rows}
