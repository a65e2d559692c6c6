"""Records of sealed days: whole or not at all, few of one place, and never code."""

from __future__ import annotations

import os

import numpy as np
import pytest

from ioweather.lake import caches
from ioweather.lake.caches import LakeRecords
from ioweather.lake.lake import open_lake


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


RECORD = {"a": np.arange(5.0), "words": np.array(["x", "yz"]), "none": np.zeros((0, 3), np.uint8)}


def files(lake) -> list:
    return sorted((lake.root / "records").iterdir())


def test_what_was_put_is_got(lake, monkeypatch):
    kept = LakeRecords(lake.root)
    assert kept.get("p", "k", dict) is None
    kept.put("p", "k", RECORD)
    found = kept.get("p", "k", dict)
    assert found is not None
    assert list(found) == list(RECORD)
    for name, values in RECORD.items():
        np.testing.assert_array_equal(found[name], values)
        assert found[name].dtype == values.dtype
    assert kept.get("p", "other", dict) is None
    assert kept.get("other", "k", dict) is None
    monkeypatch.setattr(caches, "__version__", "9.9")
    assert kept.get("p", "k", dict) is None, "another version of the software works it out again"


def test_what_is_cut_damaged_or_no_array_is_not_there(lake):
    kept = LakeRecords(lake.root)
    kept.put("p", "k", RECORD)
    (file,) = files(lake)
    whole = file.read_bytes()
    for body in (b"", whole[:20], whole[:-40], whole.replace(np.float64(3.0).tobytes(), np.float64(9.0).tobytes())):
        file.write_bytes(body)
        assert kept.get("p", "k", dict) is None
    np.savez(file, a=np.array([print], dtype=object))
    assert kept.get("p", "k", dict) is None
    kept.put("p", "k", RECORD)
    assert kept.get("p", "k", dict) is not None


def test_of_one_place_few_are_held(lake):
    kept = LakeRecords(lake.root)
    kept.put("q", "k", RECORD)
    for number in range(5):
        kept.put("p", f"k{number}", RECORD)
        for age, file in enumerate(sorted(files(lake), key=lambda path: path.stat().st_mtime_ns)):
            os.utime(file, ns=(0, age))
    assert [bool(kept.get("p", f"k{number}", dict)) for number in range(5)] == [False, False, False, True, True]
    assert kept.get("q", "k", dict) is not None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_who_may_only_read_keeps_nothing(lake):
    lake.root.chmod(0o550)
    LakeRecords(lake.root).put("p", "k", RECORD)
    assert LakeRecords(lake.root).get("p", "k", dict) is None
