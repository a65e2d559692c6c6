"""The spool: whole lines whatever happens, one owner, a limit that is kept."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ioweather.agent import spool as module
from ioweather.agent.spool import Spool, SpoolBusy, row_line
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import UsageError
from ioweather.readers.segments import SPOOL


def event(n: int) -> str:
    return row_line("events", {"event_id": f"e{n}", "kind": "gap", "start_ns": n, "label": "x" * 50})


def open_spool(directory: Path, **options) -> Spool:
    return Spool(directory, "n1", "run1", **options)


def ids_in(path: Path) -> list[str]:
    return [id_ for _, frame in SPOOL.read(path, ReadContext()) for id_ in frame.text("event_id").tolist()]


def test_rows_are_flushed_then_closed_by_a_rename(tmp_path):
    spool = open_spool(tmp_path)
    spool.add(event(1))
    assert list(spool.segments.iterdir()) == [], "nothing is made before there is something to write"
    spool.flush(100)
    assert spool.closed_files() == []
    spool.add(event(2))
    spool.flush(200)
    spool.rotate(200, force=True)
    (segment,) = spool.closed_files()
    header = json.loads(segment.read_text().splitlines()[0])
    assert header["ioweather_spool"] == 1
    assert (header["host"], header["run_id"]) == ("n1", "run1")
    assert header["boot_id"]
    assert ids_in(segment) == ["e1", "e2"]
    assert (spool.written_rows, spool.files) == (2, 1)
    spool.close(300)


def test_segments_close_by_age_and_size(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_SEGMENT_BYTES", 2000)
    spool = open_spool(tmp_path, segment_ns=1000)
    spool.add(event(1))
    spool.flush(0)
    spool.rotate(999)
    assert spool.closed_files() == []
    spool.rotate(1000)
    assert len(spool.closed_files()) == 1
    for n in range(40):
        spool.add(event(n))
    spool.flush(1001)
    spool.rotate(1001)
    assert len(spool.closed_files()) == 2
    spool.add(event(99))
    spool.flush(5000)
    spool.rotate(10)
    assert len(spool.closed_files()) == 3, "a clock that went back closes the segment"
    spool.close(5000)


def test_one_owner_at_a_time(tmp_path):
    spool = open_spool(tmp_path)
    with pytest.raises(SpoolBusy, match=f"pid {os.getpid()} on n1, run run1.*--spool"):
        open_spool(tmp_path)
    spool.close(0)
    open_spool(tmp_path).close(0)


def test_what_a_killed_agent_left_is_closed_by_the_next_and_its_torn_line_is_dropped(tmp_path):
    code = (
        "import os, sys\nfrom pathlib import Path\nfrom ioweather.agent.spool import Spool\n"
        "spool = Spool(Path(sys.argv[1]), 'n1', 'r')\nspool.add(sys.argv[2])\nspool.flush(1)\n"
        'os.write(spool._fd, b\'{"table":"eve\')\nos.kill(os.getpid(), 9)\n'
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path), event(1)], check=False)
    assert done.returncode == -9
    spool = open_spool(tmp_path)
    (segment,) = spool.closed_files()
    assert ids_in(segment) == ["e1"]
    spool.close(0)


def test_rows_that_a_full_disk_does_not_take_wait_and_no_line_is_half(tmp_path, monkeypatch):
    spool = open_spool(tmp_path)
    spool.add(event(1))
    spool.flush(1)
    real = os.write
    room = [30]

    def little_room(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real(fd, bytes(data)[: room[0]])
        room[0] -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", little_room)
        spool.add(event(2))
        spool.flush(2)
    assert (spool.written_rows, spool.dropped_rows) == (1, 0)
    assert spool.message == "1 rows queued in memory: No space left on device"
    spool.add(event(3))
    spool.flush(3)
    assert spool.message == ""
    spool.rotate(3, force=True)
    assert ids_in(spool.closed_files()[0]) == ["e1", "e2", "e3"]
    spool.close(4)


def test_a_spool_that_was_removed_is_made_again_and_what_was_lost_is_counted(tmp_path):
    spool = open_spool(tmp_path / "spool")
    for n in range(3):
        spool.add(event(n))
    spool.flush(1)
    shutil.rmtree(tmp_path / "spool")
    spool.close_segment()
    assert (spool.written_rows, spool.dropped_rows) == (3, 3)
    assert "was removed" in spool.message
    spool.add(event(4))
    spool.flush(2)
    spool.close(3)
    assert [ids_in(path) for path in spool.segments.iterdir()] == [["e4"]]


@pytest.mark.parametrize("left", [b"", b'{"ioweather_sp'])
def test_a_segment_that_a_fault_left_without_a_whole_header_is_removed(tmp_path, left):
    open_spool(tmp_path).close(0)
    (tmp_path / "segments/.seg-n1-1-1.ndjson").write_bytes(left)
    spool = open_spool(tmp_path)
    assert spool.closed_files() == []
    assert list(spool.segments.iterdir()) == []
    spool.close(0)


def fill(spool: Spool, segments: int) -> None:
    for n in range(segments):
        for k in range(10):
            spool.add(event(10 * n + k))
        spool.flush(n + 1)
        spool.rotate(n + 1, force=True)


def test_the_newest_are_kept(tmp_path):
    spool = open_spool(tmp_path, limit_bytes=5000)
    fill(spool, 10)
    kept = [id_ for path in spool.closed_files() for id_ in ids_in(path)]
    assert kept[-1] == "e99"
    assert sum(path.stat().st_size for path in spool.closed_files()) <= 5000
    assert spool.dropped_rows + len(kept) == 100
    assert "dropped" in spool.message
    spool.close(0)


def test_files_are_in_the_order_of_time(tmp_path):
    spool = open_spool(tmp_path)
    for name in ("seg-n1-1700-2.ndjson", "seg-n2-900-1.ndjson", "seg-host-9-1000-10.ndjson", "seg-n1-1700-1.ndjson"):
        (spool.segments / name).write_text("")
    assert [path.name for path in spool.closed_files()] == [
        "seg-n2-900-1.ndjson", "seg-host-9-1000-10.ndjson", "seg-n1-1700-1.ndjson", "seg-n1-1700-2.ndjson",
    ]  # fmt: skip
    spool.close(0)


def test_a_place_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--spool"):
        open_spool(tmp_path / "file" / "spool")
