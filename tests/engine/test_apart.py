"""Children that compute without end are ended by the kernel, those that wait are not; the next one starts afresh."""

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
from ioweather.engine import ChildDied, Children, allow, allow_all
from ioweather.engine.apart import children

# Builtins: children know no module of tests. All of them compute within C, where no Python runs.
_ALLOW = "__import__('ioweather.engine').engine.allow"
_LOOP = "__import__('collections').deque(iter(int, 1), maxlen=0)"
_PID = "__import__('os').getpid()"


@pytest.fixture
def apart():
    made = Children("ioweather.engine")
    yield made
    made.stop()


def test_a_child_lives_long_and_gives_what_is_computed(apart):
    assert apart.call(eval, _PID) == apart.call(eval, _PID) != os.getpid()
    assert list(apart.results(iter, [1, 2, 3])) == [1, 2, 3]
    with pytest.raises(ZeroDivisionError):
        apart.call(divmod, 1, 0)


def test_as_many_as_are_needed_soon_are_started_and_then_used(apart):
    apart.start(2)
    apart.start(2)
    started = {child._process.pid for child in apart._idle}
    assert len(started) == 2
    stream = apart.results(iter, [1, 2])
    assert next(stream) == 1  # one is at work
    assert apart.call(eval, _PID) in started
    assert {child._process.pid for child in (*apart._idle, *apart._busy)} == started


def test_a_loop_is_ended_and_the_piece_named_and_another_child_goes_on(apart):
    before = apart.call(eval, _PID)
    with pytest.raises(ChildDied) as death:
        apart.call(eval, f"({_ALLOW}(0.3, {1 << 30}, 7), {_LOOP})")
    assert (death.value.overran, death.value.position) == (True, 7)
    assert apart.call(eval, _PID) != before


def test_other_deaths_are_told_apart(apart):
    with pytest.raises(ChildDied) as death:
        apart.call(eval, "__import__('os')._exit(9)")
    assert (death.value.overran, death.value.position) == (False, None)


def test_waiting_is_not_computing_and_the_end_is_without_limit(apart):
    apart.call(eval, f"({_ALLOW}(0.2, {1 << 30}), __import__('time').sleep(1.0))")
    assert apart.call(eval, "__import__('signal').getitimer(2)") == (0.0, 0.0)


@pytest.mark.skipif(sys.platform != "linux", reason="bounds memory on Linux alone")
def test_memory_is_bounded_meanwhile_and_not_after(apart):
    with pytest.raises(MemoryError):
        apart.call(eval, f"({_ALLOW}(5, {64 * MIB}), bytearray({128 * MIB}))")
    assert apart.call(eval, f"len(bytearray({128 * MIB}))") == 128 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="looks at memory on Linux alone")
def test_who_holds_on_to_memory_is_followed_by_another(apart):
    first = apart.call(eval, _PID)
    apart.call(exec, f"import builtins; builtins.kept = bytearray({600 * MIB})")
    assert apart.call(eval, _PID) != first


def test_files_are_named_from_where_the_parent_is(apart, tmp_path, monkeypatch):
    apart.call(eval, "1")
    monkeypatch.chdir(tmp_path)
    assert apart.call(os.getcwd) == str(tmp_path)


def test_an_error_that_does_not_pickle_comes_as_text(apart):
    with pytest.raises(RuntimeError, match=r"Odd: \('a',\)|Odd: a"):
        apart.call(exec, "class Odd(Exception): pass\nraise Odd('a')")


def test_stopping_does_not_wait(apart):
    ended = []

    def wait() -> None:
        with pytest.raises(ChildDied):
            apart.call(time.sleep, 900)
        ended.append(True)

    thread = threading.Thread(target=wait)
    thread.start()
    while not apart._busy:
        time.sleep(0.01)
    apart.stop()
    thread.join(60)
    assert ended


def test_who_leaves_a_stream_early_leaves_no_child_behind_that_talks(apart):
    stream = apart.results(iter, list(range(1000)))
    assert next(stream) == 0
    stream.close()
    assert list(apart.results(iter, [7])) == [7]


def test_one_set_of_children_per_process():
    assert children("ioweather.engine") is children("ioweather.engine")


def test_the_process_of_a_person_is_never_limited():
    allow(0.001, 1)
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    allow_all()
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


_COPIES = f"""
import fcntl, os, signal, sys, threading
from ioweather.core.units import MIB
from ioweather.engine import ChildDied, Children
signal.signal(signal.SIGTERM, lambda *_: None)
sys.modules["only.here"] = sys
apart = Children("ioweather.engine")
with open(sys.argv[1], "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    apart.start(2)
    for child in apart._idle:
        assert list(child.results(eval, ("1",))) == [1]
with open(sys.argv[1]) as lock:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
is_copy = "'only.here' in __import__('sys').modules"
assert apart.call(eval, is_copy)
assert apart.call(eval, "__import__('signal').getsignal(15)") == signal.SIG_DFL
for work in ({f"({_ALLOW}(0.3, {1 << 30}, 7), {_LOOP})"!r}, "__import__('os')._exit(9)"):
    try:
        apart.call(eval, work)
    except ChildDied as death:
        print(death.overran, death.position)
try:
    apart.call(eval, {f"({_ALLOW}(5, {64 * MIB}), bytearray({128 * MIB}))"!r})
except MemoryError:
    print("bounded")
waiting = threading.Event()
thread = threading.Thread(target=waiting.wait)
thread.start()
apart.stop()
print("with threads", apart.call(eval, is_copy))
waiting.set()
thread.join()
apart.stop()
apart.start(2)
print(*(child._process.pid for child in apart._idle), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="copies its process on Linux alone")
def test_children_of_a_process_of_one_thread_are_copies_of_it(tmp_path):
    command = [sys.executable, "-c", _COPIES, str(tmp_path / "lock")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    *told, pids = done.stdout.splitlines()
    assert told == ["True 7", "False None", "bounded", "with threads False"], done.stderr
    until = time.monotonic() + 60
    while any(_lives(int(pid)) for pid in pids.split()):  # their parent was killed
        assert time.monotonic() < until
        time.sleep(0.05)


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
