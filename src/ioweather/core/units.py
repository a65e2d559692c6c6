"""Sizes, durations, times and numbers: parsed from text, and formatted for people. Text without control characters.

Times are UTC nanoseconds (int), never floats.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from ioweather.core.errors import SourceError, UsageError

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy

# C0 and C1 controls (ESC, CSI, OSC, line ends), separators of lines, marks of direction (UAX #9), halves of surrogates,
# and non-characters that XML forbids.
_UNSEEN: Final = r"\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
_IN_A_LINE: Final = re.compile(rf"[\x00-\x1f{_UNSEEN}]")
_IN_A_TEXT: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_IN_MARKUP: Final = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]")
_LINE_ENDS: Final = re.compile(r"[\r\n]")


def one_line(text: str) -> str:
    """Escape line ends and other control characters, so that a name cannot begin a line of output."""
    return _IN_A_LINE.sub(_escaped, text)


def joined(text: str) -> str:
    """Join the lines of a message with blanks, and escape control characters: libraries write theirs over several."""
    lines = (line.strip() for line in _LINE_ENDS.split(text))
    return one_line(" ".join(line for line in lines if line))


def many_lines(text: str) -> str:
    """Escape control characters other than line ends and tabs."""
    return _IN_A_TEXT.sub(_escaped, text)


def marked(text: str) -> str:
    """Replace control characters by U+FFFD: in markup and in Vega's expressions an escape would be undone."""
    return _IN_MARKUP.sub("\ufffd", text)


def _escaped(match: re.Match[str]) -> str:
    """The escape of one control character."""
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # PEP 383: a byte that was no text
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(match[0]) or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    )


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Eighteen digits always fit the tables; Python's own `isdigit` also takes '²', which `int` refuses.
_WHOLE = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The number that up to 18 decimal digits spell; None for any other text."""
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as json.loads does. Raises ValueError also for deep nesting, and for lone surrogates, which JSON can
    escape and UTF-8 cannot encode."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))  # json.loads lets halves pass
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _HALF.search(text):
        json.dumps(document, ensure_ascii=False).encode()  # an error is a ValueError
    return document


_HASH: Final = re.compile(r"[0-9a-f]{16}")


def path_hash(path: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of a path."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def shown_path(path: str, paths: PathPolicy) -> str | None:
    """The path (keep), its hash (hash) or None (drop). A path that was hashed on ingest is not hashed again."""
    if paths == "keep":
        return path
    return None if paths == "drop" else path if _HASH.fullmatch(path) else path_hash(path)


def shown_command(exe: str, paths: PathPolicy) -> str | None:
    """A command line, which has paths too: whole (keep), program and hash (hash), or the program alone (drop)."""
    if not exe or paths == "keep":
        return exe or None
    program = exe.split(maxsplit=1)[0].rsplit("/", 1)[-1] if exe.strip() else ""
    return f"{program} #{path_hash(exe)}" if paths == "hash" else program


KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
PIB: Final = 1 << 50
NS: Final = 1_000_000_000
EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
MINUTE_NS: Final = 60 * NS
HOUR_NS: Final = 3600 * NS
DAY_NS: Final = 86_400 * NS

UNITS: Final = frozenset(
    (
        *("", "text", "count", "bytes", "bytes_per_s", "mib_per_s", "mib_per_s_per_node", "ops_per_s", "seconds"),
        *("ns", "time_ns", "ratio", "percent", "date", "factor"),
    )
)

_BINARY: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
# k and KiB are 1024, kB is 1000.
_SIZE_UNITS: Final[dict[str, int]] = {"": 1, "b": 1} | {
    letter + ending: base**power
    for power, letter in enumerate("kmgtp", start=1)
    for ending, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_DURATION_NAMES: Final = (
    ("s sec", NS),
    ("m min", MINUTE_NS),
    ("h hour", HOUR_NS),
    ("d day", DAY_NS),
    ("w week", 7 * DAY_NS),
)
_DURATION_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6} | {
    name: length for names, length in _DURATION_NAMES for name in names.split()
}
_QUANTITY: Final = re.compile(r"((?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)")


def parse_size(text: str) -> int:
    """Bytes of '4 MiB', '3901', '1g' (binary) or '2MB' (decimal)."""
    match = _QUANTITY.fullmatch(text.strip())
    factor = _SIZE_UNITS.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a size: expected a number and a unit, such as 512KiB, 4MiB or 2GB")
    return round(float(match[1]) * factor)


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of '5s', '10 min', '4h', '1.5d'; a bare number is seconds."""
    match = _QUANTITY.fullmatch(text.strip())
    unit = match[2].lower() if match else ""
    factor = _DURATION_UNITS.get(unit or "s") or _DURATION_UNITS.get(unit.rstrip("s"))
    if match is None or factor is None:
        raise ValueError(f"{text!r} is not a duration: expected a number and a unit, such as 5s, 10min, 4h or 7d")
    if match[1].isdigit():
        return int(match[1]) * factor  # int64 ns never passes through float
    return round(float(match[1]) * factor)


