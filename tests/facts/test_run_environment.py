"""Load on a run's own targets, slowness of probes and of other people's runs: against slow readings of the same."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ioweather.core.frames import Cells, Frame, Text
from ioweather.core.tables import APPLICATIONS, FILES, TABLES
from ioweather.core.units import DAY_NS, MINUTE_NS, NS
from ioweather.facts.job_metrics import file_records
from ioweather.facts.run_targets import (
    TargetAmounts,
    longest_queue,
    own_target_bytes,
    place_by_traffic,
    probe_means,
    probe_slowdowns,
    queue_that_stands_out,
    sick_during,
    target_number,
    wait_that_stands_out,
)
from ioweather.facts.system_activity import Stretches

COMPONENTS = ("fs-OST0000", "fs-OST0001", "fs-OST000a")


def applications(count):
    return APPLICATIONS.frame(
        log_digest=[f"d{i}" for i in range(count)], job_id=np.arange(count), uid=1, exe="x", nprocs=4, start_ns=0,
        end_ns=1, log_version="3.41", partial_modules="", modules="POSIX", rows=count,
    )  # fmt: skip


def files(rows):
    """rows: (log, record, module, bytes, osts)."""
    columns = {s.name: None if s.nullable else 0 for s in FILES.columns}
    columns |= {
        "log_digest": [f"d{r[0]}" for r in rows], "record_id": [r[1] for r in rows], "rank": -1,
        "module": [r[2] for r in rows], "standard_stream": False, "write_bytes": [r[3] for r in rows],
        "osts": [r[4] for r in rows],
    }  # fmt: skip
    return FILES.frame(columns, rows=len(rows))


@pytest.mark.parametrize(
    ("name", "number"),
    [("snx11025-OST000a", 10), ("OST0010", 16), ("fs-OST0001_UUID", 1), ("sdb", None), ("OST12", None)],
)
def test_names_of_targets(name, number):
    assert target_number(name) == number


def test_bytes_lie_evenly_on_the_stripes_and_count_once():
    table = files([
        (0, 1, "POSIX", 90, "0,1,10"), (0, 2, "POSIX", 10, "10"), (0, 2, "MPI-IO", 12, "10"),  # the layer above counts
        (1, 3, "POSIX", 50, None), (2, 4, "POSIX", 60, "1,77"),  # a target that was not sampled keeps its part
        (9, 5, "POSIX", 99, "0"),  # of no run that was asked for
    ])  # fmt: skip
    found = own_target_bytes(file_records(applications(3), table), COMPONENTS)
    assert found.tolist() == [[30, 30, 42], [0, 0, 0], [0, 30, 0]]


def text(values):
    known = sorted({value for value in values if value is not None})
    return Text(np.array([-1 if v is None else known.index(v) for v in values], np.int32), tuple(known))


def means(rows, places=None):
    """rows: (run, series, op, component, seconds)."""
    run, series, op, component, seconds = zip(*rows, strict=True) if rows else ([],) * 5
    return Frame({
        "run": np.array(run, np.int64), "series": np.array(series, np.int64), "op": text(op),
        "component": text(component), "place": text(places or ["fs"] * len(rows)),
        "log_seconds": np.log(np.array(seconds, float)),
    })  # fmt: skip


def test_probes_against_what_they_usually_take():
    rows = [(run, 0, "read", "fs-OST0000", 1.0) for run in range(3)] + [(3, 0, "read", "fs-OST0000", 4.0)]
    rows += [(run, 1, "write", "fs-OST0001", 2.0) for run in range(4)]
    rows += [(run, 2, "stat", None, 0.1) for run in range(3)] + [(3, 2, "stat", None, 0.3)]
    own = np.zeros((5, 3))
    own[3, :2], own[2, 1] = 1.0, 1.0
    found = {name: np.exp(values) for name, values in probe_slowdowns(means(rows), 5, own, COMPONENTS).items()}
    assert found["probe_data"][:4] == pytest.approx([1, 1, 1, 2])  # the mean of logarithms: 4 and 1
    assert found["probe_targets"][2:4] == pytest.approx([1, 4])
    assert np.isnan(found["probe_targets"][[0, 1, 4]]).all()
    assert found["probe_metadata"][:4] == pytest.approx([1, 1, 1, 3])
    assert all(math.isnan(values[4]) for values in found.values())


def traffic(rows):
    values = np.array(rows, float)
    return Cells(np.arange(len(values)) * NS, NS, COMPONENTS, {"write_bytes": values}, {})


def placed(rows, moved, first, last):
    steps = Stretches(np.zeros(1, np.int64), np.array([first]), np.array([last]), 1)
    stamps = np.array([first * NS]), np.array([(last + 1) * NS])
    return place_by_traffic({"write_bytes": np.array([moved], float)}, traffic(rows), steps, stamps)[0].tolist()


def test_a_run_without_a_layout_is_placed_where_traffic_rose_with_it():
    busy = [50, 0, 0]  # others write to one target all the time
    alone = [busy] * 5 + [[50, 30, 0], [50, 30, 0]] + [busy] * 5
    assert placed(alone, 60, 5, 6) == pytest.approx([0, 60, 0])
    # Half of its bytes are nowhere but on the busy target.
    assert placed(alone, 120, 5, 6) == pytest.approx([60, 60, 0])
    assert placed(alone, 1000, 5, 6) == [0, 0, 0]  # most bytes stayed in caches
    assert placed(alone, 5, 5, 6) == [0, 0, 0]  # others did most of what rose
    assert placed(alone, 60, 0, 1) == [0, 0, 0]  # nothing is known of the time before


def test_the_target_with_the_longest_queue_is_told_if_neither_its_peers_nor_similar_runs_had_one():
    usual = np.full((11, 3), 0.5)
    used, similar = np.ones((11, 3), bool), np.arange(11) > 0
    usual[0] = [0.5, 6.0, 0.4]
    seen = queue_that_stands_out(usual, used, similar, COMPONENTS)
    assert (seen.name, seen.value, seen.next_value, seen.usual) == ("fs-OST0001", 6.0, 0.5, pytest.approx(0.5))
    busy = usual.copy()
    busy[0] = [6.0, 6.0, 6.0]
    assert queue_that_stands_out(busy, used, similar, COMPONENTS) is None
    busy[1:] = 6.0
    busy[0] = [0.5, 6.0, 0.4]
    assert queue_that_stands_out(busy, used, similar, COMPONENTS) is None
    assert np.exp(longest_queue(usual, used))[:2] == pytest.approx([6.5, 1.0])


def test_sick_components_during_a_run():
    events = TABLES["events"].frame(
        event_id=["a", "b", "c", "d"], kind="component_health", system="fs",
        component=["fs-OST0000", "fs-OST0001", "oss1", "fs-OST0000"], start_ns=[0, 0, 50, 500],
        end_ns=[100, 100, None, 600], label=["a", "b", "c", "d"], rows=4,
    )  # fmt: skip
    ends = np.array([40, 40, 60, 0]), np.array([90, 90, 70, 0])
    own = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1.0, 0], [0, 0, 0]])
    found = sick_during(events, ends, own, COMPONENTS)
    assert found.tolist() == [
        [True, False, True, False], [True, True, True, False], [False, True, True, False], [False] * 4,
    ]  # fmt: skip


def test_probes_near_a_run_are_those_that_a_look_at_each_finds():
    rng = np.random.default_rng(5)
    places = (11, 12, 40)
    starts = [np.sort(rng.integers(0, 2 * DAY_NS, 200)) for _ in places]
    took = [np.minimum(rng.integers(1, MINUTE_NS, 200), np.diff(each, append=2 * DAY_NS) + 1) for each in starts]
    order = rng.permutation(600)
    probes = Frame({
        "start_ns": np.concatenate(starts)[order], "duration_ns": np.concatenate(took)[order],
        "number": np.repeat(places, 200)[order],
    })  # fmt: skip
    names = {"op": Text(np.array([0, 1, 0]), ("read", "stat")), "component": Text(np.array([-1, -1, 0]), ("OST0001",))}
    names["place"] = Text(np.array([0, 0, 0]), ("/fs",))
    series = Frame({"number": np.array(places), **names})
    first = rng.integers(0, 2 * DAY_NS, 30)
    last = first + rng.integers(0, 20 * MINUTE_NS, 30)
    last[7] = 0  # did no I/O
    found = probe_means(probes, series, first, last)
    expected = {}
    for number, (begins, each) in enumerate(zip(starts, took, strict=True)):
        same_day = np.diff(begins // DAY_NS) == 0
        near = 2 * int(np.diff(begins)[same_day].sum()) // int(same_day.sum())
        for run in range(30):
            inside = (begins <= last[run] + near) & (begins + each >= first[run] - near)
            if last[run] and inside.any():
                expected[run, number] = np.log(each[inside] / 1e9).mean()
    keys = list(zip(found.array("run").tolist(), found.array("series").tolist(), strict=True))
    assert dict(zip(keys, found.array("log_seconds").tolist(), strict=True)) == pytest.approx(expected)
    assert len(keys) == len(expected)
    assert {(k[1], op) for k, op in zip(keys, found.text("op").tolist(), strict=True)} == {
        (0, "read"), (1, "stat"), (2, "read")
    }  # fmt: skip
    assert probe_means(probes.take(slice(0, 0)), series.take(slice(0, 0)), first, last).rows == 0


def test_a_target_stands_out_if_as_many_requests_take_four_times_as_long():
    def seen(requests, seconds):
        amounts = {"write_ops": np.array([requests], float), "write_busy_seconds": np.array([seconds], float)}
        sampled = TargetAmounts(COMPONENTS, amounts, {}, 1.0)
        return wait_that_stands_out(sampled, np.ones((1, len(COMPONENTS)), bool))

    slow = seen([500, 400, 0], [5.0, 0.8, 0.0])
    assert (slow.name, slow.value, slow.next_value) == (COMPONENTS[0], 0.01, 0.002)
    assert seen([500, 400, 0], [2.5, 0.8, 0.0]) is None  # only 2.5 times as long
    assert seen([500, 200, 0], [5.0, 0.4, 0.0]) is None  # more was asked of it
    assert seen([50, 40, 0], [0.5, 0.08, 0.0]) is None  # few requests
