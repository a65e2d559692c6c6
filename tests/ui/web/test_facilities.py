"""What a server keeps: parts that are made once an hour, whatever comes in meanwhile."""

from __future__ import annotations

import threading
import time
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


def test_a_part_is_made_once_an_hour_and_nobody_waits_for_it(
    shown: Facilities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOMENT_SECONDS", 0.0)
    made: list[int] = []
    goes_on = threading.Event()

    def slowly(tell: Tell) -> bytes:
        tell("half of it")
        goes_on.wait(10)
        made.append(1)
        return b"there"

    assert shown.seldom("main", "k", slowly)[0] == b""
    while shown.seldom("main", "k", slowly) != (b"", "half of it"):
        time.sleep(0.01)
    goes_on.set()
    while shown.seldom("main", "k", slowly)[0] != b"there":
        time.sleep(0.01)
    assert shown.seldom("main", "k", slowly)[0] == b"there", "the hour is not over"
    assert made == [1]


def test_a_failure_is_told_and_tried_again(shown: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.0)
    answers = iter([DataUnavailable("nothing yet"), b"there"])

    def make(tell: Tell) -> bytes:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    with pytest.raises(DataUnavailable):
        shown.seldom("main", "k", make)
    assert shown.seldom("main", "k", make)[0] == b"there"


def test_only_so_many_are_kept(shown: Facilities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SELDOM", 2)
    for key in "abc":
        shown.seldom("main", key, lambda tell: b"x")
    assert [key for _, key in shown._seldom] == ["b", "c"]
