"""The fluid model against what can be worked out by hand, and its books: nothing is lost, every second has a cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ioweather.simulate.fluid import Flow, Fluid, Meter, Pattern, data_demand, make_resources, meta_demand
from ioweather.simulate.generate import flow_parts, run_parts
from ioweather.simulate.presets import LAPTOP, PRESETS, for_days
from ioweather.simulate.world import Run, World, phase_flow

RESOURCES = make_resources(LAPTOP, 1)
GB = 10**9


def fluid(steps: int = 60, *, closed_loop: bool = False) -> Fluid:
    meter = Meter(RESOURCES)
    meter.open_day(0, 0.0, steps * 60, 60)
    return Fluid(RESOURCES, meter, closed_loop=closed_loop)


def on_target(ost: int, bytes_per_s: float, seconds: float, **more: object) -> Flow:
    shares = np.zeros(RESOURCES.osts)
    shares[ost] = 1.0
    return Flow("write", Pattern(data_demand(RESOURCES, shares, bytes_per_s), seconds), **more)  # type: ignore[arg-type]


def finish(model: Fluid) -> list[Flow]:
    done: list[Flow] = []
    while model.flows:
        done += model.advance(model.next_end())
    return done


def stretch(load: float, power: int = 4) -> float:
    return float((1 + load**power) ** (1 / power))


def test_a_flow_alone_is_stretched_by_its_own_load_only():
    model = fluid()
    model.add(on_target(0, 0.5 * GB, 100.0))
    (flow,) = finish(model)
    assert flow.seconds == pytest.approx(100 * stretch(0.5))
    assert flow_parts(flow) == pytest.approx((flow.seconds, 0, 0, 0))


def test_two_flows_share_and_each_is_the_others_loss():
    model = fluid()
    for _ in range(2):
        model.add(on_target(0, 1.0 * GB, 60.0))
    for flow in finish(model):
        assert flow.seconds == pytest.approx(60 * stretch(2.0))
        alone, incidents, others, own = flow_parts(flow)
        assert alone == pytest.approx(60 * stretch(1.0))
        assert (incidents, own) == pytest.approx((0.0, 0.0), abs=1e-6)
        assert others == pytest.approx(60 * (stretch(2.0) - stretch(1.0)))


def test_flows_on_other_targets_do_not_meet():
    model = fluid()
    model.add(on_target(0, 0.5 * GB, 50.0))
    model.add(on_target(4, 0.9 * GB, 50.0))
    by_load = sorted(flow.seconds for flow in finish(model))
    assert by_load == pytest.approx([50 * stretch(0.5), 50 * stretch(0.9)])


def test_an_incident_takes_its_share_and_what_only_both_do_is_divided():
    model = fluid()
    health = np.ones(RESOURCES.count)
    health[0] = 0.25
    model.disturb(health, np.zeros(RESOURCES.count))
    for _ in range(2):
        model.add(on_target(0, 0.5 * GB, 60.0))
    flow = finish(model)[0]
    t00, ti, to, tio = (60 * stretch(load) for load in (0.5, 2.0, 1.0, 4.0))
    alone, incidents, others, own = flow_parts(flow)
    assert flow.seconds == pytest.approx(tio)
    assert alone == pytest.approx(t00)
    assert incidents == pytest.approx(0.5 * ((ti - t00) + (tio - to)))
    assert others == pytest.approx(0.5 * ((to - t00) + (tio - ti)))
    assert own == pytest.approx(0, abs=1e-6)


def test_a_flow_that_waits_for_one_target_does_not_crowd_the_others():
    """The held-up flow sends a tenth of what it could: that is what the one beside it feels."""
    health = np.ones(RESOURCES.count)
    health[4] = 0.05
    took = {}
    for closed_loop in (False, True):
        model = fluid(closed_loop=closed_loop)
        model.disturb(health, np.zeros(RESOURCES.count))
        shares = np.zeros(RESOURCES.osts)
        shares[[0, 4]] = 0.5
        held_up = Flow("write", Pattern(data_demand(RESOURCES, shares, 1.0 * GB), 1000.0))
        model.add(held_up)
        beside = on_target(0, 0.8 * GB, 60.0)
        model.add(beside)
        model.advance(model.next_end())
        took[closed_loop] = beside.seconds
    pace = 1 / stretch(0.5 / 0.05)
    asked = 0.8
    for _ in range(50):
        asked = 0.8 + 0.5 * pace * stretch(asked)
    assert took[False] == pytest.approx(60 * stretch(1.3))
    assert took[True] == pytest.approx(60 * stretch(asked), rel=1e-3)


def test_a_change_of_ones_own_is_what_is_left():
    model = fluid()
    usual = on_target(0, 0.8 * GB, 60.0).pattern
    model.add(on_target(0, 0.2 * GB, 240.0, normal=usual))
    (flow,) = finish(model)
    alone, incidents, others, own = flow_parts(flow)
    assert alone == pytest.approx(60 * stretch(0.8))
    assert own == pytest.approx(240 * stretch(0.2) - 60 * stretch(0.8))
    assert (incidents, others) == pytest.approx((0, 0), abs=1e-6)


def test_the_metadata_server_queues_earlier():
    model = fluid()
    model.add(Flow("meta", Pattern(meta_demand(RESOURCES, LAPTOP.mds_ops_per_s), 10.0)))
    assert finish(model)[0].seconds == pytest.approx(10 * stretch(1.0, power=2))


@pytest.fixture(scope="module")
def two_days():
    """The world of two days, and a second set of books: who moved how much in which minute, summed run by run."""
    preset = replace(for_days(LAPTOP, 2), detail_day=None)
    world = World(preset, 5)
    minutes = {kind: np.zeros((2880, preset.osts)) for kind in ("runs", "system")}
    fullest = 0.0

    def watch(begin: float, end: float, flows: list[Flow], paces: np.ndarray) -> None:
        nonlocal fullest
        total = np.zeros(preset.osts)
        for flow, pace in zip(flows, paces.tolist(), strict=True):
            if flow.kind == "meta":
                continue
            rate = flow.pattern.demand[: preset.osts] * pace
            total += rate
            book = minutes["runs" if isinstance(flow.owner, Run) else "system"]
            first = int(begin // 60)
            while first * 60 < end:
                book[first] += rate * (min(end, (first + 1) * 60) - max(begin, first * 60))
                first += 1
        fullest = max(fullest, float(np.max(total / world.resources.capacity[: preset.osts])))

    model, advance = world.fluid, world.fluid.advance

    def watched(until: float) -> list[Flow]:
        model.next_end()  # settles the paces
        watch(model.now, until, model.flows, model._pace)
        return advance(until)

    model.advance = watched
    windows = list(world.windows())
    return world, windows, minutes, fullest


def test_bytes_of_runs_and_system_jobs_are_those_at_the_targets_every_minute(two_days):
    _, windows, minutes, _ = two_days
    metered = np.concatenate([w.readings.read_bytes + w.readings.write_bytes for w in windows])
    booked = minutes["runs"] + minutes["system"]
    assert booked.sum() > 1e13
    np.testing.assert_allclose(metered, booked, rtol=1e-9, atol=1.0)


def test_no_target_gives_more_than_it_has(two_days):
    *_, fullest = two_days
    assert 0.5 < fullest < 1.0


def test_every_second_of_every_run_has_a_cause(two_days):
    _, windows, _, _ = two_days
    runs = [run for window in windows for run in window.runs if run.phases]
    assert len(runs) > 30
    for run in runs:
        parts = run_parts(run)
        assert sum(parts) == pytest.approx(run.io_seconds, abs=1e-6)
        assert min(parts) > -1e-6
        if run.program.change is None:
            assert parts[3] == pytest.approx(0, abs=1e-6)
    assert any(run_parts(run)[2] > 1 for run in runs), "some run met others"


def test_runs_move_what_their_program_says(two_days):
    _, windows, minutes, _ = two_days
    finished = sum(
        flow.pattern.demand[: LAPTOP.osts].sum() * flow.pattern.seconds
        for window in windows for run in window.runs for phase in run.phases
        if (flow := phase.flow).kind != "meta"
    )  # fmt: skip
    planned = sum(
        run.usual.step_bytes * run.usual.steps - run.cached_bytes for window in windows for run in window.runs
    )
    assert finished == pytest.approx(planned, rel=1e-6)
    assert minutes["runs"].sum() >= planned * (1 - 1e-9), "those still under way at the end moved something too"


def test_what_makes_verdicts_hard_is_in_the_truth_and_not_where_an_analysis_looks():
    """A day of all of it at once: noise and hidden causes are nobody's, harmless changes cost nothing, and slower nodes
    move the same bytes."""
    preset = replace(for_days(PRESETS["laptop-hard"], 1), jobs=150, hidden_ratio=0.3, harmless_change_ratio=0.3)
    world = World(preset, 11)
    runs = [run for window in world.windows() for run in window.runs if run.phases]
    assert len(runs) > 100
    assert 0.05 < np.std(np.log([run.noise for run in runs])) < 0.1
    hidden = [run for run in runs if run.hidden > 1.0]
    assert 0.15 < len(hidden) / len(runs) < 0.45
    harmless = [run for run in runs if run.program.change and run.felt is run.usual]
    assert len(harmless) > 10
    for run in runs:
        alone, incidents, others, own = run_parts(run)
        assert alone + incidents + others + own == pytest.approx(run.io_seconds)
        if run.felt is run.usual:
            assert own == pytest.approx(0.0, abs=1e-6)
        for phase in run.phases:
            if phase.name != "meta":
                pattern = phase.flow.pattern
                asked = pattern.demand[: preset.osts].sum() * pattern.seconds
                plain = phase_flow(replace(run, noise=1.0, hidden=1.0), phase.step, "data", preset, world.resources)
                assert asked == pytest.approx(plain.pattern.demand[: preset.osts].sum() * plain.pattern.seconds)
    sizes = {run.size for run in runs}
    assert max(sizes) > 1.2
    assert min(sizes) == 1.0
