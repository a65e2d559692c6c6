"""Every operation of every tick is one row, whatever the child does."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from ioweather.agent.agent import Child
from ioweather.agent.sensor import Origin
from live_reporter import HandClock
from scripted_child import Nursery, PlainSource

S = 10**9


class Lines(list):
    def add(self, line: str) -> None:
        self.append(json.loads(line))

    def of(self, table: str) -> list[dict]:
        return [row for row in self if row["table"] == table]


@pytest.fixture
def world():
    clock = HandClock()
    nursery, lines = Nursery(clock), Lines()

    def make(**options):
        retry = options.pop("retry", True)
        source = PlainSource(**options)
        origin = Origin("n1", source.label, "mount:/", "r1")
        child = Child(source, origin, lines.add, clock.clocks, start_worker=nursery,
                        baselines={}, retry=retry)  # fmt: skip
        child.start()
        return child

    return clock, nursery, lines, make


def turn(child: Child, clock: HandClock, seconds: float = 1.0) -> None:
    child.poll()
    child.tick()
    clock.pass_seconds(seconds)


def begin(child, nursery):
    nursery.children[-1].ready()
    child.poll()


def statuses(lines: Lines) -> Counter:
    return Counter((row["op"], row["status"]) for row in lines.of("responses"))


def test_a_tick_a_period_and_two_rows_each(world):
    clock, nursery, lines, make = world
    child = make()
    child.tick()
    assert not nursery.children[0].ticks, "not before it is ready"
    begin(child, nursery)
    start = clock.wall_ns
    for _ in range(5):
        turn(child, clock)
    child.poll()
    assert nursery.children[0].ticks == [start + n * S for n in range(5)]
    assert statuses(lines) == {("read", "ok"): 5, ("stat", "ok"): 5}
    assert child.target_status().system == "mount:/scratch"


def test_a_hang_is_seen_while_it_lasts_and_its_ticks_are_missed(world):
    clock, nursery, lines, make = world
    child = make()
    begin(child, nursery)
    turn(child, clock)
    nursery.children[0].hangs_in = "stat"
    turn(child, clock, 0.9)
    child.poll()
    status = child.target_status()
    assert (status.state, status.in_flight.op) == ("running", "stat")
    clock.pass_seconds(0.1)
    hung_since = clock.wall_ns - S
    for _ in range(20):
        turn(child, clock)
    status = child.target_status()
    assert status.state == "hung"
    assert status.in_flight.age_ns == 21 * S
    assert status.in_flight.start_ns == hung_since
    assert status.missed_ticks == 20
    assert len(nursery.children[0].ticks) == 2, "nothing piles up"
    nursery.children[0].recover()
    for _ in range(3):
        turn(child, clock)
    child.poll()
    assert statuses(lines) == {("read", "ok"): 5, ("stat", "ok"): 5, ("read", "missed"): 20, ("stat", "missed"): 20}
    assert child.target_status().in_flight is None
    missed = [row for row in lines.of("responses") if row["status"] == "missed"]
    assert all(row["duration_ns"] is None and row["scheduled_ns"] == row["start_ns"] for row in missed)
    assert len({(row["start_ns"], row["op"]) for row in lines.of("responses")}) == len(lines.of("responses"))


def test_an_operation_whose_child_dies_is_pending_and_the_child_comes_back(world):
    clock, nursery, lines, make = world
    child = make()
    begin(child, nursery)
    nursery.children[0].hangs_in = "read"
    turn(child, clock)
    child.poll()
    nursery.children[0].has_ended = True
    turn(child, clock)
    assert statuses(lines) == {("read", "pending"): 1, ("read", "missed"): 1, ("stat", "missed"): 2}
    assert child.target_status().state == "failed"
    for _ in range(3):
        turn(child, clock)
    assert len(nursery.children) == 1, "not at once"
    clock.pass_seconds(2)
    turn(child, clock)
    assert len(nursery.children) == 2
    nursery.children[1].ready()
    turn(child, clock)
    turn(child, clock)
    child.poll()
    assert statuses(lines)["stat", "ok"] == 2
    assert child.target_status().state == "waiting"


def test_an_agent_that_was_stopped_misses_but_does_not_flood(world):
    clock, nursery, lines, make = world
    child = make()
    begin(child, nursery)
    turn(child, clock)
    clock.pass_seconds(86_400)
    turn(child, clock)
    child.poll()
    assert statuses(lines)["read", "missed"] == 600
    assert statuses(lines)["read", "ok"] == 2
    assert child.target_status().missed_ticks == 86_400
    (gap,) = lines.of("events")
    assert gap["kind"] == "gap"
    assert gap["end_ns"] - gap["start_ns"] == (86_400 - 600) * S


def test_a_clock_that_is_set_moves_no_tick(world):
    clock, nursery, lines, make = world
    child = make()
    begin(child, nursery)
    for jump in (0, -3600, 0, 7200, 0):
        clock.step_seconds(jump)
        turn(child, clock)
    child.poll()
    assert statuses(lines) == {("read", "ok"): 5, ("stat", "ok"): 5}
    assert child.target_status().missed_ticks == 0
    assert all(abs(row["scheduled_ns"] - row["start_ns"]) < S for row in lines.of("responses"))


def test_leaving_a_hanging_child_behind_writes_what_it_was_doing(world):
    clock, nursery, lines, make = world
    child = make()
    begin(child, nursery)
    nursery.children[0].hangs_in = "read"
    turn(child, clock)
    child.poll()
    child.stop(None)
    child.leave_behind()
    assert nursery.children[0].abandoned
    assert child.has_left
    assert statuses(lines) == {("read", "pending"): 1, ("stat", "missed"): 1}
