"""ioweather: the weather of your storage.

The public interface is what stands in `__all__`; each name is loaded when first used, so that `import ioweather` is
instant. Everything else may change.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ioweather._version import __version__

if TYPE_CHECKING:
    from ioweather.sources.darshan.api import read_darshan
    from ioweather.stats.mixture import fit_mixture
    from ioweather.store.lake import open_lake
    from ioweather.workflows.notebook import show
    from ioweather.workflows.why import why

__all__ = ["__version__", "fit_mixture", "open_lake", "read_darshan", "show", "why"]

_PLACES = {
    "fit_mixture": "ioweather.stats.mixture",
    "open_lake": "ioweather.store.lake",
    "read_darshan": "ioweather.sources.darshan.api",
    "show": "ioweather.workflows.notebook",
    "why": "ioweather.workflows.why",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'ioweather' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
