"""The two ways a log is bad, each with what to do about it."""

from __future__ import annotations

from ioweather.core.errors import CorruptInput, TruncatedInput


def damaged(message: str) -> CorruptInput:
    return CorruptInput(message, hint="The file is damaged; get another copy.")


def cut_short(message: str) -> TruncatedInput:
    return TruncatedInput(message, hint="Get the whole file and try again.")
