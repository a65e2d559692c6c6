"""Vega for the browser, from the installed vl-convert: built once per version and kept in the cache directory.

Nothing comes from a network. The bundle defines `vegaEmbed`, `vegaLite` and `vega` on the window and is loaded as a
module; with `ast: true` it evaluates expressions by interpretation, so that a page may forbid eval.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from ioweather.core.errors import UnsafePlace
from ioweather.core.safe_files import PrivateDirectory

_SNIPPET = "window.vegaEmbed=vegaEmbed;window.vegaLite=vegaLite;window.vega=vega;"


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/ioweather`, or its place in the home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "ioweather"


def vega_bundle() -> str:
    """The JavaScript text. Building takes two seconds, reading it back milliseconds. Browsers run it, so the cache is a
    directory that is ours alone; where it is not, it is done without."""
    name = f"vega-{version('vl-convert-python')}.js"
    with suppress(OSError, UnsafePlace), PrivateDirectory.named(cache_directory()) as cache:
        return cache.read(name).decode()
    import vl_convert

    text: str = vl_convert.javascript_bundle(_SNIPPET)
    with suppress(OSError, UnsafePlace), PrivateDirectory.named(cache_directory()) as cache:
        cache.replace(name, text.encode())
    return text
