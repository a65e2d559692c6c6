"""A share of a million damaged files at every run: docs/reference/robustness.md says what counts and what fails.

The day is the seed, so that each day's run damages other files; thirteen days make a million.
"""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from fuzz_seeds import SEEDS
from fuzzing import distinct, run_source, share_of

pytestmark = pytest.mark.slow

SEED = os.environ.get("IOWEATHER_FUZZ_SEED") or dt.datetime.now(dt.UTC).date().isoformat()
COUNT = int(os.environ.get("IOWEATHER_FUZZ_COUNT") or 80_000)  # 60,000 of files made here


def check(source: str, count: int, sample_data: Path | None) -> None:
    done = run_source(source, SEED, count, sample_data)
    assert not done.failures, "".join(distinct(done.failures))
    assert done.counted == count


@pytest.mark.parametrize("source", SEEDS)
def test_no_mutation_fails(source: str) -> None:
    check(source, share_of(source, COUNT * 3 // 4), None)


@pytest.mark.shared
@pytest.mark.parametrize("source", SEEDS)
def test_no_mutation_of_real_files_fails(source: str, shared_data: Path) -> None:
    check(source, share_of(source, COUNT // 4), shared_data)
