"""A source in a child process: ticks in, messages out, and what becomes of children that end or hang."""

from __future__ import annotations

import errno
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from ioweather.agent.child import PipeReporter, Worker
from ioweather.agent.sensor import Operation, Ready
from ioweather.core.errors import SourceError

# The agent has one thread; the process that runs the tests may have more.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@dataclass
class Scripted:
    """Does what the test says, by tick."""

    folder: Path
    trouble: str = ""
    name: str = "probe"
    label: str = "/x"
    period_ns: int = 10**9
    operations: tuple[Operation, ...] = ()
    is_periodic: bool = True

    def prepare(self, reporter):
        if self.trouble == "prepare":
            raise SourceError("cannot begin.")
        return Ready("mount:/x", "direct", "fine")

    def cycle(self, scheduled_ns, reporter):
        reporter.begin("read", 5, scheduled_ns)
        if self.trouble == "hang":
            time.sleep(600)
        if self.trouble == "raise":
            raise OSError(errno.EIO, "Input/output error")
        if self.trouble == "mistake":
            raise ZeroDivisionError("oops")
        if self.trouble == "die":
            os._exit(3)
        reporter.row(
            "events", {"n": scheduled_ns, "fds": len(list(Path("/proc/self/fd").iterdir())), "cwd": str(Path.cwd())}
        )
        reporter.document("sacct-1.txt", "text")

    def finish(self, reporter):
        (self.folder / "finished").write_text("yes")


@pytest.fixture
def start(tmp_path):
    workers = []

    def begin(trouble=""):
        worker = Worker(Scripted(tmp_path, trouble), tmp_path)
        workers.append(worker)
        return worker

    yield begin
    for worker in workers:
        if not worker.has_ended:
            worker.abandon()
        for _ in range(100):
            try:
                if os.waitpid(worker.pid, os.WNOHANG)[0]:
                    break
            except ChildProcessError:
                break
            time.sleep(0.02)


def wait_for(worker: Worker, kind: str, found: list) -> list:
    """Messages up to one of this kind, or the end."""
    for _ in range(500):
        for line in worker.lines():
            found.append(json.loads(line))
        if any(isinstance(body, list) and body[0] == kind for body in found) or worker.has_ended:
            return found
        time.sleep(0.01)
    raise AssertionError(f"no {kind}: {found}")


def wait_for_end(worker: Worker) -> list:
    found = []
    for _ in range(500):
        found += [json.loads(line) for line in worker.lines()]
        if worker.has_ended:
            return found
        time.sleep(0.01)
    raise AssertionError("it does not end")


def test_a_cycle_per_tick_and_a_clean_end(start, tmp_path):
    worker = start()
    assert wait_for(worker, "ready", [])[-1] == ["ready", "mount:/x", "direct", "fine"]
    worker.tick(41)
    said = wait_for(worker, "end", [])
    assert said[0][:4] == ["begin", "read", 5, 41]
    row = next(body for body in said if isinstance(body, dict))
    assert (row["table"], row["n"], row["cwd"]) == ("events", 41, "/")
    assert row["fds"] <= 6, "no pipe of a sibling, no terminal is held"
    assert said[-1][0] == "end"
    assert said[-1][2:] == [True, ""]
    assert (tmp_path / "sacct-1.txt").read_text() == "text"
    worker.dismiss()
    wait_for_end(worker)
    assert (tmp_path / "finished").exists()
    worker.release()


def test_a_failed_run_is_told_and_the_next_one_runs(start):
    worker = start("raise")
    wait_for(worker, "ready", [])
    for tick in (1, 2):
        worker.tick(tick)
        end = wait_for(worker, "end", [])[-1]
        assert end[2] is False
        assert "Input/output" in end[3]


def test_a_source_that_cannot_begin(start):
    worker = start("prepare")
    assert ["failed", "cannot begin."] in wait_for_end(worker)


def test_our_own_mistakes_end_the_child_with_a_word(start):
    worker = start("mistake")
    wait_for(worker, "ready", [])
    worker.tick(1)
    assert any(body[0] == "failed" and "ZeroDivisionError" in body[1] for body in wait_for_end(worker))


def test_a_child_that_dies_is_noticed(start):
    worker = start("die")
    wait_for(worker, "ready", [])
    worker.tick(1)
    wait_for_end(worker)
    worker.tick(2)  # nobody is there: no error
    worker.release()


def test_a_hanging_child_is_abandoned_at_once(start):
    worker = start("hang")
    wait_for(worker, "ready", [])
    worker.tick(1)
    assert wait_for(worker, "begin", [])[-1][1] == "read"
    before = time.monotonic()
    worker.abandon()
    assert time.monotonic() - before < 5, "it does not wait"
    assert worker.has_ended


def test_signals_to_the_group_are_the_agents_business(start):
    worker = start()
    wait_for(worker, "ready", [])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(worker.pid, number)
    worker.tick(1)
    wait_for(worker, "end", [])


def test_a_child_ends_when_the_agent_is_gone(start, tmp_path):
    """The agent dies without a word; its second child must not keep the first one's pipe open."""
    reader, writer = os.pipe()
    agent = os.fork()
    if agent == 0:
        os.close(reader)
        first = Worker(Scripted(tmp_path), tmp_path)
        second = Worker(Scripted(tmp_path), tmp_path)
        os.write(writer, f"{first.pid} {second.pid}\n".encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(writer)
    pids = [int(text) for text in os.read(reader, 100).split()]
    os.close(reader)
    os.waitpid(agent, 0)
    for _ in range(500):
        if not any(Path(f"/proc/{pid}/stat").exists() and _is_running(pid) for pid in pids):
            return
        time.sleep(0.01)
    raise AssertionError("children outlive their agent")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_an_agent_that_is_gone_is_no_error_for_its_child(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    reporter = PipeReporter(writer, tmp_path)
    reporter.begin("read", 1, None)
    reporter.done()
    signal.signal(signal.SIGPIPE, before)
    os.close(writer)
