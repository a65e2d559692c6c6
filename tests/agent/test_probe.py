"""The probe's cycle: what it does, in which order, how it survives trouble, and that every operation is a row."""

from __future__ import annotations

import errno
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path

import pytest

from ioweather.agent import probe, probe_files
from ioweather.agent.probe import Probe, ProbeSettings
from ioweather.core.errors import SourceError
from live_reporter import Heard

SMALL = ProbeSettings(file_bytes=4 << 20, pool_files=5)
OPERATIONS = ["read", "write", "write_sync", "stat", "file_read", "delete", "create"]


@pytest.fixture
def prepared(tmp_path):
    heard = Heard()
    made = Probe(str(tmp_path), SMALL, run_id="r1", host="n1")
    made.prepare(heard)
    return made


def run(source: Probe, cycles: int = 1) -> Heard:
    heard = Heard()
    for n in range(cycles):
        source.cycle(1000 + n, heard)
    return heard


def files_in(source: Probe) -> int:
    return sum(1 for _ in (source.folder / "pool").iterdir())


def status_of(heard: Heard) -> dict[str, tuple[str, int | None]]:
    return {row["op"]: (row["status"], row["errno"]) for row in heard.of("responses")}


def test_a_cycle_is_one_row_per_operation_in_order(prepared, tmp_path):
    heard = run(prepared)
    rows = heard.of("responses")
    assert [row["op"] for row in rows] == OPERATIONS == [kind.op for kind in prepared.operations]
    assert [op for op, _ in heard.begun if op in OPERATIONS] == OPERATIONS
    for row in rows:
        assert (row["host"], row["target"], row["run_id"], row["status"]) == ("n1", str(tmp_path), "r1", "ok")
        assert row["scheduled_ns"] == 1000
        assert row["duration_ns"] > 0
        assert row["system"].startswith("mount:/")
    sizes = {row["op"]: (row["request_bytes"], row["mode"]) for row in rows}
    assert sizes["read"] == sizes["write"] == sizes["write_sync"] == (1 << 20, "nocache")
    assert sizes["create"] == sizes["file_read"] == (3901, "cache")
    assert sizes["stat"] == sizes["delete"] == (0, "cache")


def test_the_pool_keeps_its_size_and_takes_the_oldest(prepared):
    before = sorted(path.name for path in (prepared.folder / "pool").iterdir())
    run(prepared, 3)
    after = sorted(path.name for path in (prepared.folder / "pool").iterdir())
    assert len(after) == len(before) == 5
    assert after[:2] == before[3:]
    assert all((prepared.folder / "pool" / name).stat().st_size == 3901 for name in after)


def test_the_data_do_not_compress(prepared):
    run(prepared, 20)
    data = (prepared.folder / "data").read_bytes()
    assert len(data) == SMALL.file_bytes, "requests stay inside the file"
    assert len(zlib.compress(data)) > 0.99 * len(data)
    assert len({data[place : place + 4096] for place in range(0, len(data), 4096)}) == len(data) // 4096


def test_files_are_reused_and_removed(tmp_path):
    keeps = Probe(str(tmp_path), replace(SMALL, keep_files=True), host="n1")
    keeps.prepare(Heard())
    run(keeps, 2)
    keeps.finish(Heard())
    inode = (keeps.folder / "data").stat().st_ino
    again = Probe(str(tmp_path), SMALL, host="n1")
    again.prepare(Heard())
    assert (again.folder / "data").stat().st_ino == inode
    assert again.pool.newest == keeps.pool.newest + 1, (
        "goes on counting where the last one was (and one for the warm-up)"
    )
    again.finish(Heard())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["EIO", "ESTALE", "EDQUOT", "ENOSPC", "EACCES", "EROFS"])
def test_errors_are_results(prepared, monkeypatch, name):
    number = getattr(errno, name)

    def fails(*arguments, **options):
        raise OSError(number, name)

    with monkeypatch.context() as patch:
        for call in ("preadv", "pwritev", "stat", "unlink"):
            patch.setattr(os, call, fails)
        patch.setattr(os, "open", fails)
        heard = run(prepared, 2)
    assert len(heard.of("responses")) == 14
    assert set(status_of(heard).values()) == {("error", number)}
    assert set(status_of(run(prepared)).values()) == {("ok", None)}, "and all is well afterwards"


def test_a_failed_write_is_not_synced_and_a_failed_sync_is_not_a_failed_write(prepared, monkeypatch):
    def fails(*arguments):
        raise OSError(errno.EIO, "EIO")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fails)
        found = status_of(run(prepared))
    assert found["write"] == ("ok", None)
    assert found["write_sync"] == ("error", errno.EIO)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", fails)
        patch.setattr(os, "fdatasync", lambda fd: pytest.fail("nothing to sync"))
        found = status_of(run(prepared))
    assert found["write"] == found["write_sync"] == ("error", errno.EIO)


