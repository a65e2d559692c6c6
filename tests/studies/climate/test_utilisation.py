"""car11 section IV on planted traffic: peaks, shares, gaps and maintenance windows."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.units import MINUTE_NS
from ioweather.topics.study_catalogue import STUDIES
from judging import stands
from planted_traffic import PARAMS, data_of, planted, run, traffic, value


def test_figures_equal_the_plain_arithmetic() -> None:
    read, write = planted(change=1.0)
    made = run("utilisation", data_of(traffic(read, write)))
    assert list(made) == list(STUDIES["utilisation"].exhibits)
    combined = (read + write)[~np.isnan(read)] / 60
    peak = combined.max()
    seven = made["car11.fig7"]
    assert value(seven, "intervals").value == len(combined)
    assert value(seven, "mean_rate").value == pytest.approx(combined.mean())
    assert value(seven, "peak_rate").value == pytest.approx(peak)
    share = value(seven, "below_third_of_peak_ratio")
    assert share.value == pytest.approx(np.mean(combined < 0.33 * peak))
    assert share.low <= share.value <= share.high
    nominal = value(seven, "below_third_of_nominal_ratio").value
    assert nominal == pytest.approx(np.mean(combined < 0.33 * 78 * 2**30))
    assert stands(seven, "mostly_below_third") == "supported"

    six = made["car11.fig6"]
    assert value(six, "peak_minute_read").value == pytest.approx(np.nanmax(read) / 60)
    assert value(six, "peak_minute_write").value == pytest.approx(np.nanmax(write) / 60)
    assert value(six, "gaps").value == 1
    assert [row[0] for row in six.tables[0].rows] == ["spring clean"]
    shades = six.charts[0].references
    assert [r.label for r in shades] == ["spring clean", "no data"]
    assert shades[1].end - shades[1].value == (3 * 1440 + 640) * MINUTE_NS
    assert len(six.charts[0].table.rows) <= 2000
    assert six.coverage[0].excluded == {"not recorded": 3 * 1440 + 640}


def test_intervals_off_gives_the_same_values_without_bounds() -> None:
    data = data_of(traffic(*planted()))
    on, off = run("utilisation", data), run("utilisation", data, intervals=False)
    for key, exhibit in on.items():
        for a, b in zip(exhibit.estimates, off[key].estimates, strict=True):
            assert a.value == b.value
            assert b.low is None


def test_partial_steps_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(5)
    read, write = rng.lognormal(20, 1, (2, 3000))
    coverage = np.where(np.arange(3000) % 10 == 0, 0.5, 1.0)
    read[::10] *= 1e6
    frame = traffic(read, write, coverage)
    made = {
        e.id: e
        for e in STUDIES["utilisation"].run(StudyData({"traffic": frame}, {}, (0, 0), MINUTE_NS), Facility(), PARAMS)
    }
    seven = made["car11.fig7"]
    kept = coverage == 1
    assert value(seven, "mean_rate").value == pytest.approx((read + write)[kept].mean() / 60)
    assert seven.coverage[0].excluded["less than 90% recorded"] == 300
    assert any("peak_bytes_per_s" in caveat for caveat in seven.caveats)


def test_nothing_usable_makes_no_exhibit() -> None:
    empty = traffic(np.array([]), np.array([]))
    assert (
        list(STUDIES["utilisation"].run(StudyData({"traffic": empty}, {}, (0, 0), MINUTE_NS), Facility(), PARAMS)) == []
    )


def test_two_levels_are_two_observations_however_many_days() -> None:
    """Half of the period at one level and half at another do not tell what a third would have."""
    mean = value(run("utilisation", data_of(traffic(*planted())))["car11.fig7"], "mean_rate")
    assert mean.value is not None
    assert mean.low is None
    assert mean.method.startswith("no interval: too few independent days")


def test_a_single_step_is_enough_for_a_timeline() -> None:
    one = traffic(np.array([6e9]), np.array([0.0]))
    made = [*STUDIES["utilisation"].run(StudyData({"traffic": one}, {}, (0, 0), MINUTE_NS), Facility(), PARAMS)]
    assert value(made[1], "peak_rate").value == 1e8
