"""Long silence of all is a shutdown."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from lmt_files import Read

from ioweather.core.contracts import ReadContext
from ioweather.facts.system_grid import shutdown_steps


def test_a_shutdown_is_long_silence():
    quiet = np.zeros(40, np.bool_)
    quiet[5:20] = True
    quiet[30:36] = True  # too short
    assert np.flatnonzero(shutdown_steps(quiet, 60.0)).tolist() == list(range(5, 20))
    assert np.flatnonzero(shutdown_steps(quiet, 60.0, at_least_seconds=360)).tolist() == [*range(5, 20), *range(30, 36)]


def test_shutdowns_at_the_ends_and_nothing_at_all():
    assert shutdown_steps(np.ones(10, bool), 60.0).all()
    assert not shutdown_steps(np.ones(9, bool), 60.0).any()
    assert len(shutdown_steps(np.zeros(0, bool), 60.0)) == 0


def test_half_a_day_at_work_has_none(half_day: Path):
    from ioweather.readers.lmt_hdf5 import TTS

    moved = np.zeros(720)
    read = Read(TTS.read(half_day, ReadContext()))
    rows = [item for metric in ("read_bytes", "write_bytes") for item in read.rows(metric).items()]
    start = min(begin for (begin, _), _ in rows)
    for (begin, _), (value, _) in rows:
        moved[(begin - start) // 60] += np.nan_to_num(value)
    assert not shutdown_steps(moved == 0, 60.0).any()