def test_a_pool_that_could_not_create_or_delete_comes_back_to_its_size(prepared, monkeypatch):
    def fails(*arguments, **options):
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch:
        patch.setattr(prepared.pool, "create", fails)
        run(prepared, 3)
    assert prepared.pool.size == 2
    run(prepared, 3)
    assert files_in(prepared) == prepared.pool.size == 5
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fails)
        run(prepared, 3)
    assert files_in(prepared) == 8
    run(prepared, 3)
    assert files_in(prepared) == prepared.pool.size == 5


@pytest.mark.parametrize("gone", ["folder", "pool", "data", "short"])
def test_files_that_somebody_deleted_are_made_again(prepared, monkeypatch, gone):
    monkeypatch.setattr(probe, "_PREPARE_AGAIN_NS", 0)
    if gone == "folder":
        shutil.rmtree(prepared.folder)
    elif gone == "pool":
        shutil.rmtree(prepared.folder / "pool")
    elif gone == "data":
        (prepared.folder / "data").unlink()
    else:
        os.truncate(prepared.folder / "data", 0)
    first = status_of(run(prepared))
    assert "error" in {status for status, _ in first.values()}
    assert set(status_of(run(prepared)).values()) == {("ok", None)}
    assert (prepared.folder / "data").stat().st_size == SMALL.file_bytes
    assert files_in(prepared) == 5


def test_nothing_is_made_on_the_disk_below_a_mount_that_is_gone(prepared, monkeypatch):
    monkeypatch.setattr(probe, "_PREPARE_AGAIN_NS", 0)
    shutil.rmtree(prepared.folder)
    with monkeypatch.context() as patch:
        patch.setattr(probe_files, "mount_point", lambda path: "/elsewhere")
        for _ in range(3):
            assert status_of(run(prepared))["read"] == ("error", errno.ENOENT)
        assert not prepared.folder.exists()
    assert set(status_of(run(prepared)).values()) == {("ok", None)}, "mounted again"


def test_a_mount_that_is_required_and_not_there(tmp_path, monkeypatch):
    """Not when it begins, and not after it was unmounted; as soon as it is mounted, all is well."""
    made = Probe(str(tmp_path), SMALL, "r", host="n1", required_mount=str(tmp_path))
    with pytest.raises(SourceError, match="is not mounted"):
        made.prepare(Heard())
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(probe_files, "mount_point", lambda path: str(tmp_path))
    made.prepare(Heard())
    assert made.folder.exists()
    made.finish(Heard())
    below = Probe(str(tmp_path), SMALL, "r", host="n1", required_mount="/")
    below.prepare(Heard())
    below.finish(Heard())


def test_no_more_room_is_said_before_the_first_byte(tmp_path, monkeypatch):
    real = os.statvfs(tmp_path)
    few = os.statvfs_result((*real[:4], 100, *real[5:]))
    monkeypatch.setattr(os, "statvfs", lambda path: few)
    source = Probe(str(tmp_path), SMALL)
    with pytest.raises(SourceError, match="free"):
        source.prepare(Heard())
    assert not (source.folder / "data").exists()


def test_a_file_system_that_runs_full_while_filling_is_not_left_full(tmp_path, monkeypatch):
    def fails(*arguments):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", fails)
    source = Probe(str(tmp_path), SMALL)
    with pytest.raises(OSError, match="full"):
        source.prepare(Heard())
    assert not (source.folder / "data").exists()


class TestAccess:
    """How requests reach storage is found out."""

    def test_memory_file_systems_say_that_they_cache(self, tmp_path):
        if not Path("/dev/shm").is_dir():
            pytest.skip("no /dev/shm")
        folder = Path("/dev/shm", f"ioweather-test-{os.getpid()}")
        folder.mkdir()
        try:
            source = Probe(str(folder), SMALL)
            ready = source.prepare(Heard())
            rows = {row["op"]: row["cached"] for row in run(source).of("responses")}
        finally:
            shutil.rmtree(folder)
        assert ready.access == "cached"
        assert "memory" in ready.message
        assert (rows["read"], rows["write"], rows["write_sync"]) == (True, True, True)


class TestResidency:
    def test_pages_come_and_go(self, tmp_path):
        path = tmp_path / "file"
        path.write_bytes(os.urandom(1 << 20))
        fd = os.open(path, os.O_RDWR)
        try:
            os.fdatasync(fd)
            os.pread(fd, 1 << 20, 0)
            assert probe_files.resident_pages(fd, 0, 1 << 20) == 256
            probe_files.drop_pages(fd, 0, 1 << 20)
            left = probe_files.resident_pages(fd, 0, 1 << 20)
            if left:
                pytest.skip("this file system does not let its cache be emptied")
            os.pread(fd, 4096, 1 << 19)
            assert probe_files.resident_pages(fd, 1 << 19, 4096) == 1
        finally:
            os.close(fd)
