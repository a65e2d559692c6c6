"""A file that takes too much time or memory is refused, whatever its source; the others are read."""

from __future__ import annotations

import os

import numpy as np
import pytest
from lmt_files import loop_hdf5, write_h5lmt

from ioweather.core.contracts import ReadContext
from ioweather.core.units import zone_named
from ioweather.ingestion import reading
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.reading import Limits, Reading, read_bounded
from ioweather.lake.lake import open_lake
from ioweather.lake.limited import WorkerDied
from planted_logs import write_climate

CONTEXT = ReadContext(zone=zone_named("UTC"), cluster="c")
HEADER = "JobID|JobIDRaw|State|Submit|Start|End|NodeList\n"
ROW = "{0}|{0}|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00|{1}\n"
AMOUNTS = np.arange(120.0).reshape(2, 60)


def lake_with(tmp_path, limits: str):
    lake = open_lake(tmp_path / "lake", create=True)
    (lake.root / "facility.toml").write_text(f"[ingest]\n{limits}\n")
    return open_lake(lake.root)


def sacct(path, rows: int, nodes: str = "n1"):
    path.write_text(HEADER + "".join(ROW.format(n, nodes) for n in range(1, rows + 1)))
    return path


def looping(tmp_path, name: str):
    made = write_h5lmt(tmp_path / name, AMOUNTS + len(name), AMOUNTS)
    loop_hdf5(made)
    return made


@pytest.fixture
def deaths(monkeypatch):
    """How workers ended."""
    seen: list[WorkerDied] = []
    init = WorkerDied.__init__

    def note(self, *args, **named):
        init(self, *args, **named)
        seen.append(self)

    monkeypatch.setattr(WorkerDied, "__init__", note)
    return seen


def test_two_files_on_which_hdf5_loops_hold_up_nothing(tmp_path, deaths):
    """The real library, on real files of which eight bytes are wrong."""
    lake = lake_with(tmp_path, 'stuck_after = "1s"')
    bad = [looping(tmp_path, name) for name in ("a.h5lmt", "bb.h5lmt")]
    good = [write_h5lmt(tmp_path / "good.h5lmt", AMOUNTS, AMOUNTS), sacct(tmp_path / "sacct.txt", 3)]
    report = ingest(lake, [*bad, *good], context=CONTEXT)
    assert {outcome.path for outcome in report.good} == set(good)
    assert {outcome.path for outcome in report.bad} == set(bad)
    if any(outcome.reason != "too_much_time" for outcome in report.bad):
        pytest.skip("this HDF5 notices the loop")
    assert len(deaths) == 3, "the batch once, and each of the two alone"
    assert all(death.kind == "TooMuchTime" for death in deaths)


def test_too_much_memory_is_named_and_the_rest_goes_in(tmp_path):
    lake = lake_with(tmp_path, 'most_memory = "64MiB"')
    large = tmp_path / "large.json"
    large.write_text('{"meta": {"Slurm": 1}, "jobs": [' + "[]," * 4_000_000 + "0]}")  # 250 MB as lists
    report = ingest(lake, [large, sacct(tmp_path / "small.txt", 3)], context=CONTEXT)
    (bad,) = report.bad
    assert (bad.path, bad.status, bad.reason) == (large, "quarantined", "too_much_memory")
    assert "the memory limit of 64 MiB" in bad.message
    assert "most_memory" in bad.message
    assert report.rows_added == {"jobs": 3}


def test_rows_are_counted_against_the_size(tmp_path):
    path = sacct(tmp_path / "jobs.txt", 5)
    for rows, reason in ((5 - path.stat().st_size, None), (4 - path.stat().st_size, "too_many_rows")):
        reading = Reading(CONTEXT, limits=Limits(30.0, 1 << 30, rows))
        ((outcome,), _) = read_bounded([(str(path), path.stat().st_size)], reading)
        assert outcome.reason == reason


def test_a_large_file_comes_piece_by_piece_within_its_limits(tmp_path, monkeypatch):
    monkeypatch.setattr("ioweather.ingestion.ingest._STREAM_BYTES", 100)
    lake = lake_with(tmp_path, 'stuck_after = "1s"')
    bad, good = looping(tmp_path, "a.h5lmt"), sacct(tmp_path / "sacct.txt", 20)
    report = ingest(lake, [bad, good], context=CONTEXT)
    assert [outcome.path for outcome in report.good] == [good]
    assert [outcome.path for outcome in report.bad] == [bad]
    assert report.rows_added == {"jobs": 20}


def test_a_worker_that_dies_loses_only_the_file_that_killed_it(tmp_path, deaths, monkeypatch):
    """Files of a batch whose worker died are read one by one."""
    lake = open_lake(tmp_path / "lake", create=True)
    logs = [write_climate(tmp_path / f"{n}.darshan", job_id=n) for n in range(1, 9)]
    run = reading.run_limited

    def die(task, *args, wall_seconds):
        return run(os._exit, 9, wall_seconds=wall_seconds)

    monkeypatch.setattr(reading, "run_limited", die)
    report = ingest(lake, logs)
    assert len(report.good) == len(logs)
    assert [death.kind == "TooMuchTime" for death in deaths] == [False]


def test_nesting_without_end_is_a_damaged_file(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    (tmp_path / "sacct.json").write_text('{"meta": {"Slurm": 1}, "jobs": ' + "[" * 200_000)
    report = ingest(lake, [tmp_path / "sacct.json"], context=CONTEXT)
    (bad,) = report.bad
    assert bad.reason == "corrupt_input"
    assert "report this" not in bad.message
