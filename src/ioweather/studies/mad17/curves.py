"""I/O time as a function of the system's volume: a forest's curve (mad17 fig. 6), and the joint density (fig. 7, 8).

- The joint density uses binned Gaussian kernels applied by a Fourier transform, so its cost depends on the grid and
  not on the number of points. The bandwidth is Scott's, as in scipy's gaussian_kde.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np
from scipy.fft import irfft2, next_fast_len, rfft2

from ioweather.core.errors import UsageError
from ioweather.core.frames import Floats
from ioweather.core.results import Cell, Chart, Estimate, Exhibit, Finding, Piece, Reference, ResultTable, exhibit
from ioweather.core.units import format_bytes, format_seconds
from ioweather.stats.estimates import LEVEL, plain
from ioweather.studies.mad17.coefficients import complete_pairs
from ioweather.studies.mad17.explained_traffic import HALF_WIDTH_SD, SHARED_STEPS, TIME, VOLUME, AssociationData

_SEED: Final = 20170807
TREES: Final = 200
# Leaves of one job draw the noise; the paper does not name its setting. [ours]
LEAST_LEAF: Final = 5
MIN_POINTS: Final = 20
GRID: Final = 256
# How many bandwidths the grid reaches beyond the outermost points.
_MARGIN: Final = 4.0


def forest_curve(x: Floats, y: Floats, at: Floats) -> tuple[Floats, float]:
    """Return the mean of all trees at `at`, and the share of out-of-bag explained variance; UsageError without
    scikit-learn."""
    try:
        from sklearn.ensemble import RandomForestRegressor
    except ImportError:
        raise UsageError("Random forests need scikit-learn.", hint="pip install 'ioweather[forest]'") from None
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAST_LEAF, oob_score=True, random_state=_SEED)
    forest.fit(x[:, None], y)
    return np.asarray(forest.predict(at[:, None])), float(forest.oob_score_)


@dataclass(frozen=True, eq=False)
class Density:
    """`values[i, j]` is the density at (x[i], y[j])."""

    x: Floats
    y: Floats
    values: Floats

    def conditional_quantiles(self, levels: tuple[float, ...]) -> Floats:
        """Return quantiles of y at each x: (len(levels), len(x)); NaN where x has no density."""
        step = self.y[1] - self.y[0]
        edges = np.concatenate([[self.y[0] - step / 2], self.y + step / 2])
        cumulated = np.concatenate([np.zeros((len(self.x), 1)), np.cumsum(self.values, axis=1)], axis=1)
        found = np.full((len(levels), len(self.x)), np.nan)
        # Rounding of the transform is 1e-16 of the greatest value: columns below a million times that are empty.
        for i in np.flatnonzero(cumulated[:, -1] > self.values.sum(axis=1).max() * 1e-10):
            found[:, i] = np.interp(np.asarray(levels) * cumulated[i, -1], cumulated[i], edges)
        return found


def density(x: Floats, y: Floats) -> Density | None:
    """Return the Gaussian kernel density of at least three points; None without spread in one direction."""
    points = np.stack([x, y], axis=1)
    if np.ptp(points, axis=0).min() <= 0:
        return None
    # In units of the standard deviation, so that the two scales (bytes, seconds) meet.
    scale = points.std(axis=0, ddof=1)
    unit = points / scale
    kernel = np.cov(unit.T) * len(unit) ** (-2 / 6)  # Scott: n^(-1/(d+4)) times the root of the covariance, d = 2
    reach = np.sqrt(np.diag(kernel))
    low, high = unit.min(axis=0) - _MARGIN * reach, unit.max(axis=0) + _MARGIN * reach
    step = (high - low) / (GRID - 1)
    # Each point is shared between the four corners of its cell.
    place = (unit - low) / step
    corner = np.clip(np.floor(place).astype(np.int64), 0, GRID - 2)
    part, mass = place - corner, np.zeros(GRID * GRID)
    for dx, dy in product((0, 1), (0, 1)):
        weight = np.abs(1 - dx - part[:, 0]) * np.abs(1 - dy - part[:, 1])
        mass += np.bincount((corner[:, 0] + dx) * GRID + corner[:, 1] + dy, weight, minlength=GRID * GRID)
    # The kernel's transform is known: exp(-w' H w / 2). Zeros behind keep one edge from the other.
    shape = tuple(next_fast_len(int(GRID + r), real=True) for r in np.ceil(8 * reach / step))
    wx = 2 * np.pi * np.fft.fftfreq(shape[0], step[0])[:, None]
    wy = 2 * np.pi * np.fft.rfftfreq(shape[1], step[1])[None, :]
    quadratic = kernel[0, 0] * wx**2 + 2 * kernel[0, 1] * wx * wy + kernel[1, 1] * wy**2
    smooth = irfft2(rfft2(mass.reshape(GRID, GRID), shape) * np.exp(-quadratic / 2), shape)[:GRID, :GRID]
    values = np.clip(smooth, 0.0, None) / (len(points) * step.prod() * scale.prod())
    axes = [(low[k] + step[k] * np.arange(GRID)) * scale[k] for k in (0, 1)]
    return Density(axes[0], axes[1], values)


_POINTS: Final = 60
_SHIFTED: Final = 39
_LEAST_SHIFTED: Final = 19  # pairings, for a 90% range
_CELLS: Final = 40


def curve_exhibits(data: AssociationData) -> Iterator[Exhibit]:
    """Make fig. 6 and fig. 7 of the chosen group; --set group=NAME shows another (the paper's fig. 8)."""
    rows = data.members(data.asked)
    if len(rows) < MIN_POINTS:
        words = f"{data.name(data.asked)} has {len(rows)} runs with samples, but a curve needs {MIN_POINTS}."
        too_few = Finding(words, "undecided", name="too_few_runs")
        for name in ("mad17.fig6", "mad17.fig7"):
            yield Exhibit(name, findings=(too_few,), caveats=data.caveats, coverage=data.coverage)
        return
    try:
        yield replace(_forest_curves(data), title=f"Random-forest curve: {data.name(data.asked)}")
    except UsageError as error:
        missing = Finding(str(error), "undecided", name="missing_package")
        yield Exhibit("mad17.fig6", findings=(missing,), caveats=data.caveats, coverage=data.coverage)
    title = f"Density of I/O time and system volume: {data.name(data.asked)}"
    yield replace(_conditional_density(data), title=title)


def _pairs(data: AssociationData, way: str) -> tuple[Floats, Floats]:
    """Return system volume and I/O time of the runs of the chosen group."""
    rows = data.members(data.asked)
    return complete_pairs(data.of(f"psid_{way}_bytes")[rows], data.of("d_d_seconds")[rows])


@exhibit("mad17.fig6")
def _forest_curves(data: AssociationData) -> Iterator[Piece]:
    """Random forest of D_D over PsiD."""
    for way in ("read", "write"):
        x, y = _pairs(data, way)
        least, most = np.quantile(x, (0.01, 0.99))
        at = np.linspace(float(least), float(most), _POINTS)
        middle, explained = forest_curve(x, y, at)
        points: list[tuple[Cell, ...]] = [(float(v), float(t), None) for v, t in zip(x, y, strict=True)]
        points += _curve_rows(at, {"forest": [middle]})
        columns = f"volume: {VOLUME} [bytes]; time: {TIME} [seconds]; curve [text]"
        drawn, title = ResultTable.of("overlay", columns, points), f"D_D over PsiD for {way}s: runs and forest fit"
        yield Chart.of("scatter", drawn, "x=volume y=time curve", title)
        rise = float(middle[-1] / middle[0] - 1) if middle[0] else 0.0
        yield plain(f"rise_{way}", rise, "ratio", n=len(x), method="forest, from the 1% to the 99% volume")
        yield plain(f"explained_{way}", explained, "ratio", n=len(x), method="out-of-bag explained variance")
        low, high = (format_seconds(float(middle[at])) for at in (0, -1))
        text = f"From low to high system {way} volume, D_D goes from {low} to {high} ({rise:+.0%})."
        yield Finding(text, name="time_with_volume")
    yield f"The forest has {TREES} trees and at least {LEAST_LEAF} runs per leaf. The paper gives no settings."
    yield SHARED_STEPS, data.caveats, data.coverage


def _curve_rows(at: Floats, curves: Mapping[str, Sequence[Floats]]) -> list[tuple[Cell, ...]]:
    """Volume, time and name of each point of the curves, with a break after each line of a curve."""
    return [
        row
        for name, lines in curves.items()
        for line in lines
        for row in (
            *((float(v), float(t) if np.isfinite(t) else None, name) for v, t in zip(at, line, strict=True)),
            (None, None, name),
        )
    ]


def _narrowing(x: Floats, y: Floats, way: str) -> Estimate:
    """Return the mean width of the conditional interval over that of pairings shifted in time.

    Below 1, knowing the volume narrows the interval more than any curve does by chance.
    """

    def mean_width_given_x(times: Floats) -> float:
        """Mean over the runs of the width of the central LEVEL interval of `times` given each run's x, in the unit of
        `times`; NaN without a density."""
        joint = density(x, times)
        if joint is None:
            return float("nan")
        low, high = joint.conditional_quantiles(((1 - LEVEL) / 2, (1 + LEVEL) / 2))
        of_run = np.clip(np.searchsorted(joint.x, x), 0, len(joint.x) - 1)
        return float(np.nanmean((high - low)[of_run]))

    shifts = np.unique(np.linspace(len(y) // 10 + 1, len(y) - len(y) // 10 - 1, _SHIFTED).astype(np.int64))
    chance = np.array([mean_width_given_x(np.roll(y, shift)) for shift in shifts.tolist()])
    chance, own = chance[np.isfinite(chance)], mean_width_given_x(y)
    name, method = f"conditional_width_{way}", f"mean width relative to {len(chance)} time-shifted pairings"
    if len(chance) < _LEAST_SHIFTED or not np.isfinite(own):
        return plain(name, None, "factor", n=len(x), method="too few time-shifted pairings")
    least, usual, most = np.quantile(chance, [(1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2]).tolist()
    return Estimate(name, own / usual, "factor", own / most, own / least, LEVEL, len(x), method)


@exhibit("mad17.fig7")
def _conditional_density(data: AssociationData) -> Iterator[Piece]:
    """Density of D_D and PsiD, and quantiles of D_D given PsiD."""
    group, drawn = data.name(data.asked), 0
    for way in ("read", "write"):
        x, y = _pairs(data, way)
        joint = density(x, y) if len(x) >= MIN_POINTS else None
        if joint is None:
            continue
        drawn += 1
        symbol, mean, sd = f"PsiD_{way[0].upper()}", float(y.mean()), float(y.std())
        low, median, high = joint.conditional_quantiles(((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2))
        inside = np.flatnonzero((joint.x >= x.min()) & (joint.x <= x.max()))
        picked = inside[:: max(1, len(inside) // _POINTS)]
        factor = len(joint.x) // _CELLS
        count = factor * _CELLS
        cells = joint.values[:count, :count].reshape(_CELLS, factor, _CELLS, factor).mean(axis=(1, 3))
        # Where each cell begins.
        xs, ys = (axis[:count:factor] - (axis[1] - axis[0]) / 2 for axis in (joint.x, joint.y))
        share = cells / cells.sum()
        # Kernels reach below zero; bytes and seconds do not.
        shown = np.argwhere((share > 1e-5) & (xs >= 0)[:, None] & (ys >= 0))
        columns = f"volume: {VOLUME} [bytes]; time: {TIME} [seconds]; density: share [ratio]; curve [text]"
        cells_shown = ((float(xs[i]), float(ys[j]), float(share[i, j]), None) for i, j in shown)
        # As the paper overlays them: the density, what is conditional on the volume, and what is not.
        curves = {
            f"median given {symbol}": [median[picked]],
            f"central 90% given {symbol}": [low[picked], high[picked]],
        }
        over = ((volume, time, None, name) for volume, time, name in _curve_rows(joint.x[picked], curves))
        yield Chart.of(
            "heatmap",
            ResultTable.of("density", columns, (*cells_shown, *over)),
            "x=volume y=time value=density curve",
            f"{group}: joint density of D_D and {symbol}",
            references=tuple(
                Reference("y", mean + k * HALF_WIDTH_SD * sd, words)
                for k, words in ((0, "mean"), (-1, "-1.645 sd"), (1, "+1.645 sd"))
            ),
        )
        place = np.clip(np.searchsorted(joint.x, np.quantile(x, (0.1, 0.5, 0.9))), 0, len(joint.x) - 1)
        for words, level, i in zip(("low", "median", "high"), (0.1, 0.5, 0.9), place, strict=True):
            if np.isfinite(median[i]):
                at = f"{symbol} = {format_bytes(float(np.quantile(x, level)))}"
                method = f"conditional median and central interval at {at}"
                values = (float(median[i]), "seconds", float(low[i]), float(high[i]))
                yield Estimate(f"D_D_given_{words}_volume_{way}", *values, LEVEL, len(x), method)
        yield _narrowing(x, y, way)
        of_run = np.clip(np.searchsorted(joint.x, x), 0, len(joint.x) - 1)
        top = x >= np.quantile(x, 0.9)
        conditional = ((y >= low[of_run]) & (y <= high[of_run]))[top].mean()
        normal = (np.abs(y - y.mean()) <= HALF_WIDTH_SD * y.std())[top].mean()
        yield Finding(
            f"{group}: in the top 10% of {way} volume, mean ± 1.645 sd contains {normal:.0%} of the runs, and the "
            f"conditional interval {conditional:.0%} (of the fitted runs).",
            name="normal_interval",
        )
    if not drawn:
        yield Finding("Volume or time is constant.", "undecided", name="nothing_varies")
    yield "Gaussian kernels on a grid with Scott's bandwidth.", SHARED_STEPS, data.caveats, data.coverage
