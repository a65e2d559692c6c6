"""Coarser samples hide an association that is there."""

from __future__ import annotations

import pytest
from planted_jobs import cells, words

from judging import stands
from planted_association import made, planted_association


@pytest.fixture(scope="module")
def exhibits():
    return made("association_granularity", planted_association(days=20), group="strong")


def test_fewer_steps_are_used(exhibits):
    name = next(r["group"] for r in cells(exhibits["mad17.fig9"]) if r["group"].startswith("strong"))
    rows = cells(exhibits["mad17.fig9"], group=name)
    assert len(rows) == 20
    assert [row["interval"] for row in rows] == [60.0 * k for k in range(1, 21)]
    assert rows[0]["steps"] > 3 * rows[-1]["steps"]


def test_the_association_weakens(exhibits):
    change = next(e for e in exhibits["mad17.fig10"].estimates if e.name.startswith("spearman_change_read[strong"))
    assert change.high < 0
    assert stands(exhibits["mad17.fig10"], "coarse_sampling_hides") == "supported"
    assert "time-shifted runs" in words(exhibits["mad17.fig10"])
    assert {chart.table.name for chart in exhibits["mad17.fig10"].charts} == {"all", "ranks", "metadata"}
    ranks = next(chart.table for chart in exhibits["mad17.fig10"].charts if chart.table.name == "ranks")
    rows = [dict(zip((c.name for c in ranks.columns), row, strict=True)) for row in ranks.rows]
    assert all(row["low"] <= row["value"] <= row["high"] and row["n"] >= 8 for row in rows)


def _sampling(memory: float, contention: float = 1.0):
    data = planted_association(days=20, seed=3, memory=memory, contention=contention)
    found = made("association_granularity", data)["mad17.fig10"]
    text = next(finding.text for finding in found.findings if finding.name == "sampling_interval")
    return {estimate.name: estimate for estimate in found.estimates}, text


def test_a_load_of_hours_needs_no_fine_samples_and_one_of_minutes_does():
    slow, text = _sampling(0.985)
    fast, _ = _sampling(0.5)
    assert slow["sampling_interval"].value == 1200
    assert text.startswith("Sample every 20 min: samples every 60 s explain ")
    assert fast["sampling_interval"].value < 1200
    gain = slow["explained_gain_ratio"]
    assert gain.low <= gain.value <= gain.high < 0.05


def test_no_interval_is_recommended_where_the_load_explains_nothing():
    assert "sampling_interval" not in _sampling(0.985, contention=0.0)[0]


@pytest.mark.slow
def test_without_contention_nothing_falls_beyond_what_steps_make():
    """D_D and PsiD share their steps: every coefficient falls with coarser ones, and none says so of contention."""
    for seed in range(8):
        found = made("association_granularity", planted_association(days=20, seed=seed, contention=0.0))["mad17.fig10"]
        assert stands(found, "coarse_sampling_hides") != "supported", seed
