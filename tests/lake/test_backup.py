"""A backup is the lake at one moment, whatever writers do; it comes back whole, or is refused."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from deltalake import DeltaTable
from store_lakes import DAY, series_frame

from ioweather.core.errors import LakeError
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.lake import layout
from ioweather.lake.copies import backup
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import check_lake, compact


@pytest.fixture
def lake(tmp_path):
    made = open_lake(tmp_path / "lake", create=True)
    layout.facility_file(made.root).write_text('name = "Here"\n')
    made.append("series", series_frame(np.arange(20.0).reshape(10, 2)), source="tts")
    return made


def rows(root) -> list[tuple[object, ...]]:
    with open_lake(root).snapshot() as snapshot:
        return snapshot.query("SELECT * FROM series ORDER BY ALL").fetchall()


def test_a_backup_is_a_lake_and_the_next_one_copies_only_what_is_new(lake, tmp_path):
    first = backup(lake, tmp_path / "copy")
    assert rows(tmp_path / "copy") == rows(lake.root)
    assert open_lake(tmp_path / "copy").facility.name == "Here"
    again = backup(lake, tmp_path / "copy")
    assert (again["copied_files"], again["kept_files"]) == (0, first["copied_files"])
    lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + DAY_NS), source="tts")
    third = backup(lake, tmp_path / "copy")
    assert third["copied_files"] == 2, "one data file, one commit"
    assert rows(tmp_path / "copy") == rows(lake.root)


def test_a_lake_with_checkpoints(lake, tmp_path):
    log = lake.root / "tables" / "series" / "_delta_log"
    for minute in range(4):
        lake.append("series", series_frame([[1.0]], start_ns=DAY + (100 + minute) * MINUTE_NS), source="tts")
        if minute in (1, 3):
            DeltaTable(str(log.parent)).create_checkpoint()
    for old in ("00000000000000000000.json", "00000000000000000001.json"):
        (log / old).unlink()  # Delta removes commits that a checkpoint covers, after a time
    assert len(list(log.glob("*.checkpoint.parquet"))) == 2
    backup(lake, tmp_path / "copy")
    assert rows(tmp_path / "copy") == rows(lake.root)
    backup(open_lake(tmp_path / "copy"), tmp_path / "new")
    assert rows(tmp_path / "new") == rows(lake.root)


def test_each_copy_is_one_moment_while_a_writer_and_a_sealer_go_on(lake, tmp_path):
    """The ledger is written after the rows it speaks of: in every copy what it lists is there."""
    stop = threading.Event()

    def write() -> None:
        for minute in range(200):
            frame = series_frame([[1.0]], start_ns=DAY + (100 + minute) * MINUTE_NS)
            lake.append("series", frame, source="tts")
            record(lake, [FileOutcome(f"/f{minute}", f"d{minute}", 1, "tts", "ok", {"series": 1})])
            if stop.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(6):
            if turn % 2:
                compact(lake, everything=True)
            backup(lake, tmp_path / "copy")
            assert check_lake(open_lake(tmp_path / "copy"))["damaged"] == []
            with open_lake(tmp_path / "copy").snapshot() as snapshot:
                listed = snapshot.scalar("SELECT count(*) FROM ingests")
                assert 20 + listed <= snapshot.scalar("SELECT count(*) FROM series") <= 20 + listed + 6
    finally:
        stop.set()
        writer.join()


def test_damage_is_found(lake, tmp_path):
    backup(lake, tmp_path / "copy")
    (part,) = (tmp_path / "copy" / "tables" / "series").rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.chmod(0o644)
    part.write_bytes(data)
    copy = open_lake(tmp_path / "copy")
    assert len(check_lake(copy)["damaged"]) == 1
    with pytest.raises(LakeError, match="damaged"):
        backup(copy, tmp_path / "new")
    assert not layout.is_lake(tmp_path / "new"), "what is not whole is no lake"
    part.unlink()
    assert len(check_lake(copy)["damaged"]) == 1
    backup(lake, tmp_path / "copy")  # what is missing is copied again
    assert check_lake(copy)["damaged"] == []


def test_an_interrupted_backup_leaves_the_one_before(lake, tmp_path, monkeypatch):
    from ioweather.lake import copies as module

    backup(lake, tmp_path / "copy")
    before = rows(tmp_path / "copy")
    lake.append("series", series_frame(np.ones((2, 1)), start_ns=DAY + DAY_NS), source="tts")
    original, seen = module._copy_file, []

    def break_off(source, target, top):
        if seen:
            raise KeyboardInterrupt
        seen.append(target)
        return original(source, target, top)

    monkeypatch.setattr(module, "_copy_file", break_off)
    with pytest.raises(KeyboardInterrupt):
        backup(lake, tmp_path / "copy")
    monkeypatch.undo()
    assert len(seen) == 1
    assert rows(tmp_path / "copy") == before
    assert check_lake(open_lake(tmp_path / "copy"))["damaged"] == []
    backup(lake, tmp_path / "copy")
    assert rows(tmp_path / "copy") == rows(lake.root)


@pytest.mark.parametrize("draft", [".lake.json.partial", ".facility.toml.partial"])
def test_a_first_backup_that_was_interrupted_goes_on(lake, tmp_path, draft):
    copy = tmp_path / "copy"
    backup(lake, copy)
    (copy / "lake.json").rename(copy / draft)
    assert backup(lake, copy)["copied_files"]
    assert not (copy / draft).exists()
    assert rows(copy) == rows(lake.root)


def test_what_is_no_backup_of_this_lake_is_not_touched(lake, tmp_path):
    with pytest.raises(LakeError, match="inside the lake"):
        backup(lake, lake.root / "copy")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("x")
    with pytest.raises(LakeError, match=r"a backup|another lake"):
        backup(lake, tmp_path / "mine")
    other = open_lake(tmp_path / "other", create=True)
    with pytest.raises(LakeError, match=r"a backup|another lake"):
        backup(lake, other.root)
    backup(other, tmp_path / "copy")
    with pytest.raises(LakeError, match="another lake"):
        backup(lake, tmp_path / "copy")


def test_a_copy_that_was_written_to_is_refused(lake, tmp_path):
    backup(lake, tmp_path / "copy")
    open_lake(tmp_path / "copy").append("series", series_frame([[5.0]], start_ns=DAY + DAY_NS), source="tts")
    with pytest.raises(LakeError, match="newer than the lake"):
        backup(lake, tmp_path / "copy")
    lake.append("series", series_frame([[7.0]], start_ns=DAY + DAY_NS), source="tts")
    with pytest.raises(LakeError, match="another history"):
        backup(lake, tmp_path / "copy")
