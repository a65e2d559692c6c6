"""ioweather: the weather of your storage.

The public interface is what stands in `__all__`: a few functions, and one for every question. Each name is loaded when
first used, so that `import ioweather` is instant. Everything else may change. The types are those of `__init__.pyi`,
which is made from the questions (python docs/generate.py).
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ioweather._version import __version__ as __version__
from ioweather.topics.catalogue import TITLES

_PLACES = {
    "exhibits": "ioweather.ui.python_api",
    "fit_mixture": "ioweather.stats.mixture",
    "ingest": "ioweather.ui.python_api",
    "open_lake": "ioweather.lake.lake",
    "read_darshan": "ioweather.readers.darshan.darshan_reader",
    "show": "ioweather.ui.python_api",
    "simulate_facility": "ioweather.ui.python_api",
    "sql": "ioweather.ui.python_api",
    "write_report": "ioweather.ui.python_api",
}
__all__ = sorted(["__version__", *_PLACES, *TITLES])


def __getattr__(name: str) -> Any:
    if name in TITLES:
        from ioweather.ui.python_api import function_of

        return globals().setdefault(name, function_of(name))
    if name == "predictability":  # of version 0.2
        raise AttributeError("ioweather.predictability was removed: see ioweather.show('mad17.fig6')")
    if name not in _PLACES:
        raise AttributeError(f"module 'ioweather' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
