"""Vega for the browser, from the installed vl-convert: built once per version and kept in the cache directory.

Nothing comes from a network. The bundle defines `vegaEmbed`, `vegaLite` and `vega` on the window and is loaded as a
module; with `ast: true` it evaluates expressions by interpretation, so that a page may forbid eval.
"""

from __future__ import annotations

import os
import tempfile
from importlib.metadata import version
from pathlib import Path

_SNIPPET = "window.vegaEmbed=vegaEmbed;window.vegaLite=vegaLite;window.vega=vega;"


def cache_directory() -> Path:
    """`$XDG_CACHE_HOME/ioweather`, or its place in the home directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "ioweather"


def vega_bundle() -> str:
    """The JavaScript text. Building takes two seconds, reading it back milliseconds."""
    place = cache_directory() / f"vega-{version('vl-convert-python')}.js"
    try:
        return place.read_text(encoding="utf-8")
    except OSError:
        pass
    import vl_convert

    text: str = vl_convert.javascript_bundle(_SNIPPET)
    _keep(place, text)
    return text


def _keep(place: Path, text: str) -> None:
    """Another process never sees half a bundle; a cache that cannot be written is done without."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=place.name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).replace(place)
        except OSError:
            Path(name).unlink(missing_ok=True)
    except OSError:
        return
