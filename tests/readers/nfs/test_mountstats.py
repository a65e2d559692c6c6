"""NFS mounts: what was counted, by an independent look at the lines; recordings, remounts, times that went wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.client_counters import parse_mountstats
from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, UndatedInput
from ioweather.core.tables import Quality
from ioweather.readers.gpfs_nfs import MOUNTSTATS
from ioweather.readers.reader_catalogue import SOURCES

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


def test_ages_tell_how_far_apart_undated_looks_are(path: Path):
    path.write_text(look(100, 5) + look(130, 8) + look(190, 9))
    with pytest.raises(UndatedInput, match="--start"):
        rows(path)
    found = rows(path, start_ns=START * NS)
    told = {start - START: row["value"] for (metric, start), row in found.items() if metric == "read_ops"}
    assert told == {0: 3, 30: 1}


def test_a_mount_that_was_mounted_again(path: Path):
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(20, 9)}")
    row = rows(path)["read_ops", START]
    assert (row["value"], row["quality"]) == (9, Quality.RESET)


def test_a_sum_that_went_below_zero_is_left_out(path: Path):
    path.write_text(f"{START}\n{look(100, 5)}{START + 60}\n{look(160, 8, queued=(1 << 64) - 7)}")
    found = rows(path)
    assert ("request_wait_seconds", START) not in found
    assert found["read_ops", START]["quality"] == 0


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


def test_cut_anywhere_it_gives_less_and_nothing_else(path: Path):
    whole = "".join(f"{START + 60 * n}\n{look(100 + 60 * n, 5 + n)}" for n in range(3))
    path.write_text(whole)
    expected = rows(path)
    for cut in range(len(whole) // 3, len(whole), 7):
        path.write_text(whole[:cut])
        try:
            found = rows(path)
        except EmptyInput:
            continue
        assert all(expected[key] == row for key, row in found.items())


def test_paths_with_blanks_and_detection(tmp_path: Path):
    (mount,) = parse_mountstats(look(1, 1, path="/my\\040data").splitlines(), "x")
    assert mount.path == "/my data"
    assert MOUNTSTATS.detect(look(1, 1).encode(), tmp_path / "x") == 0.9
    assert MOUNTSTATS.detect(b"a device mounted on something", tmp_path / "x") == 0.0
    assert SOURCES["mountstats"] is MOUNTSTATS


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


def test_one_export_mounted_twice_at_one_place_is_one_mount(tmp_path: Path):
    """The later covers the earlier. Looks have their times, so that the second mount begins none."""
    path = tmp_path / "mountstats"
    path.write_text(
        "".join(f"{START + 60 * n}\n" + look(100 + 60 * n, 7 * n * n) + look(50 + 60 * n, 5 * n) for n in range(4))
    )
    found = rows(path)
    reads = [found["read_ops", START + 60 * n] for n in range(3)]
    assert [(row["value"], row["quality"]) for row in reads] == [(5.0, 0)] * 3
