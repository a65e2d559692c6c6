"""Totals and correlations of single targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from ioweather.core.results import Exhibit


def test_totals_ratios_and_ranks(planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    ten = climate_exhibits["pat19.fig10"]
    read, write = (planted_climate.values[m].sum(axis=0) for m in ("read_bytes", "write_bytes"))
    assert estimate_of(ten, "max_over_min_read").value == pytest.approx(read.max() / read.min())
    assert estimate_of(ten, "max_over_min_excess_write").value == pytest.approx(write.max() / write.min() - 1)
    assert estimate_of(ten, "mean_per_ost_read").value == pytest.approx(read.mean())
    assert estimate_of(ten, "rank_correlation").value == pytest.approx(scipy.stats.spearmanr(read, write).statistic)
    by_name = {row[0]: row[1:] for row in ten.tables[0].rows}
    assert by_name["OST0003"] == (pytest.approx(read[3]), pytest.approx(write[3]))
    half = len(planted_climate.values["read_bytes"]) // 2
    halves = [part.sum(axis=0) for part in np.split(planted_climate.values["read_bytes"], [half])]
    assert estimate_of(ten, "persistence_read").value == pytest.approx(scipy.stats.spearmanr(*halves).statistic)


def test_a_target_that_came_later_is_named(planted_climate: Any, climate_exhibits: dict[str, Exhibit]) -> None:
    data = planted_climate.data()
    cut = {}
    for metric, whole in data.matrices["targets"].items():
        values = whole.values.copy()
        values[: len(values) // 2, 5] = np.nan
        cut[metric] = replace(whole, values=values)
    ten = planted_climate.run(replace(data, matrices={**data.matrices, "targets": cut}))["pat19.fig10"]
    (said,) = set(ten.caveats) - set(climate_exhibits["pat19.fig10"].caveats)
    assert said.startswith("1 were recorded for less than 90% of the time of the others (OST0005)")


def test_noise_alone_is_not_called_imbalance(climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    """Planted writes are equal on all targets but for noise: the interval must reach down to about 1."""
    writes = estimate_of(climate_exhibits["pat19.fig10"], "max_over_min_write")
    assert writes.low <= 1.02
    assert not any("often-written" in f.text for f in climate_exhibits["pat19.fig10"].findings)


def test_correlations_of_single_targets(
    planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any
) -> None:
    twelve = climate_exhibits["pat19.fig12"]
    read = planted_climate.values["read_bytes"]
    lag_one = [np.corrcoef(read[:-1, i], read[1:, i])[0, 1] for i in range(read.shape[1])]
    assert [row[1] for row in twelve.tables[0].rows] == pytest.approx(lag_one)
    assert estimate_of(twelve, "lag1_median_read").value == pytest.approx(np.median(lag_one))
    assert estimate_of(twelve, "lag1_high_ratio_read").value == pytest.approx(np.mean(np.array(lag_one) >= 0.5))
    assert estimate_of(twelve, "lag1_high_ratio_write").value == 0
    bands = [r for r in twelve.charts[0].table.rows if r[0] == "reads with themselves" and r[1] == "5 min"]
    assert bands[1][4] == pytest.approx(np.median(lag_one))
    assert bands[0][3:] == (1.0, 1.0, 1.0)
