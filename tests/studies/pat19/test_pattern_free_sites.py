"""Sites without any pattern: how often a claim about one is decided for it. `table()` gives the figures of
docs/explanation/claims.md."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from ioweather.core.facility import Facility, FileSystem
from ioweather.core.frames import Matrix
from ioweather.core.papers.claim_tests import judge_claims
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study
from studies.conftest import CLIMATE_PARAMS, rollup_frame, smooth

STEP_NS = 5 * MINUTE_NS
FACILITY = Facility(filesystems=(FileSystem("scratch", peak_bytes_per_s=1e18, component_limit_bytes_per_s=1e18),))
# What is not so at a site whose reads and writes have one law, at all times and on all targets.
NULLS = {
    "pat19.more_read", "pat19.writes_vary_more", "pat19.evening_writes", "pat19.sunday_writes", "pat19.peak_hour",
    "pat19.low_reads_last_longer", "pat19.low_writes_last_longer", "pat19.high_reads_last_longer",
    "pat19.low_reads_longer_than_writes", "pat19.lasting_order", "pat19.writes_more_parallel", "pat19.writes_reach_10",
    "pat19.not_closed",
}  # fmt: skip


def site(seed: int, days: int = 28, targets: int = 8) -> PlantedSource:
    """Gaussian amounts that remember an hour; days differ in level, and everything else is chance."""
    rng = np.random.default_rng([2011, seed])
    rows = days * DAY_NS // STEP_NS
    keeps = 0.5 ** (STEP_NS / HOUR_NS)
    values = {}
    for metric in ("read_bytes", "write_bytes"):
        level = np.repeat(rng.standard_normal((days, 1)), rows // days, axis=0)
        each = smooth(rng, rows, 1, keeps) + 0.3 * level + 0.5 * smooth(rng, rows, targets, keeps)
        values[metric] = 1e12 * np.exp(0.5 * each)
    names, start = tuple(f"OST{i:04x}" for i in range(targets)), 1_514_764_800 * 10**9
    covered = np.broadcast_to(np.float32(1), (rows, targets))
    matrices = {m: Matrix(m, start, STEP_NS, names, v, covered) for m, v in values.items()}
    opens, closes = (5e5 * np.exp(0.5 * smooth(rng, rows, 1, keeps)[:, 0]) for _ in range(2))
    metadata = rollup_frame(start, STEP_NS, {"open_ops": opens, "close_ops": closes})
    return PlantedSource({"metadata": metadata}, matrices, (start, start + days * DAY_NS), STEP_NS)


def decided(seed: int) -> list[tuple[str, str]]:
    params: dict[str, Any] = CLIMATE_PARAMS
    made = run_study(STUDIES["climate"], site(seed), FACILITY, params)
    return [
        (j.claim.id, j.standing) for each in made for j in judge_claims(each.id, each.estimates) if j.claim.id in NULLS
    ]


def table(sites: int = 40) -> None:
    found = Counter(pair for seed in range(sites) for pair in decided(seed))
    for claim in sorted(NULLS):
        shown = {standing: found[claim, standing] for standing in ("supported", "refuted", "undecided", "untestable")}
        print(f"| {claim} | {sites} | {' | '.join(map(str, shown.values()))} |", flush=True)


@pytest.mark.slow
def test_claims_about_patterns_are_rarely_decided_where_there_is_none() -> None:
    found = Counter(claim for seed in range(30) for claim, standing in decided(seed) if standing == "supported")
    assert not {claim: count for claim, count in found.items() if count > 3}
