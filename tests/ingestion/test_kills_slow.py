"""kill -9 at exact points of every command that writes: at the n-th call that changes a file, inside commits too.

The same command is killed again and again, each time a little further or not as far, until it ends by itself. Then
everything must be there once. IOWEATHER_KILLS=N kills each writer at least N times (default 10).
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fault_scenarios import (
    FORGET,
    RESTORE,
    RETENTION,
    SCENARIOS,
    Places,
    Scenario,
    copy_places,
    lake_state,
    make_small_agent,
    rows_in_lake,
    rows_in_spool,
    wait_until_written,
    write_segments,
)
from ioweather.agent.delivery import Server, Shipper, push
from ioweather.core.units import HOUR_NS, now_ns
from ioweather.ingestion.queue import draft_in, waiting
from ioweather.ingestion.receive import receive
from ioweather.lake.lake import open_lake
from ioweather.lake.layout import is_lake
from ioweather.ui.web.app import bind, create_app, running
from ioweather.ui.web.tokens import create_token
from planted_logs import write_climate
from scan_trees import runs_tree
from shipments import outcome
from warm_commands import Ended, WarmCommands, killable_commands, preloaded

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("IOWEATHER_KILLS", "10"))
_MOST_IN_A_ROW = 8


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmCommands]:
    with killable_commands(tmp_path_factory.mktemp("kills")) as found:
        yield found


def scan_state(places: Places) -> Any:
    """One scan, however often it was begun; apart from when that was, and its name."""
    found = lake_state(places.here / "lake", places)
    return {name: len(rows) for name, rows in found.items()}, sorted(
        p.name for p in (places.here / "lake/scans").glob("*.state")
    )


def tree_state(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SCAN = Scenario(
    "scan",
    lambda commands, at: runs_tree(at.beside / "tree", 12) and None,
    lambda at: ["scan", at.beside / "tree", "--lake", at.here / "lake", "--workers", 1, "--resume"],
    scan_state,
)  # fmt: skip


def finished_runs(folder: Path) -> None:
    """Logs of runs that ended within the last hours, so that each is due its verdict."""
    folder.mkdir(parents=True)
    for n in range(4):
        end_ns = now_ns() - (n + 1) * HOUR_NS
        write_climate(folder / f"{n}.darshan", job_id=n + 1, start_ns=end_ns - HOUR_NS // 2, end_ns=end_ns)
    time.sleep(3.1)  # one that was just written may not be whole


def catch_up_state(places: Places) -> Any:
    """When a run was judged differs; which ones were, and as of when, does not."""
    root = places.here / "lake"
    found: dict[str, Any] = {**lake_state(root, places)}
    with open_lake(root).snapshot() as snapshot:
        judged = snapshot.query("SELECT log_digest, as_of_ns FROM verdicts").fetchall()
    assert len(judged) == 4
    return {**found, "verdicts": sorted(judged)}


def _template(places: Places) -> Path:
    return places.beside.parents[1] / "template/beside"


CATCH_UP = Scenario(
    "catch-up",
    lambda commands, at: finished_runs(at.beside / "logs"),
    # All cases read the same logs: a copy counts as just written.
    lambda at: ["ingest", "--watch", _template(at) / "logs", "--once", "--lake", at.here / "lake"],
    catch_up_state,
)
WRITERS = (*SCENARIOS[:2], *SCENARIOS[3:4], *SCENARIOS[5:], FORGET, RETENTION, SCAN, CATCH_UP)


class Victim:
    def __init__(self, scenario: Scenario, commands: WarmCommands, folder: Path) -> None:
        self.scenario, self.commands, self.folder = scenario, commands, folder
        self.template = Places(folder / "template/here", folder / "template/beside")
        for place in (self.template.here, self.template.beside):
            place.mkdir(parents=True)
        scenario.prepare(commands, self.template)

    def new_case(self, name: str) -> Places:
        places = Places(self.folder / name / "here", self.folder / name / "beside")
        copy_places(self.template, places.here, places.beside)
        return places

    def run(self, places: Places, kill_at: int = 0) -> Ended:
        return self.commands.run(*self.scenario.arguments(places), kill_at=kill_at)

    def _is_done(self, ended: Ended) -> bool:
        """The kill before came after the last change."""
        return bool(self.scenario.done) and ended.code == 2 and self.scenario.done in " ".join(ended.errors.split())

    def kill_often(self, wanted: int, rng: random.Random) -> tuple[int, int]:
        """How many kills there were, and calls that a whole run makes."""
        places = self.new_case("whole")
        whole = self.run(places)
        assert whole.code == 0, whole
        expected = self.scenario.state(places)
        kills = case = 0
        while kills < wanted:
            case += 1
            places = self.new_case(f"case{case}")
            points = []
            for _ in range(_MOST_IN_A_ROW):
                # What is in is not written again: later runs make fewer calls.
                points.append(rng.randint(1, max(1, whole.changes // (1 + len(points)))))
                ended = self.run(places, kill_at=points[-1])
                if ended.code == 0 or self._is_done(ended):
                    break
                assert ended.code == -9, (points, ended)
                kills += 1
            else:
                ended = self.run(places)
                assert ended.code == 0 or self._is_done(ended), (points, ended)
            assert self.scenario.state(places) == expected, points
        return kills, whole.changes


@pytest.mark.parametrize("scenario", WRITERS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_killed_at_any_point_and_run_again_everything_is_there_once(
    scenario: Scenario, commands: WarmCommands, tmp_path: Path
) -> None:
    kills, changes = Victim(scenario, commands, tmp_path).kill_often(KILLS, random.Random(scenario.name))
    print(f"\n{scenario.name}: {kills} kills at {changes} points")


def test_an_interrupted_restore_is_no_lake_and_a_new_one_is_whole(commands: WarmCommands, tmp_path: Path) -> None:
    victim, rng, kills = Victim(RESTORE, commands, tmp_path), random.Random(11), 0
    places = victim.new_case("whole")
    whole = victim.run(places)
    assert whole.code == 0, whole
    expected = RESTORE.state(places)
    lake = places.here / "lake"
    while kills < KILLS:
        shutil.rmtree(lake)
        point = rng.randint(1, whole.changes)
        ended = victim.run(places, kill_at=point)
        assert ended.code in (0, -9), (point, ended)
        kills += ended.code == -9
        if is_lake(lake):
            assert RESTORE.state(places) == expected, point
        else:
            again = victim.run(places)
            assert again.code == 0, (point, again)
            assert RESTORE.state(places) == expected, point
    shutil.rmtree(lake)
    assert victim.run(places).code == 0
    assert RESTORE.state(places) == expected
    print(f"\nrestore: {kills} kills at {whole.changes} points")


def kill_agents(
    commands: WarmCommands, arguments: list[object], spool: Path, root: Path, rng: random.Random, wanted: int
) -> tuple[int, int]:
    whole = commands.run(*arguments)
    assert whole.code == 0, whole
    kills = 0
    seen: set[str] = set()
    while kills < wanted:
        ended = commands.run(*arguments, kill_at=rng.randint(1, whole.changes))
        assert ended.code in (0, 1, -9), ended
        kills += ended.code == -9
        seen |= rows_in_spool(spool)
    ended = commands.run(*arguments)
    assert ended.code == 0, ended
    held = rows_in_lake(root)
    assert len(held) == len(set(held)), "a row is in twice"
    assert seen <= set(held), f"{len(seen - set(held))} of {len(seen)} rows are lost"
    assert rows_in_spool(spool) == set()
    return kills, whole.changes


def test_agents_that_ship_killed_at_any_point(commands: WarmCommands, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    make_small_agent(tmp_path, lake)
    arguments = ["collect", "block", "--lake", lake, "--spool", tmp_path / "spool", "--for", "1s"]
    kills = kill_agents(commands, arguments, tmp_path / "spool", lake, random.Random(3), KILLS)
    print("\nagent: {} kills at {} points".format(*kills))


def test_samples_killed_at_any_point(commands: WarmCommands, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    root = open_lake(tmp_path / "lake", create=True).root
    arguments = ["sample", place, "--sizes", "64KiB,512KiB", "--rounds", 1, "--busy", 1, "--lake", root, "--spool",
                 tmp_path / "spool"]  # fmt: skip
    kills = kill_agents(commands, arguments, tmp_path / "spool", root, random.Random(4), KILLS)
    print("\nsample: {} kills at {} points".format(*kills))
    assert list(place.iterdir()) == [], "files of killed runs are still there"


def test_shipments_killed_at_any_point(tmp_path: Path) -> None:
    """The child that brings segments to the lake; the agent's side of it lives on."""
    library, rng, kills = preloaded("kill_points", tmp_path), random.Random(5), 0
    root = open_lake(tmp_path / "lake", create=True).root
    expected: set[str] = set()
    for number in itertools.count():
        spool = tmp_path / f"spool{number}"
        write_segments(spool, 3 * number, 3)
        expected |= rows_in_spool(spool)
        files = sorted((spool / "segments").iterdir())
        while kills < KILLS and files:
            before = ("env", f"LD_PRELOAD={library}", f"KILL_AT={rng.randint(1, 60)}")
            shipper = Shipper(root, command=(*before, sys.executable, "-m", "ioweather", "ingest"))
            shipper.start(files, 0)
            found = outcome(shipper)
            kills += not found.ok
            assert found.ok or found.message == "the lake accepted no rows: exit code -9", found
            files = sorted((spool / "segments").iterdir())
        if kills >= KILLS:
            break
    shipper = Shipper(root)
    shipper.start(files, 0)
    assert not files or outcome(shipper).ok
    held = rows_in_lake(root)
    assert sorted(held) == sorted(expected)
    print(f"\nship: {kills} kills")


