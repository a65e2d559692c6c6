"""Text logs of any size, plain or gzipped: read in blocks of whole lines, with a torn last line marked."""

from __future__ import annotations

import codecs
import datetime as dt
import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import local_to_ns, parse_time_ns

Item = TypeVar("Item")
_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 4 << 20
_LONGEST_LINE = 16 << 20
# Logs unzip to ten or thirty times their size, gzip allows a thousand: what is beyond was made to exhaust memory.
_FREE_BYTES, _MOST_RATIO = 64 << 20, 100

_HEAD_CHARACTERS = 64 << 10
# Why the file that is being read is incomplete. Readers return the rows before the cut; ingest reports the file.
_cuts: dict[str, None] = {}


def note_cut(why: str) -> None:
    """Record that the file ends early: what its reader returns is not all of it."""
    _cuts[why] = None


def unfinished_line(path: Path, number: int) -> str:
    """The sentence that says that a last line without a line end was left out."""
    why = "it does not end with a newline (add one if the line is complete)"
    return f"{path}, line {number}: skipped the last line because {why}."


def take_cuts() -> str:
    """The cuts recorded since the last call, as sentences; empty if the file is complete."""
    said = " ".join(_cuts)
    _cuts.clear()
    return said


def plain_bytes(head: bytes) -> bytes:
    """The first bytes of a file, unzipped if need be; for `detect`, so it never fails."""
    if not head.startswith(_GZIP_MAGIC):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 64 << 10)
    except zlib.error:
        return b""


@lru_cache(maxsize=2)
def plain_head(head: bytes) -> str:
    """The first bytes of a file as text, without empty lines at the top. Cached for the `detect` of all readers."""
    return _plain_lines(plain_bytes(head).decode("utf-8-sig", errors="replace")).lstrip("\n")


def beginning(path: Path) -> str:
    """The first block of a text, without empty lines before it."""
    return next((text for text in text_blocks(path) if text.strip()), "").lstrip()[:_HEAD_CHARACTERS]


def _plain_lines(text: str) -> str:
    """The text with the line ends of Unix."""
    return text.replace("\r\n", "\n") if "\r" in text else text


def text_blocks(path: Path) -> Iterator[str]:
    """The text in pieces of some megabytes that end behind a line end, unless a line is longer than a piece.

    What the encoding does not allow is replaced.
    """
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")  # an editor may have put its mark in front
    pending = b""
    for data in unzipped_blocks(path):
        data = pending + data
        end = data.rfind(b"\n") + 1 or len(data)
        pending = data[end:]
        yield _plain_lines(decoder.decode(data[:end]))
    rest = decoder.decode(pending, final=True)
    if rest:
        yield rest


def unzipped_blocks(path: Path, *, cut: bool = True) -> Iterator[bytes]:
    """The bytes of a file in pieces, unzipped if need be. Of a gzip file that may be `cut`, those before the cut, which
    is recorded; else a cut is an error."""
    most = _FREE_BYTES + _MOST_RATIO * path.stat().st_size
    with path.open("rb") as plain:
        zipped = plain.read(2) == _GZIP_MAGIC
        plain.seek(0)
        # read1 returns the readable part of a cut gzip file before it fails.
        read = gzip.GzipFile(fileobj=plain).read1 if zipped else plain.read
        try:
            while data := read(_BLOCK_BYTES):
                yield data
                most -= len(data)
                if most < 0:
                    raise CorruptInput(f"{path} decompresses to more than {_MOST_RATIO} times its size.")
        except EOFError:
            if not cut:
                raise SourceError(f"{path} is truncated.", hint="Copy it again.", kind="TruncatedInput") from None
            note_cut(f"{path} ends within its gzip stream.")
        except (OSError, zlib.error) as error:
            if not zipped:
                raise
            raise CorruptInput(f"{path} is damaged: cannot unzip it ({error}).", hint="Copy the file again.") from None


