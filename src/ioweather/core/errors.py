"""One tree of errors. Every message says where, what was expected, and what to do.

IoweatherError              caught by the command line: message, exit code 2
├── UsageError              the request itself is wrong (an unknown exhibit, a bad option)
├── FacilityError           facility.toml does not say what it should
├── SourceError             one input file cannot be used; the file is quarantined, the rest goes on
│   ├── UnknownFormat       no source recognises the file
│   ├── AmbiguousFormat     two sources claim the file equally
│   ├── EmptyInput          nothing in it
│   ├── TruncatedInput      it ends before it should
│   ├── ChangedInput        it was written to or replaced while it was read
│   ├── CorruptInput        its own checks fail, or it contradicts itself
│   ├── UnsupportedVersion  a known format in a version we do not read
│   ├── ImpossibleRows      its rows hold what no row of their table can
│   ├── ForeignRows         it holds rows of a host that its sender may not speak for
│   ├── TooManyDays         its rows spread over more days than one push may
│   ├── UndatedInput        its times cannot be placed: no date, no zone, or an ambiguous hour
│   ├── TooMuchTime         reading it took more processor time than a file of its size may
│   ├── TooMuchMemory       reading it took more memory than a file of its size may
│   └── TooManyRows         it holds more rows than a file of its size may
├── LakeError               the lake cannot be opened, read or written
│   ├── LakeVersionError    the lake was written by another schema version
│   └── LakeConflict        racing writers did not come to an end in time
├── SearchIncomplete        a search of new rows reached its limit; what was found until then is stored
├── UnsafePlace             a directory or file is not ours alone; nothing was written
├── QueryRefused            a user's SQL is not allowed, or ran past its limits
├── AccessDenied            whoever asks may not see or do this
│   └── TokenRefused        no token, or one that is not known here
├── Busy                    too many ask at once; later it goes
│   └── QueueFull           what others pushed is not in the lake yet; later it goes
├── SlowSender              a request did not come in the time it has
└── DataUnavailable         the lake does not hold what an answer needs: a state, not a failure
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
    """One input file cannot be used. `reason` is the class name in snake case and stands in the ledger."""

    @property
    def reason(self) -> str:
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class UnknownFormat(SourceError):
    """No source recognises the file."""


class AmbiguousFormat(SourceError):
    """Two sources claim the file equally."""


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
    """A directory or file is not ours alone: somebody else may have put it there. Nothing was written."""


class QueryRefused(IoweatherError):
    """A user's SQL is not allowed, or ran past its limits."""


class AccessDenied(IoweatherError):
    """Whoever asks may not see or do this."""


class TokenRefused(AccessDenied):
    """No token, or one that is not known here."""


class Busy(IoweatherError):
    """Too many ask at once."""

    after_seconds = 5


class QueueFull(Busy):
    """What others pushed is not in the lake yet."""

    after_seconds = 20


class SlowSender(IoweatherError):
    """A request did not come in the time it has."""


class DataUnavailable(IoweatherError):
    """The lake does not hold what an answer needs."""
