"""Executors: bounded work in flight, results in order, what a dead worker costs."""

from __future__ import annotations

import os
import time
from concurrent.futures import BrokenExecutor, Executor, Future

import pytest

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.lake.workers import Processes, in_order, open_executor, workers_of


def test_serial_and_processes_agree_in_order():
    inputs = [(n, 2) for n in range(40)]  # builtins, because workers cannot import this module
    with Processes(2) as pool:
        parallel = list(in_order(pool, pow, inputs))
    assert list(in_order(None, pow, inputs)) == parallel == [n * n for n in range(40)]


def test_inputs_are_drawn_only_as_needed():
    drawn = []

    def endless():
        for n in range(10**9):
            drawn.append(n)
            yield (n, 2)

    results = in_order(None, pow, endless())
    assert next(results) == 0
    assert len(drawn) <= 4
    results.close()


def test_an_error_in_a_task_comes_out():
    with pytest.raises(ZeroDivisionError):
        list(in_order(None, divmod, [(1, 0)]))


def test_a_task_that_kills_its_worker_costs_itself_alone():
    # Builtins again: eval counts, or ends its process.
    inputs = [(text,) for text in ("1", "2", "__import__('os')._exit(9)", "3", "4")]
    with Processes(2) as pool:
        found = list(in_order(pool, eval, inputs, lost=lambda text: "lost"))
    assert found == [1, 2, "lost", 3, 4]


def test_without_a_way_out_a_killed_worker_is_named_with_what_to_do():
    with Processes(2) as pool, pytest.raises(IoweatherError, match=r"A task crashed its worker.*memory.*again"):
        list(in_order(pool, os._exit, [(9,)]))


class LosesOne(Executor):
    """Stands for a cluster that has tried a task on several workers."""

    def submit(self, fn, /, *args, **kwargs):
        future: Future[object] = Future()
        if args == (2,):
            future.set_exception(BrokenExecutor())
        else:
            future.set_result(fn(*args))
        return future


def test_a_task_that_the_cluster_gave_up_costs_itself_alone():
    assert list(in_order(LosesOne(), abs, [(1,), (2,), (3,)], lost=lambda n: None)) == [1, None, 3]
    assert workers_of(LosesOne()) == 1


def test_stopping_does_not_wait_for_what_is_being_done():
    def stopped() -> None:
        with open_executor(workers=2) as pool:
            next(in_order(pool, time.sleep, [(0.01,), *[(900,)] * 3]))
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert time.monotonic() - began < 600  # not a timing: the naps are 15 minutes


def test_the_choices_exclude_each_other():
    with pytest.raises(UsageError, match="Use only one of"), open_executor(workers=2, dask="tcp://127.0.0.1:1"):
        pass
