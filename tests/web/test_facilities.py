"""What a server keeps: parts that are made once an hour, whatever comes in meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.store.lake import open_lake
from ioweather.web import facilities as module
from ioweather.web.facilities import Facilities


@pytest.fixture
def shown(tmp_path: Path) -> Facilities:
    open_lake(tmp_path / "lake", create=True)
    return Facilities({"main": tmp_path / "lake"})


def test_a_part_is_made_once_an_hour_and_nobody_waits_for_the_next(
    shown: Facilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    goes_on = threading.Event()

    def first() -> bytes:
        made.append("first")
        return b"first"

    def second() -> bytes:
        goes_on.wait(10)
        made.append("second")
        return b"second"

    assert shown.seldom("main", "k", first) == b"first"
    assert shown.seldom("main", "k", second) == b"first", "the hour is not over"
    monkeypatch.setattr(module, "_SELDOM_SECONDS", -1.0)
    monkeypatch.setattr(shown, "answered", lambda name, key, make: make())  # as if rows had come
    assert shown.seldom("main", "k", second) == b"first", "it is being made"
    assert shown.seldom("main", "k", second) == b"first", "once"
    goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "seldom":
            thread.join(10)
    monkeypatch.setattr(module, "_SELDOM_SECONDS", 3600.0)
    assert shown.seldom("main", "k", first) == b"second"
    assert made == ["first", "second"]


def test_a_failure_is_told_and_not_kept(shown: Facilities) -> None:
    def fails() -> bytes:
        raise DataUnavailable("nothing yet")

    with pytest.raises(DataUnavailable):
        shown.seldom("main", "k", fails)
    assert shown.seldom("main", "k", lambda: b"there") == b"there"


def test_only_so_many_are_kept(shown: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SELDOM", 2)
    for key in "abc":
        shown.seldom("main", key, key.encode)
    assert [key for _, key in shown._seldom] == ["b", "c"]
