"""Opens and closes: totals, share left open, rates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioweather.core.results import Exhibit
from ioweather.core.units import MINUTE_NS
from ioweather.stats.grid import Steps
from ioweather.studies.pat19.server_load import metadata_exhibits
from judging import stands


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
    assert all("go together" in f.text and f.kind == "note" for f in fourteen.findings[-2:])
    assert stands(made, "not_closed") == "supported"


def test_more_closes_than_opens_are_said_to_be_so() -> None:
    opens = np.random.default_rng(1).lognormal(10, 1, 3000)
    steps = Steps(0, MINUTE_NS, {"open_ops": opens, "close_ops": 1.1 * opens})
    thirteen = next(metadata_exhibits(steps, on=True, caveats=()))
    assert stands(thirteen, "not_closed") == "refuted"


def test_gaps_are_left_out() -> None:
    opens = np.random.default_rng(1).lognormal(10, 1, 3000)
    opens[10:20] = np.nan
    closes = opens.copy()
    closes[50] = np.nan
    steps = Steps(0, MINUTE_NS, {"open_ops": opens, "close_ops": closes})
    thirteen = next(metadata_exhibits(steps, on=False, caveats=()))
    found = {e.name: e.value for e in thirteen.estimates}
    assert found["not_closed_ratio"] == pytest.approx(0)
    empty = Steps(0, MINUTE_NS, {"open_ops": np.full(5, np.nan), "close_ops": np.zeros(5)})
    assert list(metadata_exhibits(empty, on=True, caveats=())) == []
