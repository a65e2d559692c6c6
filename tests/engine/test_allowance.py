"""A worker that computes without end is ended by the kernel; one that waits is not."""

from __future__ import annotations

import mmap
import signal
import sys
import time

import pytest

from ioweather.engine import Processes, allow, allow_anew, in_order
from ioweather.engine.allowance import _more_bytes

# Builtins again: spawned workers know no module of tests. All of them compute within C, where no Python runs.
_ALLOW = "__import__('ioweather.engine').engine.allow"
_LOOP = "__import__('collections').deque(iter(int, 1), maxlen=0)"


@pytest.fixture
def pool():
    with Processes(1) as made:
        yield made


def test_a_loop_is_ended_once_and_named(pool):
    inputs = [("1",), (f"({_ALLOW}(0.3), {_LOOP})",), ("3",)]
    assert list(in_order(pool, eval, inputs, lost=lambda text: f"overran: {pool.overran}")) == [
        1, "overran: True", 3
    ]  # fmt: skip


def test_other_deaths_are_told_apart(pool):
    inputs = [("__import__('os')._exit(9)",)]
    assert list(in_order(pool, eval, inputs, lost=lambda text: pool.overran)) == [False]


def test_waiting_is_not_computing(pool):
    slow = f"({_ALLOW}(0.2), __import__('time').sleep(1.5), {_ALLOW}(None))"
    assert pool.submit(eval, slow).result() == (None, None, None)


def test_progress_and_the_end_begin_anew(pool):
    turn = "sum(range(5_000_000))"  # some tenths of a second
    anew = "__import__('ioweather.engine').engine.allow_anew()"
    pool.submit(eval, f"({_ALLOW}(1.5), [({turn}, {anew}) for _ in range(25)], {_ALLOW}(None))").result()
    assert pool.submit(eval, "__import__('signal').getitimer(2)").result() == (0.0, 0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="bounds memory on Linux alone")
def test_memory_is_bounded_meanwhile(pool):
    take = f"len(__import__('mmap').mmap(-1, {_more_bytes() + mmap.PAGESIZE}))"
    with pytest.raises(OSError, match="memory"):
        pool.submit(eval, f"({_ALLOW}(5), {take})").result()
    limit = "__import__('resource').getrlimit(__import__('resource').RLIMIT_AS)"
    assert pool.submit(eval, f"({_ALLOW}(None), {limit})[1]").result() == pool.submit(eval, limit).result()


def test_the_process_of_a_person_is_never_limited():
    allow(0.001)
    allow_anew()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
