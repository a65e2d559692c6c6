"""What iostat, sadf and collectl printed on real machines, against what a person reads in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from error_kinds import source_error

START = 1794724336 * 10**9  # 2026-11-15 06:32:16 UTC
SECOND = 10**9
TWO_SECONDS = 2 * SECOND

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]


@pytest.mark.shared
def test_recordings_of_others_by_hand(shared_data: Path, tmp_path: Path, read: Read, pick: Pick) -> None:
    _check_extended_text_by_hand(shared_data, read, pick)
    _check_amounts_that_iostat_prints_are_taken_as_they_are(shared_data, read, pick)
    _check_sysstat_9(shared_data, tmp_path, read, pick)
    _check_semicolons_by_hand(shared_data, read, pick)
    _check_tabs_equal_semicolons(shared_data, read)
    _check_json_agrees_within_its_digits(shared_data, read, pick)
    _check_json_by_hand(shared_data, read, pick)
    _check_the_same_seconds_in_every_format_agree(shared_data, read, pick)


def _check_extended_text_by_hand(shared_data: Path, read: Read, pick: Pick) -> None:
    rows = read("iostat", shared_data / "iostat/iostat_t_k_x_2_4.txt", zone="UTC")
    # Four reports; the first is the average since boot. 12 metrics of vda and one of the host, three times.
    assert len(rows) == 3 * 13
    assert {key[:5] for key in rows} == {
        (START + i * TWO_SECONDS, TWO_SECONDS, *who)
        for i in range(3)
        for who in (("vm:vda", "device", "vda"), ("vm", "host", "vm"))
    }
    first = {metric: pick(rows, metric=metric).get(START) for metric in {key[5] for key in rows}}
    assert first["read_ops"] == pytest.approx(476.12 * 2)
    assert first["write_ops"] == pytest.approx(826.37 * 2)
    assert first["discard_ops"] == pytest.approx(24.38 * 2)
    assert first["flush_ops"] == pytest.approx(5.97 * 2)
    assert first["read_bytes"] == pytest.approx(309337.31 * 1024 * 2)
    assert first["write_bytes"] == pytest.approx(648149.25 * 1024 * 2)
    assert first["discard_bytes"] == pytest.approx(8272.64 * 1024 * 2)
    assert first["read_await_seconds"] == pytest.approx(0.00055)
    assert first["write_await_seconds"] == pytest.approx(0.00061)
    assert first["queue_length"] == 0.79
    assert first["busy_ratio"] == pytest.approx(0.2726)
    waited = 476.12 * 0.55 + 826.37 * 0.61 + 24.38 * 0.55
    assert first["await_seconds"] == pytest.approx(waited / (476.12 + 826.37 + 24.38) / 1000)
    assert list(pick(rows, metric="cpu_ratio", kind="host").values()) == [1.0, 1.0, 1.0]


def _check_amounts_that_iostat_prints_are_taken_as_they_are(shared_data: Path, read: Read, pick: Pick) -> None:
    rows = read("iostat", shared_data / "iostat/iostat_d_k_t.txt", zone="UTC")
    assert list(pick(rows, metric="read_bytes").values()) == [621808 * 1024, 1030300 * 1024, 822488 * 1024]
    assert list(pick(rows, metric="write_bytes").values()) == [1290492 * 1024, 1326992 * 1024, 878624 * 1024]
    # tps alone is neither reads nor writes.
    assert {key[5] for key in rows} == {"read_bytes", "write_bytes", "discard_bytes"}


def _check_sysstat_9(shared_data: Path, tmp_path: Path, read: Read, pick: Pick) -> None:
    """The lone report of the file is the average since boot; the same again, each after its time, is a sample."""
    first, reports = (shared_data / "iostat/legacy_sysstat9_el6.txt").read_text().split("\n", 1)
    path = tmp_path / "sysstat9.txt"
    with source_error("EmptyInput", match="average since boot"):
        path.write_text(f"{first}\n2013-01-01T00:00:00Z\n{reports.strip()}\n")
        read("iostat", path)
    path.write_text(path.read_text() + f"\n2013-01-01T00:01:00Z\n{reports.strip()}\n")
    rows = read("iostat", path)
    assert {key[2] for key in rows} == {"colin:sda", "colin:dm-0", "colin:dm-1", "colin:dm-2"}
    assert list(pick(rows, metric="read_bytes", component="sda").values()) == pytest.approx([0.74 * 1024 * 60])
    assert list(pick(rows, metric="write_bytes", component="dm-1").values()) == pytest.approx([23.26 * 1024 * 60])
    assert list(pick(rows, metric="await_seconds", component="dm-0").values()) == pytest.approx([0.20901])
    assert list(pick(rows, metric="busy_ratio", component="sda").values()) == pytest.approx([0.0109])
    assert pick(rows, metric="read_await_seconds") == {}


def _check_semicolons_by_hand(shared_data: Path, read: Read, pick: Pick) -> None:
    rows = read("sadf", shared_data / "iostat/sadf_d_disk.csv")
    assert len(rows) == 8 * 6
    assert {key[1:5] for key in rows} == {(SECOND, "vm:vda", "device", "vda")}
    assert list(pick(rows, metric="read_bytes")) == [START + i * SECOND for i in range(8)]
    assert pick(rows, metric="read_bytes")[START] == 619340.00 * 1024
    assert pick(rows, metric="write_bytes")[START + 7 * SECOND] == pytest.approx(1306.93 * 1024)
    assert pick(rows, metric="await_seconds")[START + 2 * SECOND] == pytest.approx(0.00573)
    assert pick(rows, metric="queue_length")[START + 2 * SECOND] == 6.20
    assert pick(rows, metric="busy_ratio")[START] == pytest.approx(0.352)
    assert "read_ops" not in {key[5] for key in rows}


def _check_tabs_equal_semicolons(shared_data: Path, read: Read) -> None:
    folder = shared_data / "iostat"
    assert read("sadf", folder / "sadf_p_disk.tsv") == read("sadf", folder / "sadf_d_disk.csv")


def _check_json_agrees_within_its_digits(shared_data: Path, read: Read, pick: Pick) -> None:
    folder = shared_data / "iostat"
    from_json, disks = read("sadf", folder / "sadf_A.json"), read("sadf", folder / "sadf_d_disk.csv")
    assert {key for key in from_json if key[3] == "device"} == set(disks)
    for key, value in disks.items():
        # Printed to 0.01 kB or 0.01 sectors.
        assert from_json[key] == pytest.approx(value, rel=1e-9, abs=0.01 * 1024)
    totals = read("sadf", folder / "sadf_dU_b_epoch.csv")
    assert {key: value for key, value in from_json.items() if key[3] == "host" and key[5] != "cpu_ratio"} == totals
    # One disk: the host's total is the disk's.
    assert pick(totals, metric="read_bytes", kind="host") == pytest.approx(
        pick(from_json, metric="read_bytes", kind="device")
    )
    assert pick(totals, metric="read_ops", kind="host")[START] == 786.0
    assert len(pick(from_json, metric="cpu_ratio", kind="host")) == 8


def _check_json_by_hand(shared_data: Path, read: Read, pick: Pick) -> None:
    rows = read("iostat", shared_data / "iostat/iostat_x_t_y_1_3.json", zone="UTC")
    # It ran with -y, so the first of three reports is a sample.
    assert pick(rows, metric="read_bytes") == {
        START: 619892.00 * 1024, START + SECOND: 1840.00 * 1024, START + 2 * SECOND: 615748.00 * 1024
    }  # fmt: skip
    assert pick(rows, metric="busy_ratio")[START] == pytest.approx(0.392)
    assert pick(rows, metric="flush_ops")[START] == 8.0
    assert pick(rows, metric="await_seconds")[START + SECOND] == pytest.approx(
        (114 * 0.15 + 1006 * 0.26 + 27 * 0.26) / (114 + 1006 + 27) / 1000
    )
    assert pick(rows, metric="cpu_ratio", kind="host")[START] == 1.0
    with source_error("UndatedInput", match="--zone"):
        read("iostat", shared_data / "iostat/iostat_x_t_y_1_3.json")


def _check_the_same_seconds_in_every_format_agree(shared_data: Path, read: Read, pick: Pick) -> None:
    """Tools that ran side by side looked at slightly different moments; sums over seconds hardly differ."""
    folder = shared_data / "iostat"
    start = 1794724336 * 10**9

    def volume(name: str, file: str, metric: str, seconds: range) -> float:
        rows = read(name, folder / file, zone="UTC", host="vm")
        inside = [key for key in rows if start + seconds[0] * 10**9 <= key[0] <= start + seconds[-1] * 10**9]
        assert sum(key[1] for key in inside if key[5] == metric and key[3] == "device") == len(seconds) * 10**9
        return sum(rows[key] or 0.0 for key in inside if key[5] == metric and key[3] == "device")

    six, three, later = range(6), range(3), range(2, 8)
    for metric in ("read_bytes", "write_bytes"):
        text = volume("iostat", "iostat_t_k_x_2_4.txt", metric, six)
        for file in ("iostat_t_k_x_iso.txt", "iostat_xtyNz_pALL.txt", "iostat_d_k_t.txt"):
            assert volume("iostat", file, metric, six) == pytest.approx(text, rel=0.01), (file, metric)
        # iostat and sadc woke up at different moments within the second: a disk at 0.6 GB/s moves much in half of one.
        sar = volume("sadf", "sadf_d_disk.csv", metric, six)
        assert text == pytest.approx(sar, rel=0.06), metric
        sar = volume("sadf", "sadf_d_disk.csv", metric, three)
        assert volume("iostat", "iostat_x_t_y_1_3.json", metric, three) == pytest.approx(sar, rel=0.06), metric
    # A burst of writes lies on the edge of collectl's first second; the reads do not.
    sar = volume("sadf", "sadf_d_disk.csv", "read_bytes", later)
    assert volume("collectl", "collectl_P_sD.csv", "read_bytes", later) == pytest.approx(sar, rel=0.03)
