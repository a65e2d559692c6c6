"""Slurm's compressed host lists: 'n[1-3,07]-ib[0-1],login' is seven names."""

from __future__ import annotations

import itertools
import math
import re

_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_NOTHING = ("", "None assigned", "None", "(null)", "Unknown")
MOST_HOSTS = 200_000


def expand(text: str) -> list[str]:
    """Names in the order of the list; an odd list is kept as one name rather than guessed at."""
    if text.strip() in _NOTHING:
        return []
    names: list[str] = []
    for part in _split_outside_brackets(text.strip()):
        names += _expand_one(part)
        if len(names) > MOST_HOSTS:
            return [text]
    return names


def _split_outside_brackets(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part for part in [*parts, current] if part]


def _expand_one(part: str) -> list[str]:
    pieces = _BRACKETS.split(part)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        return [part]
    choices: list[list[str]] = []
    for index, piece in enumerate(pieces):
        values = _numbers(piece) if index % 2 else [piece]
        if values is None:
            return [part]
        choices.append(values)
    if math.prod(map(len, choices)) > MOST_HOSTS:
        return [part]
    return ["".join(combination) for combination in itertools.product(*choices)]


def _numbers(text: str) -> list[str] | None:
    found: list[str] = []
    for item in text.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            return None
        first, last = match[1], match[2] or match[1]
        if len(found) + int(last) - int(first) > MOST_HOSTS:
            return None
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
