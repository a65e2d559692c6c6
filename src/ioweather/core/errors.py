"""One tree of errors. Every message says where, what was expected, and what to do.

`IoweatherError` is caught by the command line: message, exit code 2. A `SourceError` quarantines one input file; the
others go on. `DataUnavailable` is a state, not a failure.
"""

from __future__ import annotations


class IoweatherError(Exception):
    """Root of the tree. `hint` is the sentence that says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling, and errors cross process borders.
        return (_rebuild, (type(self), self.message, self.hint))


def _rebuild(kind: type[IoweatherError], message: str, hint: str) -> IoweatherError:
    return kind(message, hint=hint)


class UsageError(IoweatherError):
    """The request itself is wrong."""


class FacilityError(IoweatherError):
    """facility.toml does not say what it should."""


class SourceError(IoweatherError):
    """One input file cannot be used. `reason` is the class name in snake case, as in the ledger."""

    @property
    def reason(self) -> str:
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class UnknownFormat(SourceError):
    """No reader recognises the file."""


class AmbiguousFormat(SourceError):
    """Two readers claim the file equally."""


class EmptyInput(SourceError):
    """There is nothing in the file."""


class TruncatedInput(SourceError):
    """The file ends before it should."""


class ChangedInput(SourceError):
    """The file was written to or replaced while it was read."""


class CorruptInput(SourceError):
    """The file's own checks fail, or it contradicts itself."""


class ImpossibleRows(SourceError):
    """The file holds rows that cannot be: sizes below zero, times to come."""


class UnsupportedVersion(SourceError):
    """A known format in a version we do not read."""


class ForeignRows(SourceError):
    """The file holds rows of a host or a person that its sender may not speak for."""


class TooManyDays(SourceError):
    """The rows of the file spread over more days than one push may."""


class UndatedInput(SourceError):
    """The times in the file cannot be placed."""


class TooMuchTime(SourceError):
    """Reading the file took more processor time than one of its size may."""


class TooMuchMemory(SourceError):
    """Reading the file took more memory than one of its size may."""


class TooManyRows(SourceError):
    """The file holds more rows than one of its size may."""


class LakeError(IoweatherError):
    """The lake cannot be opened, read or written."""


class LakeVersionError(LakeError):
    """The lake was written by another schema version."""


class LakeConflict(LakeError):
    """Racing writers did not come to an end in time."""


class SearchIncomplete(IoweatherError):
    """A search of new rows reached its limit; what was found until then is stored."""


class UnsafePlace(IoweatherError):
    """A directory or file is not ours alone: another user may have put it there. Nothing was written."""


class QueryRefused(IoweatherError):
    """A user's SQL is not allowed, or ran past its limits."""


class AccessDenied(IoweatherError):
    """The user may not see or do this."""


class TokenRefused(AccessDenied):
    """No token, or an unknown one."""


class Busy(IoweatherError):
    """Too many requests at once; try again later."""

    after_seconds = 5


class QueueFull(Busy):
    """Pushed files wait to be ingested; try again later."""

    after_seconds = 20


class SlowSender(IoweatherError):
    """A request did not arrive within its time limit."""


class DataUnavailable(IoweatherError):
    """The lake does not hold what an answer needs."""
