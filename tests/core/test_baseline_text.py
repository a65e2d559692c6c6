"""What is usual, as people write it."""

from __future__ import annotations

import pytest

from ioweather.core.errors import FacilityError, UndatedInput
from ioweather.core.facility import WHOLE, Baseline, parse_baseline, parse_facility
from ioweather.core.units import DAY_NS, zone_named


def test_every_form():
    assert parse_baseline("whole") == WHOLE
    assert parse_baseline(" 7d") == Baseline(window_ns=7 * DAY_NS)
    assert parse_baseline("read=12ms, stat=1ms") == Baseline(seconds={"read": 0.012, "stat": 0.001})
    period = parse_baseline("1970-01-02..1970-01-04", zone_named("UTC")).period_ns
    assert period == (DAY_NS, 3 * DAY_NS)
    assert parse_baseline("1970-01-02T00:00:00Z..@172800").period_ns == (DAY_NS, 2 * DAY_NS)
    assert parse_baseline("q10:whole") == Baseline(quantile=0.1)
    assert parse_baseline("q5:7d") == Baseline(window_ns=7 * DAY_NS, quantile=0.05)
    assert parse_baseline("q25:1970-01-02T00:00:00Z..@172800").period_ns == (DAY_NS, 2 * DAY_NS)


@pytest.mark.parametrize("text", ["", "often", "read=", "read=0s", "0s", "1970-01-03..1970-01-02", "read=fast",
                                  "q0:whole", "q10:", "q100:7d", "q10:read=1ms"])  # fmt: skip
def test_anything_else_is_refused(text):
    with pytest.raises(ValueError, match=r"baseline|duration"):
        parse_baseline(text, zone_named("UTC"))


def test_a_day_without_a_zone_is_refused():
    with pytest.raises(UndatedInput):
        parse_baseline("1970-01-02..1970-01-04")


def test_the_facility_file_says_it_once_for_all():
    assert parse_facility({}).baseline == WHOLE
    assert parse_facility({"baseline": "7d"}).baseline.window_ns == 7 * DAY_NS
    with pytest.raises(FacilityError, match="baseline"):
        parse_facility({"baseline": "often"})
