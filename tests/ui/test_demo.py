"""What the demonstration names: components that were planted, jobs that did cost others time, and the same of both
whatever was asked before."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from ioweather.core.results import Answer
from ioweather.core.units import NS, utc_day
from ioweather.diagnosis.blame import NAMED_FROM, blame
from ioweather.diagnosis.blame_query import read_activity, read_slowed_run
from ioweather.diagnosis.health import HealthOutcome
from ioweather.diagnosis.similar_runs import similar_runs
from ioweather.job_io.view import view_of_run
from ioweather.lake.lake import Lake, open_lake
from ioweather.simulate.generate import generate
from ioweather.topics.source import ask
from ioweather.ui.local_setup import _SEED, PRESET, make_demo, tour
from made_once import made_once

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from job_counts import count_jobs

ALL_TIME = (0, 2**62)


@dataclass(frozen=True)
class Truth:
    """Incidents (component, start, end), and by the second of a run's start what each job cost it."""

    incidents: tuple[tuple[str, int, int], ...]
    costs: Mapping[int, Mapping[str, float]]


def _truth(folder: Path) -> Truth:
    """The same week, in which servers count jobs: that is when what each cost the others is written down."""
    made = generate(PRESET, folder, seed=_SEED, watch=count_jobs)
    with duckdb.connect() as con:
        incidents = con.sql(
            f"SELECT component, start_ns, end_ns FROM '{made.truth}' WHERE kind = 'incident'"
        ).fetchall()
        rows = con.sql(f"""SELECT r.start_ns, c.name, c.value FROM '{made.truth}' r JOIN '{made.truth}' c USING (id)
            WHERE r.kind = 'run' AND c.kind = 'cost'""").fetchall()
    costs: dict[int, dict[str, float]] = {}
    for start, job, seconds in rows:
        costs.setdefault(start // NS, {})[job] = seconds
    return Truth(tuple(incidents), costs)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return open_lake(made_once(tmp_path_factory.mktemp("demo"), "demo", make_demo))


@pytest.fixture(scope="module")
def toured(demo: Lake, tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[tuple[str, str, Answer]]]:
    """A copy of which all was asked that the tour asks, and the answers."""
    lake = open_lake(shutil.copytree(demo.root, tmp_path_factory.mktemp("toured") / "lake"))
    return lake, list(tour(lake))


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    return made_once(tmp_path_factory.mktemp("truth"), "demo-truth", _truth)


def unhealthy(lake: Lake) -> tuple[tuple[str, int, int | None], ...]:
    result = ask("health", lake).result
    assert isinstance(result, HealthOutcome)
    return tuple((each.component, each.start_ns, each.end_ns) for each in result.unhealthy)


def test_it_names_planted_components(demo: Lake, truth: Truth) -> None:
    found = unhealthy(demo)
    for component, start, end in found:
        assert any(
            component == name and start < last and (end is None or end > first) for name, first, last in truth.incidents
        ), component
    assert {component for component, _, _ in found} == {
        "scratch-OST0007",
        "scratch-OST000d",
        "scratch-MDT0000",
        "oss004",
    }


def test_it_names_jobs_that_cost_others_time(demo: Lake, truth: Truth) -> None:
    with demo.snapshot() as snapshot:
        slowed = read_activity(snapshot, None, ALL_TIME).slowed
        named = [(run, each) for run in slowed for each in blame(run) if each.probability >= NAMED_FROM]
        costs = [truth.costs[run.start_ns // NS].get(each.suspect.party.key, 0.0) for run, each in named]
        right = [cost >= run.harm_seconds / 2 for cost, (run, _) in zip(costs, named, strict=True)]
        assert len(named) >= 5
        assert sum(right) >= sum(each.probability for _, each in named) - 1, "as often as they were said"
        assert sum(right) >= 0.8 * len(named)
        runs = snapshot.frame("applications", ("log_digest", "start_ns"))
        digests = dict(zip(runs.ints("start_ns").tolist(), runs.text("log_digest").tolist(), strict=True))
        for run, each in named[:3]:  # asked about it alone
            view = view_of_run(snapshot, str(digests[run.start_ns]), utc_day(run.start_ns))
            alone = blame(read_slowed_run(snapshot, similar_runs(view, snapshot), "scratch"))
            assert {a.suspect.party.key: a.probability for a in alone}[each.suspect.party.key] == pytest.approx(
                each.probability
            )


def test_the_tour(toured: tuple[Lake, list[tuple[str, str, Answer]]]) -> None:
    why, health, who, triage = (answer.result for _, _, answer in toured[1])
    assert toured[1][0][1].split()[0] == "why"
    assert why.kind != "unknown"
    assert who.culprits
    assert any(each.component and "OST" in each.component for each in health.unhealthy)
    assert triage.programs
