"""Logging to standard error and, on request, to a file: one line per event.

By default only warnings and errors. Under systemd, lines have the journal's priority and no time of their own.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO, TypeAlias

from ioweather.core.errors import UsageError
from ioweather.core.units import joined, many_lines

ROOT: Final = "ioweather"
# sd-daemon(3): a line that begins with <N> has that syslog priority.
_PRIORITIES: Final = ((logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6), (logging.DEBUG, 7))


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to the current sys.stderr, which a program may replace."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        return sys.stderr

    @stream.setter
    def stream(self, stream: TextIO) -> None: ...


class _Plain(logging.Formatter):
    """Time, level, part and message."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower()} {_what(record)}: {_text(self, record)}"


class _Journal(logging.Formatter):
    """Syslog priority in brackets, part and message."""

    def format(self, record: logging.LogRecord) -> str:
        priority = next((number for level, number in _PRIORITIES if record.levelno >= level), 7)
        return "\n".join(f"<{priority}>{line}" for line in f"{_what(record)}: {_text(self, record)}".splitlines())


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _what(record: logging.LogRecord) -> str:
    return record.name.removeprefix(ROOT + ".")


def _text(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The message as one line, then a traceback: names of files and answers of servers may contain line ends."""
    message = joined(record.getMessage())
    return f"{message}\n{many_lines(formatter.formatException(record.exc_info))}" if record.exc_info else message


def to_journal() -> bool:
    """Whether standard error is the journal. Terminals and pipes inherit only the variable (systemd.exec(5))."""
    try:
        here = os.fstat(2)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{here.st_dev}:{here.st_ino}"


def set_up(*, verbose: int = 0, file: Path | None = None) -> None:
    """Log to stderr from level WARNING, INFO (`verbose` 1) or DEBUG (2) on, and to `file` from INFO on at least."""
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    terminal = _StandardError()
    terminal.setLevel(level)
    terminal.setFormatter(_Journal() if to_journal() else _Plain())
    handlers: list[logging.Handler] = [terminal]
    if file is not None:
        from logging.handlers import WatchedFileHandler  # imports much; few ask for it

        try:
            to_file = WatchedFileHandler(file, encoding="utf-8", errors="backslashreplace")  # logrotate may move it
        except OSError as error:
            raise UsageError(f"--log-file {file}: {error.strerror}.") from None
        to_file.setLevel(min(level, logging.INFO))
        to_file.setFormatter(_Plain())
        handlers.append(to_file)
    logger = logging.getLogger(ROOT)
    for old in logger.handlers[:]:
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(min(handler.level for handler in handlers))


# Called with how much is done, of how much (None: unknown), and what is being done.
Progress: TypeAlias = Callable[[int, int | None, str], None]


def silent(done: int, total: int | None, what: str) -> None:
    """Report no progress: the default."""
