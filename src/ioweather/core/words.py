"""Lists and tables of names, written as one text: names of columns, of counters, of operations."""

from __future__ import annotations


def names_of(text: str) -> tuple[str, ...]:
    """The words of a text."""
    return tuple(text.split())


def pairs_of(text: str) -> dict[str, str]:
    """From `name=value name=value ...`, neither with blanks inside."""
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}
