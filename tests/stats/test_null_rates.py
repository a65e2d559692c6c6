"""Independent series that are each alike from one moment to the next: how often a test at 5% finds what is not there.

`rates()` gives the table of docs/explanation/association.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import jarque_bera

from ioweather.stats.order_statistics import independence
from ioweather.stats.series import chance_bound, rotated_sums
from ioweather.studies.car11.volume import single_change
from ioweather.studies.don15 import moments
from ioweather.studies.mad17.coefficients import MEASURES, ShiftNull, best_excess_p, best_shift_p, shift_p

LEVEL = 0.05
ALIKE = 0.8


def autoregressive(rng: np.random.Generator, n: int, keeps: float = ALIKE) -> np.ndarray:
    return lfilter([1.0], [1.0, -keeps], rng.standard_normal(n + 200))[200:]


def shifted(name: str, n: int, rng: np.random.Generator, keeps: float = ALIKE) -> bool:
    x, y = autoregressive(rng, n, keeps), autoregressive(rng, n, keeps)
    return shift_p(name, x, y, MEASURES[name](x, y), 99) <= LEVEL


def best_of_two(n: int, rng: np.random.Generator) -> bool:
    """The better of two directions that are themselves alike."""
    x, y = autoregressive(rng, n), autoregressive(rng, n)
    return best_shift_p([x, 0.5 * x + autoregressive(rng, n)], y, 99) <= LEVEL


def best_of_two_moved(n: int, rng: np.random.Generator) -> bool:
    loads = [autoregressive(rng, 20 * n) for _ in range(2)]
    y = autoregressive(rng, n)

    def at(load: np.ndarray, shift: int) -> float:
        return MEASURES["spearman"](np.roll(load, shift)[: 10 * n : 10], y)

    values = [[at(load, shift) for shift in (0, *rng.integers(50, 20 * n - 50, 59).tolist())] for load in loads]
    nulls = [ShiftNull(float(np.median(row[1:])), 1.0, tuple(row[1:])) for row in values]
    return best_excess_p([row[0] for row in values], nulls) <= LEVEL


def change(n: int, rng: np.random.Generator) -> bool:
    found = single_change(autoregressive(rng, n), replicates=99)
    return found is not None and found.p_value <= LEVEL


def targets(n: int, rng: np.random.Generator) -> bool:
    found = independence(np.stack([autoregressive(rng, n) for _ in range(4)], axis=1), replicates=99)
    return found is not None and found[1] <= LEVEL


def peak_hour(days: int, rng: np.random.Generator) -> bool:
    cycles = np.exp(autoregressive(rng, days * 24)).reshape(days, 24)
    return float(cycles.sum(axis=0).max()) > chance_bound(rotated_sums(cycles, 99).max(axis=1), 1 - LEVEL)


def not_normal(n: int, rng: np.random.Generator, keeps: float = ALIKE) -> bool | None:
    found = moments(autoregressive(rng, n, keeps))
    return None if found is None else np.exp(-found.statistic / 2) <= LEVEL


Draw = Callable[[np.random.Generator], bool | None]
# What is drawn, of how many series, and the rates allowed: 3 to 7%, and two standard errors of so many.
CASES: dict[str, tuple[Draw, int, float, float]] = {
    "Spearman by shifts, 60 pairs": (partial(shifted, "spearman", 60), 400, 0.01, 0.09),
    "Spearman by shifts, 200 pairs": (partial(shifted, "spearman", 200), 400, 0.01, 0.09),
    "Pearson by shifts, 200 pairs": (partial(shifted, "pearson", 200), 400, 0.01, 0.09),
    "distance correlation by shifts, 100 pairs": (partial(shifted, "distance_correlation", 100), 200, 0.005, 0.1),
    "mutual information by shifts, 100 pairs": (partial(shifted, "mutual_information", 100), 200, 0.005, 0.1),
    "better of two directions by shifts, 100 pairs": (partial(best_of_two, 100), 400, 0.01, 0.09),
    "better of two directions, moved in time, 100 pairs": (partial(best_of_two_moved, 100), 200, 0.005, 0.1),
    "a change, 63 days": (partial(change, 63), 200, 0.005, 0.1),
    "a change, 200 days": (partial(change, 200), 200, 0.005, 0.1),
    "targets slow together, 4 of 100": (partial(targets, 100), 300, 0.01, 0.09),
    "a peak hour, 14 days": (partial(peak_hour, 14), 300, 0.01, 0.09),
    "not Normal, 100": (partial(not_normal, 100), 1000, 0.02, 0.08),
    "not Normal, 400": (partial(not_normal, 400), 1000, 0.02, 0.08),
    "not Normal, 2000": (partial(not_normal, 2000), 1000, 0.02, 0.08),
    "not Normal, 50 independent": (partial(not_normal, 50, keeps=0.0), 1000, 0.02, 0.08),
    "not Normal, 50": (partial(not_normal, 50), 1000, 0.02, 0.08),
}  # fmt: skip


def rate(draw: Draw, series: int) -> tuple[float, float]:
    """Share rejected of those answered, and share answered."""
    found = [draw(np.random.default_rng([8, seed])) for seed in range(series)]
    answered = [each for each in found if each is not None]
    return float(np.mean(answered)) if answered else float("nan"), len(answered) / series


def rates() -> None:
    for name, (draw, series, _, _) in CASES.items():
        rejected, answered = rate(draw, series)
        print(f"| {name} | {series} | {rejected:.3f} | {answered:.2f} |", flush=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_tests_reject_about_one_in_twenty(name):
    draw, series, low, high = CASES[name]
    rejected, _ = rate(draw, series)
    assert low <= rejected <= high


@pytest.mark.slow
def test_shifts_are_right_for_independent_pairs_too():
    assert 0.02 <= rate(partial(shifted, "spearman", 40, keeps=0.0), 400)[0] <= 0.08


def test_independent_values_have_jarque_and_beras_statistic():
    for seed in range(4):
        values = np.random.default_rng(seed).gamma(4.0, size=500)
        found = moments(values)
        assert found is not None
        assert found.statistic == pytest.approx(jarque_bera(values).statistic, rel=0.05)
        assert found.statistic > 30
    assert moments(np.ones(50)) is None
    assert moments(np.random.default_rng(1).random(24)) is None, "too few"


def test_an_association_is_found_in_few_pairs():
    x = np.linspace(0, 1, 30)
    y = x + 0.1 * np.random.default_rng(1).standard_normal(30)
    order = np.random.default_rng(2).permutation(30)
    assert shift_p("spearman", x[order], y[order], MEASURES["spearman"](x, y)) <= LEVEL / 2
