"""What IOR and mdtest printed in real runs, against what a person reads in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from ioweather.core.clock import parse_time_ns
from ioweather.core.contracts import ReadContext, Source
from ioweather.core.units import MIB
from ioweather.readers.benchmarks import IOR, MDTEST

UTC = ReadContext(zone=ZoneInfo("UTC"))


def rows(path: Path, source: Source, context: ReadContext = UTC) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {"benchmarks": [], "events": []}
    for table, frame in source.read(path, context):
        found[table] += frame.records()
    return found


def phases(path: Path) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in rows(path, IOR)["benchmarks"]}


@pytest.mark.shared
def test_recordings_of_others_by_hand(shared_data: Path) -> None:
    _check_the_run_of_2011_on_2048_processes(shared_data)
    _check_all_real_outputs_are_read_and_agree_with_their_own_summary(shared_data)
    _check_a_real_run_of_mdtest(shared_data)


def _check_the_run_of_2011_on_2048_processes(shared_data: Path) -> None:
    path = shared_data / "darshan/v2/350690.output"
    found = rows(path, IOR, ReadContext(zone=ZoneInfo("America/Chicago")))
    by_phase = {row["phase"]: row for row in found["benchmarks"]}
    printed = {"write": [2222.96, 2321.09, 2314.76, 2302.51], "read": [2878.55, 2939.11, 2910.44, 2903.94]}
    for access, values in printed.items():
        for iteration, value in enumerate(values):
            assert by_phase[f"{access}[{iteration}]"]["bytes_per_s"] == pytest.approx(value * MIB)
        assert by_phase[f"{access}[max]"]["bytes_per_s"] == pytest.approx(max(values) * MIB)
    # The mean of all eight, which the logs of this run are judged by.
    everything = [value for values in printed.values() for value in values]
    assert sum(everything) / 8 == pytest.approx(2599, abs=1)
    # open + transfer + close of the first write, which this version prints instead of their sum.
    assert by_phase["write[0]"]["duration_seconds"] == pytest.approx(0.427417 + 235.34 + 0.079745, abs=0.01)
    assert by_phase["write[0]"]["start_ns"] == parse_time_ns("2011-02-08T23:10:59-06:00")
    assert by_phase["read[3]"]["start_ns"] == parse_time_ns("2011-02-08T23:35:16-06:00")
    assert by_phase["run"]["end_ns"] >= parse_time_ns("2011-02-08T23:38:16-06:00")
    parameters = json.loads(by_phase["write[0]"]["parameters"])
    assert (parameters["tasks"], parameters["nodes"], parameters["tasks_per_node"]) == (2048, 2048, 1)
    assert parameters["repetitions"] == 4
    # Every iteration has its time, so the run as a whole is not marked as well.
    assert [event["label"] for event in found["events"]] == [
        f"ior {access}[{i}]" for i in range(4) for access in ("write", "read")
    ]
    assert {event["kind"] for event in found["events"]} == {"phase"}
    assert found["events"][0]["system"] == "mount:/intrepid-fs0/users/harms/scratch"


def _check_all_real_outputs_are_read_and_agree_with_their_own_summary(shared_data: Path) -> None:
    paths = sorted((shared_data / "darshan/real").glob("ior_*.out"))
    assert len(paths) == 19
    for path in paths:
        assert IOR.detect(path.read_bytes()[:65536], path) == 0.9
        found = phases(path)
        for access in ("write", "read"):
            best = found.get(f"{access}[max]")
            assert (best is None) == (f"{access}[0]" not in found)
            if best is not None:
                assert best["bytes_per_s"] == pytest.approx(found[f"{access}[0]"]["bytes_per_s"], abs=0.51 * MIB)


def _check_a_real_run_of_mdtest(shared_data: Path) -> None:
    path = shared_data / "darshan/real/mdtest.out"
    assert MDTEST.detect(path.read_bytes(), path) == 0.9
    found = rows(path, MDTEST)
    rates = {row["phase"]: (row["operation"], row["ops_per_s"]) for row in found["benchmarks"]}
    assert rates == {
        "run": (None, None),
        "file_creation": ("create", 26444.029),
        "file_stat": ("stat", 201691.654),
        "file_read": ("read", 81578.430),
        "file_removal": ("delete", 65389.130),
        "tree_creation": ("create", 24966.095),
        "tree_removal": ("delete", 288.110),
    }
    assert all(row["bytes_per_s"] is None for row in found["benchmarks"])
    (event,) = found["events"]
    assert event["label"] == "mdtest"
    assert event["start_ns"] == parse_time_ns("2026-11-15T07:04:40Z")
    assert event["end_ns"] == parse_time_ns("2026-11-15T07:04:42Z")
    assert {(row["start_ns"], row["end_ns"]) for row in found["benchmarks"]} == {(event["start_ns"], event["end_ns"])}
    parameters = json.loads(found["benchmarks"][1]["parameters"])
    assert parameters["times"] == "of the run"
    assert (parameters["tasks"], parameters["nodes"], parameters["items"]) == (8, 1, 1600)
