"""Samples to minutes: parts equal the whole, gaps are seen, what came late is told from what is impossible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.tables import Quality
from ioweather.core.units import MINUTE_NS, NS
from ioweather.readers.lmt_hdf5 import split_steps
from ioweather.readers.lmt_minutes import Samples, flag_late, late_spikes, learned_limit, spans_over_gaps, to_minutes

LATE, PARTIAL, RESET = (int(flag) for flag in (Quality.LATE, Quality.PARTIAL, Quality.RESET))
STEP = 5 * NS


def minutes(values: list[float], start_s: int = 0, carried: bool = True, extensive: bool = True) -> Samples:
    array = np.array(values, np.float64)[:, None]
    spans = spans_over_gaps(np.isnan(array)) if carried else None
    return to_minutes(Samples(start_s * NS, STEP, array, extensive, spans))


def test_amounts_sum_and_states_average():
    assert minutes([1.0] * 24).values.ravel().tolist() == [12.0, 12.0]
    assert minutes([1.0, 3.0] * 6, extensive=False).values.ravel().tolist() == [2.0]


def test_a_late_sample_within_its_minute_makes_it_whole():
    reduced = minutes([1.0, np.nan, np.nan, 3.0, *[1.0] * 8])
    assert reduced.values.item() == 12.0
    assert reduced.quality is not None
    assert reduced.quality.item() == 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        # The gap crosses the border: both minutes hold the wrong share, their sum is right.
        ([*[1.0] * 11, np.nan, 2.0, *[1.0] * 11], [(11.0, PARTIAL), (13.0, PARTIAL)]),
        ([*[1.0] * 11, np.nan, np.nan, 3.0, *[1.0] * 10], [(11.0, PARTIAL), (13.0, PARTIAL)]),
        # A carried gap and, by accident, as many missing at the end: still not whole.
        ([*[1.0] * 10, np.nan, np.nan, 3.0, *[1.0] * 9, np.nan, np.nan], [(10.0, PARTIAL), (12.0, PARTIAL)]),
        # Nothing to carry: the file begins or ends with the gap.
        ([np.nan, np.nan, *[1.0] * 10], [(10.0, PARTIAL)]),
        ([*[1.0] * 10, np.nan, np.nan], [(10.0, PARTIAL)]),
    ],
)
def test_gaps_at_borders(values: list[float], expected: list[tuple[float, int]]):
    reduced = minutes(values)
    assert reduced.quality is not None
    assert list(zip(reduced.values.ravel().tolist(), reduced.quality.ravel().tolist(), strict=True)) == expected


def test_without_carrying_every_gap_is_partial():
    reduced = minutes([1.0, np.nan, *[1.0] * 10], carried=False)
    assert reduced.quality is not None
    assert (reduced.values.item(), reduced.quality.item()) == (11.0, PARTIAL)


def test_a_minute_without_samples_is_not_zero():
    reduced = minutes([*[1.0] * 12, *[np.nan] * 12, *[2.0] * 12])
    assert np.isnan(reduced.values[1, 0])
    assert reduced.quality is not None
    assert reduced.quality[1, 0] == 0


def test_a_start_within_a_minute_is_partial():
    reduced = minutes([1.0] * 18, start_s=30)
    assert reduced.start_ns == 0
    assert reduced.quality is not None
    assert reduced.values.ravel().tolist() == [6.0, 12.0]
    assert reduced.quality.ravel().tolist() == [PARTIAL, 0]


def test_flags_of_a_minute_are_those_of_its_samples():
    quality = np.zeros((12, 1), np.uint8)
    quality[3], quality[7] = LATE, RESET
    reduced = to_minutes(Samples(0, STEP, np.ones((12, 1)), True, quality=quality))
    assert reduced.quality is not None
    assert reduced.quality.item() == LATE | RESET


@pytest.mark.parametrize(("start_s", "step_s"), [(0, 300), (0, 60), (0, 7), (3, 5)])
def test_steps_that_are_no_part_of_a_minute_stay_as_they_are(start_s: int, step_s: int):
    samples = Samples(start_s * NS, step_s * NS, np.ones((20, 1)), True)
    assert to_minutes(samples) is samples


def test_no_samples_make_no_minutes():
    assert to_minutes(Samples(0, STEP, np.empty((0, 3)), True)).values.shape == (0, 3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.just(np.nan), st.integers(0, 2**40).map(float)), min_size=1, max_size=90),
    st.integers(0, 11),
    st.integers(0, 90),
)
def test_parts_add_up_to_the_whole(values: list[float], offset: int, cut: int):
    """No byte is lost or doubled, wherever a file is cut."""
    array = np.array(values)[:, None]
    whole = to_minutes(Samples(offset * STEP, STEP, array, True, spans_over_gaps(np.isnan(array))))
    assert np.nansum(whole.values) == np.nansum(array)
    parts = [array[:cut], array[cut:]]
    starts = [offset * STEP, (offset + cut) * STEP]
    summed: dict[int, float] = {}
    for start, part in zip(starts, parts, strict=True):
        if len(part):
            reduced = to_minutes(Samples(start, STEP, part, True, spans_over_gaps(np.isnan(part))))
            for i, value in enumerate(reduced.values.ravel().tolist()):
                if not np.isnan(value):
                    minute = reduced.start_ns + i * MINUTE_NS
                    summed[minute] = summed.get(minute, 0.0) + value
    expected = {
        whole.start_ns + i * MINUTE_NS: value
        for i, value in enumerate(whole.values.ravel().tolist())
        if not np.isnan(value)
    }
    assert summed == expected


def busy(rows: int = 240, components: int = 3) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.rint(rng.uniform(0.7e9, 1e9, (rows, components)))


def test_a_spike_that_makes_up_for_silence_is_late():
    read, write = busy(), busy()
    for amounts in (read, write):
        amounts[100:103, 1] = 0  # the counters stand still,
    read[103, 1] = 3.6e9  # then the sum arrives
    flags = flag_late({"read_bytes": read, "write_bytes": write}, {}, STEP)
    assert flags["read_bytes"] is not None
    assert np.argwhere(flags["read_bytes"]).tolist() == [[103, 1]]
    assert flags["write_bytes"] is None


def test_a_spike_without_silence_or_beyond_belief_is_not():
    read = busy()
    read[50, 0] = 3.6e9
    read[100:103, 1] = np.nan
    read[103, 1] = 1e12  # no minute at the limit could hold this
    limit = learned_limit(read)
    assert np.count_nonzero(read > limit) == 2
    assert len(late_spikes(read, [read], limit, 12)) == 0


def test_a_quiet_file_teaches_no_limit():
    quiet = np.zeros((500, 4))
    quiet[::50, 2] = 1e9
    assert learned_limit(quiet) == np.inf
    assert learned_limit(np.full((5, 2), np.nan)) == np.inf
    assert learned_limit(np.ones((1, 2))) == np.inf
    assert flag_late({}, {}, STEP) == {}


def test_pieces_are_cut_at_midnight_and_overlap_backwards():
    day = 17_280
    found = list(split_steps(day * STEP - 10 * STEP, STEP, 3 * day + 20, 12))
    assert found == [(0, 0, day + 10), (day - 2, day + 10, 3 * day + 10), (3 * day - 2, 3 * day + 10, 3 * day + 20)]
    assert len(list(split_steps(8 * 3600 * NS, STEP, day, 12))) == 1
