"""What happened on the targets of runs: amounts, service times, and a target that is slow only for those who wait."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Cells
from ioweather.core.tables import APPLICATIONS, FILES
from ioweather.core.units import NS
from ioweather.facts.job_metrics import file_records
from ioweather.facts.run_targets import (
    activity_on_busiest_target,
    activity_on_targets,
    service_slowdown,
    shared_contrast,
    target_amounts,
    target_contrast,
    used_targets,
)
from ioweather.facts.system_activity import Stretches

COMPONENTS = ("fs-OST0000", "fs-OST0001", "fs-OST0002")
STRETCHES = Stretches(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 0]), np.array([1, 0, 1, 0]), 4)
STAMPS = STRETCHES.first * 10 * NS, (STRETCHES.last + 1) * 10 * NS
OWN = np.array([[100.0, 0.0, 60.0], [0.0, 0.0, 40.0], [0.0, 0.0, 0.0], [10.0, 0.0, 0.0]])


def cells(**metrics):
    """Two steps of 10 s, three components; values by metric, step after step."""
    values = {name: np.asarray(amounts, float).reshape(2, 3) for name, amounts in metrics.items()}
    return Cells(np.array([0, 10 * NS]), 10 * NS, COMPONENTS, values, {name: np.ones(2) for name in metrics})


def test_others_on_the_busiest_target_of_each_run():
    """The third run's targets are not known, the fourth did no I/O."""
    found = target_amounts(cells(write_bytes=[100, 500, 20, 300, 700, 20]), STRETCHES, STAMPS)
    steps, used = STRETCHES.steps, used_targets(OWN)
    assert used[2].all()
    moved, own, most = activity_on_busiest_target(found, OWN, used, ("read_bytes", "write_bytes"), steps)
    # Run 0: target 0, not 1 which it did not use. Run 1: its own bytes are all there were.
    assert moved[:2].tolist() == [400.0, 40.0]
    assert own[:2].tolist() == [100.0, 40.0]
    assert most[:2] == pytest.approx([600.0, 40.0], abs=1)
    assert np.isnan([moved[2:], own[2:], most[2:]]).all()
    assert np.isnan(activity_on_busiest_target(found, OWN, used, ("read_ops",), steps)).all()
    amount, peak = activity_on_targets(found, used, ("write_bytes",), steps)
    assert amount[:3].tolist() == [440.0, 40.0, 620.0]
    assert np.isnan(amount[3])
    assert (peak[:3] >= amount[:3] - 1).all()


def test_requests_that_take_longer():
    """Each takes 10 ms, on target 1 in the second step 100 ms; runs that did not use it do not see it."""
    counts = [100.0] * 6
    busy = [1.0, 1.0, 1.0, 1.0, 10.0, 1.0]
    found = target_amounts(cells(write_ops=counts, write_busy_seconds=busy), STRETCHES, STAMPS)
    own = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    slow = service_slowdown(found, used_targets(own))
    assert np.exp(slow[0]) == pytest.approx(5.2, abs=0.3)
    assert slow[1:3] == pytest.approx(0.0, abs=1e-9)


def runs(count):
    return APPLICATIONS.frame(
        log_digest=[f"d{i}" for i in range(count)], job_id=np.arange(count), uid=1, exe="x", nprocs=4, start_ns=0,
        end_ns=1, log_version="3.41", partial_modules="", modules="POSIX", rows=count,
    )  # fmt: skip


def files(rows):
    """rows: (log, bytes, seconds, osts)."""
    columns = {s.name: None if s.nullable else 0 for s in FILES.columns}
    columns |= {
        "log_digest": [f"d{r[0]}" for r in rows], "record_id": list(range(len(rows))), "rank": -1, "module": "POSIX",
        "standard_stream": False, "write_bytes": [r[1] for r in rows], "write_seconds": [float(r[2]) for r in rows],
        "osts": [r[3] for r in rows],
    }  # fmt: skip
    return FILES.frame(columns, rows=len(rows))


def test_only_differences_within_a_run_tell_of_a_target():
    """Run 0: target 1 takes four times as long. Run 1: all slow alike. Run 2: one target. Run 3: all files over all."""
    table = files([
        (0, 100, 1, "0"), (0, 100, 4, "1"), (0, 100, 1, "2"), (1, 100, 9, "0"), (1, 100, 9, "1"), (2, 100, 50, "1"),
        (3, 100, 3, "0,1,2"), (3, 100, 9, "0,1,2"),
    ])  # fmt: skip
    found = target_contrast(file_records(runs(4), table), COMPONENTS)
    assert np.exp(found[0]) == pytest.approx([1, 4, 1])
    assert np.isnan(found[1:]).all()


def test_what_others_found_at_a_target_fades():
    """Run 0 finds target 1 slow; run 1 comes right after and uses it, run 2 does not, run 3 comes much later."""
    contrast = np.full((4, 3), np.nan)
    contrast[0] = [0.0, 1.5, 0.0]
    ends = np.array([0, 6, 6, 10_000]) * 10**9, np.array([5, 9, 9, 10_005]) * 10**9
    used = np.array([[True, True, True], [False, True, False], [True, False, True], [False, True, False]])
    found = shared_contrast(contrast, ends, used, 0.5)
    assert found[0] == pytest.approx(1.0)
    assert 0.8 < found[1] <= 1.0
    assert found[2] == 0.0
    assert np.isnan(found[3])
