"""`ioweather fs NAME --live`: newest rates of each target, from the lake and from the spool of the agent."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from ioweather.core.tables import TABLES, encode_text
from ioweather.core.units import MINUTE_NS, NS
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import run

MIB = 1 << 20
# Bytes and operations in the last interval of 10 s of each target.
LAST = {"OST0000": (40 * MIB, 10 * MIB), "OST0001": (10 * MIB, 50 * MIB), "OST0002": (20 * MIB, 0)}


def series(rows: list[tuple[int, str, str, str, float]], interval_ns: int = 10 * NS):
    start, kind, component, metric, value = zip(*rows, strict=True)
    count = len(rows)
    return TABLES["series"].frame(
        {
            "start_ns": np.array(start),
            "interval_ns": np.full(count, interval_ns),
            "system": encode_text(["scratch"] * count),
            "component_kind": encode_text(list(kind)),
            "component": encode_text([f"scratch-{name}" for name in component]),
            "metric": encode_text(list(metric)),
            "value": np.array(value, float),
            "quality": np.zeros(count, np.int64),
        }
    )


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Samples until 20 s ago; OST0002 has been silent for 5 min, and its server is known."""
    monkeypatch.setenv("IOWEATHER_SPOOL", str(tmp_path / "spool"))
    made = open_lake(tmp_path / "lake", create=True)
    (made.root / "facility.toml").write_text(
        '[filesystem.scratch]\n[filesystem.scratch.servers]\noss1 = ["scratch-OST0000", "scratch-OST0001"]\n'
    )
    now = time.time_ns() // NS * NS
    rows: list[tuple[int, str, str, str, float]] = []
    for name, (read, written) in LAST.items():
        end = now - (320 if name == "OST0002" else 20) * NS
        for back in range(1, 4):
            scale = 1.0 if back == 1 else 0.5
            at = end - back * 10 * NS
            rows += [(at, "ost", name, "read_bytes", scale * read), (at, "ost", name, "write_bytes", scale * written)]
            rows += [(at, "ost", name, "read_ops", 100.0)]
    rows += [(now - 30 * NS, "mdt", "MDT0000", metric, 500.0) for metric in ("open_ops", "getattr_ops")]
    made.append("series", series(rows), source="lustre")
    room = [(now - 10 * MINUTE_NS, "ost", "OST0000", "capacity_bytes", 100.0)]
    room += [(now - 10 * MINUTE_NS, "ost", "OST0000", "free_bytes", 20.0)]
    made.append("series", series(room, MINUTE_NS), source="selected")
    return made


def frame(lake: Lake, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    assert run(["fs", "scratch", "--live", "--lake", str(lake.root)]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_frame_has_the_newest_rate_of_each_target_and_its_server(lake: Lake, capsys) -> None:
    head, rates, _, _, *rows = frame(lake, capsys)
    assert "4 targets, 1 silent" in head
    assert rates == "newest samples: read 5 MiB/s  write 6 MiB/s  ops 120/s"
    assert all(len(line) <= 80 for line in (head, rates, *rows))
    assert [row.split()[0] for row in rows] == [
        "scratch-OST0001", "scratch-OST0000", "scratch-MDT0000", "scratch-OST0002",
    ]  # fmt: skip
    assert rows[1].split() == ["scratch-OST0000", "oss1", "4", "MiB/s", "1", "MiB/s", "10/s", "80%", "0", "s"]
    assert rows[-1].endswith("5 min")


def test_a_server_shows_its_targets_and_json_has_null_for_silent_ones(lake: Lake, capsys) -> None:
    assert run(["fs", "oss1", "--live", "--json", "--lake", str(lake.root)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["target"] for each in found["targets"]] == ["scratch-OST0000", "scratch-OST0001"]
    assert run(["fs", "scratch", "--live", "--json", "--lake", str(lake.root)]) == 0
    silent = next(each for each in json.loads(capsys.readouterr().out)["targets"] if each["is_silent"])
    assert (silent["target"], silent["read_bytes_per_s"], silent["ops_per_s"]) == ("scratch-OST0002", None, None)


def test_rows_in_the_spool_of_the_agent_are_newer_than_the_lake(lake: Lake, tmp_path: Path, capsys) -> None:
    segments = tmp_path / "spool" / "segments"
    segments.mkdir(parents=True)
    row = {
        "table": "series", "start_ns": time.time_ns() - 10 * NS, "interval_ns": 10 * NS, "system": "scratch",
        "component_kind": "ost", "component": "scratch-OST0000", "metric": "read_bytes", "value": 900.0 * MIB,
        "quality": 0,
    }  # fmt: skip
    (segments / "0001.ndjson").write_text('{"ioweather_spool": 1}\n' + json.dumps(row) + '\n{"table": "series", "sta')
    first = frame(lake, capsys)[4].split()
    assert first[0] == "scratch-OST0000"
    assert first[2:4] == ["90", "MiB/s"]


def test_an_unknown_name_is_an_error_with_a_way_out(lake: Lake, capsys) -> None:
    assert run(["fs", "scrach", "--live", "--lake", str(lake.root)]) == 1
    assert "Did you mean scratch?" in capsys.readouterr().err
