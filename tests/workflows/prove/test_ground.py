"""What the proof does to a person's disk: bounded, recorded as it was done, and gone afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ioweather.core.errors import SourceError, UnsafePlace, UsageError
from ioweather.core.private_directory import PrivateDirectory
from ioweather.core.progress import silent
from ioweather.sources.darshan.recorded_calls import rows_of
from ioweather.workflows.prove import ground as module
from ioweather.workflows.prove import measure as measuring
from ioweather.workflows.prove.ground import Ground
from ioweather.workflows.prove.plan import Cause


@pytest.fixture
def ground(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "MOST_BYTES", module.LEAST_BYTES)
    with PrivateDirectory.at(tmp_path / "place") as folder:
        made = Ground(folder)
        made.prepare()
        yield made
        made.clear()
        assert folder.names() == []


@pytest.mark.parametrize(
    ("cause", "files", "requests"), [(Cause.NOTHING, 1, 4), (Cause.SMALL_REQUESTS, 1, 64), (Cause.MANY_FILES, 128, 128)]
)
def test_runs_write_the_same_bytes_in_their_own_way(ground, cause, files, requests):
    rows = rows_of([ground.run(cause).recorded()])
    assert len(rows) == files
    assert sum(row["WRITES"] for _, _, row in rows) == requests
    assert sum(row["BYTES_WRITTEN"] for _, _, row in rows) == ground.run_bytes == ground.written_bytes
    assert ground.folder.names() == ["data"]


def test_competitors_write_only_while_they_are_told_to_and_no_more_than_their_bound(ground, monkeypatch):
    monkeypatch.setattr(module, "COMPETITORS", 2)
    monkeypatch.setattr(module, "COMPETITOR_MOST_BYTES", module.COMPETITOR_FILE_BYTES)
    with ground.competitors() as others:
        sizes = lambda: [os.stat(f"other.{i}", dir_fd=ground.folder.fd).st_size for i in range(2)]  # noqa: E731
        time.sleep(0.1)
        assert sizes() == [0, 0]
        with others.writing():
            until = time.monotonic() + 20
            while sizes() != [module.COMPETITOR_FILE_BYTES] * 2 and time.monotonic() < until:
                time.sleep(0.05)
        assert sizes() == [module.COMPETITOR_FILE_BYTES] * 2
    assert all(process.poll() == 0 for process in others._running)


def test_a_full_file_system_is_refused_before_the_first_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MOST_BYTES", 1 << 60)
    with PrivateDirectory.at(tmp_path / "place") as folder:
        with pytest.raises(SourceError, match="free"):
            Ground(folder).prepare()
        assert folder.names() == []


def test_what_somebody_else_put_there_stays(ground):
    (ground.folder.path / "thesis.tex").write_text("mine")
    ground.clear()
    assert ground.folder.names() == ["thesis.tex"]
    (ground.folder.path / "thesis.tex").unlink()


def test_a_place_that_is_somebody_elses_link_is_refused(tmp_path):
    (tmp_path / "victim").mkdir()
    (tmp_path / ".ioweather-x").symlink_to(tmp_path / "victim")
    with pytest.raises(UnsafePlace), measuring._ground(tmp_path / ".ioweather-x"):
        pass
    assert list((tmp_path / "victim").iterdir()) == []


def test_what_a_killed_proof_left_is_removed(tmp_path):
    dead = tmp_path / f".ioweather-{measuring._NAME}{2**22 + 1}"
    alive = tmp_path / f".ioweather-{measuring._NAME}{os.getpid()}"
    for place in (dead, alive):
        place.mkdir()
        (place / "data").write_bytes(b"x")
    measuring._clear_left(tmp_path)
    assert not dead.exists()
    assert alive.exists()


def test_a_directory_that_is_none_is_refused(tmp_path):
    with pytest.raises(UsageError, match="not a directory"):
        measuring.measure(tmp_path / "absent", tmp_path, [Cause.NOTHING], silent)


def test_devices_below_a_partition_and_a_stack(tmp_path):
    disk = tmp_path / "sda"
    (disk / "sda1").mkdir(parents=True)
    (disk / "sda1" / "partition").write_text("1\n")
    stack = tmp_path / "dm-0"
    (stack / "slaves").mkdir(parents=True)
    (stack / "slaves" / "sda1").symlink_to(disk / "sda1")
    assert measuring._lowest(disk / "sda1") == {"sda"}
    assert measuring._lowest(stack) == {"sda"}
    assert measuring.devices_below(Path("/proc")) == ()
