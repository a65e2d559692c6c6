"""An error that nobody foresaw: one line that says how to report it, and a file with what to send.

The traceback is in the file. It is on the screen with IOWEATHER_DEBUG or --debug alone.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ioweather._version import __version__
from ioweather.core.errors import IoweatherError
from ioweather.core.foreign_text import many_lines
from ioweather.core.safe_files import errors_dir

_KEPT: Final = 20
_FULL: Final = ("No space left on device", "Disk quota exceeded")


def is_fault(error: BaseException) -> bool:
    """Not a wish to end. A panic of Rust code is a BaseException of pyo3's, which has no class to import."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def explained(error: BaseException) -> IoweatherError:
    """What is said in place of a traceback."""
    for text in _FULL:
        if text in str(error):
            return IoweatherError(f"{text} while writing: {error}.")
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing and missing != "ioweather":
        return IoweatherError(
            f"This needs {missing}, which is not installed here.",
            hint="An installation that only measures lacks it. `pip install ioweather` brings everything.",
        )
    if isinstance(error, MemoryError):
        return IoweatherError("There is not enough memory.", hint="Ask for less, or on a larger machine.")
    kind = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    what = f"This is a fault of ioweather {__version__}: {kind.rstrip('.')}."
    try:
        file = _written(error)
    except OSError as failed:
        return IoweatherError(
            what, hint=f"Please report it with what IOWEATHER_DEBUG=1 shows (no file was written: {failed.strerror})."
        )
    return IoweatherError(what, hint=f"Please report it with {file}; look through that first, it names your files.")


def _written(error: BaseException) -> Path:
    folder = errors_dir()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in sorted(folder.glob("error-*.txt"))[: -_KEPT + 1]:
        old.unlink(missing_ok=True)
    file = folder / f"error-{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}.txt"
    text = (
        f"ioweather {__version__}, Python {platform.python_version()}, {platform.platform()}\n"
        f"Command: {shlex.join(sys.argv)}\n\n{''.join(traceback.format_exception(error))}"
    )
    made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(made, "w", encoding="utf-8") as out:
        out.write(many_lines(text))
    return file
