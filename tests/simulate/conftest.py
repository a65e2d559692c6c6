"""A small facility, made once: two days, the second also as other archives keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days

SMALL = replace(for_days(LAPTOP, 2), detail_day=1, probe_seconds=900, sampler_seconds=3600, scan_files=300)


@pytest.fixture(scope="session")
def small_facility(tmp_path_factory):
    return generate(SMALL, tmp_path_factory.mktemp("simulate") / "small", seed=3)
