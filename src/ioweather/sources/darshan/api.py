"""The public door to one Darshan log: `ioweather.read_darshan`."""

from __future__ import annotations

from pathlib import Path

from ioweather.sources.darshan.log import read_log
from ioweather.sources.darshan.model import DarshanLog


def read_darshan(path: Path | str) -> DarshanLog:
    """Everything one Darshan log (2.00 to 3.41) says: `.job`, `.modules['POSIX'].records`, `.names`.

    `.to_pandas("POSIX")` or `.to_polars("POSIX")` gives the records of a module with the paths of their files, where
    that library is installed; so does `.modules["POSIX"].to_pandas()`, without paths.

    >>> import ioweather
    >>> log = ioweather.read_darshan("job.darshan")
    >>> log.job.nprocs
    4
    >>> list(log.to_polars("POSIX").columns[:3])
    ['path', 'id', 'rank']
    """
    return read_log(Path(path))
