"""Time: int64 UTC nanoseconds at rest, never through float; text in, text out, zones named.

A wall-clock time without an offset means nothing without a zone. `local_to_ns` refuses a time that does not
exist (spring) and asks for the order of its neighbours where it exists twice (autumn).
"""

from __future__ import annotations

import datetime as dt
import re
import time
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ioweather.core.errors import UndatedInput, UsageError
from ioweather.core.units import DAY_NS, EPOCH, NS

_ISO = re.compile(
    r"^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?)?\s*(Z|UTC|[+-]\d{2}:?\d{2})?$"
)


def now_ns() -> int:
    """UTC nanoseconds since 1970."""
    return time.time_ns()


def zone_named(name: str) -> ZoneInfo:
    """The IANA time zone of this name. Raises UsageError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"{name!r} is not a time zone.", hint="Use an IANA name such as Europe/Berlin or UTC."
        ) from None


def datetime_to_ns(moment: dt.datetime) -> int:
    """UTC nanoseconds of an aware datetime, exact: no float on the way."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * NS + delta.microseconds * 1000


def local_to_ns(naive: dt.datetime, zone: ZoneInfo, *, after_ns: int | None = None) -> int:
    """UTC of a wall-clock time. In the doubled hour of autumn the candidate after `after_ns` (the previous sample)
    is taken when only one is; otherwise the time is refused."""
    first = datetime_to_ns(naive.replace(tzinfo=zone, fold=0).astimezone(dt.timezone.utc))
    second = datetime_to_ns(naive.replace(tzinfo=zone, fold=1).astimezone(dt.timezone.utc))
    if first == second:
        return first
    if first > second:  # PEP 495: a gap has its fold=0 reading later than its fold=1 reading
        raise UndatedInput(f"{naive} does not exist in {zone.key}: clocks jump over it.", hint="Check --zone.")
    later = [t for t in (first, second) if after_ns is not None and t > after_ns]
    # Before both candidates and close to the first: the clock has just entered the doubled hour.
    if len(later) == 2 and after_ns is not None and first - after_ns < second - first:
        return first
    if len(later) == 1:
        return later[0]
    raise UndatedInput(
        f"{naive} happens twice in {zone.key} (clocks go back) and the order of samples does not tell which.",
        hint="Give times with an offset, or in UTC.",
    )


def parse_time_ns(text: str, zone: ZoneInfo | None = None) -> int:
    """Parse a time of a user or a program: ISO 8601, or epoch seconds as '@1794724337'. Raises ValueError, or
    UndatedInput without a zone."""
    stripped = text.strip()
    if stripped.startswith("@"):
        whole, _, fraction = stripped[1:].partition(".")
        if whole.isdigit() and (fraction.isdigit() or not fraction):
            return int(whole) * NS + int((fraction + "0" * 9)[:9])
    match = _ISO.match(stripped)
    if match is None:
        raise ValueError(f"{text!r} is not a time: expected 2026-11-15, 2026-11-15T06:32:16+00:00 or @EPOCH")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    fraction_ns = int((match[7] or "").ljust(9, "0"))
    naive = dt.datetime(year, month, day, hour, minute, second)
    if match[8] is None:
        if zone is None:
            raise UndatedInput(f"{text!r} has no zone.", hint="Give --zone, or set `zone` in facility.toml.")
        return local_to_ns(naive, zone) + fraction_ns
    if match[8] in ("Z", "UTC"):
        offset = dt.timedelta(0)
    else:
        sign = -1 if match[8][0] == "-" else 1
        digits = match[8][1:].replace(":", "")
        offset = sign * dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return datetime_to_ns(naive.replace(tzinfo=dt.timezone.utc) - offset) + fraction_ns


_AGO = re.compile(r"(\d+)\s*(s|min|h|d|w)(\s+ago)?")
_AGO_NS = {"s": NS, "min": 60 * NS, "h": 3600 * NS, "d": DAY_NS, "w": 7 * DAY_NS}


def parse_moment_ns(text: str, zone: ZoneInfo) -> int:
    """Parse a time of a user: as `parse_time_ns`, or 'now', 'today', 'yesterday' (their midnight), '7d' (ago)."""
    words = text.strip().lower()
    if words == "now":
        return now_ns()
    if words in ("today", "yesterday"):
        today = dt.datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        return local_to_ns(today - dt.timedelta(days=words == "yesterday"), zone)
    if (ago := _AGO.fullmatch(words)) is not None:
        return now_ns() - int(ago[1]) * _AGO_NS[ago[2]]
    try:
        return parse_time_ns(text, zone)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: expected 2026-11-15, 2026-11-15T06:32:16+00:00, yesterday, 7d (ago) or @EPOCH"
        ) from None


def utc_day(value: int) -> str:
    """UTC date of a time, as partitions are named: '2026-11-15'."""
    return (EPOCH + dt.timedelta(days=value // DAY_NS)).date().isoformat()


def day_start_ns(day: str) -> int:
    """UTC nanoseconds of the start of a day such as '2026-11-15'."""
    return (dt.date.fromisoformat(day) - dt.date(1970, 1, 1)).days * DAY_NS


def boot_id() -> str:
    """Identifier of this boot of the machine; counters restart with a new one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return "unknown"
