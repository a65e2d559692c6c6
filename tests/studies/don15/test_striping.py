"""Striped transfers: predictions against the planted truth, the best width, independence of targets."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import planted_responses
from ioweather.core.results import Exhibit
from ioweather.core.units import MIB
from ioweather.stats.families import Law, Mixture
from ioweather.stats.order_statistics import BySize
from ioweather.studies.don15 import STRIPING as STUDY
from planted_responses import FACILITY, SIZES, TAIL_SHARE, data_of, law_of, params_of, rows
from planted_source import run_study


@pytest.fixture(scope="module")
def exhibit() -> Exhibit:
    data = data_of(*(rows(size, 300, targets=8) for size in SIZES))
    (made,) = run_study(STUDY, data, FACILITY, params_of(STUDY, replicates=10))
    return made


def test_quantiles_follow_the_planted_truth(exhibit: Exhibit) -> None:
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    found = {e.name: e for e in exhibit.estimates}
    for width in (1, 4, 16, 64):
        law = truth.transfer(64 * MIB, width)
        assert found[f"median[{width}]"].value == pytest.approx(float(law.quantile(0.5)), rel=0.06)
        assert found[f"q90[{width}]"].value == pytest.approx(float(law.quantile(0.9)), rel=0.15)
        assert found[f"median[{width}]"].low <= found[f"median[{width}]"].value  # type: ignore[operator]
    assert [row[0] for row in exhibit.tables[0].rows] == [1, 2, 4, 8, 16, 32, 64]


def test_the_best_width_is_the_narrowest_that_is_good_enough(exhibit: Exhibit) -> None:
    truth = BySize(SIZES, tuple(law_of(size) for size in SIZES))
    q90 = {2**k: float(truth.transfer(64 * MIB, 2**k).quantile(0.9)) for k in range(7)}
    wanted = next(width for width, seconds in q90.items() if seconds <= 1.05 * min(q90.values()))
    found = {e.name: e.value for e in exhibit.estimates}
    assert found["best_width"] in (wanted // 2, wanted, wanted * 2)
    assert found["best_width_agreement"] is not None


def test_independent_targets_pass_and_maxima_agree(exhibit: Exhibit) -> None:
    found = {e.name: e.value for e in exhibit.estimates}
    assert abs(found["target_correlation"]) < 0.1  # type: ignore[arg-type]
    assert "consistent with independently slow targets" in exhibit.findings[1].text
    ratios = [row[4] for row in exhibit.tables[1].rows if row[1] == 0.5]
    assert all(ratio == pytest.approx(1, abs=0.1) for ratio in ratios)


def test_targets_that_are_slow_together_are_found() -> None:
    data = data_of(*(rows(size, 200, targets=4, shared=0.4) for size in SIZES[:2]))
    (made,) = run_study(STUDY, data, FACILITY, params_of(STUDY, replicates=0))
    assert "slow together" in made.findings[1].text
    assert "slow together" in made.findings[1].text


def test_no_width_is_wider_than_there_are_targets() -> None:
    targets = next(param for param in STUDY.params if param.name == "targets")
    assert targets.choose is not None

    class Inventory:
        def series(self):
            return [SimpleNamespace(component_kind=kind, components=n) for kind, n in (("ost", 16), ("oss", 99))]

    assert targets.choose(Inventory(), {}) == 16  # type: ignore[arg-type]


# Seconds that every request takes, those of 64 MiB on top, the tail's exponent, and bytes per second of a node's link.
@pytest.mark.parametrize(
    ("latency", "transfer", "alpha", "link", "says"),
    [
        (0.01, 6.0, 6.0, None, "does not pay"),
        (0.5, 0.02, 2.5, None, "if a node receives more than"),
        (0.5, 0.02, 2.5, 10e9, "Collective I/O pays"),
        (0.5, 0.02, 2.5, 1e3, "does not pay"),
    ],
)
def test_collective_io_follows_the_planted_law(
    monkeypatch: pytest.MonkeyPatch, latency: float, transfer: float, alpha: float, link: float | None, says: str
) -> None:
    def law(size: int, mode: str = "", _: float = 0.0) -> Mixture:
        mean = latency + transfer * size / SIZES[-1]
        pivot = 1.3 * mean
        return Mixture(Law("truncated_normal", mean, 0.12 * mean, pivot), Law("power_law", pivot, alpha), TAIL_SHARE)

    monkeypatch.setattr(planted_responses, "law_of", law)
    data = data_of(*(rows(size, 400, op="write") for size in SIZES))
    facility = replace(FACILITY, node_limit_bytes_per_s=link)
    (made,) = run_study(STUDY, data, facility, params_of(STUDY, replicates=20))
    saving = next(each for each in made.estimates if each.name == "collective_saving")
    assert says in next(finding.text for finding in made.findings if finding.name == "collective")
    # The truth, by drawing the slowest of so many requests.
    rng, truth = np.random.default_rng(1), BySize(SIZES, tuple(law(size) for size in SIZES))
    most, best = (int(word) for word in re.findall(r"of (\d+)", saving.method))
    slowest = [
        np.quantile(truth.at(64 * MIB / n).sample(20_000 * n, rng).reshape(-1, n).max(axis=1), 0.9)
        for n in (most, best)
    ]
    shipping = 64 * MIB * (1 / best - 1 / most) / link if link else 0.0
    assert saving.value == pytest.approx(slowest[0] - slowest[1] - shipping, rel=0.5)
