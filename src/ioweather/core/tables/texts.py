"""How the texts of a column must be written, where programs parse them: JSON of a known shape, lists of numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ioweather.core.words import names_of

Reads: TypeAlias = "Callable[[str], bool]"  # whether a text can be parsed

# An interface is what the application called; highest first. HDF5 and PnetCDF bytes are measured one layer below.
INTERFACES: Final = names_of("HDF5 PnetCDF MPI-IO POSIX STDIO")
_NUMBERS = re.compile(r"([0-9]{1,9}(,[0-9]{1,9})*)?")
# Packed as pairs of characters, or as version 1 wrote it (bin:count bin:count); see `stats.histograms`.
_HISTOGRAM = re.compile("(~([!-\U0010ffff]{2})*|-?[0-9]{1,4}:[0-9]{1,15}( -?[0-9]{1,4}:[0-9]{1,15})*)?")
_MOST_BINS: Final = 4000  # from a nanosecond to more than a hundred years
_EVENT_KEYS: Final = {"through": list, "interval_ns": int, "probability": float, "runs": int, "lost_seconds": float,
                      "direction": str, "cause": str, "op": str, "mode": str, "request_bytes": int}  # fmt: skip


def is_numbers(text: str) -> bool:
    return _NUMBERS.fullmatch(text) is not None


def is_layout(text: str) -> bool:
    """Lists of numbers, one for each part of a file."""
    return all(map(is_numbers, text.split(";")))


def is_histogram(text: str) -> bool:
    gaps = sum(map(ord, text[1::2])) - 33 * (len(text) // 2) if text.startswith("~") else 0
    return gaps <= _MOST_BINS and _HISTOGRAM.fullmatch(text) is not None


def is_interfaces(text: str) -> bool:
    return text == "" or set(text.split(",")) <= set(INTERFACES)


def is_object(text: str) -> bool:
    return isinstance(_parsed(text), dict)


def is_list(text: str) -> bool:
    return isinstance(_parsed(text), list)


def is_object_of_texts(text: str) -> bool:
    found = _parsed(text)
    return isinstance(found, dict) and all(isinstance(value, str) for value in found.values())


def is_object_of_counts(text: str) -> bool:
    """Numbers by number."""
    found = _parsed(text)
    return isinstance(found, dict) and all(
        key.isdecimal() and len(key) < 19 and _is(value, int) and value >= 0 for key, value in found.items()
    )


def is_object_of_objects(text: str) -> bool:
    found = _parsed(text)
    return isinstance(found, dict) and all(
        isinstance(inner, dict) and all(_is(value, int) for value in inner.values()) for inner in found.values()
    )


def is_event_details(text: str) -> bool:
    """Any object whose known keys have values of their type."""
    found = _parsed(text)
    if not isinstance(found, dict):
        return False
    known = {key: value for key, value in found.items() if key in _EVENT_KEYS and value is not None}
    through = known.get("through", [])
    return all(_is(value, _EVENT_KEYS[key]) for key, value in known.items()) and all(_is(name, str) for name in through)


def _is(value: Any, kind: type) -> bool:
    """Whether JSON has a value of the type there; an int also one that fits into 64 bits."""
    if isinstance(value, bool):
        return False
    if kind is int:
        return isinstance(value, int) and abs(value) < 1 << 63
    return isinstance(value, (int, float) if kind is float else kind)


def _parsed(text: str) -> Any:
    """None where it is no JSON, also where it is nested too deeply to be read again."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
