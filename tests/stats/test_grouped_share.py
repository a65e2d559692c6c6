"""Shares over jobs whose programs resemble each other."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.stats.estimates import grouped_share, share_estimate


def test_jobs_of_their_own_give_nearly_wilsons_interval() -> None:
    flags = np.arange(400) % 10 < 3
    found, wilson = grouped_share("s", flags, np.ones(400), np.arange(400)), share_estimate("s", 120, 400)
    assert found.value == wilson.value == 0.3
    assert (found.low, found.high) == pytest.approx((wilson.low, wilson.high), abs=0.002)


def test_a_thousand_jobs_of_one_program_are_one_program() -> None:
    groups = np.concatenate([np.repeat(0, 1000), np.arange(1, 14)])
    found = grouped_share("s", groups == 0, np.ones(len(groups)), groups)
    assert found.value == pytest.approx(0.987, abs=0.001)
    assert found.low is not None
    assert found.low < 0.7, "hardly more than one program"
    assert grouped_share("s", np.ones(60), np.ones(60), np.repeat([1, 2, 3], 20)).low is None
    assert grouped_share("s", np.zeros(3), np.zeros(3), np.arange(3)).value is None


def held(programs: int, rng: np.random.Generator, *, of_bytes: bool = False) -> bool | None:
    """Programs have an interface each, and from one to some hundred jobs."""
    jobs = np.ceil(rng.lognormal(2, 1, programs)).astype(int)
    uses = rng.beta(0.5, 0.5, programs)
    groups = np.repeat(np.arange(programs), jobs)
    flags = rng.random(len(groups)) < uses[groups]
    weight = rng.lognormal(0, 0.5, len(groups)) if of_bytes else np.ones(len(groups))
    found = grouped_share("s", flags * weight, weight, groups)
    return None if found.low is None or found.high is None else found.low <= 0.5 <= found.high


@pytest.mark.slow
@pytest.mark.parametrize("of_bytes", [False, True])
@pytest.mark.parametrize("programs", [8, 14, 40])
def test_intervals_hold_over_other_programs(programs: int, of_bytes: bool) -> None:
    found = [held(programs, np.random.default_rng([seed, programs]), of_bytes=of_bytes) for seed in range(400)]
    assert 0.85 <= np.mean([each for each in found if each is not None]) <= 0.96
