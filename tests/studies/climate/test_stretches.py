"""What stretches leave, kept and added up again, is what the pass over all of them gives: to the last digit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import starmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.frames import Matrix
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.studies.climate import stretches
from ioweather.studies.climate.servers import pass_over_servers
from ioweather.studies.climate.stretches import Work
from ioweather.studies.climate.targets_in_one_pass import Limits, Targets, pass_over_targets

METRICS = ("read_bytes", "write_bytes")
STEP = 30 * MINUTE_NS  # of 20 days and more the units of time are days


@dataclass(frozen=True, eq=False)
class Sealed(Matrix):
    """Of a lake: each day has files, and says which. Those of 'open' days may still change."""

    files: Mapping[int, str] = field(default_factory=dict)

    def identity(self, first: int, last: int) -> str | None:
        days = range(first * self.step_ns // DAY_NS, -(-last * self.step_ns // DAY_NS))
        said = [self.files.get(day, str(day)) for day in days]
        return None if "open" in said else f"{self.metric} {said} {first} {last}"


@dataclass
class Memory:
    """Records, and what was asked of them."""

    held: dict[tuple[str, str], Mapping[str, Any]] = field(default_factory=dict)
    worked: list[tuple[int, int]] = field(default_factory=list)
    exact: dict[Any, Targets] = field(default_factory=dict)

    def get(self, place: str, key: str, take: Callable[[Mapping[str, Any]], Any]) -> Any:
        with suppress(KeyError, ValueError, TypeError, IndexError):
            return take(self.held[place, key])

    def put(self, place: str, key: str, record: Mapping[str, Any]) -> None:
        self.held[place, key] = {name: np.array(values) for name, values in record.items()}

    def work(self) -> Work:
        def spread(task: Any, inputs: Any) -> Any:
            listed = list(inputs)
            self.worked = [each[-2:] for each in listed]
            return starmap(task, listed)

        return Work(spread, self)


def planted(seed: int, rows: int, targets: int) -> dict[str, Sealed]:
    rng = np.random.default_rng(seed)
    names = tuple(f"OST{i:04x}" for i in range(targets))
    out = {}
    for metric in METRICS:
        values = rng.lognormal(20, 1, (rows, targets))
        values[rng.random(values.shape) < 0.1] = 0
        values[rng.random(values.shape) < 0.01] = np.nan
        quiet = int(rng.integers(0, rows))
        values[quiet : quiet + 20] = 0.0 if seed % 2 else np.nan
        out[metric] = Sealed(metric, 0, STEP, names, values, np.broadcast_to(np.float32(1), values.shape))
    return out


def assert_same(mine: Targets, theirs: Targets) -> None:
    for name in ("totals", "lags", "nearest"):
        for key, values in getattr(theirs, name).items():
            np.testing.assert_array_equal(getattr(mine, name)[key], values)
    for metric in METRICS:
        np.testing.assert_array_equal(mine.system.values[metric], theirs.system.values[metric])
    for key, counts in theirs.degrees.items():
        np.testing.assert_array_equal(mine.degrees[key].per_interval(), counts.per_interval())
        np.testing.assert_array_equal(mine.degrees[key].histogram, counts.histogram)
    assert mine.system.excluded == theirs.system.excluded
    assert mine.over_limit_cells == theirs.over_limit_cells


NONE = Limits()
LIMITS = st.sampled_from(
    [NONE, Limits(component=float(np.exp(22))), Limits(None, float(np.exp(23)), ((DAY_NS, 2 * DAY_NS),))]
)


PLANTED = {
    "seed": st.integers(0, 10**6),
    "rows": st.integers(1, 60) | st.integers(20 * 48, 24 * 48),
    "targets": st.integers(1, 12),
    "limits": LIMITS,
    "forgotten": st.sets(st.integers(0, 6)),
    "damaged": st.integers(0, 6),
}


@settings(max_examples=2, deadline=None)
@given(**PLANTED)
def test_records_and_new_stretches_give_the_exact_pass(**planted: Any) -> None:
    check(**planted)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(**PLANTED)
def test_records_and_new_stretches_give_the_exact_pass_of_many(**planted: Any) -> None:
    check(**planted)


def check(seed: int, rows: int, targets: int, limits: Limits, forgotten: set[int], damaged: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stretches, "_STRETCH_DAYS", 6)
        patch.setattr(stretches, "_BLOCK_DAYS", 3)
        matrices, memory = planted(seed, rows, targets), Memory()
        exact = pass_over_targets(matrices, limits)
        assert_same(pass_over_targets(matrices, limits, memory.work()), exact)
        walked = list(memory.worked)
        assert_same(pass_over_targets(matrices, limits, memory.work()), exact)
        assert memory.worked == [], "all of it was kept"
        for number, key in enumerate(sorted(memory.held)):
            if number in forgotten:
                del memory.held[key]
            elif number == damaged:
                memory.held[key] = {name: values[:-1] for name, values in memory.held[key].items()}
        assert_same(pass_over_targets(matrices, limits, memory.work()), exact)
        assert len(memory.worked) == len([n for n in {*forgotten, damaged} if n < len(walked)])
        assert len(memory.held) == len(walked), "what was missing or damaged is there again"
        loads = Sealed("cpu_ratio", 0, STEP, matrices["read_bytes"].components,
                       matrices["read_bytes"].values / np.exp(23), matrices["read_bytes"].coverage)  # fmt: skip
        first, again = (pass_over_servers(loads, memory.work()) for _ in range(2))
        plain = pass_over_servers(loads)
        for found in (first, again):
            for name in ("count", "total", "largest", "lag_one"):
                np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))
            for window, lags in plain.lags.items():
                np.testing.assert_array_equal(found.lags[window], lags)
            assert found.over_limit == plain.over_limit


@pytest.fixture
def days(monkeypatch) -> Memory:
    """Of days of 48 steps, cut into stretches of 300: the widest window must fit."""
    monkeypatch.setattr(stretches, "_STRETCH_DAYS", 6.25)
    return Memory()


def worked(memory: Memory, matrices: Mapping[str, Sealed], limits: Limits = NONE) -> list[tuple[int, int]]:
    found = pass_over_targets(matrices, limits, memory.work())
    values = tuple(id(matrix.values) for matrix in matrices.values())
    exact = memory.exact.setdefault((values, limits), found)
    assert_same(found, pass_over_targets(matrices, limits) if exact is found else exact)
    return memory.worked


def with_files(matrices: Mapping[str, Sealed], **days: str) -> dict[str, Sealed]:
    files = {int(day.removeprefix("day")): name for day, name in days.items()}
    return {metric: replace(matrix, files=files) for metric, matrix in matrices.items()}


def test_only_what_changed_is_worked_out_again(days: Memory) -> None:
    matrices = planted(3, 22 * 48, 5)
    assert worked(days, matrices) == [(0, 300), (300, 600), (600, 900), (900, 1056)]
    assert worked(days, with_files(matrices, day13="a late file")) == [(600, 900)]
    assert worked(days, with_files(matrices, day17="late")) == [(600, 900), (900, 1056)], "one looks back on it"
    assert worked(days, matrices) == []
    maintenance = Limits(windows=((13 * DAY_NS, 13 * DAY_NS + STEP),))
    assert worked(days, matrices, maintenance) == [(600, 900)]
    assert len(worked(days, matrices, Limits(component=1e9))) == 4
    assert len(worked(days, planted(3, 22 * 48, 6))) == 4, "a target more is another matrix"


def test_days_that_may_change_are_not_kept(days: Memory) -> None:
    matrices = with_files(planted(4, 22 * 48, 5), day21="open")
    assert len(worked(days, matrices)) == 4
    assert worked(days, matrices) == [(900, 1056)]


def test_more_days_cost_the_last_stretch(days: Memory) -> None:
    whole = planted(5, 30 * 48, 5)
    some = {
        m: replace(each, values=each.values[: 24 * 48], coverage=each.coverage[: 24 * 48]) for m, each in whole.items()
    }
    assert len(worked(days, some)) == 4
    assert worked(days, whole) == [(900, 1200), (1200, 1440)]
