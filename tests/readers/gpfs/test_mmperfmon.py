"""Tables of mmperfmon: blocks of columns, units, means, and what a counter needs to be an amount."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ioweather.core.clock import zone_named
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.server_counters import MMPERFMON

NS = 10**9
UTC = zone_named("UTC")
LEGEND = (
    "\nLegend:\n 1:\tnsd1|CPU|cpu_user\n 2:\tnsd1|CPU|cpu_sys\n 3:\tnsd1|Memory|mem_total\n 4:\tnsd1|Memory|mem_free\n"
    " 5:\tnsd1|Network|lo|net_r\n 6:\tnsd1|GPFSNSDDisk|disk7|gpfs_nsdds_bytes_read\n"
    " 7:\tnsd1|GPFSFilesystem|cl1|fs1|gpfs_fs_bytes_written\n \n"
)
TABLE = (
    LEGEND + "Row           Timestamp cpu_user cpu_sys mem_total mem_free net_r \n"
    "  1 2019-01-11-10:00:00      0.2    0.6  200.0 MB  50.0 MB    1.7 kB \n"
    "  2 2019-01-11-10:01:00     10.0   15.0  200.0 MB  50.0 MB    null \n \n"
    "Row           Timestamp gpfs_nsdds_bytes_read gpfs_fs_bytes_written \n"
    "  1 2019-01-11-10:00:00    6000     12 \n"
    "  2 2019-01-11-10:01:00    null     13 \n"
)


def rows(path: Path, **context: object) -> dict[tuple[str, str, str, str], list[float]]:
    found: dict[tuple[str, str, str, str], list[float]] = {}
    given = ReadContext(**{"zone": UTC, **context})  # type: ignore[arg-type]
    for _, frame in MMPERFMON.read(path, given):
        for row in frame.records():
            assert row["interval_ns"] == 60 * NS
            key = (str(row["system"]), str(row["component_kind"]), str(row["component"]), str(row["metric"]))
            found.setdefault(key, []).append(float(str(row["value"])))
    return found


def test_ratios_are_means_and_counters_need_the_period_of_their_sensor(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(TABLE)
    ratios = {
        ("nsd1", "host", "nsd1", "cpu_ratio"): pytest.approx([0.008, 0.25]),
        ("nsd1", "host", "nsd1", "memory_ratio"): pytest.approx([0.75, 0.75]),
    }
    assert rows(path) == ratios
    assert rows(path, interval_ns=10 * NS) == {
        **ratios,
        ("nsd1:disk7", "device", "disk7", "read_bytes"): [36000.0],
        ("fs1", "host", "nsd1", "write_bytes"): [72.0, 78.0],
    }
    assert MMPERFMON.detect(path.read_bytes(), path) == 0.95
    assert SOURCES["mmperfmon"] is MMPERFMON


def test_no_zone_one_row_and_damage(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(TABLE)
    with pytest.raises(UndatedInput, match="zone"):
        rows(path, zone=None)
    path.write_text(TABLE.replace("  2 2019", "\n"))
    with pytest.raises(EmptyInput, match="less than two rows"):
        rows(path)
    path.write_text(TABLE.replace("10.0   15.0", "10.0"))
    with pytest.raises(CorruptInput, match="4 values in 5 columns"):
        rows(path)
    path.write_text(TABLE.replace("Timestamp cpu_user", "Timestamp cpu_nobody"))
    with pytest.raises(CorruptInput, match="not those of the legend"):
        rows(path)
    path.write_text(TABLE.replace("2019-01-11", "2019-13-11"))
    with pytest.raises(CorruptInput, match="no date that can be"):
        rows(path)


@pytest.mark.shared
def test_real_tables_against_a_plain_look_at_the_lines(shared_data: Path):
    usage = shared_data / "gpfs" / "mmperfmon-usage.txt.gz"
    found = rows(usage)
    lines = [line.split() for line in gzip.decompress(usage.read_bytes()).decode().splitlines() if "2019-" in line]
    assert len(lines) == 60
    (cpu,) = (values for (*_, metric), values in found.items() if metric == "cpu_ratio")
    assert cpu == pytest.approx([(float(words[2]) + float(words[3])) / 100 for words in lines])
    (memory,) = (values for (*_, metric), values in found.items() if metric == "memory_ratio")
    assert memory == pytest.approx([1 - float(words[6]) / float(words[4]) for words in lines])
    disks = shared_data / "gpfs" / "mmperfmon-nsdds.txt.gz"
    with pytest.raises(SourceError, match="the period of their sensor"):
        rows(disks)
    found = rows(disks, interval_ns=10 * NS)
    text = gzip.decompress(disks.read_bytes()).decode()
    names = [line.split("|")[2] for line in text.splitlines() if "|GPFSNSDDisk|" in line]
    totals: list[float] = []
    for block in text.split("Row ")[1:]:
        numbers = [list(map(float, line.split()[2:])) for line in block.splitlines() if "2019-" in line]
        totals += [6 * sum(column) for column in zip(*numbers, strict=True)]
    assert {key[2]: sum(values) for key, values in found.items()} == pytest.approx(
        dict(zip(names, totals, strict=True))
    )
