"""iostat -o JSON: finished, running, killed, and the first report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.errors import CorruptInput, EmptyInput, UndatedInput

START = 1794724336 * 10**9  # 2026-11-15 06:32:16 UTC
SECOND = 10**9

Read = Callable[..., dict[tuple[Any, ...], float | None]]
Pick = Callable[..., dict[int, float | None]]


def record(second: int, reads: float, **more: object) -> dict[str, object]:
    return {
        "timestamp": f"2026-11-15T06:32:{second:02}+0000",
        "disk": [{"disk_device": "sda", "r/s": reads, "rkB/s": reads * 4, "util": 10.0}],
        **more,
    }


def document(records: list[dict[str, object]], lead: str = "\n\n", end: str = "\n\t\t\t]\n\t\t}\n\t]\n}}\n") -> str:
    head = '{"sysstat": {\n\t"hosts": [\n\t\t{\n\t\t\t"nodename": "oss\\u0031",\n\t\t\t"date": "11/15/26",\n'
    return head + '\t\t\t"statistics": [' + lead + ",\n".join(json.dumps(r, indent=1) for r in records) + end


@pytest.mark.parametrize(("lead", "under_y"), [("\n\n\t", True), ("\n,\n\t", True), ("\n\t", False), ("", False)])
def test_first_report(tmp_path: Path, read: Read, pick: Pick, lead: str, under_y: bool) -> None:
    """sysstat 12 leaves an empty line, and 11 a comma, in place of the report that -y leaves out."""
    path = tmp_path / "io.json"
    path.write_text(document([record(i, 10.0 * i) for i in range(1, 4)], lead))
    reads = list(pick(read("iostat", path), metric="read_ops").values())
    assert reads == ([10.0, 20.0, 30.0] if under_y else [20.0, 30.0])


def test_running_and_killed(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    path.write_text(document([record(i, 10.0) for i in range(1, 4)], end=',\n\t\t\t\t{\n\t\t\t\t\t"timest'))
    rows = read("iostat", path)
    assert len(pick(rows, metric="read_ops")) == 3
    assert {key[2] for key in rows} == {"oss1:sda"}


def test_two_runs_in_one_file(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    first = document([record(i, 10.0) for i in range(1, 4)], lead="\n")
    second = document([record(i, 20.0) for i in range(40, 43)])
    path.write_text(first + second)
    assert list(pick(read("iostat", path), metric="read_ops").values()) == [10.0, 10.0, 20.0, 20.0, 20.0]


def test_sysstat_11_names(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    disk = {"disk_device": "sda", "rrqm": 1.0, "wrqm": 1.0, "r": 2.0, "w": 4.0, "rkB": 8.0, "wkB": 16.0,
            "avgqu-sz": 0.5, "await": 3.0, "r_await": 5.0, "w_await": 2.0, "svctm": 1.0, "util": 7.0}  # fmt: skip
    path.write_text(document([record(i, 0.0, disk=[disk]) for i in range(1, 4)]))
    rows = read("iostat", path)
    assert set(pick(rows, metric="write_bytes").values()) == {16 * 1024.0}
    assert set(pick(rows, metric="await_seconds").values()) == {0.003}


def test_damage_is_named_by_line(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "io.json"
    text = document([record(i, 10.0) for i in range(1, 4)])
    second = text.index('"r/s"', text.index('"r/s"') + 1)
    path.write_text(text[:second] + text[second:].replace('"r/s":', '"r/s"', 1))
    with pytest.raises(CorruptInput, match=f"line {text[:second].count(chr(10)) + 1}:"):
        read("iostat", path)
    path.write_text(text.replace('"r/s": 10.0', '"r/s": "many"', 1))
    with pytest.raises(CorruptInput, match="line 8"):
        read("iostat", path)
    path.write_text(text.replace('"disk": [', '"disk": 7, "x": [', 1))
    with pytest.raises(CorruptInput, match="list"):
        read("iostat", path)
    path.write_text(document([], lead="\n"))
    with pytest.raises(EmptyInput):
        read("iostat", path)


def test_day_first_and_undated(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    days = [record(1, 1.0, timestamp=f"{day}/06/26 00:00:00") for day in ("11", "12", "13")]
    path.write_text(document(days))
    assert {key[1] for key in read("iostat", path, zone="UTC")} == {86400 * SECOND}
    undated = [{key: value for key, value in record(1, float(i)).items() if key != "timestamp"} for i in range(3)]
    path.write_text(document(undated))
    with pytest.raises(UndatedInput, match="--start and --interval"):
        read("iostat", path)
    assert pick(read("iostat", path, start_ns=0, interval_ns=SECOND), metric="read_ops") == {
        0: 0.0, SECOND: 1.0, 2 * SECOND: 2.0
    }  # fmt: skip


def test_small_pieces_make_the_same_rows(tmp_path: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "io.json"
    path.write_text(document([record(i, 10.0 * i) for i in range(1, 40)]))
    whole = read("iostat", path)
    monkeypatch.setattr("ioweather.readers.text_files._BLOCK_BYTES", 100)
    assert read("iostat", path) == whole
