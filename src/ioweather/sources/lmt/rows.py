"""From arrays to rows of `series`: one row per step and component, text as codes, no Python per cell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.frames import Frame, Text
from ioweather.core.units import HOUR_NS
from ioweather.sources.lmt.reduce import Samples, to_minutes
from ioweather.tables.series import METRICS, SERIES

Rows = Iterator[tuple[str, Frame]]

# Rows of one frame: enough to be fast, small enough that a day of 5 s samples never stands in memory as rows.
FRAME_ROWS = 500_000


def series_rows(
    system: str, kind: str, components: Sequence[str], metric: str, samples: Samples, context: ReadContext
) -> Rows:
    """The minutes of one metric; before them its raw samples, where the context asks for them."""
    if samples.extensive != METRICS[metric].extensive:
        raise ValueError(f"{metric} is {'' if METRICS[metric].extensive else 'not '}an amount")
    minutes = to_minutes(samples)
    if context.keep_raw and minutes is not samples:
        yield from sample_rows(system, kind, components, metric, samples)
    yield from sample_rows(system, kind, components, metric, minutes)


def fullness_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """How full a target is changes slowly: of each hour only its first minute is kept."""
    minutes = to_minutes(samples)
    starts = minutes.start_ns + np.arange(len(minutes.values)) * minutes.step_ns
    values = np.where((starts % HOUR_NS < minutes.step_ns)[:, None], minutes.values, np.nan)
    kept = Samples(minutes.start_ns, minutes.step_ns, values, minutes.extensive, quality=minutes.quality)
    yield from sample_rows(system, kind, components, metric, kept)


def sample_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """The samples as they are. A missing sample has no row."""
    count = len(components)
    block = max(1, FRAME_ROWS // max(1, count))
    for first in range(0, len(samples.values), block):
        values = samples.values[first : first + block]
        steps = len(values)
        starts = samples.start_ns + (first + np.arange(steps)) * samples.step_ns
        flags = np.zeros(steps * count, np.int64)
        if samples.quality is not None:
            flags = samples.quality[first : first + block].astype(np.int64).ravel()
        frame = SERIES.frame(
            start_ns=np.repeat(starts, count),
            interval_ns=samples.step_ns,
            system=system,
            component_kind=kind,
            component=Text(np.tile(np.arange(count, dtype=np.int32), steps), tuple(components)),
            metric=metric,
            value=np.ascontiguousarray(values).ravel(),
            quality=flags,
            rows=steps * count,
        )
        missing = np.isnan(values).ravel()
        if missing.any():
            frame = frame.take(~missing)
        if frame.rows:
            yield "series", frame
