"""Lazy alphabetical catalogues: one line adds a source, a study or a chart kind; nothing is imported until used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Generic, TypeVar, cast

from ioweather.core.errors import UsageError

T = TypeVar("T")


class Catalogue(Mapping[str, T], Generic[T]):
    """Names to objects, each written as 'package.module:attribute' and loaded when first asked for."""

    def __init__(self, noun: str, entries: Mapping[str, str]) -> None:
        if list(entries) != sorted(entries):
            raise ValueError(f"the catalogue of {noun}s is not in alphabetical order")
        self.noun = noun
        self._places = dict(entries)
        self._loaded: dict[str, T] = {}

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            if name not in self._places:
                raise UsageError(f"There is no {self.noun} {name!r}.", hint=f"There are: {', '.join(self._places)}.")
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = cast(T, getattr(import_module(module), attribute))
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
