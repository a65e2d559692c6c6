"""Lustre snapshots to rows: exact intervals, restarts, states once an hour, cut and lone files."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import EmptyInput, SourceError, UndatedInput
from ioweather.sources.catalogue import SOURCES
from ioweather.sources.lustre.source import SOURCE
from ioweather.tables.series import Quality

NS = 10**9


def block(seconds: float, read: int, ost: str = "fs1-OST0000", more: str = "") -> str:
    whole, fraction = divmod(round(seconds * NS), NS)
    return (
        f"obdfilter.{ost}.stats=\nsnapshot_time             {whole}.{fraction:09} secs.nsecs\n"
        f"read_bytes                {read // 10} samples [bytes] 1 1048576 {read}\n{more}"
    )


def rows(path: Path, **context: object) -> dict[tuple[str, str, int], dict[str, object]]:
    found = {}
    for table, frame in SOURCE.read(path, ReadContext(**context)):  # type: ignore[arg-type]
        assert table == "series"
        for row in frame.records():
            key = (row["component"], row["metric"], row["start_ns"])
            assert key not in found
            found[key] = row
    return found


def test_amounts_in_the_exact_interval_between_snapshots(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000.25, 100) + block(1060.75, 400) + block(1121.5, 400))
    found = rows(path)
    first = found["fs1-OST0000", "read_bytes", 1000_250_000_000]
    assert (first["value"], first["interval_ns"], first["quality"]) == (300.0, 60_500_000_000, 0)
    assert (first["system"], first["component_kind"]) == ("fs1", "ost")
    assert found["fs1-OST0000", "read_ops", 1000_250_000_000]["value"] == 30.0
    assert found["fs1-OST0000", "read_bytes", 1060_750_000_000]["value"] == 0.0
    assert found["fs1-OST0000", "write_bytes", 1060_750_000_000]["value"] == 0.0  # no line: zero, not missing


def test_a_restart(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000, 500) + block(1060, 30) + block(1120, 70))
    found = rows(path)
    restart = found["fs1-OST0000", "read_bytes", 1000 * NS]
    assert (restart["value"], restart["quality"]) == (30.0, Quality.RESET)
    assert found["fs1-OST0000", "read_bytes", 1060 * NS]["quality"] == 0


def test_a_target_that_is_away_for_a_while(tmp_path: Path):
    other = "fs1-OST0001"
    path = tmp_path / "stats.txt"
    path.write_text(block(1000, 0) + block(1000, 0, other) + block(1060, 10) + block(1120, 20) + block(1120, 50, other))
    found = rows(path)
    away = found[other, "read_bytes", 1000 * NS]
    assert (away["value"], away["interval_ns"]) == (50.0, 120 * NS)


def test_states_once_an_hour(tmp_path: Path):
    path = tmp_path / "stats.txt"
    states = "".join(f"obdfilter.fs1-OST0000.{name}\n" for name in ("kbytestotal=8", "kbytesfree={}", "num_exports=3"))
    path.write_text("".join(block(3600 + 30 * i, 10 * i) + states.format(i) for i in range(200)))
    found = rows(path)
    free = {start: row["value"] for (_, metric, start), row in found.items() if metric == "free_bytes"}
    assert free == {3600 * NS: 0.0, 7200 * NS: 120 * 1024.0}
    clients = found["fs1-OST0000", "client_count", 3600 * NS]
    assert (clients["value"], clients["interval_ns"]) == (3.0, 60 * NS)


def test_a_file_that_is_cut_or_growing(tmp_path: Path):
    """Cut at any character: what it gives is what the whole file gives, only less."""
    counts = "sync                      {} samples [reqs]\n"
    whole = "".join(block(1000 + 60 * i, 100 + 70 * i * i, more=counts.format(i + 1)) for i in range(4))
    path = tmp_path / "stats.txt"
    path.write_text(whole)
    expected = rows(path)
    assert len(expected) == 3 * 5
    for cut in range(2 * len(whole) // 4, len(whole)):
        path.write_text(whole[:cut])
        try:
            found = rows(path)
        except EmptyInput:
            assert cut < 3 * len(whole) // 4
            continue
        assert all(expected[key] == row for key, row in found.items())


def test_gzip_and_dates_between(tmp_path: Path):
    path = tmp_path / "stats.txt.gz"
    text = "Mon Nov  5 10:00\n" + block(1000, 100) + "Mon Nov  5 10:01\n" + block(1060, 400)
    path.write_bytes(gzip.compress(text.encode()))
    assert SOURCE.detect(path.read_bytes()[:4096], path) == 0.95
    assert rows(path)["fs1-OST0000", "read_bytes", 1000 * NS]["value"] == 300.0


def test_one_snapshot_alone(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text(block(1000, 100))
    with pytest.raises(EmptyInput, match="at least two"):
        rows(path)
    path.write_text("")
    with pytest.raises(EmptyInput):
        rows(path)
    lone = tmp_path / "stats"
    lone.write_text("snapshot_time 1000.0 secs.usecs\nread_bytes 1 samples [bytes] 1 1 1\n")
    assert 0 < SOURCE.detect(lone.read_bytes(), lone) < 0.5
    with pytest.raises(SourceError, match="one snapshot of one target"):
        rows(lone)


def test_states_without_a_time(tmp_path: Path):
    path = tmp_path / "stats.txt"
    path.write_text("obdfilter.fs1-OST0000.kbytestotal=8\n")
    with pytest.raises(UndatedInput, match="--start"):
        rows(path)
    assert rows(path, start_ns=125 * NS)["fs1-OST0000", "capacity_bytes", 120 * NS]["value"] == 8192.0


def test_many_rows_come_in_several_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ioweather.sources.lustre.source._FRAME_ROWS", 50)
    path = tmp_path / "stats.txt"
    path.write_text("".join(block(1000 + 5 * i, 7 * i) for i in range(101)))
    frames = list(SOURCE.read(path, ReadContext()))
    assert len(frames) > 5
    total = sum(r["value"] for _, f in frames for r in f.records() if r["metric"] == "read_bytes")
    assert total == 700


def test_detection(tmp_path: Path):
    path = tmp_path / "x"
    path.write_text("x")
    assert SOURCE.detect(b"mdt.fs1-MDT0000.md_stats=\nsnapshot_time", path) == 0.95
    assert SOURCE.detect(b"hello = world", path) == 0.0
    assert SOURCE.detect(b"", tmp_path) == 0.0
    assert SOURCES["lustre"] is SOURCE


# --- real servers ---------------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_a_tree_alone_gives_states_only(shared_data: Path):
    root = shared_data / "lustre" / "2.10.8"
    assert SOURCE.detect(b"", root) == 0.9
    found = rows(root)
    assert {metric for _, metric, _ in found} == {
        "capacity_bytes", "capacity_files", "free_bytes", "free_files", "client_count",
    }  # fmt: skip


@pytest.mark.shared
@pytest.mark.parametrize("version", ["1.8.3", "2.10.8", "2.12.9_12", "gsi-2.x"])
def test_two_trees_of_every_version_give_amounts(shared_data: Path, tmp_path: Path, version: str):
    """The second copy is a minute later and has read or written a known amount more."""
    for name in ("a", "b"):
        shutil.copytree(shared_data / "lustre" / version, tmp_path / name)
    changed = 0
    for path in (tmp_path / "b").rglob("*stats"):
        if path.name not in ("stats", "md_stats") or "lnet" in path.parts:
            continue
        path.chmod(0o644)
        lines = []
        for line in path.read_text().splitlines():
            fields = line.split()
            if fields[0] == "snapshot_time":
                whole, _, fraction = fields[1].partition(".")
                fields[1] = f"{int(whole) + 60}.{fraction}"
            elif fields[0] == "write_bytes":
                fields[1], fields[6] = str(int(fields[1]) + 3), str(int(fields[6]) + 4096)
                changed += "exports" not in path.parts
            lines.append(" ".join(fields))
        path.write_text("\n".join(lines) + "\n")
    found = rows(tmp_path)
    written = [row for (_, metric, _), row in found.items() if metric == "write_bytes"]
    assert sorted({row["value"] for row in written}) == (
        [0.0, 4096.0] if 0.0 in {r["value"] for r in written} else [4096.0]
    )
    assert sum(row["value"] == 4096.0 for row in written) == changed > 0
    assert {row["interval_ns"] for row in written} == {60 * NS}
    assert {row["quality"] for row in found.values()} == {0}
