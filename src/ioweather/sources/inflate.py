"""DEFLATE streams: zlib-ng where it is installed, which inflates twice as fast as zlib, else the standard library's."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, Final

try:
    from zlib_ng import zlib_ng

    _library: Any = zlib_ng
except ImportError:  # no wheel for this processor: the same interface and the same bytes, only slower
    _library = zlib

# Starts a stream: `decompressobj(wbits)`, as in zlib.
decompressobj: Final[Callable[..., Any]] = _library.decompressobj
InflateError: Final[type[Exception]] = _library.error
