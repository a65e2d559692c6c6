"""The public door to one Darshan log: `ioweather.read_darshan`."""

from __future__ import annotations

from pathlib import Path

from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.model import DarshanLog


def read_darshan(path: Path | str) -> DarshanLog:
    """Everything one Darshan log (2.00 to 3.41) says: `.job`, `.modules['POSIX'].records`, `.names`.

    A module's `.to_pandas()` or `.to_polars()` gives a data frame where that library is installed.
    """
    return read_log(Path(path))
