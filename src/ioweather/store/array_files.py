"""Arrays in a file of numpy's, beside the tables: what is cut, damaged or not there is worked out again."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def packed(arrays: Mapping[str, Any]) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def unpacked(path: Path, take: Callable[[Mapping[str, Any]], T]) -> T | None:
    """What `take` makes of the arrays, each read when it is asked for; None where that cannot be. No pickle is read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as held:
            return take(held)
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, SyntaxError, zipfile.BadZipFile):
        return None
