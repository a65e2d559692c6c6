"""Segments read into tables: whole, torn, foreign, wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from error_kinds import source_error
from ioweather.agent.sensor import Operation, Origin, Timing, event_row, response_row, unfinished_row
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.readers.segments import SPOOL

HEADER = json.dumps({"ioweather_spool": 1, "host": "n1", "boot_id": "b", "run_id": "r"})
ORIGIN = Origin("n1", "/scratch", "mount:/scratch", "r")
READ = Operation("read", 1 << 20, "nocache")
SERIES = {"table": "series", "start_ns": 1, "interval_ns": 10, "system": "n1:sda", "component_kind": "device",
          "component": "sda", "metric": "read_bytes", "value": 512.0, "quality": 0}  # fmt: skip


def write(path: Path, *rows: dict | str, header: str = HEADER) -> Path:
    lines = [header, *(row if isinstance(row, str) else json.dumps(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def read(path: Path) -> dict[str, list[dict]]:
    found: dict[str, list[dict]] = {}
    for table, frame in SPOOL.read(path, ReadContext()):
        found.setdefault(table, []).extend(frame.records())
    return found


def response(**changes: object) -> dict:
    return {"table": "responses", **response_row(ORIGIN, READ, Timing(5, 700), 4, False), **changes}


def test_all_three_tables(tmp_path):
    path = write(
        tmp_path / "s", response(), SERIES,
        {"table": "events", **event_row("e", "gap", "away", 7, details={"a": 1})},
        {"table": "responses", **unfinished_row(ORIGIN, READ, "missed", 9, 9)},
    )  # fmt: skip
    found = read(path)
    assert found["responses"][0] == {**response_row(ORIGIN, READ, Timing(5, 700), 4, False)}
    assert found["responses"][1]["status"] == "missed"
    assert found["responses"][1]["duration_ns"] is None
    assert found["series"][0]["value"] == 512.0
    assert found["events"][0]["strength_ratio"] is None
    assert json.loads(found["events"][0]["details"]) == {"a": 1}


def test_a_torn_last_line_is_dropped(tmp_path):
    path = write(tmp_path / "s", SERIES, SERIES)
    whole = path.read_bytes()
    for cut in range(len(whole) - 2, len(whole) - len(json.dumps(SERIES)), -7):
        path.write_bytes(whole[:cut])
        assert len(read(path)["series"]) == 1
    path.write_bytes(whole[: len(HEADER) - 5])
    assert read(path) == {}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{nonsense", "line 2"),
        ("[1]", "expected an object"),
        ({"table": "jobs"}, "table 'jobs'"),
        ({}, "table None"),
        (response(colour="red"), "no column colour"),
        (response(op="swim"), "op = 'swim'"),
        (response(mode="x"), "mode"),
        (response(status="fine"), "status"),
        (response(start_ns=None), "start_ns"),
        (response(start_ns="5"), "start_ns"),
        (response(start_ns=1.5), "start_ns"),
        (response(start_ns=1 << 70), "start_ns"),
        (response(start_ns=True), "start_ns"),
        (response(cached=1), "cached"),
        ({**SERIES, "metric": "happiness"}, "metric"),
        ({**SERIES, "component_kind": "moon"}, "component_kind"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_line(tmp_path, row, message):
    with pytest.raises(CorruptInput, match=message):
        read(write(tmp_path / "s", row))


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_other_versions_are_refused(tmp_path, version):
    header = json.dumps({"ioweather_spool": version})
    with source_error("UnsupportedVersion", match="version"):
        read(write(tmp_path / "s", SERIES, header=header))
