"""A clock that is set, and counters that appear late."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

from ioweather.core.contracts import ReadContext
from ioweather.core.units import DAY_NS
from ioweather.ingestion.reading import Reading, read_batch

UTC = ReadContext(zone=ZoneInfo("UTC"), host="h")
T0 = 1_767_225_600


def read(path: Path):
    (outcome,), frames = read_batch([(str(path), path.stat().st_size)], Reading(UTC))
    rows = [row for pieces in frames.values() for frame in pieces for row in frame.records()]
    return outcome, rows


def iostat(moments: list[int]) -> str:
    text = "Linux 6.1.0 (n1) \t01/01/2026 \t_x86_64_\t(2 CPU)\n\n"
    for moment in moments:
        stamp = dt.datetime.fromtimestamp(moment, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S+0000")
        text += f"{stamp}\nDevice r/s rkB/s w/s wkB/s %util\nsda 10.00 100000.00 0.00 0.00 50.00\n\n"
    return text


def exposition(looks: list[tuple[int, int | None]]) -> str:
    return "".join(
        f"{moment}\nnode_disk_reads_completed_total{{device=\"sda\"}} {n}\n"
        + (f"node_disk_read_bytes_total{{device=\"sda\"}} {value}\n" if value is not None else "")
        for n, (moment, value) in enumerate(looks)
    )  # fmt: skip


def test_a_clock_that_was_not_set_at_boot_gives_no_row_of_decades(tmp_path: Path) -> None:
    path = tmp_path / "boot.txt"
    path.write_text(iostat([0, 60, T0]))
    outcome, rows = read(path)
    assert all(row["interval_ns"] <= 366 * DAY_NS for row in rows)
    assert (outcome.status, outcome.reason) == ("partial", "impossible_rows")


def test_a_step_between_two_reports_alone_is_flagged(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text(iostat([T0, T0 + 60, T0 + 14 * 86_400]).replace(iostat([T0 + 60])[51:], ""))
    _, rows = read(path)
    assert all(row["quality"] & 128 for row in rows if row["interval_ns"] > DAY_NS)


def test_a_counter_that_appears_late_has_no_growth_yet(tmp_path: Path) -> None:
    path = tmp_path / "late.prom"
    big = 500_000_003_000_000
    looks = [(T0 + 60 * n, None if n < 3 else big + 1000 * n) for n in range(6)]
    path.write_text(exposition(looks))
    _, rows = read(path)
    assert [row["value"] for row in rows if row["metric"] == "read_bytes"] == [1000.0, 1000.0]
