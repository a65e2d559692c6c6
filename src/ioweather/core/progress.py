"""Progress as a callback, so that long work neither prints nor knows who is watching."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def __call__(self, done: int, total: int | None, what: str) -> None: ...


def silent(done: int, total: int | None, what: str) -> None:
    """The default watcher."""
