"""Planted heads and tails come back: pivots, shares, winners."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.core.frames import Frame
from ioweather.core.results import Exhibit
from ioweather.core.units import MIB
from ioweather.studies.don15 import RESPONSE_TAILS as STUDY
from judging import stands
from planted_responses import ALPHA, FACILITY, SIZES, TAIL_SHARE, data_of, law_of, params_of, rows
from planted_source import PlantedSource, run_study


@pytest.fixture(scope="module")
def exhibits() -> dict[str, Exhibit]:
    data = data_of(*(rows(size, 1200, op=op) for size in SIZES[:2] for op in ("read", "write")))
    params = params_of(STUDY, request_size=4 * MIB, replicates=10)
    return {exhibit.id: exhibit for exhibit in run_study(STUDY, data, FACILITY, params)}


def test_the_split_is_where_it_was_planted(exhibits: dict[str, Exhibit]) -> None:
    fig4 = exhibits["don15.fig4"]
    found = {e.name: e for e in fig4.estimates}
    law = law_of(4 * MIB)
    assert found["pivot"].value == pytest.approx(law.pivot, rel=0.1)
    assert found["tail_share"].value == pytest.approx(TAIL_SHARE, abs=0.04)
    assert found["tail_alpha"].value == pytest.approx(ALPHA, abs=0.6)
    assert found["tail_alpha"].low < found["tail_alpha"].value < found["tail_alpha"].high  # type: ignore[operator]
    assert "write" in fig4.findings[0].text
    assert [chart.title for chart in fig4.charts] == [
        "scratch-nocache write 4 MiB: all response times", "Head: Normal", "Tail: Power Law",
    ]  # fmt: skip
    assert sum(row[3] for row in fig4.tables[0].rows) == pytest.approx(1)  # type: ignore[misc]


def test_shares_stand_beside_what_a_normal_would_give(exhibits: dict[str, Exhibit]) -> None:
    fig5 = exhibits["don15.fig5"]
    found = {e.name: e for e in fig5.estimates}
    assert found["tail_ratio_mean"].value == pytest.approx(TAIL_SHARE, abs=0.03)
    assert found["tail_ratio_read[scratch-nocache]"].value == pytest.approx(TAIL_SHARE, abs=0.04)
    assert found["head_ratio_mean"].value == pytest.approx(1 - found["tail_ratio_mean"].value)  # type: ignore[operator]
    assert found["tail_ratio_normal_searched"].value is not None
    assert stands(fig5, "heavy_tail") == "supported"
    assert len(fig5.tables[0].rows) == 2


PURE = {
    "normal": lambda rng, n: rng.normal(10.0, 1.0, n),
    "uniform": lambda rng, n: rng.uniform(5.0, 15.0, n),
    "exponential": lambda rng, n: rng.exponential(10.0, n) + 1e-6,
}


def responses_of(seed: int, law: str) -> PlantedSource:
    """Two sizes, read and written, whose times have one law."""
    rng, frames = np.random.default_rng([seed, len(law)]), []
    for size in SIZES[:2]:
        for op in ("read", "write"):
            frame = rows(size, 800, op=op, seed=seed)
            if law != "power law":
                frame = Frame({**frame, "duration_ns": np.round(PURE[law](rng, 800) * 1e6).astype(np.int64)})
            frames.append(frame)
    return data_of(*frames)


@pytest.mark.parametrize(
    ("law", "allowed"),
    [
        ("normal", {"refuted"}),
        ("uniform", {"refuted"}),
        ("exponential", {"refuted", "undecided"}),
        ("power law", {"supported"}),
    ],
)
def test_only_power_law_tails_are_heavy(law: str, allowed: set[str]) -> None:
    """A pivot search finds a tail in any sample: 80 to 95% of a Normal one."""
    for seed in range(3):
        made = run_study(STUDY, responses_of(seed, law), FACILITY, params_of(STUDY, request_size=MIB, replicates=0))
        by_id = {exhibit.id: exhibit for exhibit in made}
        assert stands(by_id["don15.fig5"], "heavy_tail") in allowed
        assert law == "power law" or stands(by_id["don15.fig6"], "power_law_tail") != "supported"


def test_normal_and_power_law_win(exhibits: dict[str, Exhibit]) -> None:
    fig6 = exhibits["don15.fig6"]
    found = {e.name: e for e in fig6.estimates}
    assert found["head_normal_ratio"].value == 1
    assert stands(fig6, "normal_head") == "undecided"  # of so few samples
    assert {e.name: e.value for e in fig6.estimates}["head_normal_ratio"] == 1
    assert found["head_around_average_ratio"].value == pytest.approx(0.94, abs=0.03)
    assert found["goodness_p[scratch-nocache read 4 MiB]"].value >= 0  # type: ignore[operator]
    overlay = fig6.charts[0].table
    named = {part for name in overlay.column("series") for part in str(name).split(", ")}
    assert named == {"measured", "Power Law", "LogNormal", "Weibull", "Gamma", "Exponential"}
    assert min(overlay.column("share")) > 0, "the axis is logarithmic"
    measured, fitted = (
        np.array([(row[1], row[2]) for row in overlay.rows if name in str(row[0]).split(", ")])
        for name in ("measured", "Power Law")
    )
    assert np.max(np.abs(np.interp(fitted[:, 0], *measured.T) - fitted[:, 1])) < 0.05


def test_a_sample_that_cannot_be_split_is_told() -> None:
    frame = rows(4 * MIB, 150)
    same = Frame({**frame, "duration_ns": np.full(150, 10**6)})
    made = list(run_study(STUDY, data_of(rows(MIB, 300), same), FACILITY, params_of(STUDY, replicates=0)))
    assert "all 150 times are equal" in made[0].caveats[-1]
    assert list(run_study(STUDY, data_of(same), FACILITY, params_of(STUDY, replicates=0))) == []
