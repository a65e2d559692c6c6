"""Colours: legible on their paper, and apart for every kind of colour vision."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ioweather.ui.charts import theme
from ioweather.ui.charts.theme import DARK, HUES, SERIES

# Machado, Oliveira, Fernandes (2009), severity 1.0: linear RGB of normal vision to what is seen.
VISION = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour: str) -> NDArray[np.float64]:
    share = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def lab(light: NDArray[np.float64]) -> NDArray[np.float64]:
    xyz = TO_XYZ @ np.clip(light, 0, 1) / np.array([0.95047, 1, 1.08883])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(a: str, b: str) -> float:
    """WCAG 2: relative luminances."""
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


def in_theme(colour: str, name: str) -> str:
    return DARK[colour] if name == "dark" else colour


@pytest.mark.parametrize("name", ["light", "dark"])
def test_texts_and_marks_stand_out_from_the_paper(name: str) -> None:
    paper = in_theme(theme.BACKGROUND, name)
    for text in (theme.INK, theme.SECONDARY, theme.REFERENCE):
        assert contrast(in_theme(text, name), paper) >= 4.5
    for mark in SERIES[:HUES]:
        assert contrast(in_theme(mark, name), paper) >= 3.0


@pytest.mark.parametrize("name", ["light", "dark"])
@pytest.mark.parametrize("vision", list(VISION))
def test_series_stay_apart_in_every_vision(name: str, vision: str) -> None:
    seen = [lab(VISION[vision] @ linear(in_theme(colour, name))) for colour in SERIES[:HUES]]
    assert min(float(np.linalg.norm(a - b)) for a, b in combinations(seen, 2)) > 13


def test_every_colour_has_one_partner() -> None:
    """A page exchanges colours by their value, so two roles must not share one."""
    roles = [theme.BACKGROUND, theme.INK, theme.SECONDARY, theme.GRID, theme.AXIS, theme.NEUTRAL, theme.SHADE,
             theme.REFERENCE, *SERIES]  # fmt: skip
    assert len(set(roles)) == len(roles)
    assert set(roles) == set(DARK)
    fixed = {theme.CELL_INK, theme.CELL_PAPER, *theme.DIVERGING}
    assert not fixed & set(DARK)


def test_numbers_in_cells_stand_out() -> None:
    for paper in (theme.DIVERGING[0], theme.DIVERGING[-1]):
        assert contrast(theme.CELL_PAPER, paper) >= 4.5
    for paper in theme.DIVERGING[1:4]:
        assert contrast(theme.CELL_INK, paper) >= 4.5
