"""kill -9 at exact points of every command that writes: at the n-th call that changes a file, inside commits too.

The same command is killed again and again, each time a little further or not as far, until it ends by itself. Then
everything must be there once. IOWEATHER_KILLS=N kills each writer at least N times (default 10).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fault_scenarios import SCENARIOS, Places, Scenario, copy_places, lake_state
from scan_trees import runs_tree
from warm_commands import Ended, WarmCommands, killable_commands

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
    lambda at: ["scan", at.beside / "tree", "--lake", at.here / "lake", "--workers", 1, "--resume", "--entries"],
    scan_state,
)  # fmt: skip
REPORT = Scenario(
    "report",
    lambda commands, at: _some_lake(commands, at),
    lambda at: ["report", "--lake", at.here / "lake", "--out", at.here / "report.html"],
    lambda at: (at.here / "report.html").read_text().endswith("</html>\n"),
)  # fmt: skip
WRITERS = (*SCENARIOS[:2], *SCENARIOS[3:4], *SCENARIOS[5:], SCAN)


def _some_lake(commands: WarmCommands, at: Places) -> None:
    SCENARIOS[1].prepare(commands, at)


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
                points.append(rng.randint(1, whole.changes))
                ended = self.run(places, kill_at=points[-1])
                if ended.code == 0:
                    break
                assert ended.code == -9, (points, ended)
                kills += 1
            else:
                ended = self.run(places)
                assert ended.code == 0, (points, ended)
            assert self.scenario.state(places) == expected, points
        return kills, whole.changes


@pytest.mark.parametrize("scenario", WRITERS, ids=lambda scenario: scenario.name.replace(" ", "-"))
def test_killed_at_any_point_and_run_again_everything_is_there_once(
    scenario: Scenario, commands: WarmCommands, tmp_path: Path
) -> None:
    kills, changes = Victim(scenario, commands, tmp_path).kill_often(KILLS, random.Random(scenario.name))
    print(f"\n{scenario.name}: {kills} kills at {changes} points")
