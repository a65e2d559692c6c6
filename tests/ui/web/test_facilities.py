"""What a server keeps: parts that are made once an hour, whatever comes in meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ioweather.core.errors import DataUnavailable
from ioweather.lake.lake import open_lake
from ioweather.ui.web import facilities as module
from ioweather.ui.web.facilities import Facilities, Tell


@pytest.fixture
def shown(tmp_path: Path) -> Facilities:
    open_lake(tmp_path / "lake", create=True)
    return Facilities({"main": tmp_path / "lake"})


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "seldom":
            thread.join(10)


def test_a_part_is_made_once_an_hour_and_nobody_waits_for_it(
    shown: Facilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOMENT_SECONDS", 0.0)
    made: list[str] = []
    goes_on = threading.Event()

    def make(name: str) -> Callable[[Tell], bytes]:
        def slowly(tell: Tell) -> bytes:
            tell("half of it")
            goes_on.wait(10)
            made.append(name)
            return name.encode()

        return slowly

    assert shown.seldom("main", "k", make("first"))[0] == b""
    while shown.seldom("main", "k", make("first")) != (b"", "half of it"):
        time.sleep(0.01)
    goes_on.set()
    wait_for_threads()
    assert shown.seldom("main", "k", make("second"))[0] == b"first", "the hour is not over"
    goes_on.clear()
    shown._seldom["main", "k"].until = 0.0
    assert shown.seldom("main", "k", make("second"))[0] == b"first", "it is being made"
    assert shown.seldom("main", "k", make("second"))[0] == b"first", "once"
    goes_on.set()
    wait_for_threads()
    assert shown.seldom("main", "k", make("third"))[0] == b"second"
    assert made == ["first", "second"]


def test_a_failure_is_told_once_and_not_kept(shown: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(tell: Tell) -> bytes:
        raise DataUnavailable("nothing yet")

    with pytest.raises(DataUnavailable):
        shown.seldom("main", "k", fails)
    assert shown.seldom("main", "k", lambda tell: b"there")[0] == b"there"
    shown._seldom["main", "k"].until = 0.0
    assert shown.seldom("main", "k", fails)[0] == b"there", "what there was is better than a complaint"


def test_only_so_many_are_kept(shown: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SELDOM", 2)
    for key in "abc":
        shown.seldom("main", key, lambda tell: b"x")
    assert [key for _, key in shown._seldom] == ["b", "c"]
