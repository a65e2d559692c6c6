"""One system call after the other fails under the lake, the copy and the spool: does anything get lost, or twice in?

IOWEATHER_FAULTS=N tries N points of each kind of call (0: all of them). What is tried is spread evenly over the calls
that an undisturbed run makes. Without it one point is tried of every second or third kind; the next command takes the
kinds that this one leaves out.
"""

from __future__ import annotations

import errno
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from fault_scenarios import (
    SCENARIOS,
    Places,
    Scenario,
    copy_places,
    make_small_agent,
    rows_in_lake,
    rows_in_spool,
    wait_until_written,
    write_segments,
)
from fuse_mounts import OPERATIONS, DisturbedMount, disturbed_mount
from ioweather.agent.status import read_status
from ioweather.ingestion.drain import run_pass
from ioweather.ingestion.queue import TROUBLE_BYTES, draft_in, queued, refused_dir, waiting, writer_file
from ioweather.ingestion.receive import receive
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.web.app import create_app
from ioweather.ui.web.tokens import create_token
from warm_commands import Ended, WarmCommands, warm_commands

pytestmark = pytest.mark.real
POINTS = int(os.environ.get("IOWEATHER_FAULTS", "1"))
IS_SHORT = "IOWEATHER_FAULTS" not in os.environ
_CHANGING = {"chmod", "create", "link", "mkdir", "rename", "rmdir", "truncate", "unlink", "write"}
_READING = ({"errno": errno.EIO}, {"errno": errno.ESTALE}, {"hang_seconds": 0.3})
_WRITING = (
    {"errno": errno.ENOSPC},
    {"errno": errno.EIO},
    {"errno": errno.ENOSPC, "lasting": True},
    {"errno": errno.EROFS},
    {"errno": errno.EIO, "afterwards": True},
    {"errno": errno.ESTALE},
    {"hang_seconds": 0.3},
)


@dataclass
class Tally:
    points: Counter[str] = field(default_factory=Counter)
    calls: dict[str, int] = field(default_factory=dict)
    ends: Counter[int | None] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {n} of {self.calls[name]}" for name, n in sorted(self.points.items()))
        ends = ", ".join(f"exit {code}: {n}" for code, n in sorted(self.ends.items(), key=str))
        return f"{sum(self.points.values())} faults ({kinds}); {ends}; {len(self.wrong)} wrong"


@pytest.fixture(scope="module")
def commands() -> Iterator[WarmCommands]:
    with warm_commands() as found:
        yield found


@pytest.fixture(scope="module")
def mount(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DisturbedMount]:
    with disturbed_mount(tmp_path_factory.mktemp("faults")) as found:
        yield found


class Stage:
    """Cases of one scenario, each in folders of its own: nothing of one case is cached for the next."""

    def __init__(self, scenario: Scenario, commands: WarmCommands, mount: DisturbedMount, folder: Path) -> None:
        self.scenario, self.commands, self.mount, self.folder = scenario, commands, mount, folder
        self._number = itertools.count()
        self.template = Places(folder / "template/here", folder / "template/beside")
        for place in (self.template.here, self.template.beside):
            place.mkdir(parents=True)
        scenario.prepare(commands, self.template)

    def new_case(self) -> Places:
        name = f"{self.folder.name}-{next(self._number)}"
        places = Places(self.mount.path / name, self.folder / name)
        copy_places(self.template, self.mount.backing / name, places.beside)
        return places

    def run(self, places: Places) -> Ended:
        return self.commands.run(*self.scenario.arguments(places))

    def undisturbed(self) -> tuple[Any, dict[str, int]]:
        """What is there after a run that nothing disturbs, and how many calls of each kind it makes."""
        places = self.new_case()

        def run() -> None:
            ended = self.run(places)
            assert ended.code == 0, ended

        calls = counted_calls(self.mount, run)
        return self.scenario.state(places), calls

    def disturbed(self, name: str, order: dict[str, Any], expected: Any, tally: Tally) -> None:
        """Runs twice, the first time disturbed; what is wrong is written down."""
        places = self.new_case()
        faults = self.mount.counts.get("faults", 0)
        self.mount.disturb({name: order})
        ended = self.run(places)
        self.mount.disturb({})
        case = f"{self.scenario.name}: {name} {order}"
        if self.mount.counts.get("faults", 0) == faults:
            return  # so many were not made this time
        tally.points[name] += 1
        tally.ends[ended.code] += 1
        if not ended.is_clear:
            tally.wrong.append(f"{case}: ended with {ended}")
        if ended.code == 0 and (lost := _differences(expected, self._state(places))):
            tally.wrong.append(f"{case}: exit code 0, and {lost}; said {ended}")
        again = self.run(places)
        if again.code != 0:
            tally.wrong.append(f"{case}: the run after it ended with {again}; the first with {ended}")
        elif lost := _differences(expected, self._state(places)):
            tally.wrong.append(f"{case}: after a second run, {lost}; the first ended with {ended}")

    def _state(self, places: Places) -> Any:
        try:
            return self.scenario.state(places)
        except Exception as error:
            return {"state": repr(error)}


