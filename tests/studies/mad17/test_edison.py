"""A year of benchmark jobs on a real system: the published coefficient, and associations group by group."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "edison.py"
FILE = "edison-summaries_2017-02-14-2018-02-15.csv.gz"


@pytest.fixture(scope="module")
def edison():
    return runpy.run_path(str(BENCHMARK))


@pytest.mark.slow
@pytest.mark.shared
def test_jobs_of_a_year_follow_the_servers(shared_data, edison):
    rows = edison["rows_of"](shared_data / "tokio-abc" / FILE)
    assert len(rows) == 7494
    n, linear, ranks = edison["pooled"](rows)
    assert (n, round(linear, 2), round(ranks, 2)) == (7424, 0.50, 0.45)
    jobs = edison["jobs_of"](rows)
    assert len(jobs.group) + sum(jobs.left_out.values()) == 7494
    assert (jobs.io_seconds > 0).all()
    large = edison["large_groups"](jobs)
    assert len(large) == 24
    count, by_volume, by_rate = edison["associations"](jobs, large[0])
    assert count == np.sum(jobs.group == large[0]) == 330
    assert by_volume["spearman"].value == pytest.approx(0.38, abs=0.01)
    assert by_volume["spearman"].p <= 0.01
    # What others moved per second says less than what all moved: a longer job sees more bytes by itself.
    assert 0.1 < by_rate["spearman"].value < by_volume["spearman"].value
