"""ioweather: the weather of your storage."""

from ioweather._version import __version__

__all__ = ["__version__"]
