"""iostat's text: layouts of sysstat 9 to 12, first reports, zones, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ioweather.core.clock import zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.tables import concat
from ioweather.core.units import NS
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.sysstat import IOSTAT

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]


ONE = {"sda": [1.0] * 22}


def test_autumn_and_spring(tmp_path: Path, read: Read, iostat_text: Callable[..., str]) -> None:
    path = tmp_path / "log"
    for day, times in {
        "10/25/26": ["01:00", "01:30", "02:00", "02:30", "02:00", "02:30", "03:00"],
        "03/29/26": ["01:00", "01:30", "03:00", "03:30"],
    }.items():
        path.write_text(iostat_text([(f"{day} {time}:00", ONE) for time in times], without_since_boot=False))
        starts = sorted({key[0] for key in read("iostat", path, zone="Europe/Berlin")})
        assert np.diff(starts).tolist() == [1800 * 10**9] * (len(times) - 2)
    path.write_text(iostat_text([(f"03/29/26 0{hour}:30:00", ONE) for hour in (1, 2, 3)]))
    with pytest.raises(UndatedInput, match="Check --zone"):
        read("iostat", path, zone="Europe/Berlin")


def test_stamps_that_are_a_time_of_day_alone(tmp_path: Path, read: Read, pick: Pick) -> None:
    """sysstat 8 and 9 printed the date once, in the first line."""
    table = "Device:            tps   Blk_read/s   Blk_wrtn/s   Blk_read   Blk_wrtn\nsda  1.00 10.00 20.00 {} 1200\n\n"
    text = "Linux 2.6.18 (old) \t07/16/2009\n\n"
    for number, time in enumerate(["11:58:00 PM", "11:59:00 PM", "12:00:00 AM", "12:01:00 AM"]):
        text += f"Time: {time}\n" + table.format(600 + number)
    path = tmp_path / "log"
    path.write_text(text)
    rows = read("iostat", path, zone="UTC")
    start = int(np.datetime64("2009-07-16T23:58:00", "ns").astype(np.int64))
    assert pick(rows, metric="read_bytes") == {start + i * 60 * 10**9: (601 + i) * 512 for i in range(3)}
    path.write_text(text.replace("11:59:00 PM", "13:59:00 PM"))
    with pytest.raises(CorruptInput, match="line 7"):
        read("iostat", path, zone="UTC")


def test_several_undated_reports_are_one_interval_apart(
    tmp_path: Path, read: Read, pick: Pick, iostat_text: Callable[..., str]
) -> None:
    path = tmp_path / "log"
    reports = [("", {"sda": [float(i + 1)] * 22}) for i in range(3)]
    path.write_text(iostat_text(reports, without_since_boot=False))
    rows = read("iostat", path, start_ns=1000, interval_ns=10**9)
    assert pick(rows, metric="read_ops") == {1000: 2.0, 1000 + 10**9: 3.0}
    path.write_text(iostat_text(reports, without_since_boot=True))
    rows = read("iostat", path, start_ns=1000, interval_ns=10**9)
    assert pick(rows, metric="read_ops") == {1000: 1.0, 1000 + 10**9: 2.0, 1000 + 2 * 10**9: 3.0}
    path.write_text(iostat_text(reports) + iostat_text(reports))
    with pytest.raises(UndatedInput, match="second run"):
        read("iostat", path, start_ns=1000, interval_ns=10**9)


REPORTS = [(f"11/15/26 06:0{i}:00", ONE) for i in range(3)]


def test_a_rotated_log_without_header_needs_a_host(tmp_path: Path, read: Read, iostat_text: Callable[..., str]) -> None:
    path = tmp_path / "log.1"
    path.write_text(iostat_text(REPORTS).partition("\n\n\n")[2])
    assert SOURCES["iostat"].detect(path.read_bytes(), path) > 0
    with pytest.raises(SourceError, match="--host"):
        read("iostat", path, zone="UTC")
    rows = read("iostat", path, zone="UTC", host="oss9")
    # Nobody knows what the first report covers.
    assert {(key[2], key[1]) for key in rows if key[5] == "read_ops"} == {("oss9:sda", 60 * 10**9)}
    assert len({key[0] for key in rows}) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("1.00     1.00\n", "1.00\n"), "line 9: expected 22 numbers"),
        (("1.00     1.00\n", "1.00     1.00     1.00\n"), "line 9: expected 22 numbers"),
        (("1.00     1.00\n", "1.00     1.6M\n"), r"line 9: '1\.6M' is not a number.*--human"),
        (("   85.00", ""), "line 6: expected 6 percentages"),
        (("sda     ", "hello world!\nsda "), "line 9: expected 22 numbers"),
    ],
)
def test_a_wrong_line_is_named(
    tmp_path: Path, read: Read, iostat_text: Callable[..., str], change: tuple[str, str], message: str
) -> None:
    path = tmp_path / "log"
    path.write_text(iostat_text(REPORTS).replace(*change, 1))
    with pytest.raises(CorruptInput, match=message):
        read("iostat", path, zone="UTC")


def test_name_last_decimal_commas_groups_and_blank_lines(tmp_path: Path, read: Read, pick: Pick) -> None:
    """--pretty puts the name last; German numbers; -p has blank lines between disks; -g adds sums of groups."""
    head = "Linux 6.1.0 (oss1) \t15.11.2026 \t_x86_64_\t(2 CPU)\n\n"
    pretty = "".join(
        f"15.11.2026 06:0{i}:00\n      tps    kB_read/s Device\n  2,00  {i},50 sda\n  2,00  {i},25 sdb\n\n\n"
        for i in range(3)
    )
    path = tmp_path / "log"
    path.write_text(head + pretty)
    rows = read("iostat", path, zone="UTC")
    assert list(pick(rows, metric="read_bytes", component="sdb").values()) == [1.25 * 1024 * 60, 2.25 * 1024 * 60]
    groups = "".join(
        f"15.11.2026 06:0{i}:00\nDevice  tps  kB_read/s\nsda  2,00  {i},50\n\nsda1  2,00  {i},25\n all 4,00 9,00\n\n\n"
        for i in range(3)
    )
    path.write_text(head + groups)
    rows = read("iostat", path, zone="UTC")
    assert {key[4] for key in rows} == {"sda", "sda1"}
    assert list(pick(rows, metric="read_bytes", component="sda1").values()) == [1.25 * 1024 * 60, 2.25 * 1024 * 60]


UTC = ReadContext(zone=zone_named("UTC"))
RUN = "Linux 6.1.0 (oss1) \t11/15/26 \t_x86_64_\t(2 CPU)\n"
HEADINGS = "Device            r/s     rkB/s     w/s     wkB/s  %util\n"


def _reports(*stamps: str) -> str:
    return "".join(
        f"\n{stamp}\n{HEADINGS}sda              1.00     {n}.00    1.00      2.00   5.00\n"
        for n, stamp in enumerate(stamps)
    )


def _read_bytes(path: Path, context: ReadContext) -> list[tuple[str, int, float]]:
    rows = concat([frame for _, frame in IOSTAT.read(path, context)]).records()
    return [(row["system"], row["interval_ns"] // NS, row["value"]) for row in rows if row["metric"] == "read_bytes"]


STAMPS = ("11/15/2026 10:00:00 AM", "11/15/2026 10:00:05 AM", "11/15/2026 10:00:10 AM")
EXPECTED = [("oss1:sda", 5, 1024.0 * 5), ("oss1:sda", 5, 2048.0 * 5)]


@pytest.mark.parametrize("indent", [" ", "    "])
def test_text_that_was_pasted_with_an_indent(tmp_path, indent):
    path = tmp_path / "x"
    path.write_text("".join(indent + line for line in (RUN + _reports(*STAMPS)).splitlines(keepends=True)))
    assert IOSTAT.detect(path.read_bytes(), path) > 0
    assert _read_bytes(path, UTC) == EXPECTED


def test_lines_of_several_hosts_as_pdsh_prints_them(tmp_path):
    first = [f"oss1: {line}" for line in (RUN + _reports(*STAMPS)).splitlines(keepends=True)]
    second = [f"oss2: {line}" for line in (RUN.replace("oss1", "oss2") + _reports(*STAMPS)).splitlines(keepends=True)]
    path = tmp_path / "x"
    path.write_text("".join(line for pair in zip(first, second, strict=True) for line in pair))
    assert IOSTAT.detect(path.read_bytes(), path) > 0
    assert _read_bytes(path, UTC) == [*EXPECTED, *((f"oss2:{s.split(':')[1]}", i, v) for s, i, v in EXPECTED)]


def test_the_line_that_date_printed_before_a_report_is_its_stamp(tmp_path):
    path = tmp_path / "x"
    stamps = ("Sun Nov 15 10:00:00 CET 2026", "Sun Nov 15 10:00:05 CET 2026", "Sun Nov 15 10:00:10 CET 2026")
    path.write_text(RUN + _reports(*stamps))
    assert _read_bytes(path, UTC) == EXPECTED


@pytest.mark.parametrize("runs", [1, 3])
def test_reports_since_boot_are_no_samples_whatever_the_interval(tmp_path, runs):
    path = tmp_path / "x"
    path.write_text(("Sun Nov 15 10:00:00 CET 2026\n" + RUN + _reports("").replace("\n\n", "\n", 1)) * runs)
    for context in (ReadContext(), ReadContext(start_ns=0, interval_ns=5 * NS)):
        with pytest.raises(EmptyInput, match="average since boot"):
            list(IOSTAT.read(path, context))
