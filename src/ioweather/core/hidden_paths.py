"""Paths and command lines of people who do not want to show them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy

_HASH: Final = re.compile(r"[0-9a-f]{16}")


def path_hash(path: str) -> str:
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def shown_path(path: str, paths: PathPolicy) -> str | None:
    """What was hashed when it came in stays as it is."""
    if paths == "keep":
        return path
    return None if paths == "drop" else path if _HASH.fullmatch(path) else path_hash(path)


def shown_command(exe: str, paths: PathPolicy) -> str | None:
    """A command line holds paths too. Hashed, equal commands stay equal; dropped, the program's name is left."""
    if not exe or paths == "keep":
        return exe or None
    program = exe.split(maxsplit=1)[0].rsplit("/", 1)[-1] if exe.strip() else ""
    return f"{program} #{path_hash(exe)}" if paths == "hash" else program
