"""What is looked at again in the background: one at a time, the first waits, errors are told."""

from __future__ import annotations

import threading
import time

import pytest

from ioweather.ui.web.facilities import Refreshed


def settled(value: Refreshed[int]) -> None:
    for _ in range(500):
        if value._thread is None:
            return
        time.sleep(0.01)
    raise AssertionError("never ended")


def test_the_first_waits_and_later_ones_get_what_is_there():
    gate, calls = threading.Event(), []

    def make() -> int:
        calls.append(1)
        if len(calls) > 1:
            gate.wait(20)
        return len(calls)

    value = Refreshed(make, seconds=0)
    assert value.get() == 1
    assert [value.get() for _ in range(5)] == [1] * 5  # while the second is being made, once
    assert len(calls) == 2
    gate.set()
    settled(value)
    value.seconds = 100
    assert value.get() == 2
    assert len(calls) == 2


def test_patience_has_an_end():
    gate = threading.Event()
    value = Refreshed(lambda: int(gate.wait(20)), seconds=100, patience_seconds=0.01)
    assert value.get() is None
    gate.set()
    settled(value)
    assert value.get() == 1


def test_an_error_is_told_until_the_next_try():
    answers = iter([ValueError("no"), 7])

    def make() -> int:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    value = Refreshed(make, seconds=0.2)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            value.get()
    time.sleep(0.25)
    assert value.get() == 7