def numbered_lines(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(number, line, torn) of all lines from the first that is not empty. A last line without a line end is torn: the
    file is still being written, or was cut; it is recorded as a cut, for half a number is a number too."""
    number, rest, begun = 1, "", False
    for text in text_blocks(path):
        *lines, rest = (rest + text).split("\n")
        if len(rest) > _LONGEST_LINE:
            raise CorruptInput(
                f"{path}, line {number + len(lines)}: the line is longer than {_LONGEST_LINE} characters."
            )
        for line in lines:
            begun = begun or bool(line.strip())
            if begun:
                yield number, line, False
            number += 1
    if rest:
        if rest.strip():
            note_cut(unfinished_line(path, number))
        yield number, rest, True


def whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """All lines that end, with their numbers."""
    return ((number, line) for number, line, torn in numbered_lines(path) if not torn)


def hosts_before(path: Path, pattern: re.Pattern[str]) -> list[str]:
    """The hosts (first group) before lines of this pattern, as pdsh prints them; none if none is at the beginning."""
    if pattern.search(beginning(path)) is None:
        return []
    return [*dict.fromkeys(match[1] for _, line in whole_lines(path) if (match := pattern.match(line)))]


def lines_of_host(path: Path, host: str) -> Iterator[tuple[int, str, bool]]:
    """The numbered lines of one host without its name; all lines if the host is empty. Where the file was cut, the
    lines of any host may have been."""
    for number, line, torn in numbered_lines(path):
        if torn or line.startswith(f"{host}:" if host else ""):
            yield number, line.removeprefix(f"{host}:").removeprefix(" ") if host else line, torn


def batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Lists of up to `size` items. What comes before a damaged item is good: it is yielded before the error is
    raised."""
    batch: list[Item] = []
    try:
        for item in items:
            batch.append(item)
            if len(batch) >= size:
                yield batch
                batch = []
    except SourceError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def shown_counts(counts: Mapping[str, int]) -> str:
    """'3 x; 2 y': what was left out, by how often; empty where nothing was."""
    return "; ".join(f"{count} {what}" for what, count in counts.items() if count)


def all_of_a_kind(folder: Path, is_one: Callable[[os.DirEntry[str]], bool]) -> list[Path]:
    """The sorted contents of a folder if `is_one` holds for all; empty otherwise. Most folders fail at the first."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                if not is_one(entry):
                    return []
                found.append(folder / entry.name)
    return sorted(found)


def files_of_a_kind(folder: Path, is_one: Callable[[str], bool]) -> list[Path]:
    """The files of a folder with at least two, if `is_one` holds for the beginning of each; else none."""

    def begins_so(entry: os.DirEntry[str]) -> bool:
        """Whether the entry is a file whose first characters are of the kind."""
        if not entry.is_file(follow_symlinks=False):
            return False
        try:
            with Path(entry.path).open("rb") as file:
                return is_one(plain_head(file.read(_HEAD_CHARACTERS)))
        except OSError:
            return False

    found = all_of_a_kind(folder, begins_so)
    return found if len(found) > 1 else []


ZONE_HINT = "Use --zone, or set `zone` in facility.toml."


class LocalClock:
    """Converts the local times of one file to UTC, in their order, which resolves the repeated hour of autumn."""

    def __init__(self, zone: ZoneInfo | None) -> None:
        self._zone = zone
        self._last_ns: int | None = None

    def restart(self) -> None:
        """Forget the order: the next time may be earlier."""
        self._last_ns = None

    def to_ns(self, naive: dt.datetime, where: str) -> int:
        """UTC nanoseconds of a local time. Raises SourceError without a zone, or if the order does not resolve it."""
        if self._zone is None:
            raise SourceError(
                f"{where}: {naive} is a local time without a time zone.", hint=ZONE_HINT, kind="UndatedInput"
            )
        # Two lines may have the same second, so the next time must follow the moment before the last one.
        after_ns = None if self._last_ns is None else self._last_ns - 1
        try:
            self._last_ns = local_to_ns(naive, self._zone, after_ns=after_ns)
        except SourceError as error:
            raise error.reworded(f"{where}: {error.message}") from None
        return self._last_ns


_TIME_LINE = re.compile(
    r"@?[0-9]{9,10}(?:\.[0-9]{1,9})?|[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:.,]{5,18} ?(?:Z|[+-][0-9:]{4,6})?"
)


def time_of_line(line: str, zone: ZoneInfo | None = None) -> int | None:
    """The moment of a line that is a time and nothing else, as `date +%s` prints it; None for any other line."""
    text = line.strip()
    if not _TIME_LINE.fullmatch(text):
        return None
    try:
        return parse_time_ns(f"@{text}" if text.replace(".", "").isdigit() else text, zone)
    except ValueError:
        return None
