"""Imbalance, correlation and degrees of parallelism of planted targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from ioweather.core.facility import Facility
from ioweather.core.frames import Matrix
from ioweather.core.papers import published
from ioweather.core.papers.claim_tests import match_published
from ioweather.core.results import Exhibit
from ioweather.core.units import MINUTE_NS
from ioweather.topics.catalogue import STUDIES
from planted_source import PlantedSource, run_study


def test_totals_ratios_and_ranks(planted_climate: Any, climate_exhibits: dict[str, Exhibit], estimate_of: Any) -> None:
    ten = climate_exhibits["pat19.fig10"]
    read, write = (planted_climate.values[m].sum(axis=0) for m in ("read_bytes", "write_bytes"))
    assert estimate_of(ten, "max_over_min_read").value == pytest.approx(read.max() / read.min())
    assert estimate_of(ten, "max_over_min_excess_write").value == pytest.approx(write.max() / write.min() - 1)
    assert estimate_of(ten, "mean_per_ost_read").value == pytest.approx(read.mean())
    assert estimate_of(ten, "rank_correlation").value == pytest.approx(scipy.stats.spearmanr(read, write).statistic)
    drawn = {(way, name): total for way, _, total, name in ten.charts[0].table.rows}
    assert drawn["read", "OST0003"] == pytest.approx(read[3])
    assert drawn["write", "OST0003"] == pytest.approx(write[3])
    half = len(planted_climate.values["read_bytes"]) // 2
    halves = [part.sum(axis=0) for part in np.split(planted_climate.values["read_bytes"], [half])]
    assert estimate_of(ten, "persistence_read").value == pytest.approx(scipy.stats.spearmanr(*halves).statistic)


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


GROUPS = (1, 1, 2, 4, 12, 30, 70)  # 120 targets
ROWS = 30 * 1440


@pytest.fixture(scope="module")
def striped() -> dict[str, Exhibit]:
    """Writes: stripes as planted. Reads: the same in low activity, every target for itself in high activity."""
    rng = np.random.default_rng(6)
    level = np.repeat(1.3 ** np.arange(len(GROUPS)), GROUPS)
    high = np.arange(ROWS) % 4 == 0
    busy = np.where(high, 100.0, 1.0)[:, None]
    together = 1e9 * level * rng.uniform(1.0, 1.01, (ROWS, 120))
    apart = 1e9 * 1.06 ** np.arange(120.0) * np.ones((ROWS, 1))
    values = {"write_bytes": busy * together, "read_bytes": busy * np.where(high[:, None], apart, together)}
    names = tuple(map(str, range(120)))
    covered = np.broadcast_to(np.float32(1), (ROWS, 120))
    matrices = {m: Matrix(m, 0, MINUTE_NS, names, v, covered) for m, v in values.items()}
    data = PlantedSource({}, matrices, (0, ROWS * MINUTE_NS), MINUTE_NS)
    params = {"filesystem": "s", "component_kind": "ost"}
    return {e.id: e for e in run_study(STUDIES["climate"], data, Facility(), params)}


def test_planted_degrees_are_found(striped: dict[str, Exhibit], estimate_of: Any) -> None:
    eleven = striped["pat19.fig11"]
    assert estimate_of(eleven, "mean_write").value == pytest.approx(120 / 7)
    assert estimate_of(eleven, "below_ratio_write[10]").value == pytest.approx(4 / 7)
    assert estimate_of(eleven, "below_ratio_write[20]").value == pytest.approx(5 / 7)
    # A quarter of the minutes has 120 clusters of one, the rest seven.
    clusters = 0.25 * 120 + 0.75 * 7
    assert estimate_of(eleven, "mean_read").value == pytest.approx(120 / clusters)
    shares = {row[1]: row[2] for row in eleven.charts[0].table.rows if row[0] == "write"}
    assert shares[1] == pytest.approx(2 / 7)
    assert shares[69] == pytest.approx(6 / 7)
    assert shares[70] == 1


def test_high_phases_count_clusters(striped: dict[str, Exhibit], estimate_of: Any) -> None:
    made = striped["pat19.table1"]
    high = ROWS // 4
    want = {10: 3, 25: 2, 50: 1, 75: 0, 100: 0}
    for degree, clusters in want.items():
        assert estimate_of(made, f"clusters_write[>={degree}]").value == clusters * high
        assert estimate_of(made, f"clusters_read[>={degree}]").value == 0
    assert [row[0] for row in made.tables[0].rows] == ["≥ 10", "≥ 25", "≥ 50", "≥ 75", "≥ 100"]


def test_of_few_targets_the_same_shares_stand_beside_the_paper(estimate_of: Any) -> None:
    """16 targets: groups of 1, 5 and 10 write alike; 50 of 248 are 3 of 16, 100 are 6."""
    rows, groups = 2 * 1440, (1, 5, 10)
    level = np.repeat(1.3 ** np.arange(len(groups)), groups)
    busy = np.where(np.arange(rows) % 4 == 0, 100.0, 1.0)[:, None]
    names, covered = tuple(map(str, range(16))), np.broadcast_to(np.float32(1), (rows, 16))
    matrices = {
        m: Matrix(m, 0, MINUTE_NS, names, busy * 1e9 * level * np.ones((rows, 1)), covered)
        for m in ("read_bytes", "write_bytes")
    }
    data = PlantedSource({}, matrices, (0, rows * MINUTE_NS), MINUTE_NS)
    params = {"filesystem": "s", "component_kind": "ost"}
    (made,) = [e for e in run_study(STUDIES["climate"], data, Facility(), params) if e.id == "pat19.table1"]
    want = {10: 2, 25: 2, 50: 2, 75: 2, 100: 1}
    for degree, clusters in want.items():
        assert estimate_of(made, f"clusters_write[{degree} of 248]").value == clusters * rows // 4
    assert [row[0] for row in made.tables[1].rows][2] == "≥ 3 (50 of 248)"
    beside = {printed.quantity: here for printed, here in match_published(replace(made, published=published(made.id)))}
    assert len(beside) == 15
    assert beside["clusters_read[>=10]"].name == "clusters_read[>=10]"
    assert beside["clusters_read[>=100]"].name == "clusters_read[100 of 248]"


def test_the_chance_level_takes_away_what_targets_do_together(estimate_of: Any) -> None:
    """Pairs of targets that move the same amounts in the same steps; alone they would meet by chance only."""
    rng = np.random.default_rng(5)
    pairs = np.repeat(np.exp(2 * rng.standard_normal((4000, 8))), 2, axis=1)
    names = tuple(f"OST{i:04x}" for i in range(16))
    covered = np.broadcast_to(np.float32(1), pairs.shape)
    matrices = {m: Matrix(m, 0, MINUTE_NS, names, 1e9 * pairs, covered) for m in ("read_bytes", "write_bytes")}
    data = PlantedSource({}, matrices, (0, 4000 * MINUTE_NS), MINUTE_NS)
    params = {"filesystem": "s", "component_kind": "ost"}
    made = {e.id: e for e in run_study(STUDIES["climate"], data, Facility(), params)}
    assert estimate_of(made["pat19.fig11"], "mean_read").value > 2
    assert estimate_of(made["pat19.fig11"], "chance_mean_read").value < 1.25
