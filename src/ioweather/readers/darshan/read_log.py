"""Read one Darshan log, of any version, from a file or from memory."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from ioweather.core.contracts import Content
from ioweather.core.errors import EmptyInput, SourceError
from ioweather.readers.darshan.binary import MAGIC_BYTES, read_version_3
from ioweather.readers.darshan.binary2 import BZIP2_MAGIC, GZIP_MAGIC, NO_JOB_ID, read_version_2
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged, column
from ioweather.readers.darshan.text import is_darshan_text, read_parser_text

# 'user_program_id178062_12-31-64877_1.darshan.gz'
_ID_IN_NAME = re.compile(r"_id([0-9]{1,18})_")

__all__ = ["DarshanJob", "DarshanLog", "Module", "Ragged", "column", "read_darshan", "read_log"]


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


def read_log(
    path: Path | str | bytes, *, modules: Collection[str] | None = None, content: Content | None = None
) -> DarshanLog:
    """The log at `path`, or the log whose bytes are given. With `modules` only these are decompressed and returned.
    `content` (bytes and digest) saves reading the file a second time."""
    if isinstance(path, bytes):
        return _read(path, None, modules)
    path = Path(path) if isinstance(path, str) else path
    try:
        log = _read(path.read_bytes(), None, modules) if content is None else _read(*content, modules)
        if log.job.job_id == NO_JOB_ID and (named := _ID_IN_NAME.search(path.name)):
            log = log._replace(job=log.job._replace(job_id=int(named[1])))
        return log
    except SourceError as error:
        raise type(error)(f"{path}: {error.message}", hint=error.hint) from error


def _read(data: bytes, digest: str | None, modules: Collection[str] | None) -> DarshanLog:
    if not data:
        raise EmptyInput("The file is empty.", hint="The run may have been killed before Darshan wrote its log.")
    if data[8:16] not in MAGIC_BYTES and is_darshan_text(data):
        return read_parser_text(data, modules)
    if data.startswith((GZIP_MAGIC, BZIP2_MAGIC)):
        return read_version_2(data, modules)
    return read_version_3(data, modules, digest)
