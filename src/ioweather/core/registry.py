"""Lazy catalogues of readers, questions and studies: ours, then plug-ins (entry points of installed packages).

An entry is imported when it is first used.
"""

from __future__ import annotations

import logging
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

    `entries` may be a function, which is called on first use. With a `group`, entry points of that name are entries
    too: plug-ins. `fault(name, object)` returns what is wrong with a plug-in, or ''. A broken one, or one whose name is
    taken, is logged once and left out: it must not break a command that does not need it.
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
        self._packages: dict[str, str] | None = None  # package of each plug-in; None: not searched for yet
        self._left_out: dict[str, str] = {}

    @cached_property
    def _places(self) -> Mapping[str, str]:
        """'package.module:attribute' of our entries."""
        return self._entries() if callable(self._entries) else self._entries

    @property
    def plugins(self) -> Mapping[str, str]:
        """The package of each plug-in. All plug-ins are loaded, so that none can fail later."""
        if self._packages is None:
            self._packages = {}  # a plug-in that reads the catalogue while it is loaded finds only our entries
            found: dict[str, str] = {}
            points = _entry_points(self.group) if self.group else ()
            for entry in sorted(points, key=lambda entry: (entry.name, _package(entry))):
                why = self._load(entry, OURS if entry.name in self._places else found.get(entry.name))
                if why:
                    self._leave_out(entry.name, _package(entry), why)
                else:
                    found[entry.name] = _package(entry)
            self._packages = found
        return self._packages

    def _load(self, entry: EntryPoint, taken_by: str | None) -> str:
        """Load a plug-in; returns why it cannot be an entry, or ''."""
        if taken_by is not None:
            return f"{taken_by} already has this name"
        try:
            found = entry.load()
            why = self._fault(entry.name, found)
        except (Exception, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        if not why:
            self._loaded[entry.name] = found
        return why

    def is_ours(self, name: str) -> bool:
        """Whether the entry is part of ioweather, not a plug-in."""
        return name in self._places

    def package_of(self, name: str) -> str:
        """Package and version of a plug-in; 'ioweather' for ours."""
        return OURS if self.is_ours(name) else self.plugins.get(name, OURS)

    def leave_out(self, name: str, why: str) -> None:
        """Remove a plug-in that failed, and log why."""
        if name in self.plugins:
            package = self.plugins[name]
            self._packages = {other: where for other, where in self.plugins.items() if other != name}
            self._loaded.pop(name, None)
            self._leave_out(name, package, why)

    def _leave_out(self, name: str, package: str, why: str) -> None:
        """Log why a plug-in is not used, for errors about its name too."""
        text = f"Ignored the {self.noun} {name!r} of package {package}: {why.rstrip('.')}."
        self._left_out[name] = text
        logging.getLogger("ioweather.plugins").warning("%s", text)

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
        yield from self._places  # plug-ins are loaded only if the caller reads on
        yield from self.plugins

    def __len__(self) -> int:
        return len(self._places) + len(self.plugins)


def _entry_points(group: str) -> Iterable[EntryPoint]:
    from importlib.metadata import entry_points  # takes as long as a small command

    return entry_points(group=group)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
