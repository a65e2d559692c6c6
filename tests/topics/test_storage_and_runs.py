"""`storage` and `runs` against plain SQL and the standard library."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from small_facility import make_small_lake

from ioweather.core.errors import DataUnavailable
from ioweather.core.units import HOUR_NS, MINUTE_NS, now_ns
from ioweather.diagnosis.file_systems import StorageOutcome, past_moment
from ioweather.diagnosis.list_jobs import RunsOutcome
from ioweather.lake.lake import Lake
from ioweather.topics.source import ask

# 2026-03-02T06:00Z, in the middle of the small facility's first day, and a length that is no whole step.
START_NS, LENGTH_NS = 1_772_431_200_000_000_000, 3 * HOUR_NS


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_small_lake(tmp_path_factory.mktemp("storage"))


def sql(lake: Lake, text: str) -> list[tuple[Any, ...]]:
    with lake.snapshot() as snapshot:
        return snapshot.query(text).fetchall()


def storage(lake: Lake, where: str | None = None, period: tuple[int, int] = (0, 2**62)) -> StorageOutcome:
    found = ask("storage", lake, {"where": where}, period_ns=period).result
    assert isinstance(found, StorageOutcome)
    return found


def runs(lake: Lake, **params: Any) -> RunsOutcome:
    found = ask("runs", lake, params).result
    assert isinstance(found, RunsOutcome)
    return found


def moved(lake: Lake, metric: str, more: str = "TRUE") -> float:
    where = f"metric = '{metric}' AND component_kind = 'ost' AND start_ns >= {START_NS} AND {more}"
    ((total,),) = sql(lake, f"SELECT sum(value) FROM series WHERE {where} AND start_ns < {START_NS + LENGTH_NS}")
    return float(total)


def test_amounts_of_a_file_system_and_its_targets_are_those_of_the_rows(lake: Lake) -> None:
    found = storage(lake, "scratch", (START_NS, START_NS + LENGTH_NS))
    (state,) = found.filesystems
    assert state.read_bytes == pytest.approx(moved(lake, "read_bytes"))
    assert state.write_bytes == pytest.approx(moved(lake, "write_bytes"))
    assert sum(c.bytes_ratio or 0 for c in found.components) == pytest.approx(1.0)
    for part in found.components[:3]:
        assert part.read_bytes == pytest.approx(moved(lake, "read_bytes", f"component = '{part.component}'"))
    assert (found.start_ns, found.end_ns) == (START_NS, START_NS + LENGTH_NS)


def test_a_server_has_the_targets_that_the_facility_file_gives_it(lake: Lake) -> None:
    whole = storage(lake, "scratch")
    (server, mine), *_ = lake.facility.filesystems[0].servers.items()
    found = storage(lake, server)
    assert (found.kind, found.filesystems) == ("oss", ())
    assert [part.component for part in found.components] == sorted(mine)
    assert found.components == tuple(part for part in whole.components if part.server == server)


def test_what_is_not_there_is_said_with_a_near_name(lake: Lake) -> None:
    (name,) = sql(lake, "SELECT min(component) FROM series WHERE component_kind = 'ost'")[0]
    with pytest.raises(DataUnavailable) as caught:
        storage(lake, name + "x")
    assert name in caught.value.hint
    with pytest.raises(DataUnavailable):
        storage(lake, period=(1, 2))


def test_slowness_is_over_the_median_of_similar_runs(lake: Lake) -> None:
    found = runs(lake, order="slowest", most=1000)
    with lake.snapshot() as snapshot:
        every = snapshot.query("""SELECT a.job_id, m.start_ns, a.uid, split_part(a.exe, ' ', 1) AS exe, m.nprocs,
            m.main_mount, m.read_bytes + m.write_bytes AS moved, m.io_seconds
            FROM applications a JOIN job_io m USING (log_digest) WHERE m.io_seconds > 0""").fetchall()
    names = ("job_id", "start_ns", "uid", "exe", "nprocs", "main_mount", "moved", "io_seconds")
    rows = [dict(zip(names, row, strict=True)) for row in every]
    checked = 0
    for run in found.runs:
        mine = [row for row in rows if (row["job_id"], row["start_ns"]) == (run.job_id, run.start_ns)]
        if len(mine) != 1:
            continue
        similar = [
            row["io_seconds"]
            for row in rows
            if row is not mine[0]
            and all(row[name] == mine[0][name] for name in ("uid", "exe", "nprocs", "main_mount"))
            and mine[0]["moved"] / 1.25 <= row["moved"] <= mine[0]["moved"] * 1.25
        ]
        assert run.similar == len(similar) or len(similar) > 64
        if len(similar) < 3:
            assert run.slowness is None
        elif len(similar) <= 64:
            assert run.slowness == pytest.approx(run.io_seconds / median(similar))
            checked += 1
    assert checked > 5
    known = [run.slowness for run in found.runs if run.slowness is not None]
    assert known == sorted(known, reverse=True)


def test_runs_are_chosen_by_what_they_are(lake: Lake) -> None:
    every = runs(lake, most=1000)
    first = next(run for run in every.runs if run.filesystem)
    assert [run.start_ns for run in every.runs] == sorted((run.start_ns for run in every.runs), reverse=True)
    for name in ("user", "project", "program", "filesystem"):
        wanted = getattr(first, name)
        chosen = runs(lake, most=1000, **{name: wanted})
        assert {getattr(run, name) for run in chosen.runs} == {wanted}
        assert chosen.count == sum(getattr(run, name) == wanted for run in every.runs)
    assert runs(lake, words=f"{first.job_id} {first.user}").runs[0].job_id == first.job_id
    assert runs(lake, words="no such thing").count == 0


def test_the_state_at_the_end_of_a_past_period_is_not_called_that_of_now(lake: Lake) -> None:
    period = (START_NS, START_NS + LENGTH_NS)
    past = ask("storage", lake, {"where": "scratch"}, period_ns=period).headline
    assert " at 2026-03-02 09:00" in past
    assert " at 2026-03-03 00:00" in ask("storage", lake, {"where": "scratch"}).headline, "the newest data are old"
    assert past_moment(now_ns() - MINUTE_NS, is_newest=True) == ""
