"""Lazy catalogues of readers, questions and studies: ours, then plug-ins (entry points of installed packages).

An entry is imported when it is first used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
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
        self._left_out: dict[str, str] = {}

    @cached_property
    def _places(self) -> Mapping[str, str]:
        """'package.module:attribute' of our entries."""
        return self._entries() if callable(self._entries) else self._entries

    @cached_property
    def plugins(self) -> dict[str, str]:
        """The package of each plug-in. All plug-ins are loaded, so that none can fail later."""
        if not self.group:
            return {}
        from importlib.metadata import entry_points  # takes as long as a small command

        found: dict[str, str] = {}
        for entry in sorted(entry_points(group=self.group), key=lambda entry: (entry.name, _package(entry))):
            taken_by = OURS if entry.name in self._places else found.get(entry.name)
            try:
                loaded = None if taken_by else entry.load()
                why = f"{taken_by} already has this name" if taken_by else self._fault(entry.name, loaded)
            except (Exception, SystemExit) as error:
                why = f"{type(error).__name__}: {error}"
            if why:
                self._log_left_out(entry.name, _package(entry), why)
            else:
                found[entry.name] = _package(entry)
                self._loaded[entry.name] = cast(T, loaded)
        return found

    def is_ours(self, name: str) -> bool:
        """Whether the entry is part of ioweather, not a plug-in."""
        return name in self._places

    def package_of(self, name: str) -> str:
        """Package and version of a plug-in; 'ioweather' for ours."""
        return OURS if self.is_ours(name) else self.plugins.get(name, OURS)

    def leave_out(self, name: str, why: str) -> None:
        """Remove a plug-in that failed, and log why."""
        if name in self.plugins:
            self._loaded.pop(name, None)
            self._log_left_out(name, self.plugins.pop(name), why)

    def _log_left_out(self, name: str, package: str, why: str) -> None:
        """Log why a plug-in is not used, for errors about its name too."""
        text = f"Ignored the {self.noun} {name!r} of package {package}: {why.rstrip('.')}."
        self._left_out[name] = text
        logging.getLogger("ioweather.plugins").warning("%s", text)

    def _load(self, name: str, place: str) -> T:
        """Import one of our entries."""
        module, _, attribute = place.partition(":")
        return cast(T, getattr(import_module(module), attribute))

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            if name in self._places:
                self._loaded[name] = self._load(name, self._places[name])
            elif name not in self.plugins:
                why = self._left_out.get(name, f"There is no {self.noun} {name!r}.")
                raise UsageError(why, hint=f"There are: {', '.join(self)}.")
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places or name in self.plugins

    def __iter__(self) -> Iterator[str]:
        yield from self._places  # plug-ins are loaded only if the caller reads on
        yield from [*self.plugins]  # a caller may leave one out

    def __len__(self) -> int:
        return len(self._places) + len(self.plugins)


def _package(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "?"
