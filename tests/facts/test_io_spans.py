"""Bytes of spans on a grid: beside a sum over every step of every span."""

from __future__ import annotations

import numpy as np
import pytest

from ioweather.facts.job_metrics import spread_over_steps


def one_by_one(first, last, amount, start, step, count):
    out = np.zeros(count)
    for a, b, moved in zip(first, np.maximum(last, first + 1), amount, strict=True):
        for i in range(count):
            low = start + i * step
            out[i] += moved * max(0, min(b, low + step) - max(a, low)) / (b - a)
    return out


def test_bytes_are_spread_over_the_span():
    first, last = np.array([1005, 1000, 990, 1048]), np.array([1025, 1000, 1010, 1058])
    found = spread_over_steps(first, last, np.array([200, 7, 100, 20]), start_ns=1000, step_ns=10, count=5)
    assert found.tolist() == [50.0 + 7 + 50, 100.0, 50.0, 0.0, 4.0]


def test_spans_of_any_length_and_place():
    rng = np.random.default_rng(1)
    first = rng.integers(-300, 1300, 500)
    last = first + np.rint(np.exp(rng.uniform(0, 7, 500))).astype(np.int64)
    amount = rng.integers(0, 10**12, 500)
    found = spread_over_steps(first, last, amount, start_ns=0, step_ns=7, count=140)
    assert found == pytest.approx(one_by_one(first, last, amount, 0, 7, 140), rel=1e-6)
    assert (found >= 0).all()
