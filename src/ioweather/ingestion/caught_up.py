"""`<lake>/catch_up.json`: where the next pass of `ioweather ingest --watch` looks first, and what the last one did.

`last` is for agent, exporter and dashboard, which do not open the lake for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def state_file(root: Path) -> Path:
    return root / "catch_up.json"


def read_caught_up(root: Path) -> dict[str, Any]:
    """Empty where there was no pass yet, or the file cannot be read: nothing depends on it."""
    try:
        body = json.loads(state_file(root).read_bytes())
    except (OSError, ValueError):
        return {}
    return body if isinstance(body, dict) and isinstance(body.get("last", {}), dict) else {}