def format_bytes(value: float) -> str:
    """Bytes for people, in binary units: 1.5 GiB."""
    magnitude = abs(value)
    power = 0 if magnitude < KIB or math.isinf(value) else min(int(math.log2(magnitude)) // 10, len(_BINARY) - 1)
    scaled = value / (1 << (10 * power))
    return f"{scaled:.0f} B" if power == 0 else f"{_format_digits(scaled)} {_BINARY[power]}"


def format_seconds(value: float) -> str:
    """A duration for people: 3.2 ms, 4.1 min."""
    magnitude = abs(value)
    if magnitude < 5e-10:  # no clock here is finer: what remains is rounding
        return "0 s"
    # What three digits would show as a thousand is one of the next unit.
    if magnitude < 0.9995e-3:
        return f"{_format_digits(value * 1e6)} µs"
    if magnitude < 0.9995:
        return f"{_format_digits(value * 1e3)} ms"
    if magnitude < 120:
        return f"{_format_digits(value)} s"
    if magnitude < 7200:
        return f"{_format_digits(value / 60)} min"
    if magnitude < 48 * 3600:
        return f"{_format_digits(value / 3600)} h"
    return f"{_format_digits(value / 86400)} d"


def _format_digits(value: float) -> str:
    """A number without an exponent: three digits but at most two decimals, and from 1,000 on all digits."""
    magnitude = abs(value)
    if magnitude >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"


def ns_to_datetime(value: int, zone: dt.tzinfo = dt.timezone.utc) -> dt.datetime:
    """UTC nanoseconds as a datetime in a zone, to the microsecond."""
    seconds, rest = divmod(value, NS)
    return (EPOCH + dt.timedelta(seconds=seconds, microseconds=rest // 1000)).astimezone(zone)


# The zone that times are shown in; None: UTC, marked as such. Commands and pages set it and name it once.
_display_zone: ContextVar[dt.tzinfo | None] = ContextVar("display_zone", default=None)


def show_times_in(zone: dt.tzinfo | None) -> None:
    """Show times to people in this zone, to the minute and without its name, for the rest of this command or request;
    None: in UTC, marked as such."""
    _display_zone.set(zone)


def local_zone() -> dt.tzinfo | None:
    """The zone set by `show_times_in`; None: times are UTC and marked so."""
    return _display_zone.get()


def shown_zone() -> dt.tzinfo:
    """The zone that times are shown in: that of `show_times_in`, else UTC."""
    return _display_zone.get() or dt.timezone.utc


def format_span(start_ns: int, end_ns: int | None) -> str:
    """A stretch of time for people, such as `Wed 4 Mar 12:05 - Thu 00:10`; without an end it goes on."""
    start = ns_to_datetime(start_ns, shown_zone())
    first = f"{start:%a} {start.day} {start:%b %H:%M}"
    if end_ns is None:
        return f"since {first}"
    end = ns_to_datetime(end_ns, shown_zone())
    if end.date() == start.date():
        return f"{first} - {end:%H:%M}"
    near = (end.date() - start.date()).days < 7
    return f"{first} - {end:%a %H:%M}" if near else f"{first} - {end:%a} {end.day} {end:%b %H:%M}"


def format_moment(value: int) -> str:
    """A time for people without its year, such as `4 Mar 12:05`."""
    moment = ns_to_datetime(value, shown_zone())
    return f"{moment.day} {moment:%b %H:%M}"


def format_time_ns(value: int, zone: dt.tzinfo | None = None) -> str:
    """A time for people: in the zone of `show_times_in`, else in `zone` (default: UTC) with its offset."""
    shown = _display_zone.get()
    if zone is None and shown is not None:
        return f"{ns_to_datetime(value, shown):%Y-%m-%d %H:%M}"
    moment = ns_to_datetime(value, zone or dt.timezone.utc)
    suffix = "Z" if moment.utcoffset() == dt.timedelta(0) else moment.strftime("%z")
    return moment.strftime("%Y-%m-%d %H:%M:%S") + suffix


def unit_of_name(name: str) -> str:
    """Unit of a column of a query: text for ids, whose digits are not grouped; else none."""
    return "text" if name in ("uid", "gid", "pid") or name.endswith("_id") else ""


def format_value(value: object, unit: str = "") -> str:
    """A cell for people, by its unit (one of UNITS). Missing is a dash, never 0."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return one_line(str(value))
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if unit == "text" and isinstance(value, int):
        return str(value)  # an id, to be copied
    if unit in _FORMATS:
        return _FORMATS[unit](value)
    if unit == "time_ns":
        try:
            return format_time_ns(int(value))
        except OverflowError:  # beyond the years that a calendar has
            return f"{_plain(value)} ns"
    if unit == "ratio":
        return format_ratio(value)
    if unit == "percent":
        return format_ratio(value / 100)
    return _plain(value)


def format_ratio(ratio: float) -> str:
    """A share in percent for people: two significant digits, and less than all is never 100%."""
    percent = ratio * 100
    magnitude = abs(percent)
    if math.isinf(percent):
        return _plain(ratio)
    if 0 < magnitude < 1e-3:  # an exponent is no percentage that people read
        return "<0.001%"
    if 99.5 <= magnitude < 100:
        return ">99%" if percent > 0 else "-99%"
    return f"{percent:.2g}%" if magnitude < 9.95 else f"{percent:,.0f}%"


def _plain(value: float) -> str:
    """A number without a unit, with three significant digits."""
    if isinstance(value, int) or (value == int(value) and abs(value) < 1e15):
        return f"{int(value):,}"
    magnitude = abs(value)
    if 1e-3 <= magnitude < 1e15:
        return f"{value:,.0f}" if magnitude >= 1000 else f"{value:.3g}"
    return f"{value:.3g}"


_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "bytes": format_bytes,
    "bytes_per_s": lambda value: f"{format_bytes(value)}/s",
    "mib_per_s": lambda value: f"{_format_digits(value)} MiB/s",
    "mib_per_s_per_node": lambda value: f"{_plain(value)} MiB/s/CN",
    "ops_per_s": lambda value: f"{_format_digits(value)}/s",
    "seconds": format_seconds,
    "ns": lambda value: format_seconds(value / NS),
    "factor": lambda value: f"{_format_digits(value)}x",
}
_BLOCKS: Final = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int | None = None, *, top: float | None = None) -> str:
    """Values as a line of block characters: the greatest value of each of `width` columns (default: one per value).

    The scale goes from zero, or the least value below it, to the greatest, or to `top`. A missing value is blank; an
    infinite one is at its end of the scale.
    """
    columns = min(width, len(values)) if width is not None else len(values)
    finite = [v for v in values if v is not None and math.isfinite(v)]
    low = min((0.0, *finite))
    high = max((0.0, *finite)) if top is None else top
    drawn = []
    for column in range(columns):
        piece = values[column * len(values) // columns : (column + 1) * len(values) // columns]
        known = [v for v in piece if v is not None and not math.isnan(v)]
        drawn.append(_block(max(known), low, high) if known else " ")
    return "".join(drawn)


def _block(value: float, low: float, high: float) -> str:
    """The block character of a value on the scale from `low` to `high`."""
    if value >= high > low:
        return _BLOCKS[-1]
    if value <= low or high <= low:
        return _BLOCKS[0]
    # Halves: the distance of two numbers may be too large for one.
    return _BLOCKS[int((value / 2 - low / 2) / (high / 2 - low / 2) * 7.999)]


# Request size of the probe of every target: whole pages, for O_DIRECT, and no power of two, which samplers use.
TARGET_PROBE_BYTES: Final = 61_440


def names_of(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def pairs_of(text: str) -> dict[str, str]:
    """The mapping of a text `name=value name=value ...`, without blanks in names and values."""
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


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
    """UTC nanoseconds of an aware datetime, exact."""
    delta = moment - EPOCH
    return (delta.days * 86_400 + delta.seconds) * NS + delta.microseconds * 1000


def local_to_ns(naive: dt.datetime, zone: ZoneInfo, *, after_ns: int | None = None) -> int:
    """UTC nanoseconds of a wall-clock time. In the doubled hour of autumn the candidate after `after_ns` (the previous
    sample) is used if only one is later. Raises SourceError if both are, or the clock jumps over the time."""
    first = datetime_to_ns(naive.replace(tzinfo=zone, fold=0).astimezone(dt.timezone.utc))
    second = datetime_to_ns(naive.replace(tzinfo=zone, fold=1).astimezone(dt.timezone.utc))
    if first == second:
        return first
    if first > second:  # PEP 495: a gap has its fold=0 reading later than its fold=1 reading
        raise SourceError(
            f"{naive} does not exist in {zone.key}: clocks go forward.", hint="Check --zone.", kind="UndatedInput"
        )
    later = [t for t in (first, second) if after_ns is not None and t > after_ns]
    # Before both candidates and close to the first: the clock has just entered the doubled hour.
    if len(later) == 2 and after_ns is not None and first - after_ns < second - first:
        return first
    if len(later) == 1:
        return later[0]
    raise SourceError(
        f"{naive} occurs twice in {zone.key} (clocks go back), and the order of samples is ambiguous.",
        hint="Use times with an offset, or in UTC.",
        kind="UndatedInput",
    )


def parse_time_ns(text: str, zone: ZoneInfo | None = None) -> int:
    """Parse a time of a user or a program: ISO 8601, or epoch seconds as '@1794724337'. Raises ValueError, or
    SourceError without a zone."""
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
            raise SourceError(
                f"{text!r} has no time zone.", hint="Use --zone, or set `zone` in facility.toml.", kind="UndatedInput"
            )
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
