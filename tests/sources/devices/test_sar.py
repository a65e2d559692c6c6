"""sar as it prints, and its daily files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ioweather.core.clock import parse_time_ns, zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, UndatedInput, UnsupportedVersion
from ioweather.core.units import KIB, NS
from ioweather.sources.devices.sar import SOURCE
from ioweather.tables import concat
from ioweather.workflows.ingest.reading import choose_source

_SADC = Path("/usr/lib/sysstat/sadc")
UTC = ReadContext(zone=zone_named("UTC"))
FIRST = "Linux 6.1.0 (oss1) \t11/15/26 \t_x86_64_\t(2 CPU)\n\n"
DISKS = (
    "23:59:00          DEV       tps     rkB/s     wkB/s     dkB/s   areq-sz    aqu-sz     await     %util\n"
    "23:59:30          sda     10.00    100.00    200.00      0.00     30.00      0.41      0.66     24.00\n"
    "23:59:30          sdb      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00\n"
    "00:00:00          sda     20.00      1.00      2.00      0.00     30.00      0.00      0.50      5.00\n"
    "00:00:00          sdb      0.00      0.00      0.00      0.00      0.00      0.00      0.00      0.00\n"
    "\nAverage:          sda     15.00     50.00    101.00      0.00     30.00      0.20      0.60     14.50\n"
)
CPUS = (
    "\n11:59:00 PM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n"
    "12:00:00 AM     all     10.00      0.00     10.00      5.00      0.00     75.00\n"
    "12:00:00 AM       0     99.00      0.00      1.00      0.00      0.00      0.00\n"
)
MEMORY = "\n23:59:00    kbmemfree   kbavail kbmemused  %memused\n23:59:30       1000       900       500     33.33\n"


def read(tmp_path: Path, text: str, context: ReadContext = UTC) -> list[dict]:
    path = tmp_path / "sar.txt"
    path.write_text(text)
    assert choose_source(text.encode(), path) is SOURCE
    return concat([frame for _, frame in SOURCE.read(path, context)]).records()


def test_devices_and_cpus_over_midnight(tmp_path):
    rows = read(tmp_path, FIRST + MEMORY + DISKS + CPUS)
    written = {
        (row["component"], row["start_ns"]): (row["interval_ns"], row["value"])
        for row in rows
        if row["metric"] == "write_bytes" and row["component"] == "sda"
    }
    first = parse_time_ns("2026-11-15T23:59:00Z")
    assert written == {
        ("sda", first): (30 * NS, 200 * KIB * 30),
        ("sda", first + 30 * NS): (30 * NS, 2 * KIB * 30),
    }
    (cpu,) = [row for row in rows if row["metric"] == "cpu_ratio"]
    assert (cpu["start_ns"], cpu["interval_ns"], cpu["value"]) == (first, 60 * NS, pytest.approx(0.2))
    assert {row["system"] for row in rows if row["component"] == "sda"} == {"oss1:sda"}


def test_a_restart_begins_anew(tmp_path):
    text = FIRST + DISKS.split("\n00:00:00")[0] + "\n\n23:59:40  LINUX RESTART (2 CPU)\n\n"
    again = DISKS.replace("23:59:00", "23:59:50").replace("23:59:30", "23:59:55").split("\n00:00:00")[0] + "\n"
    starts = {row["start_ns"] for row in read(tmp_path, text + again)}
    assert starts == {parse_time_ns("2026-11-15T23:59:00Z"), parse_time_ns("2026-11-15T23:59:50Z")}


def test_what_is_refused(tmp_path):
    with pytest.raises(UndatedInput, match="--zone"):
        read(tmp_path, FIRST + DISKS, ReadContext())
    with pytest.raises(CorruptInput, match=r"line 4.*expected the numbers tps"):
        read(tmp_path, FIRST + DISKS.replace("10.00    100.00", "10.00"))
    path = tmp_path / "only"
    path.write_text(FIRST + MEMORY)
    with pytest.raises(EmptyInput):
        list(SOURCE.read(path, UTC))


def test_a_daily_file_without_sadf_names_the_command(tmp_path, monkeypatch):
    path = tmp_path / "sa15"
    path.write_bytes(b"\x96\xd5\x75\x21" + bytes(200))
    assert choose_source(path.read_bytes(), path) is SOURCE
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedVersion, match=r"sadf -j sa15 -- -d -b -u > sa15\.json"):
        list(SOURCE.read(path, UTC))


@pytest.mark.real
@pytest.mark.skipif(shutil.which("sadf") is None, reason="sysstat is not installed")
def test_a_damaged_daily_file_is_refused_with_what_sadf_says(tmp_path):
    path = tmp_path / "sa15"
    path.write_bytes(b"\x96\xd5\x75\x21" + bytes(200))
    with pytest.raises(UnsupportedVersion, match="sadf cannot read it"):
        list(SOURCE.read(path, UTC))


@pytest.mark.real
@pytest.mark.skipif(not _SADC.exists() or shutil.which("sadf") is None, reason="sysstat is not installed")
def test_a_daily_file_recorded_here(tmp_path):
    """What sadc records, against what sadf prints of it."""
    path = tmp_path / "sa15"
    subprocess.run([_SADC, "-S", "DISK", "1", "4", path], check=True, timeout=60)
    printed = subprocess.run(["sadf", "-d", "-U", path, "--", "-d"], capture_output=True, text=True, check=True).stdout
    expected = {}
    for line in printed.splitlines():
        if not line.startswith("#"):
            _, seconds, stamp, device, _, read, written, *_ = line.split(";")
            for metric, rate in (("read_bytes", read), ("write_bytes", written)):
                expected[device, int(stamp) * NS, metric] = float(rate) * KIB * int(seconds)
    assert expected
    rows = concat([frame for _, frame in SOURCE.read(path, ReadContext())]).records()
    found = {
        (row["component"], row["start_ns"] + row["interval_ns"], row["metric"]): row["value"]
        for row in rows
        if row["component_kind"] == "device" and row["metric"] in ("read_bytes", "write_bytes")
    }
    assert {key: found.get(key) for key in expected} == pytest.approx(expected)
