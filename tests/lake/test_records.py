"""Cached results: whole or not at all, and few of one place."""

from __future__ import annotations

import os

import pytest

from ioweather.lake import caches
from ioweather.lake.caches import read_record, write_record
from ioweather.lake.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


RECORD = {"a": [0.1, 2.0, 1e300], "words": ["x", "yz"], "none": None}


def files(lake) -> list:
    return sorted((lake.root / "records").iterdir())


def test_what_was_put_is_got(lake, monkeypatch):
    assert read_record(lake.root, "p", "k") is None
    write_record(lake.root, "p", "k", RECORD)
    assert read_record(lake.root, "p", "k") == RECORD
    assert read_record(lake.root, "p", "other") is None
    assert read_record(lake.root, "other", "k") is None
    monkeypatch.setattr(caches, "code_digest", lambda: "changed")
    assert read_record(lake.root, "p", "k") is None, "another version of the software works it out again"


def test_what_is_cut_or_damaged_is_not_there(lake):
    write_record(lake.root, "p", "k", RECORD)
    (file,) = files(lake)
    whole = file.read_bytes()
    for body in (b"", whole[:20], b"\xff" + whole):
        file.write_bytes(body)
        assert read_record(lake.root, "p", "k") is None
    write_record(lake.root, "p", "k", RECORD)
    assert read_record(lake.root, "p", "k") is not None


def test_of_one_place_few_are_held(lake):
    write_record(lake.root, "q", "k", RECORD)
    for number in range(5):
        write_record(lake.root, "p", f"k{number}", RECORD)
        for age, file in enumerate(sorted(files(lake), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(file, ns=(0, age))
    assert [bool(read_record(lake.root, "p", f"k{number}")) for number in range(5)] == [False, False, False, True, True]
    assert read_record(lake.root, "q", "k") is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_who_may_only_read_keeps_nothing(lake):
    lake.root.chmod(0o550)
    write_record(lake.root, "p", "k", RECORD)
    assert read_record(lake.root, "p", "k") is None
