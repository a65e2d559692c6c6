"""NFS mounts: what was counted, by an independent look at the lines; recordings, remounts, times that went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import parse_mountstats
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError
from ioweather.core.tables import Quality
from ioweather.readers.server_counters import MOUNTSTATS

NS = 10**9
START = 1_700_000_000


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


def rows(path: Path, **context: object) -> dict[tuple[str, int], dict[str, object]]:
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
    found = rows(path)
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
    row = rows(path)["read_ops", START]
    assert (row["value"], row["quality"]) == (9, Quality.RESET)


def test_one_look_no_nfs_no_host_and_damage(path: Path):
    path.write_text(f"{START}\n" + look(100, 5))
    with pytest.raises(EmptyInput, match="1 look"):
        rows(path)
    path.write_text("device sysfs mounted on /sys with fstype sysfs\n")
    with pytest.raises(EmptyInput, match="no NFS mount"):
        rows(path)
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(160, 8)}")
    with pytest.raises(SourceError, match="which client"):
        rows(path, host=None)
    path.write_text(f"{START}\n{look(100, 5)}".replace("age:\t100", "age:\tmany"))
    with pytest.raises(CorruptInput, match="many"):
        rows(path)


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
        with pytest.raises(EmptyInput, match=r"1 look\(s\)"):
            rows(path)
