"""One tree of errors. Every message says where, what was expected, and what to do.

`IoweatherError` is caught by the command line: message, exit code 2. A `SourceError` quarantines one input file; the
others go on. `DataUnavailable` is a state, not a failure. Errors that no code catches by class differ by `kind`:
FacilityError (facility.toml is wrong), AccessDenied and TokenRefused, QueryRefused (SQL that is not allowed, or exceeds
its limits), Busy, QueueFull and SlowSender (try again later).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self  # from Python 3.11 on; the one-file agent runs on 3.9


class IoweatherError(Exception):
    """Root of the tree. `hint` is the sentence that says what to do; `kind` the name of the error in answers of the
    web API and in the ledger: by default that of its class."""

    def __init__(self, message: str, *, hint: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.kind = kind or type(self).__name__

    def reworded(self, message: str, *, hint: str | None = None) -> Self:
        """The same error with another message."""
        return type(self)(message, hint=self.hint if hint is None else hint, kind=self.kind)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders.
        return (_rebuild, (type(self), self.message, self.hint, self.kind))


def _rebuild(error: type[IoweatherError], message: str, hint: str, kind: str) -> IoweatherError:
    return error(message, hint=hint, kind=kind)


class UsageError(IoweatherError):
    """The request itself is wrong."""


class SourceError(IoweatherError):
    """One input file cannot be used. Its kind is stored in the ledger:

    - UnknownFormat and AmbiguousFormat: no reader, or two readers recognise the file
    - EmptyInput: there is nothing in the file
    - TruncatedInput: the file ends before it should
    - CorruptInput: the file's own checks fail, or it contradicts itself
    - UnsupportedVersion: a known format in a version we do not read
    - UndatedInput: the times in the file cannot be placed
    - ChangedInput: the file was written to while it was read
    - ImpossibleRows: sizes below zero, times to come
    - ForeignRows: rows of a host or a person that its sender may not speak for
    - TooManyDays, TooMuchTime, TooMuchMemory and TooManyRows: more than the limits allow
    """

    @property
    def reason(self) -> str:
        """The kind in snake case, as in the ledger."""
        return "".join("_" + c.lower() if c.isupper() else c for c in self.kind).lstrip("_")


class CorruptInput(SourceError):
    """The file's own checks fail, or it contradicts itself: the most frequent kind."""


class LakeError(IoweatherError):
    """The lake cannot be opened, read or written; LakeVersionError: another schema version wrote it."""


class UnsafePlace(IoweatherError):
    """A directory or file is not ours alone: another user may have put it there. Nothing was written."""


class DataUnavailable(IoweatherError):
    """The lake does not hold what an answer needs."""
