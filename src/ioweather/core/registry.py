"""Lazy catalogues of readers, studies, questions and chart kinds: ours, then entry points of installed packages.

Nothing is imported until used.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ioweather.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
OURS = "ioweather"


class Catalogue(Mapping[str, T], Generic[T]):
    """Names to objects, each given as 'package.module:attribute' and loaded on first use.

    `entries` may be a function, which is called at the first use of the catalogue.

    With a `group`, entry points of that name in installed packages are entries too. `fault` says what is wrong with
    such an object, or nothing. One that is broken, or that has a name that is taken, is named once in the log and left
    out: it must not break a command that does not need it.
    """

    def __init__(
        self,
        noun: str,
        entries: Mapping[str, str] | Callable[[], Mapping[str, str]],
        *,
        group: str = "",
        fault: Callable[[str, Any], str] = lambda name, found: "",
    ) -> None:
        self.noun = noun
        self.group = group
        self._fault = fault
        self._entries = entries
        self._loaded: dict[str, T] = {}
        self._packages: dict[str, str] | None = None  # of plug-ins, by name; None: not looked for yet
        self._left_out: dict[str, str] = {}
        self._lock = threading.RLock()

    @cached_property
    def _places(self) -> Mapping[str, str]:
        return self._entries() if callable(self._entries) else self._entries

    @property
    def plugins(self) -> Mapping[str, str]:
        """Entries of other packages: name to package. All are loaded, so that none can fail later."""
        with self._lock:
            if self._packages is None:
                self._packages = {}  # a plug-in that looks into the catalogue while it is loaded sees ours alone
                self._packages = self._found() if self.group else {}
            return self._packages

    @property
    def left_out(self) -> Mapping[str, str]:
        """Plug-ins that are not entries: name to the reason, as a sentence."""
        return self._left_out if self.plugins is not None else {}

    def is_ours(self, name: str) -> bool:
        return name in self._places

    def package_of(self, name: str) -> str:
        return OURS if self.is_ours(name) else self.plugins.get(name, OURS)

    def leave_out(self, name: str, why: str) -> None:
        """Remove a plug-in that failed, and log why."""
        with self._lock:
            if name not in self.plugins:
                return
            package = self.plugins[name]
            self._packages = {other: where for other, where in self.plugins.items() if other != name}
            self._loaded.pop(name, None)
            self._say(name, package, why, is_error=True)

    def _found(self) -> dict[str, str]:
        packages: dict[str, str] = {}
        for entry in sorted(_entry_points(self.group), key=lambda entry: (entry.name, _package(entry))):
            taken = OURS if entry.name in self._places else packages.get(entry.name)
            if taken is not None:
                self._say(entry.name, _package(entry), f"the name is taken by {taken}")
                continue
            try:
                found = entry.load()
                why = self._fault(entry.name, found)
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                self._say(entry.name, _package(entry), why)
            else:
                packages[entry.name] = _package(entry)
                self._loaded[entry.name] = found
        return packages

    def _say(self, name: str, package: str, why: str, *, is_error: bool = False) -> None:
        import logging  # slow to import, and few processes need it

        text = f"The {self.noun} {name!r} of the package {package} is left out: {why.rstrip('.')}."
        self._left_out[name] = text
        logging.getLogger("ioweather.plugins").log(logging.ERROR if is_error else logging.WARNING, "%s", text)

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            if name in self._places:
                module, _, attribute = self._places[name].partition(":")
                self._loaded[name] = cast(T, getattr(import_module(module), attribute))
            elif name not in self.plugins:
                why = self._left_out.get(name, f"There is no {self.noun} {name!r}.")
                raise UsageError(why, hint=f"There are: {', '.join(self)}.")
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        yield from self._places  # plug-ins are searched only if none of ours is the one wanted
        yield from self.plugins

    def __len__(self) -> int:
        return len(self._places) + len(self.plugins)


def _entry_points(group: str) -> Iterable[EntryPoint]:
    """Entry points of installed packages. Usually there are none, and searching the files for the name is much faster
    than importing importlib.metadata, which takes as long as a small command."""
    if not _may_be_named(group.encode()):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_be_named(group: bytes) -> bool:
    """Whether the files of a package have the name; also True if packages may be outside of directories."""
    from importlib.machinery import PathFinder
    from pathlib import Path

    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    for place in map(Path, sys.path):
        try:
            lists = place.glob("*-[iI][nN][fF][oO]/entry_points.txt")
            if place.is_file() or any(group in each.read_bytes() for each in lists):
                return True
        except OSError:
            return True
    return False


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
