"""The rising response against plain least squares, on wild rows, beyond the data, and in its error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.stats.rising import fit_rising, hinges


def test_a_line_is_found():
    x = np.linspace(0, 10, 200)
    columns = hinges(x, x)
    fit = fit_rising(columns, 2.0 + 0.3 * x, 0.01)
    assert fit.at(columns) == pytest.approx(2.0 + 0.3 * x, abs=0.02)
    assert np.abs(fit.residuals).max() < 0.02


def test_without_a_limit_on_the_signs_it_is_least_squares():
    """Where all coefficients are positive and rows agree, ridge and weights hardly matter: numpy's own answer."""
    rng = np.random.default_rng(1)
    columns = rng.random((2000, 3))
    y = 1.0 + columns @ np.array([0.5, 1.0, 2.0]) + 0.01 * rng.standard_normal(2000)
    expected = np.linalg.lstsq(np.column_stack([columns, np.ones(2000)]), y, rcond=None)[0]
    fit = fit_rising(columns, y, 0.001)
    assert fit.coefficients == pytest.approx(expected, abs=0.003)
    # The error of a mean response: sigma^2 x' (X'X)^-1 x.
    design = np.column_stack([columns, np.ones(2000)])
    row = np.append(columns[0], 1.0)
    classic = 0.01 * np.sqrt(row @ np.linalg.inv(design.T @ design) @ row)
    assert fit.error_between(columns[0], np.zeros(0)) == pytest.approx(classic, rel=0.15)


def test_a_few_wild_rows_do_not_bend_it():
    x = np.linspace(0, 1, 60)
    y = 1.0 + 0.5 * x
    y[[5, 20, 50]] += 3.0
    columns = hinges(x, x)
    fitted = fit_rising(columns, y, 0.03).at(columns)
    assert fitted == pytest.approx(1.0 + 0.5 * x, abs=0.1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(-5, 5)), min_size=8, max_size=40))
def test_it_never_falls(rows):
    x, y = (np.array(column) for column in zip(*rows, strict=True))
    fit = fit_rising(hinges(x, x), y, 0.03)
    grid = np.linspace(x.min(), x.max() * 1.5 + 1, 50)
    fitted = fit.at(hinges(grid, x))
    assert np.isfinite(fitted).all()
    assert (np.diff(fitted) >= -1e-9).all()


def test_beyond_the_data_it_goes_on_and_is_less_sure():
    rng = np.random.default_rng(3)
    x = rng.random(40)
    columns = hinges(np.append(x, [1.0, 3.0]), x)
    fit = fit_rising(columns[:40], 1.0 + x + 0.1 * rng.standard_normal(40), 0.03)
    inside, beyond = fit.at(columns[40:])
    assert beyond > inside
    typical = columns[0]
    assert fit.error_between(columns[41], typical) > 2 * fit.error_between(columns[40], typical)


def test_a_measure_that_is_always_the_same_says_nothing():
    columns = hinges(np.full(10, 7.0), np.full(10, 7.0))
    assert np.all(columns == 0)
    assert fit_rising(columns, np.arange(10.0), 0.03).at(columns) == pytest.approx(np.full(10, 4.5), abs=0.2)
