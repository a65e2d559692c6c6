"""Records of sealed days: whole or not at all, few of one place, and never code."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ioweather.lake import caches
from ioweather.lake.caches import read_record, write_record
from ioweather.lake.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


RECORD = {"a": np.arange(5.0), "words": np.array(["x", "yz"]), "none": np.zeros((0, 3), np.uint8)}


def files(lake) -> list:
    return sorted((lake.root / "records").iterdir())


def test_what_was_put_is_got(lake, monkeypatch):
    assert read_record(lake.root, "p", "k") is None
    write_record(lake.root, "p", "k", RECORD)
    found = read_record(lake.root, "p", "k")
    assert found is not None
    assert list(found) == list(RECORD)
    for name, values in RECORD.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype
    assert read_record(lake.root, "p", "other") is None
    assert read_record(lake.root, "other", "k") is None
    monkeypatch.setattr(caches, "code_digest", lambda: "changed")
    assert read_record(lake.root, "p", "k") is None, "another version of the software works it out again"


def test_what_is_cut_damaged_or_no_array_is_not_there(lake):
    write_record(lake.root, "p", "k", RECORD)
    (file,) = files(lake)
    whole = file.read_bytes()
    for body in (b"", whole[:20], whole[:-40], whole.replace(np.float64(3.0).tobytes(), np.float64(9.0).tobytes())):
        file.write_bytes(body)
        assert read_record(lake.root, "p", "k") is None
    np.savez(file, a=np.array([print], dtype=object))
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
