"""Others' rate is that of whole sampling intervals less the run's own bytes."""

from __future__ import annotations

import numpy as np
import pytest
from planted_jobs import planted

from ioweather.diagnosis.comparison_pool import BYTES, OPERATIONS, TARGETS, group_states, run_slowdowns
from ioweather.facts.runs import group_runs
from ioweather.studies.mad17.run_groups import association_data
from planted_association import PARAMS, planted_association, site


def test_states_follow_the_planted_load():
    data = association_data(planted_association(days=10), site(), PARAMS)
    states = group_states(data.runs.frame, data.system)
    rows = data.members(data.asked)
    whole = data.of("others_io_high_read_bytes") + data.of("others_io_high_write_bytes")
    assert states.states[BYTES][rows] == pytest.approx((whole / data.of("d_d_seconds"))[rows])
    assert np.isfinite(states.states[OPERATIONS][rows]).all()


def test_targets_stand_for_all_servers_where_they_are_known_throughout():
    data = association_data(planted_association(days=4), site(), PARAMS)
    rate = np.linspace(1.0, 2.0, data.runs.rows)
    known = data.system.with_columns(target_bytes_per_s=rate, neighbours=np.log(rate))
    states = group_states(data.runs.frame, known)
    assert next(iter(states.states)) == TARGETS
    assert BYTES not in states.states
    assert states.slowdowns["neighbours"] == pytest.approx(np.log(rate))
    rate[np.flatnonzero(np.isfinite(group_states(data.runs.frame, data.system).states[BYTES]))[0]] = np.nan
    partly = data.system.with_columns(target_bytes_per_s=rate)
    assert next(iter(group_states(data.runs.frame, partly).states)) == BYTES


def test_how_slow_runs_were_among_their_own():
    jobs = [{"read": 100 * 2**20, "io": 10.0, "uid": 1, "exe": "/bin/a", "read_count": 100} for _ in range(9)]
    jobs[3]["io"], jobs[4]["io"] = 20.0, 40.0
    jobs[4]["read_count"] = 100_000  # another pattern: not how slow it was, but what it did
    jobs.append({"read": 2**20, "io": 5.0, "uid": 2, "exe": "/bin/rare", "read_count": 1})
    frames = planted(jobs)
    runs = frames["job_io"].with_columns(**{name: frames["applications"][name] for name in ("uid", "exe")})
    found = run_slowdowns(runs, group_runs(runs, "similar"))
    assert np.exp(found[3]) == pytest.approx(2.0)
    assert found[[0, 1, 2]] == pytest.approx(0.0)
    assert np.isnan(found[[4, 9]]).all()
