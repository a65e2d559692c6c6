"""Planted sickness is found where and when it was planted; load, shared trouble and single slow looks are not."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.diagnosis.health_incidents import (
    SHOWS_IN_RUN,
    SLOWER_IN_RUN,
    SPREAD_IN_RUN,
    Bins,
    Incident,
    Observations,
    detect_silent,
    detect_slow,
    detect_stalled,
    merge_causes,
    request_observations,
    shared_observations,
    utilisation,
    weigh,
)
from ioweather.diagnosis.incident_events import describe_cause, to_events
from ioweather.job_io.outcomes import unhealthy_of

TARGETS, BINS, BIN_NS = 8, 600, 10 * MINUTE_NS
SEARCH = Bins(0, BIN_NS, BINS)
NAMES = tuple(f"scratch-OST{i:04x}" for i in range(TARGETS))
SERVERS = {name: f"oss{i // 2}" for i, name in enumerate(NAMES)}


def looks(seed: int, slow: np.ndarray | float = 0.0, load: np.ndarray | float = 0.3) -> Observations:
    """One look at every target in each bin, with the heavy tail of single operations."""
    rng = np.random.default_rng(seed)
    took = 0.15 * rng.standard_normal((BINS, TARGETS)) + np.where(
        rng.random((BINS, TARGETS)) < 0.1, rng.exponential(0.6, (BINS, TARGETS)), 0.0
    )
    place, column = np.indices(took.shape)
    loads = np.broadcast_to(load, took.shape)
    return Observations(
        "probe", NAMES, column.ravel(), place.ravel() * BIN_NS, (took + slow).ravel(), loads.ravel().astype(float),
        np.ones(took.size),
    )  # fmt: skip


def named(*found: Observations, servers: dict[str, str] | None = None) -> list[Incident]:
    parts = [weigh(each, SEARCH) for each in found]
    return merge_causes(detect_slow(parts), [], NAMES, servers or {})


def planted(columns: int | list[int], first: int, last: int, factor: float) -> np.ndarray:
    slow = np.zeros((BINS, TARGETS))
    slow[first:last, columns] = np.log(factor)
    return slow


@pytest.mark.parametrize("seed", range(6))
def test_healthy_targets_are_not_named(seed: int) -> None:
    assert named(looks(seed)) == []


@pytest.mark.parametrize(("seed", "factor"), [(0, 2.5), (1, 4.0), (2, 12.0), (3, 100.0)])
def test_a_slow_target_is_named_with_its_time_and_factor(seed: int, factor: float) -> None:
    (found,) = named(looks(seed, planted(5, 200, 240, factor)))
    assert (found.component, found.kind) == (NAMES[5], "slow")
    assert found.start_ns == pytest.approx(200 * BIN_NS, abs=2 * BIN_NS)
    assert found.end_ns == pytest.approx(240 * BIN_NS, abs=2 * BIN_NS)
    assert found.factor == pytest.approx(factor, rel=0.4)
    assert found.probability > 0.9


@pytest.mark.parametrize("stalled", [False, True])
def test_a_server_that_stalls_shows_in_runs_while_its_device_answers(stalled: bool) -> None:
    """In one run of ten, files on one of its targets take longer for reasons of its own; four find the same."""
    rng = np.random.default_rng(7)
    run, column = np.indices((300, TARGETS)).reshape(2, -1)
    took = 0.05 * rng.standard_normal(len(run))
    took[(run % 10 == 3) & (column == rng.integers(0, TARGETS, 300)[run])] = 0.3
    if stalled:
        took[(column == 5) & (run >= 100) & (run < 104)] = np.log([1.3, 1.6, 2.0, 1.4])
    ones = np.ones(len(run))
    within = Observations("runs", NAMES, column, run * 2 * BIN_NS, took, 0.5 * ones, ones, has_peers=False,
                          slower=SLOWER_IN_RUN, shows=SHOWS_IN_RUN, least_spread=SPREAD_IN_RUN)  # fmt: skip
    device = replace(looks(1), source="service")
    first = detect_slow([weigh(each, SEARCH) for each in (device, within)])
    found = detect_stalled([device, within], first, SEARCH)
    likely = [each for each in found if each.is_named]
    assert [(each.component, each.kind) for each in likely] == [(NAMES[5], "stalled")] * stalled
    assert not first
    for each in likely:
        assert each.start_ns == pytest.approx(200 * BIN_NS, abs=2 * BIN_NS)
        assert each.end_ns == pytest.approx(207 * BIN_NS, abs=2 * BIN_NS)
        assert "the server stalled" in describe_cause(each)
    assert detect_stalled([within], (), SEARCH) == []


def test_a_slow_minute_is_no_incident() -> None:
    assert named(looks(1, planted(5, 200, 201, 50.0))) == []


def test_what_load_explains_is_no_sickness() -> None:
    rng = np.random.default_rng(3)
    load = rng.random((BINS, TARGETS)) * 0.5
    load[100:160, 2] = 0.95
    load[rng.random(load.shape) < 0.1] = 0.95
    queue = np.log(np.where(load > 0.9, 6.0, 1.0))
    assert named(looks(3, queue, load)) == []
    # The same times at half of that load are not explained.
    quiet = load.copy()
    quiet[100:160, 2] = 0.3
    assert [each.component for each in named(looks(3, queue, quiet))] == [NAMES[2]]


def test_when_all_are_slow_none_is_named_and_what_they_share_is() -> None:
    slow = planted(list(range(TARGETS)), 300, 360, 8.0)
    assert named(looks(4, slow)) == []
    shared = shared_observations(looks(4, slow), "scratch", SEARCH, np.full(BINS, 0.3))
    (found,) = named(shared)
    assert found.component == "scratch"


def test_targets_of_one_server_are_one_cause() -> None:
    (found,) = named(looks(5, planted([2, 3], 100, 160, 5.0)), servers=SERVERS)
    assert (found.component, found.through) == ("oss1", NAMES[2:4])
    both = named(looks(5, planted([2, 4], 100, 160, 5.0)), servers=SERVERS)
    assert [each.component for each in both] == [NAMES[2], NAMES[4]]


def test_a_server_that_failed_explains_what_its_partner_suffers() -> None:
    values = np.ones((BINS * 10, TARGETS))
    values[1000:1005, 2:4] = np.nan
    silent = detect_silent(_matrix(values), SERVERS)
    assert [(each.component, each.kind) for each in silent] == [("oss1", "absent")]
    parts = [weigh(looks(6, planted([2, 3, 0], 101, 140, 5.0)), SEARCH)]
    (found,) = merge_causes(detect_slow(parts), silent, NAMES, SERVERS)
    assert found.component == "oss1"
    assert found.start_ns == 1000 * MINUTE_NS
    assert found.end_ns >= 138 * BIN_NS
    assert set(found.through) == {*NAMES[2:4], NAMES[0]}


def _matrix(values: np.ndarray) -> Matrix:
    return Matrix("moved", 0, MINUTE_NS, NAMES, values, np.ones(values.shape, np.float32))


def test_silence_counts_between_reports_and_while_others_speak() -> None:
    values = np.ones((2000, TARGETS))
    values[100:110, 3] = np.nan  # one target
    values[300:320] = np.nan  # the collector
    values[400:402, 4] = np.nan  # too short
    values[:50, 5] = np.nan  # not there yet
    found = detect_silent(_matrix(values), SERVERS)
    assert [(e.component, e.start_ns, e.end_ns) for e in found] == [(NAMES[3], 100 * MINUTE_NS, 110 * MINUTE_NS)]
    assert detect_silent(_matrix(np.full((50, TARGETS), np.nan)), {}) == []


@pytest.mark.parametrize(("before", "named_count"), [(0.0, 0), (1.0, 1)])
def test_the_silence_of_one_that_had_nothing_to_do_is_no_sickness(before: float, named_count: int) -> None:
    values = np.ones((200, TARGETS))
    values[80:, 3] = before
    values[99, 3] = 1.0  # once
    values[100:110, 3] = np.nan
    assert len(detect_silent(_matrix(values), SERVERS)) == named_count


def test_service_times_are_set_against_the_number_of_requests() -> None:
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4000, (BINS, TARGETS)).astype(float)
    seconds = counts * 3e-4 * np.exp(0.2 * rng.standard_normal(counts.shape))
    seconds[50:62, 1] *= 8
    load = utilisation(counts)
    (found,) = named(request_observations("service", NAMES, SEARCH, [seconds], [counts], load))
    assert (found.component, found.shown_by) == (NAMES[1], ("service",))
    assert found.factor == pytest.approx(8, rel=0.3)


def test_nothing_gives_nothing() -> None:
    none = np.zeros(0, np.int64)
    empty = Observations("probe", NAMES, none, none, none.astype(float), none.astype(float), none.astype(float))
    assert named(empty) == []
    assert detect_slow([]) == []
    assert np.isnan(utilisation(np.full((4, 2), np.nan))).all()


def test_an_event_says_what_programs_read() -> None:
    incident = Incident("scratch-OST0001", "slow", 0, HOUR_NS, 0.934, 4.0, ("probe",), runs=3, lost_seconds=120.0)
    (row,) = to_events([incident], "scratch").records()
    told = unhealthy_of(row, "scratch")
    assert (told.component, told.kind, told.probability, told.factor) == ("scratch-OST0001", "slow", 0.934, 4.0)
    assert (told.runs, told.lost_seconds, told.filesystem) == (3, 120.0, "scratch")
    assert "4 times as long as expected under its load" in told.cause
    old = {**row, "details": json.dumps({"direction": "capped"}), "label": "worked at 19% of its usual ceiling"}
    assert unhealthy_of(old).probability is None
    assert unhealthy_of(old).cause == "worked at 19% of its usual ceiling"
