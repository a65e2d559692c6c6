"""A clock that is set, and counters that appear late: never traffic."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, NS
from ioweather.ingestion.reading import Cadence, Reading, _noted, read_batch
from ioweather.readers.prometheus.mapping import Amounts, Mappings

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


@pytest.mark.parametrize("step", [14 * 86_400, 20 * 365 * 86_400 // 2, 3600])
def test_a_clock_step_in_iostat_is_left_out_and_said(step: int, tmp_path: Path) -> None:
    path = tmp_path / "iostat.txt"
    path.write_text(iostat([T0 - step + 60 * n for n in range(5)] + [T0 + 60 * n for n in range(5)]))
    outcome, rows = read(path)
    assert outcome.status == "ok"
    assert "longer than 10 times the usual interval" in (outcome.message or "")
    assert max(row["interval_ns"] for row in rows) == 60 * NS
    assert len({row["start_ns"] for row in rows}) == 8


def test_a_clock_that_was_not_set_at_boot_gives_no_row_of_decades(tmp_path: Path) -> None:
    path = tmp_path / "boot.txt"
    path.write_text(iostat([60, T0, T0 + 60]))
    _, rows = read(path)
    assert {row["interval_ns"] for row in rows} <= {60 * NS}
    path.write_text(iostat([0, 60, T0]))
    outcome, rows = read(path)
    assert all(row["interval_ns"] <= 366 * DAY_NS for row in rows)
    assert outcome.status != "ok" or "skipped" in (outcome.message or "").lower()


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


def test_a_gap_of_a_pushed_counter_is_no_traffic() -> None:
    mapped = Mappings().find(
        "node_disk_read_bytes_total", "node_disk_read_bytes_total", {"device": "sda", "instance": "n1"}
    )
    assert mapped is not None
    amounts = Amounts(by_minute=True)
    for moment, value in ((0, 5.0), (60, 6.0), (120, 7.0), (14 * 86_400, 1e14), (14 * 86_400 + 60, 1e14 + 2)):
        amounts.add("key", mapped, (T0 + moment) * NS, value)
    ((_, frame),) = amounts.rows()
    assert frame.array("value").tolist() == [1.0, 1.0, 2.0]
    assert amounts.gaps == 1
    # A server that is asked twice an hour is no gap.
    amounts = Amounts(by_minute=True)
    for n in range(4):
        amounts.add("key", mapped, (T0 + 1800 * n) * NS, 5.0 * n)
    ((_, frame),) = amounts.rows()
    assert frame.array("value").tolist() == [5.0, 5.0]


def test_the_bound_is_of_each_metric_and_from_its_first_frame() -> None:
    def frame(*intervals: int, metric: str = "read_bytes"):
        columns = {"start_ns": T0 * NS, "interval_ns": [i * NS for i in intervals], "system": "s",
                   "component_kind": "ost", "component": "c", "metric": metric, "value": 1.0, "quality": 0}  # fmt: skip
        return TABLES["series"].frame(columns, rows=len(intervals))

    def kept(*frames) -> list[int]:
        cadence = Cadence()
        return [cadence.leave_out_long(each).rows for each in frames]

    assert kept(frame(30, 30, 301, 300)) == [3]
    assert kept(frame(3000, metric="write_bytes"), frame(30, 30, 300)) == [1, 3]
    assert kept(frame(30, 30, 30, 3000), frame(301), frame(300)) == [3, 0, 1]
    assert kept(frame(5, 5, 5, 60)) == [4]


def test_rows_before_an_error_stay() -> None:
    columns = {"start_ns": T0 * NS, "interval_ns": 60 * NS, "system": "s", "component_kind": "ost", "component": "c",
               "metric": "read_bytes", "value": 1.0, "quality": 0}  # fmt: skip
    frame = TABLES["series"].frame(columns, rows=1)

    def pieces():
        yield "series", frame
        raise CorruptInput("damaged")

    found = []
    with pytest.raises(CorruptInput):
        found.extend(_noted(pieces(), Cadence(), []))
    assert found == [("series", frame)]
