"""A small facility, made once: two days, the second also as other archives keep it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ioweather.simulate.generate import generate
from ioweather.simulate.presets import LAPTOP, for_days
from made_once import made_once

SMALL = replace(for_days(LAPTOP, 2), detail_day=1, probe_seconds=900, sampler_seconds=3600, scan_files=300)


@pytest.fixture(scope="session")
def small_facility(tmp_path_factory):
    place = tmp_path_factory.mktemp("simulate")
    return made_once(place, "simulated", lambda folder: generate(SMALL, folder / "small", seed=3))
