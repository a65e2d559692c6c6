"""iostat's text: layouts of sysstat 9 to 12, first reports, zones, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import shutil
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import concat
from ioweather.core.units import NS, zone_named
from ioweather.ingestion.reading import choose_source
from ioweather.readers.device_logs import StampReader, is_day_first
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.sysstat import IOSTAT, SADF

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
    with source_error("UndatedInput", match="Check --zone"):
        read("iostat", path, zone="Europe/Berlin")


REPORTS = [(f"11/15/26 06:0{i}:00", ONE) for i in range(3)]


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
def test_reports_since_boot_are_no_samples(tmp_path, runs):
    path = tmp_path / "x"
    path.write_text((RUN + _reports(STAMPS[0])) * runs)
    with source_error("EmptyInput", match="average since boot"):
        list(IOSTAT.read(path, UTC))


def test_reports_without_a_time_stamp_are_refused(tmp_path):
    path = tmp_path / "x"
    path.write_text(RUN + _reports("", ""))
    with source_error("UndatedInput", match="Run iostat with -t"):
        list(IOSTAT.read(path, UTC))


def record(second: int, reads: float, **more: object) -> dict[str, object]:
    return {
        "timestamp": f"2026-11-15T06:32:{second:02}+0000",
        "disk": [{"disk_device": "sda", "r/s": reads, "rkB/s": reads * 4, "util": 10.0}],
        **more,
    }


def document(records: list[dict[str, object]], lead: str = "\n\n", end: str = "\n\t\t\t]\n\t\t}\n\t]\n}}\n") -> str:
    head = '{"sysstat": {\n\t"hosts": [\n\t\t{\n\t\t\t"nodename": "oss\\u0031",\n\t\t\t"date": "11/15/26",\n'
    return head + '\t\t\t"statistics": [' + lead + ",\n".join(json.dumps(r, indent=1) for r in records) + end


def test_running_and_killed(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    path.write_text(document([record(i, 10.0) for i in range(1, 4)], end=',\n\t\t\t\t{\n\t\t\t\t\t"timest'))
    rows = read("iostat", path)
    assert len(pick(rows, metric="read_ops")) == 3
    assert {key[2] for key in rows} == {"oss1:sda"}


def test_damage_is_named_by_line(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "io.json"
    text = document([record(i, 10.0) for i in range(1, 4)])
    path.write_text(text.replace('"r/s": 10.0', '"r/s": "many"', 1))
    with pytest.raises(CorruptInput, match="line 8"):
        read("iostat", path)
    path.write_text(text.replace('"disk": [', '"disk": 7, "x": [', 1))
    with pytest.raises(CorruptInput, match="list"):
        read("iostat", path)
    path.write_text(document([], lead="\n"))
    with source_error("EmptyInput"):
        read("iostat", path)


_SADC = Path("/usr/lib/sysstat/sadc")
SECOND = 10**9


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
    ("text", "kind", "message"),
    [
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00"), "CorruptInput", "line 2: expected .* numbers"),
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00;5.00;6.00"), "CorruptInput", "line 2"),
        (table("h;1;1794724337;sda;1.00;2.00;3.00;4.00;much"), "CorruptInput", "line 2"),
        (table("h;one;1794724337;sda;1.00;2.00;3.00;4.00;5.00"), "CorruptInput", "line 2"),
        (table("h;99999999999;1794724337;sda;1.00;2.00;3.00;4.00;5.00"), "CorruptInput", "interval"),
        (table("h;1;yesterday;sda;1.00;2.00;3.00;4.00;5.00"), "CorruptInput", "not a time"),
        (table("h;1;1;", header="tps;DEV;tps"), "UnsupportedVersion", "without -h"),
        ("# comment\n", "CorruptInput", "line 1"),
        (table(), "EmptyInput", "sadf -j"),
        (table("h;1;1794724337;3.00", header="kbmemfree"), "EmptyInput", "sadf -j"),
        ("h\t1\t1794724337\tsda\ttps\tmany\nx\n", "CorruptInput", "line 1.*between tabs"),
    ],
)
def test_what_is_refused(tmp_path: Path, read: Read, text: str, kind: str, message: str) -> None:
    path = tmp_path / "sa"
    path.write_text(text)
    with source_error(kind, match=message):
        read("sadf", path, zone="UTC")


def test_json_local_time_and_notes(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "sa.json"
    stamp = '{"date": "2026-11-15", "time": "06:32:17", "utc": 0, "interval": %d}'
    disk = '"disk": [{"disk-device": "sda", "tps": 1.0, "rkB": 2.0}]'
    records = [f'{{"timestamp": {stamp % 60}, {disk}}}', f'{{"timestamp": {stamp % 0}, {disk}}}', '{"x": 1}']
    head = '{"sysstat": {"hosts": [{"nodename": "oss1", "file-date": "2026-11-15", "statistics": ['
    path.write_text(head + ",\n".join(records) + "]}]}}\n")
    assert SOURCES["sadf"].detect(path.read_bytes(), path) == 0.9
    with source_error("UndatedInput", match="--zone"):
        read("sadf", path)
    rows = read("sadf", path, zone="UTC")
    assert set(rows.values()) == {2 * 1024 * 60.0}
    assert {key[2] for key in rows} == {"oss1:sda"}


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


BERLIN = ZoneInfo("Europe/Berlin")
UTC_STAMPS = ZoneInfo("UTC")


def utc_ns(*parts: int) -> int:
    return int(dt.datetime(*parts, tzinfo=dt.UTC).timestamp()) * 10**9  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("11/15/26 06:32:16", (2026, 11, 15, 6, 32, 16)),
        ("06/13/2020 02:15:01 PM", (2020, 6, 13, 14, 15, 1)),
        ("06/13/2020 12:15:01 AM", (2020, 6, 13, 0, 15, 1)),
        ("06/13/2020 12:15:01 PM", (2020, 6, 13, 12, 15, 1)),
        ("13.06.2020 14:15:01", (2020, 6, 13, 14, 15, 1)),
        ("05.06.2020 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("05-06-20 14.15.01", (2020, 6, 5, 14, 15, 1)),
        ("2020-06-05 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("2020/06/05 14:15:01", (2020, 6, 5, 14, 15, 1)),
        ("2026-11-15T06:32:16+0000", (2026, 11, 15, 6, 32, 16)),
        ("2026-11-15T06:32:16+0130", (2026, 11, 15, 5, 2, 16)),
        ("2026-11-15 06:32:17 UTC", (2026, 11, 15, 6, 32, 17)),
        ("1794724337", (2026, 11, 15, 6, 32, 17)),
    ],
)
def test_a_stamp_is_read(text: str, expected: tuple[int, ...]) -> None:
    assert StampReader("f", UTC_STAMPS).read(text, 1) == utc_ns(*expected)


@pytest.mark.parametrize(
    "text", ["13/13/26 06:00:00", "02/30/26 06:00:00", "11/15/26 25:00:00", "soon", "13:00:00 PM", "9" * 30, "11/15/26"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(CorruptInput, match="line 5"):
        StampReader("f", UTC_STAMPS).read(text, 5)


def test_autumn_hours_are_told_apart_by_order() -> None:
    reader = StampReader("f", BERLIN)
    stamps = [f"10/25/26 {time}:00" for time in ("01:30", "02:00", "02:30", "02:00", "02:30", "03:00")]
    read = [reader.read(stamp, 1) for stamp in stamps]
    assert [b - a for a, b in pairwise(read)] == [1800 * 10**9] * 5
    assert read[0] == utc_ns(2026, 10, 24, 23, 30)


@pytest.mark.parametrize(
    ("dates", "expected"),
    [
        (["05/06/26"], False),  # undecided: the C locale
        (["05/06/26", "05/07/26"], False),
        (["05/06/26", "06/06/26"], True),
        (["12/06/26", "13/06/26"], True),
        (["06/12/26", "06/13/26"], False),
        (["31/12/26"], True),
        (["12/31/26", "01/01/27"], False),
        (["30/06/26", "01/07/26"], True),
        (["00/06/26", "2026-06-05", ""], False),
        ([], False),
    ],
)
def test_the_file_tells_day_from_month(dates: list[str], expected: bool) -> None:
    assert is_day_first(dates) is expected
