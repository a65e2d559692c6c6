"""Causes that set our bandwidth apart from the time that passed."""

from __future__ import annotations

from typing import Any

import pytest
from planted_jobs import GIB, NS, T, planted

from ioweather.facts.bandwidth import bandwidth_caveats, passed_seconds


def row(**changes: Any) -> dict[str, Any]:
    base = {"read": GIB, "d_read_seconds": 1.0, "read_seconds": 4.0, "io": 1.0, "first_open_ns": T,
            "last_close_ns": T + NS, "first_read_ns": T + NS // 10, "last_read_ns": T + NS // 2}  # fmt: skip
    return planted([base | changes])["job_io"].records()[0]


def names(**changes: Any) -> set[str]:
    return set(bandwidth_caveats(row(**changes), "read"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"last_close_ns": T + 2 * NS}, {"ranks"}),
        ({"read_seconds": 0.4}, {"cache"}),
        ({"posix_io_seconds": 0.25}, {"layer"}),
        ({"d_s_definition": "per_file"}, {"spans"}),
        ({"partial": True}, {"partial"}),
        ({"written": GIB, "metadata_ratio": 0.8}, {"metadata"}),
        ({"d_read_seconds": None}, set()),
        ({"read": 0}, set()),
    ],
)
def test_each_cause(changes: dict[str, Any], expected: set[str]) -> None:
    assert names(**changes) == expected


def test_the_time_that_passed() -> None:
    assert passed_seconds(row(), "read") == pytest.approx(1.0)
    assert passed_seconds(row(written=GIB), "read") == pytest.approx(0.4)  # both: first to last read
    assert passed_seconds(row(first_open_ns=None, last_close_ns=None), "read") == pytest.approx(0.4)
    assert passed_seconds(row(first_open_ns=None, first_read_ns=None), "read") is None
