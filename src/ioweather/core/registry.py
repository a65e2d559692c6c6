"""Lazy catalogues: one line adds a source, a study or a chart kind; so does an entry point of an installed package.

Nothing is imported until used. Our own entries come first, in alphabetical order; then those of other packages.
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
    """Names to objects, each written as 'package.module:attribute' and loaded when first asked for.

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
        if not callable(entries) and list(entries) != sorted(entries):
            raise ValueError(f"the catalogue of {noun}s is not in alphabetical order")
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
        """Entries of other packages: name to package. All are loaded, so that none of them can fail later."""
        with self._lock:
            if self._packages is None:
                self._packages = {}  # a plug-in that looks into the catalogue while it is loaded sees ours alone
                self._packages = self._found() if self.group else {}
            return self._packages

    @property
    def left_out(self) -> Mapping[str, str]:
        """Plug-ins that are not entries: name to the sentence that says why."""
        return self._left_out if self.plugins is not None else {}

    def is_ours(self, name: str) -> bool:
        return name in self._places

    def package_of(self, name: str) -> str:
        return OURS if self.is_ours(name) else self.plugins.get(name, OURS)

    def leave_out(self, name: str, why: str) -> None:
        """A plug-in that failed where it must not is no entry from now on."""
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
        import logging  # a third of the time that a process that walks takes to start

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
        yield from self._places  # whoever finds what it looks for among ours need not look for others
        yield from self.plugins

    def __len__(self) -> int:
        return len(self._places) + len(self.plugins)


def _entry_points(group: str) -> Iterable[EntryPoint]:
    """Of installed packages. Most often none has any, which their files tell before the library that reads them is
    loaded: that takes as long as a small command does."""
    if not _may_be_named(group.encode()):
        return ()
    from importlib.metadata import entry_points

    return entry_points(group=group)


def _may_be_named(group: bytes) -> bool:
    """Whether a package names the group; True, too, where packages may be elsewhere than in directories."""
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
