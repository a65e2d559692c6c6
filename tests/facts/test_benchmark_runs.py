"""Benchmark outputs and the logs they wrote."""

from __future__ import annotations

from typing import Any

import pytest
from planted_jobs import NS, T, planted

from ioweather.facts.bandwidth import Measured, find_log


def measured(**changes: Any) -> Measured:
    given: dict[str, Any] = {
        "start_ns": T,
        "end_ns": T + 5 * NS,
        "parameters": {"command": "/x/ior -w -o f", "tasks": 8},
    }
    given |= changes
    return Measured("d", "ior", "write", 1.0, 1, given["start_ns"], given["end_ns"], given["parameters"])


def find(logs: list[dict[str, Any]], **changes: Any) -> tuple[int | None, str]:
    full = [{"exe": "/opt/ior -w -o f", "nprocs": 8, "start_ns": T} | log for log in logs]
    return find_log(planted(full)["applications"], measured(**changes))


def test_the_nearest_log_in_time_is_taken() -> None:
    assert find([{"start_ns": T + 2 * NS}, {"start_ns": T + NS // 4}]) == (1, "matched")
    assert find([{}, {"start_ns": T + NS // 20}]) == (None, "ambiguous")


@pytest.mark.parametrize("other", [{"nprocs": 4}, {"exe": "/opt/ior -r -o f"}, {"start_ns": T + 100 * NS}])
def test_what_does_not_fit(other: dict[str, Any]) -> None:
    assert find([other]) == (None, "no_log")


def test_without_times_the_command_must_single_one_out() -> None:
    undated = {"start_ns": None, "end_ns": None}
    assert find([{}, {"exe": "else"}], **undated) == (0, "matched")
    assert find([{}, {}], **undated) == (None, "ambiguous")
    assert find([{"exe": None}], **undated) == (None, "no_log")
