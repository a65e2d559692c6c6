"""Numbers and documents out of text that anybody may have written: what is beyond all use is no value at all."""

from __future__ import annotations

import json
import re
from typing import Any

_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Eighteen digits always fit the tables; Python's own `isdigit` also takes '²', which is no number to `int`.
_WHOLE = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The count that the text is, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_json(text: str | bytes) -> Any:
    """As json.loads, with a ValueError also for nesting that no writer of ours has, and for halves of characters, which
    JSON can escape and UTF-8 cannot hold."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))  # json.loads lets halves pass
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _HALF.search(text):
        json.dumps(document, ensure_ascii=False).encode()  # an error is a ValueError
    return document
