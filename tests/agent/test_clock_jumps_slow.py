"""Clocks that are set while everything runs: an hour back, a day ahead, ninety years ahead and back."""

from __future__ import annotations

import json
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fault_scenarios import Places, lake_state, make_small_agent, rows_in_lake, rows_in_spool, write_segments
from ioweather.agent.status import read_status
from ioweather.lake.lake import open_lake
from warm_commands import Ended, WarmCommands, preloaded, warm_commands

pytestmark = pytest.mark.slow
DAY = 86_400
JUMPS = (-3600, DAY, 90 * 365 * DAY)


class Clock:
    """What the commands see; monotonic time is nobody's to set, as on a real machine."""

    def __init__(self, file: Path, commands: WarmCommands) -> None:
        self._file, self.commands = file, commands

    def set(self, seconds: int) -> None:
        with self._file.open("r+b") as file:  # it is mapped into the commands: not to be replaced
            file.write(struct.pack("=q", seconds))


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    folder = tmp_path_factory.mktemp("clock")
    (folder / "offset").write_bytes(bytes(8))
    library = preloaded("moved_clock", folder)
    with warm_commands(LD_PRELOAD=str(library), MOVED_CLOCK=str(folder / "offset")) as commands:
        yield Clock(folder / "offset", commands)


def test_an_agent_whose_clock_jumps_measures_on_and_no_row_is_lost_or_doubled(clock: Clock, tmp_path: Path) -> None:
    lake, spool = tmp_path / "lake", tmp_path / "spool"
    make_small_agent(tmp_path, lake)
    ended: list[Ended] = []
    clock.set(0)

    def run() -> None:
        ended.append(
            clock.commands.run("collect", "block", "--lake", lake, "--spool", spool, "--no-ship", "--for", "8s")
        )

    agent = threading.Thread(target=run)
    agent.start()
    while not (spool / "status.json").exists() or not read_status(spool).spool.written_rows:
        time.sleep(0.05)
    for offset in (*JUMPS, 0):
        clock.set(offset)
        set_ns = time.time_ns()
        time.sleep(1.1)
    agent.join()
    assert ended[0].code == 0, ended
    assert read_status(spool).state == "stopped"
    measured = rows_in_spool(spool)
    now = time.time_ns()
    starts = {json.loads(key)[1] for key in measured if json.loads(key)[0] == "series"}
    far = {
        key for key in measured if isinstance(json.loads(key)[1], int) and json.loads(key)[1] > now + 2 * DAY * 10**9
    }
    assert far, "the clock did jump"
    assert len([start for start in starts if set_ns < start < now]) > 5, "it goes on when the clock is right"
    answer = clock.commands.run("ingest", spool / "segments", "--lake", lake, "--workers", 1)
    assert answer.is_clear, answer
    assert answer.code == 1, answer
    held = rows_in_lake(lake)
    assert len(held) == len(set(held))
    samples = {key for key in measured if json.loads(key)[0] == "series"}
    assert samples - far <= set(held), "rows that can be are in"
    assert not far & set(held), "rows of the year 2116 are not"
    with open_lake(lake).snapshot() as snapshot:
        left_out = snapshot.query("SELECT reason, message FROM quarantine").fetchall()
    assert left_out, "and the ledger names what was left out"


@pytest.mark.parametrize("offset", JUMPS)
def test_what_came_in_under_a_wrong_clock_is_there_once(clock: Clock, tmp_path: Path, offset: int) -> None:
    """In part before the jump, in part meanwhile; told again after it. Every question is answered meanwhile too."""
    places, lake = Places(tmp_path / "here", tmp_path / "beside"), tmp_path / "lake"
    for number in range(3):
        write_segments(tmp_path / f"spool{number}", number, 1)
    spools = [tmp_path / f"spool{number}/segments" for number in range(3)]
    for moment, spool in ((0, spools[0]), (offset, spools[1]), (0, spools[2])):
        clock.set(moment)
        assert clock.commands.run("ingest", spool, "--lake", lake, "--workers", 1).code == 0
    state = lake_state(lake, places)
    assert len(state["responses"]) == len(state["series"]) == 24
    for moment in (offset, 0):
        clock.set(moment)
        again = clock.commands.run("ingest", *spools, "--lake", lake, "--workers", 1)
        assert "3 files were in already" in again.output, again
        for command in ("now", "events", "lake"):
            answer = clock.commands.run(command, "--lake", lake)
            assert answer.is_clear, answer
        assert clock.commands.run("lake", "compact", "--lake", lake).code == 0
    assert lake_state(lake, places) == state