# A push opens a draft twice, writes it, makes its folder, syncs, renames and clears up.
_CHANGES_PER_PUSH = 8


def test_servers_killed_while_they_take_segments(commands: WarmCommands, tmp_path: Path) -> None:
    """A server is sent to until it dies; its writer lives on until it has written what it is at."""
    rng, pushes = random.Random(6), 0
    root = open_lake(tmp_path / "lake", create=True).root
    token = create_token(root, "n1", "n1")
    files: list[Path] = []
    expected: set[str] = set()
    for _ in range(KILLS):
        port = free_port()
        with ThreadPoolExecutor(1) as beside:
            kill_at = rng.randint(1, 4 * _CHANGES_PER_PUSH)
            server = beside.submit(commands.run, "serve", "--lake", root, "--port", port, kill_at=kill_at)
            wait_for(f"http://127.0.0.1:{port}", server)
            while not server.done():
                if not files:
                    spool = tmp_path / f"spool{pushes}"
                    write_segments(spool, pushes, 4)
                    expected |= rows_in_spool(spool)
                    files = sorted((spool / "segments").iterdir())
                    pushes += 4
                sent = push(f"http://127.0.0.1:{port}", token, files, timeout_seconds=30)
                assert not sent.refused, sent
                files = [path for path in files if str(path) in sent.waiting]
        assert server.result().code == -9, server.result()
    with running(create_app(root), bind("127.0.0.1", 0)) as address:
        assert not push(address.rstrip("/"), token, files, timeout_seconds=30).waiting
        wait_until_written(root)
    assert sorted(rows_in_lake(root)) == sorted(expected)
    print(f"\nserver: {KILLS} kills, {pushes} segments")


