"""Servers' counts of jobs: they add up to what the meters read, and the cost of a job is what the run would gain."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from ioweather.simulate.monitoring import JobCounts, write_job_stats
from ioweather.simulate.presets import LAPTOP
from ioweather.simulate.world import World


def test_counts_add_up_and_costs_are_no_more_than_what_others_took(tmp_path: Path) -> None:
    preset = replace(LAPTOP, days=1, jobs=25, transfers_per_day=20.0, incidents_per_week=0.0, detail_day=None)
    world = World(preset, 3)
    counts = JobCounts(world.fluid, world.resources, preset.step_seconds)
    world.fluid.watcher = counts.watch
    (window,) = list(world.windows())
    rows = counts.taken(86400.0)
    osts = world.resources.osts
    moved = np.sum([amounts[: 2 * osts] for _, _, amounts in rows], axis=0)
    read = np.concatenate([window.readings.read_bytes.sum(axis=0), window.readings.write_bytes.sum(axis=0)])
    np.testing.assert_allclose(moved, read, rtol=1e-6)
    assert counts.taken(86400.0) == []
    for run in window.runs:
        assert all(0 < seconds <= run.io_seconds for seconds in counts.costs_of(run.id).values())
    write_job_stats(tmp_path, rows[:50], preset.step_seconds, world.resources, world.calendar)
    header, *lines = next(tmp_path.glob("*.ndjson")).read_text().splitlines()
    assert json.loads(header)["ioweather_spool"] == 1
    assert {json.loads(line)["table"] for line in lines} == {"job_operations"}
