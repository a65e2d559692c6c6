"""Answers of mmpmon: amounts between two of them, nodes and file systems, resets, what is refused and why."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from error_kinds import source_error
from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import parse_mmpmon, parse_mountstats
from ioweather.core.counters.growth import Target
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.tables import Quality
from ioweather.core.units import zone_named
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.reading import Reading, read_file
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.server_counters import MMPERFMON, MMPMON, MOUNTSTATS

NS = 10**9
START = 1_700_000_000


def answer(seconds: int, n: int, fs: str | None = "gpfs0", node: str = "node1", rc: int = 0) -> str:
    what, which = ("fs_io_s", f"_cl_ gpfs.site _fs_ {fs} _d_ 7 ") if fs else ("io_s", "")
    return (
        f"_{what}_ _n_ 10.0.0.1 _nn_ {node} _rc_ {rc} _t_ {START + seconds} _tu_ 500000 {which}"
        f"_br_ {n << 20} _bw_ {n} _oc_ {n} _cc_ {n} _rdc_ {n} _wc_ {n} _dir_ {n} _iu_ {n}\n"
    )


def rows(path: Path, **context: object) -> list[tuple[object, ...]]:
    columns = ("system", "component", "metric", "start_ns", "interval_ns", "value", "quality")
    read = MMPMON.read(path, ReadContext(**context))  # type: ignore[arg-type]
    return [tuple(row[name] for name in columns) for _, frame in read for row in frame.records()]


def test_amounts_between_answers(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(
        "_ver_ _n_ 10.0.0.1 _nn_ node1 _v_ 3 _lv_ 9 _vt_ 0\n"
        + answer(0, 5) + answer(0, 2, node="node2") + answer(60, 9) + answer(60, 2, node="node2")
    )  # fmt: skip
    assert MMPMON.detect(path.read_bytes(), path) == 0.95
    found = rows(path)
    start = START * NS + NS // 2
    assert ("gpfs0", "node1", "read_bytes", start, 60 * NS, 4 << 20, 0) in found
    assert {row[2]: row[5] for row in found if row[1] == "node1" and row[2] != "read_bytes"} == dict.fromkeys(
        ("write_bytes", "open_ops", "close_ops", "read_ops", "write_ops", "other_ops", "setattr_ops"), 4
    )
    assert {row[5] for row in found if row[1] == "node2"} == {0}
    assert SOURCES["mmpmon"] is MMPMON


def test_sums_of_a_node_and_resets(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(answer(0, 5, None) + answer(60, 2, None))
    assert {(row[0], row[5], row[6]) for row in rows(path) if row[2] == "read_ops"} == {("gpfs", 2, Quality.RESET)}
    assert {row[0] for row in rows(path, system="projects")} == {"projects"}


def test_answers_that_tell_nothing_are_counted(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(answer(0, 5) + answer(30, 0, rc=1) + "_fs_io_s_ _n_ 10.0.0.1 _rc_ 0 _t_ 5\n" + answer(60, 9))
    (outcome,) = (item for item in read_file(path, 0, Reading(ReadContext())) if isinstance(item, FileOutcome))
    assert (outcome.status, dict(outcome.rows)) == ("ok", {"series": 8})
    assert "1 response(s): fs_io_s returned status 1; 1 response(s): fs_io_s lacks counters" in (outcome.message or "")
    path.write_text(answer(0, 5))
    with source_error("EmptyInput", match=r"1 mmpmon response\(s\) but no differences"):
        rows(path)


def test_a_real_answer(samples: Path, tmp_path: Path):
    text = (samples / "gpfs" / "mmpmon_fs_io_s.txt").read_text()
    words = dict(re.findall(r"_(\w+)_ (\S+)", text))
    (sample,) = parse_mmpmon(text.splitlines())
    assert sample.target == Target(words["fs"], "host", words["nn"])
    assert sample.time_ns == int(words["t"]) * NS + int(words["tu"]) * 1000
    assert sample.counters["read_bytes"] == int(words["br"])
    assert sample.counters["write_ops"] == int(words["wc"])
    later = text.replace(words["t"], str(int(words["t"]) + 10)).replace(words["br"], str(int(words["br"]) + 4096))
    (tmp_path / "x").write_text(text.rstrip() + "\n" + later.rstrip() + "\n")
    assert {row[5] for row in rows(tmp_path / "x") if row[2] == "read_bytes"} == {4096}


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


def rows_of_mmperfmon(path: Path, **context: object) -> dict[tuple[str, str, str, str], list[float]]:
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
    assert rows_of_mmperfmon(path) == ratios
    assert rows_of_mmperfmon(path, interval_ns=10 * NS) == {
        **ratios,
        ("nsd1:disk7", "device", "disk7", "read_bytes"): [36000.0],
        ("fs1", "host", "nsd1", "write_bytes"): [72.0, 78.0],
    }
    assert MMPERFMON.detect(path.read_bytes(), path) == 0.95
    assert SOURCES["mmperfmon"] is MMPERFMON


def test_no_zone_one_row_and_damage(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text(TABLE)
    with source_error("UndatedInput", match="zone"):
        rows_of_mmperfmon(path, zone=None)
    path.write_text(TABLE.replace("  2 2019", "\n"))
    with source_error("EmptyInput", match="fewer than two rows"):
        rows_of_mmperfmon(path)
    path.write_text(TABLE.replace("10.0   15.0", "10.0"))
    with pytest.raises(CorruptInput, match="found 4 values for 5 columns"):
        rows_of_mmperfmon(path)
    path.write_text(TABLE.replace("Timestamp cpu_user", "Timestamp cpu_nobody"))
    with pytest.raises(CorruptInput, match="do not match the legend"):
        rows_of_mmperfmon(path)
    path.write_text(TABLE.replace("2019-01-11", "2019-13-11"))
    with pytest.raises(CorruptInput, match="an invalid date"):
        rows_of_mmperfmon(path)


@pytest.mark.shared
def test_real_tables_against_a_plain_look_at_the_lines(shared_data: Path):
    usage = shared_data / "gpfs" / "mmperfmon-usage.txt.gz"
    found = rows_of_mmperfmon(usage)
    lines = [line.split() for line in gzip.decompress(usage.read_bytes()).decode().splitlines() if "2019-" in line]
    assert len(lines) == 60
    (cpu,) = (values for (*_, metric), values in found.items() if metric == "cpu_ratio")
    assert cpu == pytest.approx([(float(words[2]) + float(words[3])) / 100 for words in lines])
    (memory,) = (values for (*_, metric), values in found.items() if metric == "memory_ratio")
    assert memory == pytest.approx([1 - float(words[6]) / float(words[4]) for words in lines])
    disks = shared_data / "gpfs" / "mmperfmon-nsdds.txt.gz"
    with pytest.raises(SourceError, match="the period of their sensor"):
        rows_of_mmperfmon(disks)
    found = rows_of_mmperfmon(disks, interval_ns=10 * NS)
    text = gzip.decompress(disks.read_bytes()).decode()
    names = [line.split("|")[2] for line in text.splitlines() if "|GPFSNSDDisk|" in line]
    totals: list[float] = []
    for block in text.split("Row ")[1:]:
        numbers = [list(map(float, line.split()[2:])) for line in block.splitlines() if "2019-" in line]
        totals += [6 * sum(column) for column in zip(*numbers, strict=True)]
    assert {key[2]: sum(values) for key, values in found.items()} == pytest.approx(
        dict(zip(names, totals, strict=True))
    )


def look(age: int, reads: int, writes: int = 0, queued: int = 0, path: str = "/scratch") -> str:
    return (
        "device sysfs mounted on /sys with fstype sysfs\n"
        f"device nas:/export mounted on {path} with fstype nfs4 statvers=1.1\n"
        f"\topts:\trw,vers=4.2\n\tage:\t{age}\n\tcaps:\tcaps=0xfff7\n\tevents:\t1 2 3\n"
        f"\tbytes:\t1 2 3 4 {reads << 20} {writes << 20} 7 8 \n\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)\n"
        "\txprt:\ttcp 0 0 1\n\tper-op statistics\n\t        NULL: 1 1 0 44 24 5 5 5\n"
        f"\t        READ: {reads} {reads} 0 100 200 {queued} {2 * reads} {4 * reads} 0\n"
        f"\t       WRITE: {writes} {writes} 0 100 200 0 0 0\n"
        f"\t     GETATTR: {10 * reads} {reads} 0 100 200 0 {reads} {reads}\n\t      LOOKUP: {reads} 5 0 1 1 0 0 0\n\n"
    )


def rows_of_mountstats(path: Path, **context: object) -> dict[tuple[str, int], dict[str, object]]:
    given = ReadContext(**{"host": "node7", **context})  # type: ignore[arg-type]
    return {
        (str(row["metric"]), int(str(row["start_ns"])) // NS): row
        for _, frame in MOUNTSTATS.read(path, given)
        for row in frame.records()
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nfs.txt"


def test_amounts_between_dated_looks(path: Path):
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(160, 8, queued=30)}")
    found = rows_of_mountstats(path)
    told = {metric: row["value"] for (metric, _), row in found.items()}
    assert told == {
        "read_bytes": 3 << 20, "write_bytes": 0, "read_ops": 3, "write_ops": 0, "getattr_ops": 30, "other_ops": 3,
        "request_ops": 36, "request_wait_seconds": 0.03, "read_rtt_seconds": 0.006, "read_busy_seconds": 0.012,
        "write_rtt_seconds": 0, "write_busy_seconds": 0, "metadata_rtt_seconds": 0.003, "metadata_busy_seconds": 0.003,
    }  # fmt: skip
    row = found["read_ops", START]
    assert (row["system"], row["component_kind"], row["component"]) == ("mount:/scratch", "host", "node7")
    assert (row["interval_ns"], row["quality"]) == (60 * NS, 0)


def test_a_mount_that_was_mounted_again(path: Path):
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(20, 9)}")
    row = rows_of_mountstats(path)["read_ops", START]
    assert (row["value"], row["quality"]) == (9, Quality.RESET)


def test_one_look_no_nfs_no_host_and_damage(path: Path):
    path.write_text(f"{START}\n" + look(100, 5))
    with source_error("EmptyInput", match="1 sample"):
        rows_of_mountstats(path)
    path.write_text("device sysfs mounted on /sys with fstype sysfs\n")
    with source_error("EmptyInput", match="no NFS mount"):
        rows_of_mountstats(path)
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(160, 8)}")
    with pytest.raises(SourceError, match="no host name"):
        rows_of_mountstats(path, host=None)
    path.write_text(f"{START}\n{look(100, 5)}".replace("age:\t100", "age:\tmany"))
    with pytest.raises(CorruptInput, match="many"):
        rows_of_mountstats(path)


def test_mounts_against_a_plain_look_at_the_lines(samples: Path):
    paths = sorted((samples / "nfs").iterdir())
    assert paths
    for path in paths:
        text = path.read_text()
        mounts = parse_mountstats(text.splitlines(), "x")
        blocks = [block for block in text.split("\ndevice ") if " fstype nfs" in block.partition("\n")[0]]
        blocks = [block for block in blocks if "statvers" in block.partition("\n")[0]]
        assert len(mounts) == len(blocks) > 0
        for mount, block in zip(mounts, blocks, strict=True):
            lines = {
                line.split(":")[0].strip(): line.split(":")[1].split() for line in block.splitlines()[1:] if ":" in line
            }
            assert mount.age_seconds == int(lines["age"][0])
            assert mount.counters["read_bytes"] == int(lines["bytes"][4])
            assert mount.counters["read_ops"] == int(lines["READ"][0])
            assert mount.times_us["write_busy_seconds"] == int(lines["WRITE"][7]) * 1000
        with source_error("EmptyInput", match=r"1 sample\(s\)"):
            rows_of_mountstats(path)
