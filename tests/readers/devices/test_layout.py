"""Which column a metric comes from, and what its number becomes."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.readers.device_rows import IOSTAT_READINGS as IOSTAT
from ioweather.readers.device_rows import cpu_ratio, find_metrics


def test_amounts_beat_rates_in_any_order() -> None:
    for columns in (("kB_read/s", "kB_read"), ("kB_read", "kB_read/s")):
        printed = np.array([[10.0, 21.0] if columns[0].endswith("/s") else [21.0, 10.0]])
        values, present = find_metrics(columns, IOSTAT, printed, np.array([2.0]))["read_bytes"]
        assert values.tolist() == [21 * 1024]
        assert present is not None
        assert present.all()


def test_shares_stay_between_0_and_1() -> None:
    values, _ = find_metrics(("%util",), IOSTAT, np.array([[100.4], [-0.1], [50.0]]), np.ones(3))["busy_ratio"]
    assert values.tolist() == [1.0, 0.0, 0.5]
    ratio = cpu_ratio(("%user", "%iowait", "%idle"), np.array([[30.0, 20.0, 50.01], [0.0, 50.02, 50.0]]))
    assert ratio is not None
    assert ratio.tolist() == pytest.approx([0.2999, 0.0])
    assert cpu_ratio(("%user",), np.array([[1.0]])) is None


def test_numbers_that_are_not_there_make_no_row() -> None:
    values = find_metrics(
        ("rkB/s", "r/s", "r_await", "w_await", "w/s"),
        IOSTAT,
        np.array([[np.nan, 1.0, 2.0, 4.0, 3.0], [1.0, 0.0, 0.0, 0.0, 0.0]]),
        np.ones(2),
    )
    assert values["read_bytes"][1] is not None
    assert values["read_bytes"][1].tolist() == [False, True]
    assert values["await_seconds"][0].tolist() == pytest.approx([(1 * 2 + 3 * 4) / 4 / 1000, np.nan], nan_ok=True)
    assert values["read_await_seconds"][0].tolist() == pytest.approx([0.002, np.nan], nan_ok=True)


@pytest.mark.parametrize("wrong", [-10.5, 18446744073709551.61, 1e308, np.inf])
def test_what_no_device_can_do_is_no_sample(wrong: float) -> None:
    columns = ("r/s", "rkB/s", "r_await", "w/s", "wkB/s", "w_await", "%util")
    printed = np.array([[1.0, 10.0, 2.0, 1.0, 10.0, 2.0, 5.0]] * 2)
    for index in range(len(columns)):
        table = printed.copy()
        table[1, index] = wrong
        for metric, (values, present) in find_metrics(columns, IOSTAT, table, np.full(2, 10.0)).items():
            kept = values if present is None else values[present]
            assert np.unique(kept[~np.isnan(kept)]).size == 1, f"{columns[index]} = {wrong} reaches {metric}"
