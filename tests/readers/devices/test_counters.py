"""Differences of counters against a plain loop, in any pieces."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.tables import Quality
from ioweather.readers.device_logs import Differences

Sample = tuple[int, str, int]
SECOND = 10**9


def plain_loop(samples: list[Sample]) -> dict[tuple[str, int, int], tuple[float, int]]:
    """(device, start, interval) to (reads, quality), written as simply as it can be."""
    last: dict[str, tuple[int, int]] = {}
    rows = {}
    for time, device, reads in samples:
        if device in last and time == last[device][0]:
            continue
        if device in last and time > last[device][0]:
            before_time, before = last[device]
            fell = reads < before
            rows[device, before_time, time - before_time] = (
                float(reads if fell else reads - before), int(Quality.RESET) if fell else 0
            )  # fmt: skip
        last[device] = (time, reads)
    return rows


@settings(max_examples=100, deadline=None)
@given(
    samples=st.lists(
        st.tuples(st.integers(1, 12).map(lambda n: n * SECOND), st.sampled_from("ab"), st.integers(0, 10**6)),
        max_size=25,
    ),
    cuts=st.lists(st.integers(0, 25), max_size=4),
)
def test_any_order_any_pieces(samples: list[Sample], cuts: list[int]) -> None:
    differences = Differences()
    found = {}
    edges = sorted({0, *cuts, len(samples)})
    for first, end in pairwise(edges):
        part = samples[first:end]
        for frame in differences.add([(device, time, (reads,) + (0,) * 16) for time, device, reads in part], "h"):
            for row in frame.records():
                if row["metric"] == "read_ops":
                    key = (row["component"], row["start_ns"], row["interval_ns"])
                    found[key] = (row["value"], row["quality"])
    assert found == plain_loop(samples)


def test_another_kernel_begins_anew() -> None:
    differences = Differences()
    assert list(differences.add([("a", SECOND, (1,) * 17)], "h")) == []
    assert list(differences.add([("a", 2 * SECOND, (1,) * 11)], "h")) == []
    assert len(list(differences.add([("a", 3 * SECOND, (1,) * 11)], "h"))) == 1
    assert list(differences.add([], "h")) == []
