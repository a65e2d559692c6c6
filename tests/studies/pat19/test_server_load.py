"""Load of object storage servers, and metadata operations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioweather.core.frames import Matrix
from ioweather.core.results import Exhibit
from ioweather.core.units import MINUTE_NS
from ioweather.facts.system_grid import Steps
from ioweather.stats.series import window_sums
from ioweather.studies.pat19.climate import metadata_exhibits, server_exhibits
from ioweather.studies.pat19.matrices import reduce_servers
from judging import stands
from lagged_correlations import lagged_correlation


def load_matrix(values: np.ndarray) -> Matrix:
    names = tuple(f"OSS{i}" for i in range(values.shape[1]))
    return Matrix("cpu_ratio", 0, MINUTE_NS, names, values, np.broadcast_to(np.float32(1), values.shape))


def test_stretches_equal_the_whole() -> None:
    rng = np.random.default_rng(15)
    values = rng.beta(1, 30, (40 * 1440, 4))
    values[500:600, 1] = np.nan
    values[7, 2] = 1.7
    values[:, 3] = np.nan
    load = reduce_servers(load_matrix(values))
    clean = np.where(values > 1, np.nan, values)
    assert load.over_limit == 1
    assert load.count.sum(axis=0).tolist() == [57600, 57500, 57599, 0]
    np.testing.assert_allclose(load.total.sum(axis=0), np.nansum(clean, axis=0))
    np.testing.assert_allclose(load.largest[:3], np.nanmax(clean[:, :3], axis=0))
    for window in (1, 5, 25):
        wide = window_sums(clean, window, mean=True)
        for server in range(3):
            want = lagged_correlation(wide[:, server], wide[:, server], 5)
            np.testing.assert_allclose(load.lags[window][:, server], want, atol=1e-9)
    fifteen, sixteen = server_exhibits(load, caveats=())
    assert fifteen.coverage[0].excluded == {"not recorded": 57600 + 100, "above 100%": 1}
    assert len(fifteen.charts[0].table.rows) == 6
    assert sixteen.charts[0].table.rows[0][:2] == ("1 min", 0)


def test_planted_load(planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    fifteen = climate_exhibits["pat19.fig15"]
    cpu = planted_climate.values["cpu_ratio"]
    assert estimate_of(fifteen, "mean_load_all").value == pytest.approx(cpu.mean())
    assert estimate_of(fifteen, "mean_load").value == pytest.approx(cpu.mean(axis=0).max())
    assert estimate_of(fifteen, "max_load").value == pytest.approx(cpu.max())
    share = estimate_of(fifteen, "max_load_servers_ratio").value
    assert share == pytest.approx(np.mean(cpu.max(axis=0) < 0.75))
    assert estimate_of(climate_exhibits["pat19.fig16"], "lag1_high_ratio").value == 1


def test_planted_metadata(planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    made = climate_exhibits["pat19.fig13"]
    opens = planted_climate.values["open_ops"]
    assert estimate_of(made, "opens").value == pytest.approx(opens.sum())
    assert estimate_of(made, "not_closed_ratio").value == pytest.approx(0.2)
    assert estimate_of(made, "mean_rate_open").value == pytest.approx(opens.mean() / 300)
    assert estimate_of(made, "max_rate_close").value == pytest.approx(0.8 * opens.max() / 300)
    assert estimate_of(made, "variation_open").value == pytest.approx(opens.std() / opens.mean())
    fourteen = climate_exhibits["pat19.fig14"]
    assert estimate_of(fourteen, "cross_lag0[5 min]").value == pytest.approx(1)
    assert all("are correlated" in f.text and f.kind == "note" for f in fourteen.findings[-2:])
    assert stands(made, "not_closed") == "supported"


def test_gaps_are_left_out() -> None:
    opens = np.random.default_rng(1).lognormal(10, 1, 3000)
    opens[10:20] = np.nan
    closes = opens.copy()
    closes[50] = np.nan
    steps = Steps(0, MINUTE_NS, {"open_ops": opens, "close_ops": closes})
    thirteen = next(metadata_exhibits(steps, caveats=()))
    found = {e.name: e.value for e in thirteen.estimates}
    assert found["not_closed_ratio"] == pytest.approx(0)
    empty = Steps(0, MINUTE_NS, {"open_ops": np.full(5, np.nan), "close_ops": np.zeros(5)})
    assert list(metadata_exhibits(empty, caveats=())) == []
