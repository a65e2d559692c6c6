"""Sick components: an OST, OSS or MDS that stops behaving like its peers, found from a matrix of any metric.

Busy hours are busy for all, and some targets are always busier than others. So each component is compared with the
median of its peers in the same hour, and with its own usual ratio to them:

    d = log(own / median of peers) - median over time of the same

Scaled by the typical spread of d (median absolute deviation), a long run of large |d| is an episode. A component that
is missing while its peers report is an episode too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.frames import BlockwiseMatrix, Frame, in_blocks
from ioweather.core.units import HOUR_NS
from ioweather.tables import TABLES

Direction: TypeAlias = Literal["above", "below", "absent"]

# [ours] Robust standard deviations that make an hour unusual, and hours in a row that make an episode. The product of
# both keeps a healthy system of 248 components without a false alarm in most months.
THRESHOLD = 5.0
MIN_UNITS = 3
MIN_PEERS = 4
# Part of a typical amount that is added to all, so that idle hours compare as equal and log(0) does not occur.
_FLOOR = 0.01
_MAD_TO_SD = 1.4826  # of a normal distribution
_BLOCK_DAYS = 16


@dataclass(frozen=True)
class Episode:
    """[start, end) in which a component was apart from its peers; `factor` is its usual ratio to them, multiplied."""

    start_ns: int
    end_ns: int
    direction: Direction
    score: float
    factor: float | None


@dataclass(frozen=True)
class ComponentHealth:
    """`score` is the strongest episode's mean |d| in robust standard deviations; `level` the usual ratio to peers."""

    component: str
    metric: str
    score: float
    level: float | None
    missing_ratio: float
    episodes: tuple[Episode, ...]

    def only(self, direction: Direction) -> ComponentHealth:
        return replace(self, episodes=tuple(e for e in self.episodes if e.direction == direction))


def component_health(
    matrix: BlockwiseMatrix, *, unit_ns: int = HOUR_NS, threshold: float = THRESHOLD, min_units: int = MIN_UNITS
) -> tuple[ComponentHealth, ...]:
    """Every component, the sickest first. Fewer than MIN_PEERS components cannot judge each other: nothing is said."""
    if len(matrix.components) < MIN_PEERS or not matrix.steps:
        return ()
    rows = max(1, unit_ns // matrix.step_ns)
    means = _unit_means(matrix, rows)
    apart, level = _apart(means)
    scale = _scale(apart)
    gone = np.isnan(means) & (np.mean(np.isnan(means), axis=1) <= 0.5)[:, None]
    found = []
    for column, component in enumerate(matrix.components):
        episodes: list[Episode] = []
        own = apart[:, column]
        for direction, chosen in _unusual(own, scale, threshold, gone[:, column]):
            for first, last in _runs(chosen, min_units):
                start, end = (matrix.start_ns + edge * rows * matrix.step_ns for edge in (first, last))
                mean = float(own[first:last].mean())
                absent = direction == "absent"
                score = threshold if absent else abs(mean) / scale
                episodes.append(Episode(start, end, direction, score, None if absent else float(np.exp(mean))))
        found.append(
            ComponentHealth(
                component, matrix.metric, max((e.score for e in episodes), default=0.0),
                float(np.exp(level[column])) if np.isfinite(level[column]) else None,
                float(np.mean(np.isnan(means[:, column]))), tuple(sorted(episodes, key=lambda e: e.start_ns)),
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda health: (-health.score, health.component)))


def _unit_means(matrix: BlockwiseMatrix, rows: int) -> Floats:
    """Mean of each component in each unit of `rows` steps; NaN where less than half of it is there."""
    units = -(-matrix.steps // rows)
    total, count = np.zeros((units, len(matrix.components))), np.zeros((units, len(matrix.components)))
    row = 0
    for block in in_blocks(matrix, _BLOCK_DAYS):
        there = ~np.isnan(block.values)
        edges = np.unique(np.concatenate([[0], np.arange(-row % rows, len(block.values), rows)]))
        places = (row + edges) // rows
        total[places] += np.add.reduceat(np.where(there, block.values, 0.0), edges, axis=0)
        count[places] += np.add.reduceat(there.astype(np.float64), edges, axis=0)
        row += len(block.values)
    # The last unit may be cut short by the end of the data.
    length = np.minimum(rows, matrix.steps - np.arange(units) * rows)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(count >= 0.5 * length, total / count, np.nan))


def _apart(means: Floats) -> tuple[Floats, Floats]:
    """(d, usual log ratio to peers); units with fewer than MIN_PEERS components are missing."""
    present = np.sum(~np.isnan(means), axis=1) >= MIN_PEERS
    typical = float(np.median(means[means > 0])) if np.any(means > 0) else 1.0
    logs = np.log(np.where(present[:, None], means, np.nan) + _FLOOR * typical)
    ratio = logs - _median(logs, axis=1)[:, None]
    level = _median(ratio, axis=0)
    return ratio - level, level


def _median(values: Floats, axis: int) -> Floats:
    """Of what is there; NaN where nothing is."""
    empty = np.isnan(values).all(axis=axis, keepdims=True)
    middle = np.nanmedian(np.where(empty, 0.0, values), axis=axis)
    return np.asarray(np.where(np.squeeze(empty, axis), np.nan, middle))


def _scale(apart: Floats) -> float:
    """Typical spread of d over time: the median component's, so that sick ones do not widen it."""
    spread = _MAD_TO_SD * _median(np.abs(apart), axis=0)
    known = spread[np.isfinite(spread) & (spread > 0)]
    # Components that agree to a hundredth are not apart because a thousandth is much for them.
    return max(float(np.median(known)) if len(known) else 0.0, _FLOOR)


def _unusual(own: Floats, scale: float, threshold: float, gone: Bools) -> list[tuple[Direction, Bools]]:
    with np.errstate(invalid="ignore"):
        return [("above", own > threshold * scale), ("below", own < -threshold * scale), ("absent", gone)]


def _runs(chosen: Bools, least: int) -> list[tuple[int, int]]:
    """[first, last) of runs of at least `least`."""
    padded = np.concatenate([[False], chosen, [False]])
    first = np.flatnonzero(~padded[:-1] & padded[1:])
    last = np.flatnonzero(padded[:-1] & ~padded[1:])
    return [(a, b) for a, b in zip(first.tolist(), last.tolist(), strict=True) if b - a >= least]


def health_events(healths: Sequence[ComponentHealth], system: str) -> Frame:
    """Rows of `events`, one per episode. The same episode has the same id, so a later run revises it."""
    listed = [(health, episode) for health in healths for episode in health.episodes]
    return TABLES["events"].frame(
        rows=len(listed),
        event_id=[f"component_health:{system}:{h.component}:{h.metric}:{e.start_ns}" for h, e in listed],
        kind="component_health",
        system=system,
        component=[h.component for h, _ in listed],
        start_ns=[e.start_ns for _, e in listed],
        end_ns=[e.end_ns for _, e in listed],
        label=[_label(h, e) for h, e in listed],
        strength_ratio=[e.factor for _, e in listed],
        details=[
            json.dumps({"metric": h.metric, "direction": e.direction, "score": round(e.score, 2), "level": h.level})
            for h, e in listed
        ],
    )


def _label(health: ComponentHealth, episode: Episode) -> str:
    if episode.direction == "absent":
        return f"{health.component} did not report {health.metric} while its peers did"
    return f"{health.metric} of {health.component} {episode.factor:.2g} times its usual share"
