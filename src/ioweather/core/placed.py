"""What programs read of places: a file system, one of its components, a file on one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystemState:
    """Rates and slowdown are those of the last hour before the end of the period, whatever its length; amounts are
    those of all of it. `slowdown` is that of the slowest operation; `load_ratio` is of `peak_bytes_per_s`, the nominal
    peak of facility.toml, and None where that has none."""

    filesystem: str
    slowdown: float | None
    slowest_op: str | None
    slow: bool
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    peak_bytes_per_s: float | None
    peak_is_nominal: bool
    load_ratio: float | None
    read_bytes: float
    write_bytes: float
    busiest: str | None
    open_events: int
    rates: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class ComponentState:
    """`bytes_ratio`: of all bytes of its file system in the period."""

    component: str
    kind: str
    filesystem: str
    server: str | None
    read_bytes: float | None
    write_bytes: float | None
    bytes_ratio: float | None
    most_bytes_per_s: float | None


@dataclass(frozen=True)
class FileToMove:
    """A file with stripes on the target. `bytes_there` lie there, or were moved there; `command` moves it, None where
    its path is not known or its layout has several parts."""

    path: str
    bytes_there: float
    size_bytes: int | None
    uid: int | None
    user: str | None
    last_used_ns: int | None
    osts: tuple[int, ...]
    command: str | None