def free_port() -> int:
    with closing(bind("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def wait_for(address: str, server: Future[Ended]) -> None:
    while not server.done():
        try:
            with urllib.request.urlopen(f"{address}/api/v1/health", timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.05)


def test_writers_of_what_was_pushed_killed_at_any_point(commands: WarmCommands, tmp_path: Path) -> None:
    """What several writers died over goes alone, so the last ones may need several runs."""
    rng, kills, changes = random.Random(10), 0, 0
    root = open_lake(tmp_path / "lake", create=True).root
    expected: set[str] = set()
    for number in itertools.count():
        spool = tmp_path / f"spool{number}"
        write_segments(spool, 3 * number, 3)
        expected |= rows_in_spool(spool)
        for path in sorted((spool / "segments").iterdir()):  # as a server does that takes them
            with draft_in(root) as draft:
                shutil.copyfile(path, draft)
                assert receive(open_lake(root), draft, "n1", path.name, "n1").status == "ok"
        kills_here = 0
        while waiting(root).files:
            kill_at = rng.randint(1, changes) if changes and kills_here < _MOST_IN_A_ROW else 0
            ended = commands.run("-m", "ioweather.ingestion.drain", root, kill_at=kill_at)
            assert ended.code in (0, -9), ended
            kills_here += ended.code == -9
            changes = changes or ended.changes
        kills += kills_here
        if kills >= KILLS:
            break
    assert sorted(rows_in_lake(root)) == sorted(expected)
    print(f"\nwriter: {kills} kills at {changes} points")


def test_pushes_killed_at_any_moment(tmp_path: Path) -> None:
    rng, kills = random.Random(7), 0
    root = open_lake(tmp_path / "lake", create=True).root
    token_file = tmp_path / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(create_token(root, "n1", "n1"))
    expected: set[str] = set()
    number = 0
    with running(create_app(root), bind("127.0.0.1", 0)) as address:
        while kills < KILLS:
            spool = tmp_path / f"spool{number}"
            write_segments(spool, 2 * number, 2)
            expected |= rows_in_spool(spool)
            number += 1
            while files := sorted((spool / "segments").iterdir()):
                shipper = Shipper(root, server=Server(address.rstrip("/"), token_file))
                shipper.start(files, 0)
                assert shipper._child is not None
                if kills < KILLS:
                    time.sleep(rng.uniform(0, 0.6))
                    shipper._child.kill()
                found = outcome(shipper)
                kills += not found.ok
        wait_until_written(root)
    assert sorted(rows_in_lake(root)) == sorted(expected)
    print(f"\npush: {kills} kills")


def test_facilities_whose_making_was_killed_are_made_again(commands: WarmCommands, tmp_path: Path) -> None:
    rng, kills = random.Random(8), 0
    arguments = ["simulate", "--preset", "laptop", "--days", 1, "--out"]
    whole = commands.run(*arguments, tmp_path / "whole", seconds=600)
    assert whole.code == 0, whole
    while kills < KILLS:
        ended = commands.run(*arguments, tmp_path / "killed", kill_at=rng.randint(1, whole.changes), seconds=600)
        assert ended.code in (0, -9), ended
        kills += ended.code == -9
    assert commands.run(*arguments, tmp_path / "killed", seconds=600).code == 0
    assert tree_state(tmp_path / "killed") == tree_state(tmp_path / "whole")
    print(f"\nsimulate: {kills} kills at {whole.changes} points")


def test_reports_killed_beside_an_ingest(commands: WarmCommands, tmp_path: Path) -> None:
    """The report is the old one or the new one; the lake that it caches results in takes rows meanwhile."""
    rng, kills = random.Random(9), 0
    places = Places(tmp_path / "here", tmp_path / "beside")
    for place in (places.here, places.beside):
        place.mkdir()
    SCENARIOS[1].prepare(commands, places)
    report = tmp_path / "report.html"
    arguments = ["report", "--lake", places.here / "lake", "--out", report]
    whole = commands.run(*arguments, seconds=600)
    assert whole.code == 0, whole
    number = 9
    while kills < KILLS:
        write_segments(tmp_path / f"more{number}", number, 1)
        number += 1
        with subprocess.Popen(
            [sys.executable, "-m", "ioweather", "ingest", str(tmp_path / f"more{number - 1}/segments"), "--lake",
             str(places.here / "lake"), "--workers", "1"], stdout=subprocess.DEVNULL,
        ) as beside:  # fmt: skip
            ended = commands.run(*arguments, kill_at=rng.randint(1, whole.changes), seconds=600)
        assert beside.returncode == 0
        assert ended.code in (0, -9), ended
        kills += ended.code == -9
        assert report.read_text().rstrip().endswith("</html>")
    assert commands.run(*arguments, seconds=600).code == 0
    state = lake_state(places.here / "lake", places)
    assert len(state["responses"]) == 8 * (2 + number - 9)
    assert len(state["ingests"]) == 2 + number - 9
    print(f"\nreport: {kills} kills at {whole.changes} points")
