"""What servers counted of a job: each operation once, whatever looks there were; and the answer that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from ioweather.core.tables import TABLES
from ioweather.facts.server_io import OperationTotals, server_io
from ioweather.job_io.job_page import draw_server_traffic

NS = 10**9
TABLE = TABLES["job_operations"]


def row(start: int, end: int, count: int, operation: str = "write", target: str = "fs1-OST0000", **more: Any) -> Any:
    moved = count << 20 if operation in ("read", "write") else None
    return {
        "start_ns": start * NS, "interval_ns": (end - start) * NS, "system": "fs1", "component_kind": "ost",
        "component": target, "job_key": "7", "job_id": 7, "cluster": None, "uid": None, "exe": None, "host": None,
        "operation": operation, "count": count, "bytes": moved, "time_ns": None, "histogram": None, "quality": 0,
        **more,
    }  # fmt: skip


def frame(*rows: Any) -> Any:
    return TABLE.frame({name: [row[name] for row in rows] for name in TABLE.names}, rows=len(rows))


def test_amounts_by_operation_and_target():
    found = server_io(
        frame(row(100, 160, 5), row(160, 200, 3), row(100, 160, 2, "read", "fs1-OST0001"), row(90, 95, 9, "open"))
    )
    assert found is not None
    assert found.operations == {
        "write": OperationTotals(8, 8 << 20),
        "read": OperationTotals(2, 2 << 20),
        "open": OperationTotals(9, 0),
    }
    assert found.targets == {"fs1-OST0000": OperationTotals(17, 8 << 20), "fs1-OST0001": OperationTotals(2, 2 << 20)}
    assert (found.start_ns, found.end_ns, found.systems) == (90 * NS, 200 * NS, ("fs1",))
    assert (found.read_bytes, found.write_bytes, found.restarted_rows) == (2 << 20, 8 << 20, 0)
    assert server_io(frame()) is None


@pytest.mark.parametrize("backwards", [False, True])
def test_what_lies_within_another_row_is_a_part_of_it(backwards: bool):
    """Lone lists of two moments, and a recording of the time between: the last list holds them all."""
    rows = [
        row(100, 150, 5, quality=64), row(150, 170, 2), row(100, 200, 9, quality=64), row(200, 250, 1, quality=2),
        row(150, 170, 4, target="fs1-OST0001"),
    ]  # fmt: skip
    found = server_io(frame(*(reversed(rows) if backwards else rows)))
    assert found is not None
    assert found.operations["write"].count == 9 + 1 + 4
    assert found.restarted_rows == 1


def test_the_times_of_many_rows_are_drawn_as_fewer_steps():
    found = server_io(frame(row(100, 160, 5), row(160, 200, 3, target="fs1-OST0001"), row(100, 160, 2, "read")))
    assert found is not None
    assert found.times == ((100 * NS, 160 * NS, 2 << 20, 5 << 20), (160 * NS, 200 * NS, 0, 3 << 20))
    many = server_io(frame(*(row(60 * i, 60 * i + 60, 1) for i in range(1000))))
    assert many is not None
    (chart,) = draw_server_traffic(many).charts
    assert len(chart.table.rows) <= 2 * 400
    moved = sum(rate for _, direction, rate in chart.table.rows if direction == "written")
    assert moved == pytest.approx(len(chart.table.rows) / 2 * (1 << 20) / 60)
