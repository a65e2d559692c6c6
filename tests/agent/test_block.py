"""Block devices over fake /proc and /sys trees: each byte once, wraps, removal, clocks that are set."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ioweather.agent.counters import BlockDevices
from live_reporter import HandClock, Heard

NAMES = ("sda", "sda1", "sdb", "sdb1", "md0", "dm-0", "nvme0n1", "loop0", "zram0", "sr0")


def write_counters(root: Path, counters: dict[str, int], sectors: dict[str, int] | None = None) -> None:
    """Each device has done `n` reads of 8 sectors."""
    lines = [f" 8 {i} {name} {n} 0 {(sectors or {}).get(name, 8 * n)} {n} 0 0 0 0 0 {n} {n}"
             for i, (name, n) in enumerate(counters.items())]  # fmt: skip
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/diskstats").write_text("\n".join(lines) + "\n")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two disks in a RAID with LVM on it, and one NVMe device."""
    for name in ("sda", "sdb", "md0", "dm-0", "nvme0n1", "loop0", "zram0", "sr0"):
        for relation in ("holders", "slaves"):
            (tmp_path / "sys/block" / name / relation).mkdir(parents=True)
    for disk in ("sda", "sdb"):
        (tmp_path / f"sys/block/{disk}/{disk}1/holders/md0").mkdir(parents=True)
        (tmp_path / f"sys/block/md0/slaves/{disk}1").mkdir()
    (tmp_path / "sys/block/md0/holders/dm-0").mkdir()
    (tmp_path / "sys/block/dm-0/slaves/md0").mkdir()
    write_counters(tmp_path, dict.fromkeys(NAMES, 100))
    return tmp_path


def source(root: Path, clock: HandClock, **options: object) -> BlockDevices:
    return BlockDevices(root=root, host="n1", clocks=clock.clocks, **options)


def cycles(block: BlockDevices, clock: HandClock, root: Path, counts: list[dict[str, int]]) -> Heard:
    heard = Heard()
    for counters in counts:
        write_counters(root, counters)
        block.cycle(0, heard)
        clock.pass_seconds(10)
    return heard


def read_ops(heard: Heard) -> list[tuple[str, int, int, float]]:
    return [(row["component"], row["start_ns"], row["interval_ns"], row["value"])
            for row in heard.of("series") if row["metric"] == "read_ops"]  # fmt: skip


def test_devices_below_count_and_what_lies_on_them_does_not(root):
    clock = HandClock()
    start = clock.wall_ns
    heard = cycles(source(root, clock), clock, root, [dict.fromkeys(NAMES, 100), dict.fromkeys(NAMES, 130)])
    assert read_ops(heard) == [(name, start, 10 * 10**9, 30.0) for name in ("sda", "sdb", "nvme0n1")]
    row = heard.of("series")[0]
    assert (row["system"], row["component_kind"], row["quality"]) == ("n1:sda", "device", 0)


def test_without_sysfs_all_that_stores_counts(root):
    import shutil

    shutil.rmtree(root / "sys")
    clock = HandClock()
    heard = cycles(source(root, clock), clock, root, [{"sda": 1, "loop0": 1}, {"sda": 2, "loop0": 2}])
    assert [row[0] for row in read_ops(heard)] == ["sda"]


def test_a_device_that_is_pulled_out_and_comes_back(root):
    clock = HandClock()
    block = source(root, clock)
    counts = [{"sda": 10, "sdb": 10}, {"sda": 20, "sdb": 20}, {"sda": 30}, {"sda": 40}, {"sda": 50, "sdb": 3},
              {"sda": 60, "sdb": 7}]  # fmt: skip
    start = clock.wall_ns
    heard = cycles(block, clock, root, counts)
    of_sdb = [row for row in read_ops(heard) if row[0] == "sdb"]
    assert [row[3] for row in of_sdb] == [10.0, 4.0], "nothing negative, nothing twice, nothing for the time away"
    assert [row[3] for row in read_ops(heard) if row[0] == "sda"] == [10.0] * 5
    opened, closed = heard.of("events")
    assert opened["event_id"] == closed["event_id"]
    assert (opened["kind"], opened["component"], opened["start_ns"], opened["end_ns"]) == (
        "gap", "sdb", start + 10 * 10**9, None)  # fmt: skip
    assert closed["end_ns"] == start + 40 * 10**9


def test_a_counter_that_wraps(root):
    clock = HandClock()
    block, heard = source(root, clock), Heard()
    for sectors in ((1 << 32) - 80, 80):
        write_counters(root, {"sda": 100}, {"sda": sectors})
        block.cycle(0, heard)
        clock.pass_seconds(10)
    moved = [row["value"] for row in heard.of("series") if row["metric"] == "read_bytes"]
    assert moved == [160 * 512]


def test_a_clock_that_is_set_makes_a_gap_and_no_row_twice(root):
    clock = HandClock()
    block, heard = source(root, clock), Heard()
    for n, jump in enumerate((0, 0, -3600, 0, 7200, 0)):
        clock.step_seconds(jump)
        write_counters(root, {"sda": 100 + 10 * n})
        block.cycle(0, heard)
        clock.pass_seconds(10)
    spans = sorted((start, start + length) for _, start, length, _ in read_ops(heard))
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
    assert all(value >= 0 for *_, value in read_ops(heard))
    labels = [event["label"] for event in heard.of("events")]
    assert len(labels) == 2
    assert "back" in labels[0]
    assert "forward" in labels[1]
