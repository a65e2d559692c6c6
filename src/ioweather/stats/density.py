"""Joint density of two measures by binned Gaussian kernels, and what it says of one given the other.

Points are shared among the four grid points around them, and the kernel is applied by a Fourier transform: the cost is
that of the grid, not of the points. Bandwidths: Scott's (the normal-reference minimum of the AMISE, with the full
covariance, as scipy's gaussian_kde), or Botev, Grotowski & Kroese's plug-in (2010), better where there are several
modes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dctn, irfft2, next_fast_len, rfft2

from ioweather.core.arrays import Floats

Bandwidth: TypeAlias = Literal["scott", "botev"]

GRID: Final = 256
# How many bandwidths the grid reaches beyond the outermost points.
_MARGIN: Final = 4.0
_BOTEV_GRID: Final = 256


@dataclass(frozen=True, eq=False)
class Density:
    """`values[i, j]` is the density at (x[i], y[j])."""

    x: Floats
    y: Floats
    values: Floats
    covariance: Floats

    def conditional_quantiles(self, levels: tuple[float, ...]) -> Floats:
        """Quantiles of y at each x: (len(levels), len(x)); NaN where the density of x is nothing."""
        step = self.y[1] - self.y[0]
        edges = np.concatenate([[self.y[0] - step / 2], self.y + step / 2])
        cumulated = np.concatenate([np.zeros((len(self.x), 1)), np.cumsum(self.values, axis=1)], axis=1)
        found = np.full((len(levels), len(self.x)), np.nan)
        # Rounding of the transform is 1e-16 of the greatest value: columns below a million times that are empty.
        floor = self.values.sum(axis=1).max() * 1e-10
        for i in np.flatnonzero(cumulated[:, -1] > floor):
            found[:, i] = np.interp(np.asarray(levels) * cumulated[i, -1], cumulated[i], edges)
        return found


def density(x: NDArray[Any], y: NDArray[Any], *, bandwidth: Bandwidth = "scott") -> Density | None:
    """None where there are fewer than three points, or no spread in one direction."""
    points = np.stack([np.asarray(x, np.float64), np.asarray(y, np.float64)], axis=1)
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) < 3 or np.ptp(points, axis=0).min() <= 0:
        return None
    # In units of the standard deviation, so that the two scales (bytes, seconds) meet.
    scale = points.std(axis=0, ddof=1)
    unit = points / scale
    kernel = _scott(unit) if bandwidth == "scott" else _botev(unit)
    reach = _MARGIN * np.sqrt(np.diag(kernel))
    low, high = unit.min(axis=0) - reach, unit.max(axis=0) + reach
    step = (high - low) / (GRID - 1)
    mass = _shared_bins(unit, low, step, GRID)
    smooth = _convolved(mass, kernel, step)
    values = np.clip(smooth, 0.0, None) / (len(points) * step.prod() * scale.prod())
    axes = [(low[k] + step[k] * np.arange(GRID)) * scale[k] for k in (0, 1)]
    return Density(axes[0], axes[1], values, kernel * np.outer(scale, scale))


def _scott(unit: Floats) -> Floats:
    """n^(-1/(d+4)) times the square root of the covariance, d = 2."""
    return np.asarray(np.cov(unit.T) * len(unit) ** (-2 / 6))


def _shared_bins(unit: Floats, low: Floats, step: Floats, grid: int) -> Floats:
    place = (unit - low) / step
    corner = np.clip(np.floor(place).astype(np.int64), 0, grid - 2)
    part = place - corner
    mass = np.zeros(grid * grid)
    for dx in (0, 1):
        for dy in (0, 1):
            weight = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
            mass += np.bincount((corner[:, 0] + dx) * grid + corner[:, 1] + dy, weight, minlength=grid * grid)
    return mass.reshape(grid, grid)


def _convolved(mass: Floats, kernel: Floats, step: Floats) -> Floats:
    """The kernel's transform is known: exp(-w' H w / 2). Zeros behind keep one edge from the other."""
    grid = len(mass)
    reach = np.ceil(8 * np.sqrt(np.diag(kernel)) / step).astype(int)
    shape = tuple(next_fast_len(int(grid + r), real=True) for r in reach)
    wx = 2 * np.pi * np.fft.fftfreq(shape[0], step[0])[:, None]
    wy = 2 * np.pi * np.fft.rfftfreq(shape[1], step[1])[None, :]
    quadratic = kernel[0, 0] * wx**2 + 2 * kernel[0, 1] * wx * wy + kernel[1, 1] * wy**2
    return np.asarray(irfft2(rfft2(mass, shape) * np.exp(-quadratic / 2), shape)[:grid, :grid])


def _botev(unit: Floats) -> Floats:
    """A diagonal bandwidth from a fixed point of estimated derivatives (their equations 35 to 38)."""
    low, high = unit.min(axis=0), unit.max(axis=0)
    margin = (high - low) / 4
    low, width = low - margin, high - low + 2 * margin
    shares = _shared_bins(unit, low, width / (_BOTEV_GRID - 1), _BOTEV_GRID) / len(unit)
    squared = dctn(shares, type=2)
    squared[0, :] /= 2
    squared[:, 0] /= 2
    squared = squared**2
    from scipy.optimize import brentq  # a fifth of a second, and only here

    functional = _Functional(squared, len(unit))
    try:
        t = float(brentq(functional.fixed_point, 1e-9, 0.1))
    except ValueError:  # no root: as in the one-dimensional case, fall back to the normal reference
        return np.asarray(np.diag(np.diag(_scott(unit))))
    p02, p20, p11 = functional((0, 2), t), functional((2, 0), t), functional((1, 1), t)
    both = p11 + math.sqrt(p20 * p02)
    tx = (p02**0.75 / (4 * math.pi * len(unit) * p20**0.75 * both)) ** (1 / 3)
    ty = (p20**0.75 / (4 * math.pi * len(unit) * p02**0.75 * both)) ** (1 / 3)
    return np.asarray(np.diag([tx * width[0] ** 2, ty * width[1] ** 2]))


class _Functional:
    """Norms of derivatives of the density, each estimated with a bandwidth that follows from the next higher ones."""

    def __init__(self, squared: Floats, n: int) -> None:
        self.squared, self.n = squared, n
        self.frequencies = np.arange(len(squared), dtype=np.float64) ** 2

    def fixed_point(self, t: float) -> float:
        total = self((0, 2), t) + self((2, 0), t) + 2 * self((1, 1), t)
        return t - float((2 * math.pi * self.n * total) ** (-1 / 3))

    def __call__(self, s: tuple[int, int], t: float) -> float:
        order = sum(s)
        if order <= 4:
            above = self((s[0] + 1, s[1]), t) + self((s[0], s[1] + 1), t)
            constant = (1 + 0.5 ** (order + 1)) / 3
            t = (-2 * constant * _moment(s[0]) * _moment(s[1]) / self.n / above) ** (1 / (2 + order))
        return self._norm(s, t)

    def _norm(self, s: tuple[int, int], t: float) -> float:
        weight = np.exp(-self.frequencies * math.pi**2 * t)
        weight[1:] *= 0.5
        left, right = weight * self.frequencies ** s[0], weight * self.frequencies ** s[1]
        return float((-1) ** sum(s) * (left @ self.squared @ right) * math.pi ** (2 * sum(s)))


def _moment(s: int) -> float:
    """Derivative 2s of the normal density at 0."""
    return float((-1) ** s * math.prod(range(1, 2 * s, 2)) / math.sqrt(2 * math.pi))
