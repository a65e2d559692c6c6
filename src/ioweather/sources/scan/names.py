"""Names as file systems give them: any bytes. How they are measured, stored as text, and told apart by extension."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

NO_EXTENSION: Final = ""
NUMBER: Final = "(number)"
OTHER: Final = "(other)"
_LONGEST_EXTENSION: Final = 16
_ESCAPE: Final = re.compile(rb"\\(?:\\|x([0-9a-f]{2}))")


def stored_text(name: str) -> tuple[str, bool]:
    """Text that any table can hold, and whether it is escaped.

    UTF-8 names stay as they are. In others each byte that is not UTF-8 becomes `\\xNN` and a backslash is doubled.
    """
    if name.isascii():
        return name, False
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return os.fsencode(name).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace"), True
    return name, False


def original_name(text: str, escaped: bool) -> bytes:
    """The bytes that `stored_text` was given."""
    raw = text.encode("utf-8")
    if not escaped:
        return raw
    return _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]) if match[1] else b"\\", raw)


def byte_lengths(names: list[str]) -> Iterable[int]:
    """Lengths in bytes: what the file system limits."""
    if all(map(str.isascii, names)):
        return map(len, names)
    return map(len, map(os.fsencode, names))


def extension_of(suffix: str) -> str:
    """What counts as an extension of the text behind the last dot: `H5` is h5, `0001` a number, a sentence none."""
    if not 0 < len(suffix) <= _LONGEST_EXTENSION:
        return NO_EXTENSION
    if suffix.isdecimal():
        return NUMBER
    if not (suffix.isascii() and suffix.replace("_", "").replace("-", "").isalnum()):
        return NO_EXTENSION
    return suffix.lower()


def extension_of_name(name: str) -> str:
    """A leading dot hides a file; it does not begin an extension."""
    head, _, suffix = name.rpartition(".")
    return extension_of(suffix) if head else NO_EXTENSION
