"""The text of `darshan-parser`: what people paste into tickets where they cannot send the log.

One counter a line: module, rank, record id, counter, value, file name, mount point, type of file system. Floats have
six decimals, and the start is known to the second. Modules of other records (LUSTRE, DXT, heat maps) are named and not
read.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np

from ioweather.core.errors import CorruptInput, TruncatedInput, UnsupportedVersion
from ioweather.core.units import NS
from ioweather.sources.darshan.counters import FIXED
from ioweather.sources.darshan.job import check_job, longest_first
from ioweather.sources.darshan.layout import NATIVE, fixed_dtype
from ioweather.sources.darshan.model import DarshanJob, DarshanLog, Module
from ioweather.sources.darshan.names import text
from ioweather.sources.darshan.reader3 import check_ranks, digest_of
from ioweather.sources.plain_values import whole_number

FIRST_LINE: Final = b"# darshan log version:"
_RECORD: Final = re.compile(r"^[A-Z][\w/-]{1,40}\t-?\d{1,18}\t\d{1,20}\t[A-Z]", re.MULTILINE)
_MODULE: Final = re.compile(r"# ([A-Z][\w/-]{1,40}) module: .{0,80}ver=(\d{1,9})")
_INCOMPLETE: Final = re.compile(r"# \*WARNING\*: The ([A-Z][\w/-]{1,40}) module contains incomplete data")
_MOST: Final = 1 << 63


def looks_like_parser(start: str) -> bool:
    return FIRST_LINE.decode() in start and _RECORD.search(start) is not None


def read_parser_text(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    lines = text(data).split("\n")
    facts: dict[str, str] = {}
    metadata: dict[str, str] = {}
    mounts: list[tuple[str, str]] = []
    versions: dict[str, int] = {}
    partial: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            continue
        name, _, value = line[1:].strip().partition(": ")
        if line.startswith("# mount entry:"):
            path, _, kind = line.partition(":")[2].strip().partition("\t")
            mounts.append((path, kind))
        elif name == "metadata":
            key, _, setting = value.partition(" = ")
            metadata[key] = setting
        elif match := _MODULE.match(line):
            versions[match[1]] = int(match[2])
        elif match := _INCOMPLETE.match(line):
            partial.append(match[1])
        else:
            facts.setdefault(name, value.strip())
    job = _job(facts, metadata, mounts)
    modules, names, unknown = _modules(lines, versions, partial, job.nprocs)
    if wanted is not None:
        modules = {name: module for name, module in modules.items() if name in wanted}
    return DarshanLog(
        facts["darshan log version"], NATIVE, "none", job, modules, names, tuple(partial), unknown, digest_of(data)
    )


def _job(facts: dict[str, str], metadata: dict[str, str], mounts: list[tuple[str, str]]) -> DarshanJob:
    version = facts.get("darshan log version", "")
    if not version.startswith("3."):
        raise UnsupportedVersion(
            f"The text is of a log of version {version[:20]}; that of 3.x is read.", hint="Ingest the log itself."
        )
    numbers = {name: whole_number(facts.get(name, "")) for name in ("start_time", "end_time", "nprocs")}
    missing = [name for name, number in numbers.items() if number is None]
    if missing:
        raise CorruptInput(
            f"The text has no {missing[0]}: its first lines are missing.", hint="Run darshan-parser again."
        )
    start, end, nprocs = (number or 0 for number in numbers.values())
    check_job(start, end, nprocs)
    try:
        run_seconds = float(facts.get("run time", ""))
    except ValueError:
        run_seconds = float(end - start + 1)
    # Ids of 64 bits are printed as they are; a uid of nobody as a negative number.
    uid, job_id = (_whole(facts.get(name, "0"), name) for name in ("uid", "jobid"))
    return DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=end * NS,
        run_seconds=run_seconds,
        metadata=metadata,
        exe=facts.get("exe", ""),
        mounts=longest_first(mounts),
    )


def _whole(printed: str, what: str) -> int:
    number = whole_number(printed.removeprefix("-"))
    if number is None:
        raise CorruptInput(f"The text says that {what} is {printed[:40]!r}, which is not a number.")
    return -number if printed.startswith("-") else number


Key = tuple[str, int, int]


def _modules(
    lines: list[str], versions: dict[str, int], partial: list[str], nprocs: int
) -> tuple[dict[str, Module], dict[int, str], tuple[str, ...]]:
    records: dict[Key, dict[str, float | int]] = {}
    names: dict[int, str] = {}
    unknown: dict[str, None] = {}
    for module, rank, record_id, counter, value, name in _counters(lines):
        if (module, versions.get(module, -1)) not in FIXED:
            unknown[module] = None
            continue
        records.setdefault((module, rank, record_id), {})[counter] = value
        names.setdefault(record_id, name)
    made: dict[str, Module] = {}
    for module in dict.fromkeys(key[0] for key in records):
        version = versions[module]
        own = {key: values for key, values in records.items() if key[0] == module}
        made[module] = Module(module, version, module in partial, _table(module, version, own))
        check_ranks(made[module], nprocs)
    return made, names, tuple(unknown)


def _counters(lines: list[str]) -> Iterator[tuple[str, int, int, str, float | int, str]]:
    for number, line in enumerate(lines, 1):
        if not line or line.startswith("#") or line.isspace():
            continue
        parts = line.rstrip("\r").split("\t", 5)
        rank = whole_number(parts[1].removeprefix("-")) if len(parts) == 6 else None
        if rank is None or not parts[2].isdecimal() or len(parts[2]) > 20:
            raise TruncatedInput(
                f"Line {number} is no counter of darshan-parser: {line[:60]!r}.", hint="Paste its whole output."
            )
        try:
            value: float | int = float(parts[4]) if "_F_" in parts[3] else int(parts[4])
        except ValueError:
            value = _MOST
        record_id = int(parts[2])
        if not -_MOST <= value < _MOST or record_id >= 1 << 64:
            raise CorruptInput(f"Line {number}: {parts[3][:60]} is {parts[4][:40]!r}, not a number.")
        name = parts[5].rsplit("\t", 2)[0]
        yield parts[0], -rank if parts[1].startswith("-") else rank, record_id, parts[3], value, name


def _table(module: str, version: int, records: dict[Key, dict[str, float | int]]) -> np.ndarray[Any, Any]:
    dtype = fixed_dtype(module, version, NATIVE)
    assert dtype is not None
    table = np.zeros(len(records), dtype)
    for place, ((_, rank, record_id), values) in enumerate(records.items()):
        table[place]["id"], table[place]["rank"] = record_id, rank
        for counter in (*FIXED[module, version].counters, *FIXED[module, version].fcounters):
            if counter not in values:
                raise TruncatedInput(
                    f"Record {record_id} of {module} has no {counter}: lines are missing.",
                    hint="Paste the whole output of darshan-parser.",
                )
            table[place][counter] = values[counter]
    table.flags.writeable = False
    return table
