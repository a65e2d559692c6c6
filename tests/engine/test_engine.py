"""Executors: bounded work in flight, results as they come, a dead worker named."""

from __future__ import annotations

import os

import pytest

from ioweather.core.errors import IoweatherError
from ioweather.engine import Serial, in_order_of_completion, local_executor


def test_serial_and_processes_agree():
    inputs = [(n, 2) for n in range(40)]  # builtins, because workers cannot import this module
    serial = sorted(in_order_of_completion(Serial(), pow, inputs))
    with local_executor(2) as pool:
        parallel = sorted(in_order_of_completion(pool, pow, inputs, in_flight=3))
    assert serial == parallel == [n * n for n in range(40)]


def test_inputs_are_drawn_only_as_needed():
    drawn = []

    def endless():
        for n in range(10**9):
            drawn.append(n)
            yield (n, 2)

    results = in_order_of_completion(Serial(), pow, endless(), in_flight=4)
    assert next(results) in (0, 1, 4, 9)
    assert len(drawn) <= 4
    results.close()


def test_an_error_in_a_task_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(in_order_of_completion(Serial(), divmod, [(1, 0)]))


def test_a_killed_worker_is_named_with_what_to_do():
    with local_executor(2) as pool, pytest.raises(IoweatherError, match=r"worker process died.*again"):
        list(in_order_of_completion(pool, os._exit, [(9,)]))


def test_one_worker_needs_no_processes():
    assert isinstance(local_executor(1), Serial)