def _differences(expected: Any, found: Any) -> str:
    if expected == found:
        return ""
    names = sorted(name for name in {*expected, *found} if expected.get(name) != found.get(name))
    return "; ".join(f"{name}: {expected.get(name)!r:.300} became {found.get(name)!r:.600}" for name in names[:3])


def points_of(calls: int) -> list[int]:
    wanted = calls if POINTS == 0 else min(calls, POINTS)
    return sorted(
        {1 + (2 * n + 1) * calls // (2 * wanted) for n in range(wanted)} if wanted < calls else range(1, calls + 1)
    )


@pytest.mark.parametrize(
    ("place", "scenario"), [*enumerate(SCENARIOS)], ids=[scenario.name.replace(" ", "-") for scenario in SCENARIOS]
)
def test_nothing_is_lost_or_doubled_whichever_call_fails(
    place: int, scenario: Scenario, commands: WarmCommands, mount: DisturbedMount, tmp_path: Path
) -> None:
    stage = Stage(scenario, commands, mount, tmp_path)
    expected, calls = stage.undisturbed()
    tally = Tally(calls=calls)
    for name, order in orders(calls, place, scenario.every):
        stage.disturbed(name, order, expected, tally)
    print(f"\n{scenario.name}: {tally}")
    assert tally.points
    assert not tally.wrong, "\n".join(tally.wrong)


def orders(calls: dict[str, int], place: int = 0, every: int = 1) -> Iterator[tuple[str, dict[str, Any]]]:
    """One fault after the other, spread over the calls of a run; in short of `every` kind of call, by the `place`."""
    turn = itertools.count(place)
    names = sorted(calls)
    for name in names[place % every :: every] if IS_SHORT else names:
        kinds = _WRITING if name in _CHANGING else _READING
        for nth in points_of(calls[name]):
            yield name, {"nth": nth, **kinds[next(turn) % len(kinds)]}


def counted_calls(mount: DisturbedMount, act: Callable[[], None]) -> dict[str, int]:
    before = mount.counts
    mount.disturb({name: {"nth": 0} for name in OPERATIONS})
    act()
    time.sleep(0.25)
    after = mount.counts
    mount.disturb({})
    found = {name: int(after.get(name, 0) - before.get(name, 0)) for name in OPERATIONS}
    return {name: n for name, n in found.items() if n}


def test_an_agent_whose_spool_fails_goes_on_and_says_what_it_gave_up(
    commands: WarmCommands, mount: DisturbedMount, tmp_path: Path
) -> None:
    """Whatever is in the spool after the fault is in the lake after the next run; rows that were given up are counted,
    and the exit code says so."""
    lake = tmp_path / "lake"
    make_small_agent(tmp_path, lake)
    number = itertools.count()

    def run(spool: Path) -> Ended:
        return commands.run("collect", "block", "--lake", lake, "--spool", spool, "--for", "600ms")

    def undisturbed() -> None:
        ended = run(mount.path / f"spool{next(number)}")
        assert ended.code == 0, ended

    ends: Counter[int | None] = Counter()
    for name, order in orders(counted_calls(mount, undisturbed), 1, 2):
        spool = mount.path / f"spool{next(number)}"
        mount.disturb({name: order})
        ended = run(spool)
        mount.disturb({})
        ends[ended.code] += 1
        case = f"{name} {order}: {ended}"
        assert ended.is_clear, case
        # 2: could not begin. Where all that follows fails too, no status can take the place of the one before.
        if ended.code != 2 and not order.get("lasting"):
            assert read_status(spool).state == "stopped", case
        waiting = rows_in_spool(spool)
        assert run(spool).code == 0, case
        assert rows_in_spool(spool) == set(), case
        assert waiting <= set(rows_in_lake(lake)), case
    held = rows_in_lake(lake)
    assert len(held) == len(set(held))
    print(f"\nagent: {sum(ends.values())} faults, {dict(ends)}")


def test_segments_that_come_while_the_lake_fails(mount: DisturbedMount, tmp_path: Path) -> None:
    """The server says so, goes on, and takes them when they are sent again; its writer brings them to the lake."""
    root = open_lake(mount.path / "pushed", create=True).root
    token = create_token(root, "n1", "n1")
    number = itertools.count()
    ends: Counter[int] = Counter()
    expected: set[str] = set()
    app = create_app(root, hosts=["testserver"])
    with TestClient(app, raise_server_exceptions=False) as client:

        def send(path: Path) -> Any:
            headers = {"content-type": "application/octet-stream", "authorization": f"Bearer {token}"}
            return client.post(f"/api/v1/spool/n1/{path.name}", content=path.read_bytes(), headers=headers)

        def segment() -> Path:
            spool = tmp_path / f"spool{(n := next(number))}"
            write_segments(spool, n, 1)
            expected.update(rows_in_spool(spool))
            return next((spool / "segments").iterdir())

        for _ in range(2):
            assert send(segment()).status_code == 200
        calls = counted_calls(mount, lambda: _assert_taken(send(segment())))
        for name, order in orders(calls):
            path = segment()
            mount.disturb({name: order})
            answer = send(path)
            mount.disturb({})
            ends[answer.status_code] += 1
            if answer.status_code != 200:
                assert answer.json()["error"]["message"], (name, order)
                assert answer.status_code == 503, (name, order, answer.text)
            _assert_taken(send(path))
    with app.state.writer.running():
        wait_until_written(root)
    assert sorted(rows_in_lake(root)) == sorted(expected)
    print(f"\nserver: {sum(ends.values())} faults, {dict(ends)}")


def test_the_writer_goes_on_whichever_call_fails(mount: DisturbedMount, tmp_path: Path) -> None:
    """What was pushed stays in the queue, with the reason, until the lake takes it: once."""
    root = open_lake(mount.path / "written", create=True).root
    number = itertools.count()
    expected: set[str] = set()

    def put_segment() -> None:
        spool = tmp_path / f"spool{(n := next(number))}"
        write_segments(spool, n, 1)
        expected.update(rows_in_spool(spool))
        path = next((spool / "segments").iterdir())
        with draft_in(root) as draft:
            draft.write_bytes(path.read_bytes())
            receive(Lake(root), draft, "n1", path.name, "n1")

    ends: Counter[bool] = Counter()
    put_segment()
    for name, order in orders(counted_calls(mount, lambda: _assert_written(root))):
        put_segment()
        mount.disturb({name: order})
        went_well = run_pass(root) == 0
        mount.disturb({})
        ends[went_well] += 1
        while queued(root):
            assert run_pass(root) == 0, (name, order)
        assert not refused_dir(root).exists(), (name, order)
    assert sorted(rows_in_lake(root)) == sorted(expected)
    print(f"\nwriter: {sum(ends.values())} faults, {dict(ends)}")


def _assert_written(root: Path) -> None:
    assert run_pass(root) == 0


def test_a_writer_on_a_full_disk_says_so_and_goes_on_when_there_is_space(mount: DisturbedMount, tmp_path: Path) -> None:
    """A file that is there can still be written over: so the reason is told."""
    root = open_lake(mount.path / "full", create=True).root
    write_segments(tmp_path / "spool", 0, 1)
    path = next((tmp_path / "spool/segments").iterdir())
    with draft_in(root) as draft:
        draft.write_bytes(path.read_bytes())
        receive(Lake(root), draft, "n1", path.name, "n1")
    writer_file(root).write_bytes(b" " * TROUBLE_BYTES)  # one was there before
    mount.disturb({"create": {"errno": errno.ENOSPC}})
    app = create_app(root)
    with app.state.writer.running():
        end = time.monotonic() + 60
        while not (found := waiting(root)).trouble and time.monotonic() < end:
            time.sleep(0.1)
        mount.disturb({})
        assert (found.files, "No space left on device" in found.trouble) == (1, True)
        wait_until_written(root, 60)
    assert sorted(rows_in_lake(root)) == sorted(rows_in_spool(tmp_path / "spool"))


def _assert_taken(answer: Any) -> None:
    assert answer.status_code == 200, answer.text
