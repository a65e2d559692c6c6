"""The agent: with children that are scripted, and with real ones."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ioweather.agent.agent import Agent, AgentSettings
from ioweather.agent.spool import Spool
from ioweather.agent.status import read_status
from ioweather.core.contracts import ReadContext
from ioweather.readers.segments import SPOOL
from live_reporter import HandClock
from scripted_child import Nursery, PlainSource

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
S = 10**9


def rows_in(spool: Path) -> list[dict]:
    found = []
    for path in sorted((spool / "segments").iterdir()):
        if not path.name.startswith("."):
            found += [row for _, frame in SPOOL.read(path, ReadContext()) for row in frame.records()]
    return found


@pytest.fixture
def scripted(tmp_path):
    clock = HandClock()
    nursery = Nursery(clock)

    def make(sources=1, **settings):
        run = AgentSettings(run_id="r1", host="n1", **settings)
        spool = Spool(tmp_path, "n1", "r1")
        agent = Agent([PlainSource(label=f"/fs{n}") for n in range(sources)], spool, run, clocks=clock.clocks,
                      start_worker=nursery)  # fmt: skip
        for child in agent.children:
            child.start()
        for child in nursery.children:
            child.ready()
        return agent

    return clock, nursery, make


def steps(agent: Agent, clock: HandClock, seconds: float, turn: float = 0.1) -> None:
    for _ in range(round(seconds / turn)):
        agent.step()
        clock.pass_seconds(turn)


def test_one_hanging_target_does_not_hold_up_the_other(scripted, tmp_path):
    clock, nursery, make = scripted
    agent = make(sources=2)
    steps(agent, clock, 3)
    nursery.children[0].hangs_in = "read"
    steps(agent, clock, 3)
    first, second = read_status(tmp_path).targets
    assert first.state == "hung"
    assert first.in_flight.age_ns > 1.5 * S
    assert first.missed_ticks > 0
    assert second.state in ("waiting", "running")
    assert second.missed_ticks == 0


AGENT = """
import sys
from pathlib import Path
from ioweather.agent.agent import Agent, AgentSettings
from ioweather.agent.spool import Spool
from ioweather.agent.probe import Probe, ProbeSettings
target, spool = sys.argv[1:]
settings = ProbeSettings(period_ns=50_000_000, file_bytes=2 << 20, pool_files=4, keep_files=True)
run = AgentSettings(run_id="r", host="n1", status_period_ns=100_000_000, record_gap=True)
Agent([Probe(target, settings, "r", host="n1")], Spool(Path(spool), "n1", "r"), run).run()
"""


@pytest.fixture
def agent_process(tmp_path):
    (tmp_path / "target").mkdir()
    running = []

    def begin():
        process = subprocess.Popen([sys.executable, "-c", AGENT, str(tmp_path / "target"), str(tmp_path / "spool")])
        running.append(process)
        for _ in range(600):
            if (tmp_path / "spool/status.json").exists():
                status = read_status(tmp_path / "spool")
                if status.pid == process.pid and status.spool.written_rows > 30:
                    return process
            time.sleep(0.02)
        raise AssertionError("the agent did not start")

    yield begin
    for process in running:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_a_kill_loses_the_unflushed_tail_alone_and_the_next_agent_records_the_gap(agent_process, tmp_path):
    process = agent_process()
    status = read_status(tmp_path / "spool")
    process.kill()
    process.wait()
    second = agent_process()
    second.send_signal(signal.SIGTERM)
    assert second.wait(10) == 0
    rows = rows_in(tmp_path / "spool")
    first = [row for row in rows if "op" in row and row["start_ns"] <= status.written_ns]
    assert len(first) >= status.spool.written_rows
    gaps = [row for row in rows if row.get("kind") == "gap"]
    assert len(gaps) == 1
    assert gaps[0]["label"] == "agent ended unexpectedly"
    keys = [(row["start_ns"], row["op"]) for row in rows if "op" in row]
    assert len(set(keys)) == len(keys)
    in_gap = [row for row in rows if "op" in row and gaps[0]["start_ns"] + S < row["start_ns"] < gaps[0]["end_ns"]]
    assert in_gap == []


@pytest.fixture
def filling(tmp_path):
    """A probe that fills its large file, slowly: a process of its own group, caught in the middle."""
    (tmp_path / "target").mkdir()
    command = [sys.executable, "-m", "ioweather", "probe", str(tmp_path / "target"), "--spool", str(tmp_path / "spool"),
               "--name", "n1", "--file-size", "64MiB", "--fill-rate", "8MiB"]  # fmt: skip
    running = []

    def begin():
        process = subprocess.Popen(
            command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        running.append(process)
        data = tmp_path / "target/.ioweather-n1/data"
        for _ in range(600):
            if data.exists() and data.stat().st_size:
                return process
            time.sleep(0.02)
        raise AssertionError("it does not fill")

    yield begin
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def is_empty_soon(folder):
    for _ in range(500):
        if not any(folder.iterdir()):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("numbers", [(signal.SIGINT,), (signal.SIGINT, signal.SIGTERM), (signal.SIGKILL,)])
def test_an_end_while_files_are_made_leaves_none_behind(filling, tmp_path, numbers):
    """Asked once, asked twice at once, and killed: the child sees the end of its agent and removes what it made."""
    process = filling()
    for number in numbers:
        process.send_signal(number)
    process.wait(10)
    assert is_empty_soon(tmp_path / "target")


def test_what_a_kill_of_agent_and_child_left_is_removed_by_the_next_run(filling, tmp_path):
    process = filling()
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert any((tmp_path / "target").iterdir())
    done = subprocess.run(
        [sys.executable, "-m", "ioweather", "probe", str(tmp_path / "target"), "--spool", str(tmp_path / "spool"),
         "--name", "n1", "--file-size", "4MiB", "--pool", "4", "--for", "1s"], capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert not any((tmp_path / "target").iterdir())
