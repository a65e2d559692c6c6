"""The kernel ends tasks that compute without end; tasks that wait are not ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ioweather.core.units import MIB
from ioweather.lake.limited import WorkerDied, limit_memory, limit_seconds, run_limited, stop_workers, stream_limited

# Workers import no module of tests: tasks are built-in functions. Loops run within C, where no Python is executed.
_LIMITED = "__import__('ioweather.lake.limited').lake.limited"
_LOOP = "__import__('collections').deque(iter(int, 1), maxlen=0)"


def run_code(code: str, wall_seconds: float = 60.0) -> object:
    return run_limited(eval, code, wall_seconds=wall_seconds)


def test_results_and_errors_come_back():
    assert run_code("__import__('os').getpid()") != os.getpid()
    assert list(stream_limited(iter, [1, 2, 3], wall_seconds=60.0)) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        run_limited(divmod, 1, 0, wall_seconds=60.0)


@pytest.mark.parametrize(
    ("code", "wall_seconds", "overran"),
    [
        (f"({_LIMITED}.limit_seconds(0.3), {_LOOP})", 60.0, True),
        ("__import__('time').sleep(900)", 0.5, True),
        ("__import__('os')._exit(9)", 60.0, False),
    ],
    ids=["processor time", "time", "death"],
)
def test_a_task_that_does_not_end_well(code, wall_seconds, overran):
    with pytest.raises(WorkerDied) as death:
        run_code(code, wall_seconds)
    assert (death.value.kind == "TooMuchTime") is overran


def test_waiting_takes_no_processor_time():
    run_code(f"({_LIMITED}.limit_seconds(0.2), __import__('time').sleep(1.0))")


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited on Linux only")
def test_memory_is_limited():
    with pytest.raises(MemoryError):
        run_code(f"({_LIMITED}.limit_memory({64 * MIB}), bytearray({128 * MIB}))")
    assert run_code(f"({_LIMITED}.limit_memory({128 * MIB}), len(bytearray({64 * MIB})))[1]") == 64 * MIB


def test_an_error_that_cannot_be_pickled_comes_as_text():
    with pytest.raises(RuntimeError, match=r"Odd: \('a',\)|Odd: a"):
        run_limited(exec, "class Odd(Exception): pass\nraise Odd('a')", wall_seconds=60.0)


def test_stopping_does_not_wait():
    ended = []

    def wait() -> None:
        with pytest.raises(WorkerDied):
            run_limited(time.sleep, 900, wall_seconds=900.0)
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    stop_workers([thread])
    assert ended


def test_a_stream_that_is_left_early_ends_its_worker():
    stream = stream_limited(iter, list(range(1000)), wall_seconds=60.0)
    assert next(stream) == 0
    stream.close()
    assert list(stream_limited(iter, [7], wall_seconds=60.0)) == [7]


def test_the_calling_process_is_never_limited():
    limit_seconds(0.001)
    limit_memory(1)
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


_KILLED = """
import os, signal
from ioweather.lake.limited import stream_limited
stream = stream_limited(eval, "(lambda: (yield __import__('os').getpid()) or (yield __import__('time').sleep(900)))()",
                        wall_seconds=900.0)
print(next(stream), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="workers notice the death of their parent on Linux only")
def test_workers_end_when_their_parent_is_killed():
    done = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, timeout=120)
    status = Path(f"/proc/{int(done.stdout)}/stat")
    until = time.monotonic() + 60
    while status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        assert time.monotonic() < until
        time.sleep(0.05)
