"""Where an axis has its marks and what stands beside them, by unit: binary sizes, seconds, shares, UTC times.

Vega's own ticks are decimal (1.86 GiB) and its clock has twelve hours, so both are made here, and are the same in
every renderer.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from functools import partial
from typing import Final, TypeAlias

from ioweather.core.units import DAY_NS, KIB
from ioweather.figures.reading import name_of

Ticks: TypeAlias = list[tuple[float, str]]

_MS: Final = 1_000_000  # ns
_DAY_MS: Final = DAY_NS // _MS
_MONTH_MS: Final = 30.44 * _DAY_MS
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
# These units are said in the axis title, not at every mark.
NAMED_IN_TITLE: Final = {
    "mib_per_s": "MiB/s",
    "mib_per_s_per_node": "MiB/s per compute node",
    "ops_per_s": "operations/s",
}
_TRAILING_ZEROS: Final = re.compile(r"\.(\d*?)0+(?=\D|$)")
_DECIMAL: Final = ("", "k", "M", "G", "T", "P", "E")
_SLACK: Final = 0.85  # a few marks too many are better than half as many
_EPOCH: Final = dt.datetime(1970, 1, 1)
_CLOCK_STEPS_MS: Final = (
    *(m * 10**k for k in range(3) for m in (1, 2, 5)),
    *(s * 1000 for s in (1, 2, 5, 10, 15, 30)),
    *(m * _MINUTE_MS for m in (1, 2, 5, 10, 15, 30)),
    *(h * _HOUR_MS for h in (1, 2, 3, 6, 12)),
    *(d * _DAY_MS for d in (1, 2, 4, 7, 14)),
)
_MONTH_STEPS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200)
# Seconds on a logarithmic axis: decimal up to a minute, then the units people count in.
_LOG_SECONDS: Final = (
    (*(float(f"{m}e{k}") for k in range(-9, 1) for m in (1, 2, 5)), 10.0, 20.0, 60.0, 120.0, 300.0, 600.0, 1200.0,
     3600.0, 7200.0, 18000.0, 43200.0, 86400.0, *(86400.0 * m * 10**k for k in range(4) for m in (2, 5, 10))),
    (*(10.0**k for k in range(-9, 2)), 60.0, 600.0, 3600.0, 86400.0, *(86400.0 * 10**k for k in range(1, 5))),
)  # fmt: skip


def linear_ticks(low: float, high: float, unit: str, most: int, *, whole: bool = False) -> Ticks:
    """At most about `most` marks, the first at or above `low`; all in one unit of measure. `whole` numbers have
    nothing between them."""
    scale, _, suffix = _measure(max(abs(low), abs(high)), unit)
    step = _tick_step(low, high, unit, most, whole=whole)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step / scale) + 1e-9)) if suffix is not None else 0
    ticks: Ticks = []
    for index in range(first, last + 1):
        value = index * step
        if suffix is None:
            label = tick_label(value, unit)
        else:
            label = f"{value / scale:,.{digits}f}{suffix}" if index else "0%" if suffix == "%" else "0"
        ticks.append((value, label))
    return ticks


def nice_bounds(low: float, high: float, unit: str, most: int) -> tuple[float, float]:
    """`low` and `high` moved outwards to whole steps."""
    step = _tick_step(low, high, unit, most)
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def log_bounds(low: float, high: float, unit: str) -> tuple[float, float]:
    """Positive bounds moved outwards to 1, 2 or 5 times a power of ten (for sizes: to a power of two)."""
    if unit in ("bytes", "bytes_per_s"):
        least, greatest = 2.0 ** math.floor(math.log2(low) + 1e-9), 2.0 ** math.ceil(math.log2(high) - 1e-9)
        return (least, greatest) if greatest > least else (least / 2, greatest * 2)
    below, above = 10.0 ** math.floor(math.log10(low) + 1e-9), 10.0 ** math.floor(math.log10(high) - 1e-9)
    least = max(m * below for m in (1, 2, 5) if m * below <= low * (1 + 1e-6))
    greatest = min(m * above for m in (1, 2, 5, 10) if m * above >= high * (1 - 1e-6))
    return (least, greatest) if greatest > least else (least / 2, greatest * 2)


def log_ticks(low: float, high: float, unit: str, most: int) -> Ticks:
    """Marks on a logarithmic axis; `low` and `high` are positive."""
    if unit in ("bytes", "bytes_per_s"):
        return [(v, tick_label(v, unit)) for v in _binary_powers(low, high, most)]
    if unit in ("seconds", "ns"):
        one = 1e9 if unit == "ns" else 1.0
        return [(v * one, tick_label(v, "seconds")) for v in _log_seconds(low / one, high / one, most)]
    return [(v, tick_label(v, unit)) for v in _decimal_powers(low, high, most)]


def _log_seconds(low: float, high: float, most: int) -> list[float]:
    inside: list[float] = []
    for candidates in _LOG_SECONDS:
        inside = [v for v in candidates if low * 0.999 <= v <= high * 1.001]
        if len(inside) <= most:
            break
    return inside[:: math.ceil(len(inside) / most) or 1] if len(inside) > 1 else _decimal_powers(low, high, most)


def _decimal_powers(low: float, high: float, most: int) -> list[float]:
    first, last = math.floor(math.log10(low) - 1e-9), math.ceil(math.log10(high) + 1e-9)
    for multiples in ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,)):
        values = [float(f"{m}e{k}") for k in range(first, last + 1) for m in multiples]
        inside = [v for v in values if low * 0.999 <= v <= high * 1.001]
        if len(inside) <= most:
            break
    # Between two round numbers the ends are marked.
    return inside[:: math.ceil(len(inside) / most)] if inside else [low, high]


def _binary_powers(low: float, high: float, most: int) -> list[float]:
    first, last = math.ceil(math.log2(low) - 1e-9), math.floor(math.log2(high) + 1e-9)
    for step in (1, 2, 4, 5, 10, 20):
        inside = [2.0**k for k in range(first, last + 1) if k % step == 0]
        if len(inside) <= most:
            break
    return inside


def time_ticks(low_ms: float, high_ms: float, most: int) -> Ticks:
    """Marks of a UTC time axis in epoch milliseconds; a mark at midnight gives the date."""
    wanted = (high_ms - low_ms) / max(most, 1) * _SLACK
    makers = [partial(_clock_ticks, low_ms, high_ms, step) for step in _CLOCK_STEPS_MS]
    makers += [partial(_month_ticks, low_ms, high_ms, months) for months in _MONTH_STEPS]
    widths = [*_CLOCK_STEPS_MS, *(months * _MONTH_MS for months in _MONTH_STEPS)]
    index = next((i for i, width in enumerate(widths) if width >= wanted), len(widths) - 1)
    ticks = makers[index]()
    while len(ticks) < 2 and index > 0:  # one mark says where, but not how far
        index -= 1
        ticks = makers[index]()
    while len(ticks) > most + 1:
        ticks = ticks[::2]
    return ticks


def _clock_ticks(low_ms: float, high_ms: float, step: int) -> Ticks:
    # Whole weeks begin on a Monday; 1970-01-01 was a Thursday.
    shift = 4 * _DAY_MS if step % (7 * _DAY_MS) == 0 else 0
    first, last = math.ceil((low_ms - shift) / step), math.floor((high_ms - shift) / step)
    return [(t, _clock_label(t, step)) for t in (index * step + shift for index in range(first, last + 1))]


def _clock_label(time_ms: float, step: int) -> str:
    moment = _EPOCH + dt.timedelta(milliseconds=time_ms)
    if time_ms % _DAY_MS == 0:
        return f"{moment.day} {moment:%b}"
    if step >= _MINUTE_MS:
        return f"{moment:%H:%M}"
    return f"{moment:%H:%M:%S}" if step >= 1000 else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def _month_ticks(low_ms: float, high_ms: float, step: int) -> Ticks:
    start = _EPOCH + dt.timedelta(milliseconds=low_ms)
    month = (start.year * 12 + start.month - 1) // step * step
    month = month if month >= 12 else step  # there is no year 0
    ticks: Ticks = []
    while month // 12 <= dt.MAXYEAR:
        moment = dt.datetime(month // 12, month % 12 + 1, 1)
        time_ms = (moment - _EPOCH) / dt.timedelta(milliseconds=1)
        if time_ms > high_ms:
            break
        if time_ms >= low_ms:
            ticks.append((time_ms, f"{moment:%Y}" if moment.month == 1 else f"{moment:%b}"))
        month += step
    return ticks


def time_context(low_ms: float, high_ms: float) -> str:
    """What the marks leave out: the day, or the year or years."""
    first = _EPOCH + dt.timedelta(milliseconds=low_ms)
    last = _EPOCH + dt.timedelta(milliseconds=high_ms)
    if first.date() == last.date():
        return f"{first.day} {first:%b %Y}"
    return f"{first:%Y}" if first.year == last.year else f"{first:%Y} to {last:%Y}"


def _measure(magnitude: float, unit: str) -> tuple[float, tuple[float, ...], str | None]:
    """The measure an axis is counted in (in units of the data), its pleasant steps, and what follows the number.

    No suffix means that the numbers are written as everywhere else.
    """
    decimal = (1.0, 2.0, 5.0, 10.0)
    if unit in ("bytes", "bytes_per_s"):
        power = 0 if magnitude < KIB else min(int(math.log2(magnitude)) // 10, len(_BINARY) - 1)
        return float(KIB**power), decimal, f" {_BINARY[power]}" + ("/s" if unit == "bytes_per_s" else "")
    if unit in ("seconds", "ns"):
        one = 1e9 if unit == "ns" else 1.0
        seconds = magnitude / one
        for limit, scale, steps, suffix in (
            (1e-6, 1e-9, decimal, " ns"),
            (1e-3, 1e-6, decimal, " µs"),
            (1.0, 1e-3, decimal, " ms"),
            (120.0, 1.0, (1.0, 2.0, 5.0, 10.0), " s"),
            (7200.0, 60.0, (1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0), " min"),
            (172800.0, 3600.0, (1.0, 2.0, 3.0, 6.0, 12.0), " h"),
        ):
            if seconds < limit:
                return scale * one, steps, suffix
        return 86400.0 * one, decimal, " d"
    if unit == "ratio":
        return 0.01, decimal, "%"
    if unit in ("", "count", "ops_per_s") and magnitude >= 1e5:
        power = min(int(math.log10(magnitude) + 1e-9) // 3, len(_DECIMAL) - 1)
        return 1000.0**power, decimal, f" {_DECIMAL[power]}"
    return 1.0, decimal, "%" if unit == "percent" else None


def _tick_step(low: float, high: float, unit: str, most: int, *, whole: bool = False) -> float:
    scale, steps, _ = _measure(max(abs(low), abs(high)), unit)
    step = _step((high - low) / scale / max(most - 1, 1), steps) * scale
    return max(step, 1.0) if whole or unit == "count" else step  # there is no half a job


def _step(least: float, steps: tuple[float, ...]) -> float:
    if not least > 0 or not math.isfinite(least):
        return 1.0
    if steps[-1] != 10.0:  # sixty minutes, twenty-four hours: no decimal multiples above one
        fitting = [s for s in steps if s >= least * _SLACK]
        if fitting and least >= steps[0]:
            return fitting[0]
        if not fitting:
            return math.ceil(least / steps[-1]) * steps[-1]
    base = 10.0 ** math.floor(math.log10(least) + 1e-9)
    return next(m * base for m in (1.0, 2.0, 5.0, 10.0) if m * base >= least * _SLACK)


def tick_label(value: float, unit: str) -> str:
    """A mark as it is written elsewhere, without trailing zeros, and without a unit that the axis title names."""
    unit = "" if unit in NAMED_IN_TITLE else unit
    if unit == "seconds" and 0 < abs(value) < 1e-6:
        return f"{value * 1e9:.3g} ns"
    for length, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if unit == "seconds" and value and value % length == 0:
            return f"{value / length:,.0f} {name}"
    if unit in ("", "count") and abs(value) >= 1e5:
        power = min(int(math.log10(abs(value)) + 1e-9) // 3, len(_DECIMAL) - 1)
        return f"{value / 1000.0**power:.4g} {_DECIMAL[power]}"
    return _TRAILING_ZEROS.sub(lambda m: f".{m[1]}" if m[1] else "", name_of(float(f"{value:.12g}"), unit))
