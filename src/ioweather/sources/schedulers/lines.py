"""What the readers of accounting files share: numbered lines, epochs, and how an exit becomes a state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.core.units import NS
from ioweather.sources.plain_values import whole_number
from ioweather.sources.textfiles import line_blocks

_END_NS = 1 << 63  # what the tables hold


def numbered_lines(path: Path) -> Iterator[tuple[str, str]]:
    """(where, line) of lines that say something. A last line without its end is not trusted: accounting is appended to
    while it is read, and half a number is a number too."""
    for block in line_blocks(path):
        if block.torn and not block.lines[0].isspace():
            raise TruncatedInput(
                f"{path}, line {block.first}: the last line has no line end and was left out.",
                hint="Ingest the file again when it is whole.",
            )
        for number, line in enumerate(block.lines, block.first):
            if line and not line.startswith("#") and not line.isspace():
                yield f"{path}, line {number}", line


def moment_ns(text: str, where: str, name: str, *, per_second: int = 1) -> int | None:
    """An epoch; 0, and nothing at all, is never."""
    if text in ("", "0"):
        return None
    count = whole_number(text)
    if count is None or count * (NS // per_second) >= _END_NS:
        raise CorruptInput(f"{where}: {name} is {text[:40]!r}, not seconds since 1970.")
    return count * (NS // per_second)


def state_of(exit_status: str | None) -> str:
    """In the words of Slurm, which the table has."""
    if not exit_status:
        return "UNKNOWN"
    return "COMPLETED" if exit_status == "0" else "FAILED"
