"""What `lfs find` prints, or any tool that prints paths: one path per line and nothing else. Counts, no sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.sources.scan.lists import LONGEST_PATH, Entries, decoded, guessed_kinds, list_frames, read_records
from ioweather.sources.textfiles import plain_bytes

_BEGINNINGS: Final = (b"/", b"./", b"../")


@dataclass(frozen=True)
class PathListSource:
    """Reads lists of paths."""

    name: str = "lfs_find"
    title: str = "lists of paths, one per line, as lfs find prints them (counts, no sizes)"
    tables: tuple[str, ...] = ("scans", "scan_bins", "scan_entries")

    def detect(self, head: bytes, path: Path) -> float:
        """Little is needed to be a list of paths, so anything that recognises more goes first."""
        plain = plain_bytes(head)
        lines = plain.split(b"\n")
        lines = lines[:-1] if len(lines) > 1 else lines
        paths = sum(line.startswith(_BEGINNINGS) for line in lines)
        return 0.2 if lines[0].startswith(_BEGINNINGS) and paths >= 0.9 * len(lines) and b"\0" not in plain else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        return list_frames(self.name, path, _pieces(path), context)


def _pieces(path: Path) -> Iterator[tuple[Entries, bool]]:
    waiting: list[str] = []
    before: str | None = None
    torn = False
    for records in read_records(path, b"\n"):
        if records.torn:
            torn = True
            break
        paths = waiting
        for item in records.items:
            # A line that does not begin like the others is the rest of a name with a line end in it.
            if item.startswith(_BEGINNINGS) or not paths:
                paths.append(decoded(item))
            else:
                paths[-1] += "\n" + decoded(item)
                if len(paths[-1]) > LONGEST_PATH:
                    raise CorruptInput(f"{path}: a name longer than any path: {paths[-1][:60]!r}.")
        waiting = paths[-1:]
        done = paths[:-1]
        if done:
            yield Entries(done, guessed_kinds(done, before, waiting[0])), False
            before = done[-1]
    yield Entries(waiting, guessed_kinds(waiting, before)), torn


SOURCE = PathListSource()
