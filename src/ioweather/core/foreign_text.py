"""Text from others: made safe to print, parsed with bounds, or hidden.

A terminal obeys control characters, and a bidirectional mark reverses the line around it. They are shown as escapes, as
Python writes them. A byte of a file name that is not UTF-8 is shown as `\\xNN`.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy

# C0 and C1 controls (ESC, CSI, OSC, line ends), separators of lines, marks of direction (UAX #9), halves of surrogates,
# and non-characters that XML forbids.
_UNSEEN: Final = r"\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
_IN_A_LINE: Final = re.compile(rf"[\x00-\x1f{_UNSEEN}]")
_IN_A_TEXT: Final = re.compile(rf"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_IN_MARKUP: Final = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f{_UNSEEN}]")
_LINE_ENDS: Final = re.compile(r"[\r\n]")


def one_line(text: str) -> str:
    """The text with line ends escaped, so that a name cannot begin a line of output."""
    return _IN_A_LINE.sub(_escaped, text)


def joined(text: str) -> str:
    """A message as one line, with a blank for each line end: libraries write theirs over several."""
    lines = (line.strip() for line in _LINE_ENDS.split(text))
    return one_line(" ".join(line for line in lines if line))


def many_lines(text: str) -> str:
    """The text with its own line ends and tabs."""
    return _IN_A_TEXT.sub(_escaped, text)


def marked(text: str) -> str:
    """U+FFFD for each: in markup and in Vega's expressions an escape would be undone again."""
    return _IN_MARKUP.sub("\ufffd", text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # PEP 383: a byte that was no text
        return f"\\x{code - 0xDC00:02x}"
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(match[0]) or (
        f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    )


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
# Eighteen digits always fit the tables; Python's own `isdigit` also takes '²', which `int` refuses.
_WHOLE = re.compile(r"[0-9]{1,18}")


def whole_number(text: str) -> int | None:
    """The text as a whole number, or None."""
    return int(text) if _WHOLE.fullmatch(text) else None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON as json.loads does. Raises ValueError also for deep nesting, and for lone surrogates, which JSON can
    escape and UTF-8 cannot encode."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text))  # json.loads lets halves pass
    try:
        document = json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _HALF.search(text):
        json.dumps(document, ensure_ascii=False).encode()  # an error is a ValueError
    return document


_HASH: Final = re.compile(r"[0-9a-f]{16}")


def path_hash(path: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of a path."""
    return hashlib.sha256(path.encode()).hexdigest()[:16]


def shown_path(path: str, paths: PathPolicy) -> str | None:
    """The path, its hash or None, by policy. A path that was hashed on ingest is not hashed again."""
    if paths == "keep":
        return path
    return None if paths == "drop" else path if _HASH.fullmatch(path) else path_hash(path)


def shown_command(exe: str, paths: PathPolicy) -> str | None:
    """A command line, which has paths too: hashed, equal commands stay equal; dropped, the program's name is left."""
    if not exe or paths == "keep":
        return exe or None
    program = exe.split(maxsplit=1)[0].rsplit("/", 1)[-1] if exe.strip() else ""
    return f"{program} #{path_hash(exe)}" if paths == "hash" else program
