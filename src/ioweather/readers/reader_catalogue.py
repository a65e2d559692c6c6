"""Readers of files, ours and those of other packages, by source name.

A reader registers itself where it is defined, by a module-level constant:

    PBS = FileReader("pbs", "PBS accounting", ("jobs",), detect_pbs, read_pbs)

The names are found in the text of the modules, so that no reader is imported before it is used. Entry points
`ioweather.sources` add readers of other packages. For files that no reader reads, `nearest` names a command that makes
a readable one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import ReadContext, Source
from ioweather.core.frames import Frame
from ioweather.core.registry import Catalogue
from ioweather.core.tables import TABLES
from ioweather.readers.text_files import plain_head

# `NAME = FileReader("source", ...)` or the same with a class of its own, whose name ends in Reader.
_REGISTRATION: Final = re.compile(r'^([A-Z][A-Z0-9_]*) = \w*Reader\(\s*"(\w+)"', re.MULTILINE)


@dataclass(frozen=True)
class FileReader:
    """One kind of file: how to recognise it, and how to read it."""

    name: str
    title: str
    tables: tuple[str, ...]
    detector: Callable[[bytes, Path], float]
    reading: Callable[[Path, ReadContext], Iterator[tuple[str, Frame]]]

    def __reduce__(self) -> tuple[object, ...]:
        # Our own go to other processes by name: their functions may have none.
        if SOURCES.is_ours(self.name):
            return _source_named, (self.name,)
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    def detect(self, head: bytes, path: Path) -> float:
        """Return 0 (not this kind) to 1 (surely), from the first bytes; see `core.contracts.Source`."""
        return self.detector(head, path)

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        """Yield (table, frame); see `core.contracts.Source`."""
        return self.reading(path, context)


def registered_readers(folder: Traversable | None = None, package: str = "ioweather.readers") -> dict[str, str]:
    """Source name to 'module:constant' of every reader that a module of the package registers, by name."""
    found: dict[str, str] = {}
    for entry in (folder or resources.files(package)).iterdir():
        if entry.is_dir():
            found |= registered_readers(entry, f"{package}.{entry.name}")
        elif entry.name.endswith(".py"):
            module = f"{package}.{entry.name.removesuffix('.py')}"
            matches = _REGISTRATION.finditer(entry.read_text(encoding="utf-8"))
            found |= {match[2]: f"{module}:{match[1]}" for match in matches}
    return dict(sorted(found.items()))


def _fault(name: str, source: Any) -> str:
    """Why an object of another package cannot be a source; empty if it can."""
    lacks = [part for part in ("name", "title", "tables", "detect", "read") if not hasattr(source, part)]
    if lacks:
        return f"it has no {', '.join(lacks)}; register an object, not its class or module"
    if isinstance(source, type):
        return "it is a class; register an instance"
    if source.name != name:
        return f"its name is {source.name!r}"
    unknown = [table for table in source.tables if table not in TABLES]
    return f"there is no table {', '.join(unknown)}" if unknown else ""


SOURCES: Catalogue[Source] = Catalogue("source", registered_readers, group="ioweather.sources", fault=_fault)


def _source_named(name: str) -> Source:
    """The reader of a name, for unpickling."""
    return SOURCES[name]


SACCT_COMMAND: Final = (
    "SLURM_TIME_FORMAT=%s sacct -a -P --delimiter=$'\\x1f' "
    "--format=JobID,JobIDRaw,Cluster,UID,User,Account,JobName,State,Submit,Start,End,NNodes,NCPUS,NodeList"
)
_TAR_AT: Final = 257


def nearest(head: bytes) -> tuple[str, str] | None:
    """What a file is that no reader reads, and what to use instead; None where that is not known."""
    text = plain_head(head)
    if text[_TAR_AT : _TAR_AT + 5] == "ustar":
        return "a tar archive", "unpack it and ingest its folder"
    known = tomllib.loads(resources.files(__package__).joinpath("unread_files.toml").read_text(encoding="utf-8"))
    for kind in known["file"]:
        magic, line = bytes.fromhex(kind.get("bytes", "")), kind.get("line")
        if (magic and head.startswith(magic)) or (line and re.search(f"^{line}", text, re.MULTILINE)):
            return kind["what"], kind["use"].replace("SACCT", SACCT_COMMAND)
    return None
