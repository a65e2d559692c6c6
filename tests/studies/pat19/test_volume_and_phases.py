"""Phase exhibits against phases found by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ioweather.core.results import Exhibit


def runs(state: np.ndarray) -> tuple[list[int], list[int]]:
    starts, lengths, before = [], [], False
    for i, now in enumerate(state.tolist()):
        if now and not before:
            starts.append(i)
            lengths.append(0)
        if now:
            lengths[-1] += 1
        before = now
    return starts, lengths


@pytest.mark.parametrize(("exhibit", "side"), [("pat19.fig7", "high"), ("pat19.fig8", "low")])
def test_lengths_and_interarrivals(
    planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any, exhibit: str, side: str
) -> None:
    made = climate_exhibits[exhibit]
    short, total = 0, 0
    for way, metric in (("read", "read_bytes"), ("write", "write_bytes")):
        series = planted_climate.values[metric].sum(axis=1)
        state = series >= np.quantile(series, 0.75) if side == "high" else series < np.quantile(series, 0.25)
        starts, lengths = runs(state)
        assert estimate_of(made, f"mean_length_{way}").value == pytest.approx(300 * np.mean(lengths))
        assert estimate_of(made, f"mean_interarrival_{way}").value == pytest.approx(300 * len(series) / len(starts))
        assert estimate_of(made, f"mean_length_{way}").n == len(starts)
        short += sum(300 * n <= 300 for n in lengths)
        total += len(lengths)
        for chart, values in zip(made.charts, (lengths, np.diff(starts)), strict=True):
            rows = [r for r in chart.table.rows if r[0] == way]
            assert sum(r[3] for r in rows) == pytest.approx(1)
            ones = next(r for r in rows if r[2] == 300)
            assert ones[3] == pytest.approx(np.mean(np.array(values) == 1))
    assert estimate_of(made, "short_ratio").value == pytest.approx(short / total)
