"""iostat -o JSON: finished, running, killed, and the first report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ioweather.core.errors import CorruptInput, EmptyInput

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


def test_running_and_killed(tmp_path: Path, read: Read, pick: Pick) -> None:
    path = tmp_path / "io.json"
    path.write_text(document([record(i, 10.0) for i in range(1, 4)], end=',\n\t\t\t\t{\n\t\t\t\t\t"timest'))
    rows = read("iostat", path)
    assert len(pick(rows, metric="read_ops")) == 3
    assert {key[2] for key in rows} == {"oss1:sda"}


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
