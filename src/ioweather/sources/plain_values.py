"""Numbers and documents out of text that anybody may have written: what is beyond all use is no value at all."""

from __future__ import annotations

import json
import re
from typing import Any

# Eighteen digits always fit the tables; Python's own `isdigit` also takes '²', which is no number to `int`.
_WHOLE = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The count that the text is, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_json(text: str | bytes) -> Any:
    """As json.loads, whose only other error than a ValueError is for nesting that no writer of ours has."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
