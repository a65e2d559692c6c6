"""The forecast as a table and a picture: the last hours as they were, the next two as they are expected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ioweather.advice.forecast.horizons import History, Outlook, Quantity
from ioweather.core.results import Cell, Chart, Exhibit, Reference, ResultColumn, ResultTable
from ioweather.core.units import HOUR_NS

SHOWN_NS: Final = 6 * HOUR_NS


def forecast_exhibit(history: History, quantity: Quantity, outlooks: Sequence[Outlook]) -> Exhibit:
    curve = _curve(history, quantity, outlooks)
    chart = Chart(
        "band", curve, {"x": "time", "y": "value", "low": "low", "high": "high"},
        f"{quantity.title}, seen and expected",
        references=(Reference("x", float(history.end_ns), "now"),),
    )  # fmt: skip
    estimates = [e for o in outlooks for e in (o.skill, *o.against, o.skill_amount, o.coverage)]
    return Exhibit("forecast", quantity.title, (_table(quantity, outlooks),), (chart,), tuple(estimates))


def _table(quantity: Quantity, outlooks: Sequence[Outlook]) -> ResultTable:
    unit = quantity.unit
    columns = (
        ResultColumn("horizon", "ahead", "ns"),
        ResultColumn("time", "window ends", "time_ns"),
        ResultColumn("expected", "expected", unit),
        ResultColumn("low", "90% from", unit),
        ResultColumn("high", "90% to", unit),
        ResultColumn("by", "by", "text"),
        ResultColumn("skill", "skill"),
        ResultColumn("skill_low", "skill from"),
        ResultColumn("skill_high", "skill to"),
        ResultColumn("skill_against_persistence", "against as now"),
        ResultColumn("skill_against_climatology", "against as usual"),
        ResultColumn("skill_amount", "skill in own unit"),
        ResultColumn("coverage", "intervals held", "ratio"),
        ResultColumn("n", "forecasts judged", "count"),
    )
    return ResultTable("forecast", columns, tuple(_row(o) for o in outlooks), quantity.title)


def _row(o: Outlook) -> tuple[Cell, ...]:
    return (
        o.horizon_ns, o.time_ns, o.value, o.low, o.high, o.by, o.skill.value, o.skill.low, o.skill.high,
        o.against[0].value, o.against[1].value, o.skill_amount.value, o.coverage.value, o.skill.n,
    )  # fmt: skip


def _curve(history: History, quantity: Quantity, outlooks: Sequence[Outlook]) -> ResultTable:
    """Values stand where their window ends, so that the last one seen is now; one curve, so that one scale serves."""
    first = max(0, len(history.values) - SHOWN_NS // history.window_ns)
    rows: list[tuple[Cell, ...]] = []
    for place in range(first, len(history.values)):
        value = history.values[place]
        seen = float(value) if np.isfinite(value) else None
        rows.append((history.start_ns + (place + 1) * history.window_ns, "seen", seen, None, None))
    # The band opens where the last value was seen.
    time, kind, now, *_ = rows[-1]
    rows[-1] = (time, kind, now, now, now)
    rows += [(o.time_ns, "expected", o.value, o.low, o.high) for o in outlooks]
    columns = (
        ResultColumn("time", "", "time_ns"),
        ResultColumn("series", "", "text"),
        ResultColumn("value", quantity.of, quantity.unit),
        ResultColumn("low", "90% from", quantity.unit),
        ResultColumn("high", "90% to", quantity.unit),
    )
    return ResultTable("course", columns, tuple(rows), quantity.title)
