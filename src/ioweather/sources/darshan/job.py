"""The job region: who ran what, when, and what was mounted."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ioweather.core.units import NS
from ioweather.sources.darshan.errors import cut_short, damaged
from ioweather.sources.darshan.layout import METADATA_BYTES, ByteOrder, job_struct
from ioweather.sources.darshan.model import DarshanJob
from ioweather.sources.darshan.names import text
from ioweather.sources.darshan.regions import Buffer

_MOUNT: Final = re.compile(r"^(\S+)\t(\S+)$", re.MULTILINE)
# Seconds whose nanoseconds still fit an int64 with room for sums: until the year 2242.
_LAST_SECOND: Final = 1 << 33
_MOST_PROCESSES: Final = 1 << 31
_KEPT_CHARACTERS: Final = 16 << 10


def parse_job(region: Buffer, words: int, order: ByteOrder) -> DarshanJob:
    raw = bytes(region)
    head_bytes = 8 * words + METADATA_BYTES
    if len(raw) < head_bytes:
        raise cut_short(f"The job record has {len(raw)} bytes; {head_bytes} were expected.")
    values = job_struct(words, order).unpack_from(raw)
    if words == 7:
        uid, start, start_part_ns, end, end_part_ns, nprocs, job_id = values
    else:
        uid, start, end, nprocs, job_id = values
        start_part_ns = end_part_ns = 0
    metadata = dict(_metadata(raw[8 * words : head_bytes]))
    command, _, rest = raw[head_bytes:].partition(b"\0")
    if rest.strip(b"\0"):
        # A header that has lost the place of the next region makes it look like the end of this one.
        raise damaged(f"The job record is followed by {len(rest)} bytes that do not belong to it.")
    exe, mounts = parse_command(text(command))
    check_job(start, end, nprocs, start_part_ns, end_part_ns)
    start_ns = start * NS + start_part_ns
    end_ns = end * NS + end_part_ns
    # Before 3.41 both times are cut to the second below; Darshan counts the second that both lie in.
    run_seconds = (end_ns - start_ns) / NS + (1 if words == 5 else 0)
    return DarshanJob(uid, job_id, nprocs, start_ns, end_ns, run_seconds, metadata, exe, mounts)


def check_job(start: int, end: int, nprocs: int, start_part_ns: int = 0, end_part_ns: int = 0) -> None:
    """Numbers that no run can have mean that the bytes are not a job record."""
    seconds_fit = 0 <= start < _LAST_SECOND and 0 <= end < _LAST_SECOND
    if not (seconds_fit and 0 <= start_part_ns < NS and 0 <= end_part_ns < NS):
        raise damaged(f"The job record gives times that cannot be: start {start} s, end {end} s since 1970.")
    if not 0 < nprocs < _MOST_PROCESSES:
        raise damaged(f"The job record gives {nprocs} processes.")


@lru_cache(256)
def _metadata(raw: bytes) -> dict[str, str]:
    """Kept: it says how Darshan and the library for parallel I/O are set, which is the same for a system."""
    return parse_metadata(raw)


def parse_metadata(raw: bytes) -> dict[str, str]:
    pairs = [line.partition("=") for line in text(raw.partition(b"\0")[0]).split("\n")]
    return {key: value for key, separator, value in pairs if separator}


def parse_command(command_and_mounts: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The command line may hold newlines itself, so a mount is known by its form: type, tab, path."""
    first, _, rest = command_and_mounts.rstrip("\n").partition("\n")
    mounts, command = (_mounts_and_others if len(rest) <= _KEPT_CHARACTERS else _mounts_and_others.__wrapped__)(rest)
    return "\n".join([first, *command]), mounts


@lru_cache(256)
def _mounts_and_others(lines: str) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Kept: the nodes of a system have the same mounts."""
    mounts = _MOUNT.findall(lines)
    others: tuple[str, ...] = ()
    if lines and lines.count("\n") + 1 != len(mounts):
        others = tuple(line for line in lines.split("\n") if not _MOUNT.fullmatch(line))
    return longest_first([(path, kind) for kind, path in mounts]), others


def longest_first(mounts: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    mounts.sort(key=lambda mount: len(mount[0]), reverse=True)
    return tuple(mounts)
