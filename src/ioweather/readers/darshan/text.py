"""The text of darshan-parser, which people paste into tickets where they cannot send the log.

A record has one line for each counter. Floats have six decimals, and the start is known to the second. Sums (--total,
--file, --perf) and the text of darshan-dxt-parser have no records and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import NS
from ioweather.readers.darshan.binary import check_job, check_ranks, decode_text, digest_of, sort_mounts
from ioweather.readers.darshan.format import (
    FIXED,
    HEATMAP_DTYPE,
    LUSTRE_COMPONENT,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    NATIVE,
    fixed_dtype,
)
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged

Values: TypeAlias = Mapping[str, Any]  # numbers by counter; words for the counters in _WORDS
Records: TypeAlias = Mapping[tuple[int, int], Values]  # by record id and rank

_FIRST_LINE: Final = b"# darshan log version:"
_RECORD: Final = re.compile(r"([A-Z][\w/-]*)\t(-?\d{1,10})\t(\d{1,20})\t(\w+)\t([^\t]*)\t(.*)\t[^\t]*\t[^\t]*")
_INCOMPLETE: Final = re.compile(r"# \*WARNING\*: The (\S+) module contains incomplete data")
# Lines that --all prints beside records: sums of a module, and --file-list.
_SUMS: Final = re.compile(r"total_|\d+\t")
_WORDS: Final = ("POOL_NAME", "STRIPE_PATTERN", "FLAGS")
_OST: Final = re.compile(r"LUSTRE_(?:COMP\d+_)?OST_ID_\d+")
_LINK: Final = "_FILE_REC_ID"  # the file of a dataset or variable
_INITIALISED: Final = 0x10  # LCME_FL_INIT of lustre_idl.h
_LIMIT: Final = 1 << 63
_HINT: Final = "Print all records: darshan-parser JOB.darshan > job.txt"


def is_parser_text(data: bytes) -> bool:
    """Whether the bytes are text of darshan-parser; messages of a shell may come first."""
    return data.startswith(_FIRST_LINE) or b"\n" + _FIRST_LINE in data[: 64 << 10]


def read_parser_text(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    """The log that the text was printed from, with the `wanted` modules (None: all)."""
    lines = decode_text(data).replace("\r\n", "\n").split("\n")
    first = next(i for i, line in enumerate(lines) if line.startswith(_FIRST_LINE.decode()))
    facts, metadata, mounts = dict[str, str](), dict[str, str](), list[tuple[str, str]]()
    names, partial = dict[int, str](), list[str]()
    found: dict[str, dict[tuple[int, int], dict[str, Any]]] = {}
    for number, line in enumerate(lines[first:], first + 1):
        name, _, value = line[2:].partition(": ")
        if match := _RECORD.fullmatch(line):
            module, rank, record_id, counter, printed, file_name = match.groups()
            record = found.setdefault(module, {}).setdefault((int(record_id), int(rank)), {})
            record[counter] = _parse_value(number, counter, printed)
            names.setdefault(int(record_id), file_name)
        elif line.startswith("# mount entry:"):
            path, _, kind = line.partition(":")[2].strip().partition("\t")
            mounts.append((path, kind))
        elif line.startswith("# metadata: "):
            key, _, metadata[key] = value.partition(" = ")
        elif match := _INCOMPLETE.match(line):
            partial.append(match[1])
        elif line.startswith("#"):
            facts.setdefault(name, value)
        elif line.strip() and not _SUMS.match(line):
            raise _incomplete(f"Line {number} is not a record of darshan-parser: {line[:60]!r}.")
    job = _parse_job(facts, metadata, mounts)
    if not found and any(name.endswith(" module") for name in facts):
        raise _incomplete("This text has no records: darshan-parser printed sums, or the text is truncated.")
    made = {name: _make_module(name, records, name in partial) for name, records in found.items()}
    known = {name: module for name, module in made.items() if module is not None}
    for each in known.values():
        check_ranks(each, job.nprocs)
    return DarshanLog(
        facts["darshan log version"],
        NATIVE,
        "none",
        job,
        {name: module for name, module in known.items() if wanted is None or name in wanted},
        names,
        tuple(partial),
        tuple(name for name in made if name not in known),
        digest_of(data),
        tuple(name for name in known if wanted is not None and name not in wanted),
        form="text",
    )


def _incomplete(message: str) -> SourceError:
    """An error for text without all records."""
    return SourceError(message, hint=_HINT, kind="TruncatedInput")


def _parse_value(number: int, counter: str, printed: str) -> Any:
    """The value of a counter. Raises CorruptInput unless it is a number of 64 bits, or one of a few words."""
    if counter.endswith(_WORDS) and not printed.lstrip("-").isdecimal():
        return printed
    try:
        if "_F_" in counter:
            return float(printed)
        if not -_LIMIT <= (value := int(printed)) < 2 * _LIMIT:
            raise ValueError
    except ValueError:
        message = f"Line {number}: {counter[:60]} is {printed[:40]!r}, not a number of 64 bits."
        raise CorruptInput(message, hint=_HINT) from None
    # Ids are printed without a sign. Only the id of a linked file is stored so.
    return value if value < _LIMIT or counter.endswith(_LINK) else value - 2 * _LIMIT


def _parse_job(facts: Mapping[str, str], metadata: dict[str, str], mounts: list[tuple[str, str]]) -> DarshanJob:
    """The job, from the first lines of the text."""
    version = facts.get("darshan log version", "")
    if not version.startswith("3."):
        raise SourceError(
            f"Text from a log of version {version[:20]} is not supported. Supported: 3.x.",
            hint="Ingest the log itself.",
            kind="UnsupportedVersion",
        )
    try:
        uid, job_id, nprocs, start, end = (int(facts[n]) for n in ("uid", "jobid", "nprocs", "start_time", "end_time"))
        run_seconds = float(facts["run time"])
    except (KeyError, ValueError) as error:
        raise CorruptInput(f"The first lines of the text are damaged: {error}.", hint=_HINT) from None
    check_job(start, end, nprocs)
    if not (-_LIMIT <= uid < _LIMIT and -_LIMIT <= job_id < _LIMIT):
        raise CorruptInput(f"The text has an impossible user or job: {uid}, {job_id}.", hint=_HINT)
    # From 3.41 on the time of the run is printed with decimals; start and end are cut.
    is_precise = version >= "3.41" and 0 <= run_seconds <= end - start + 1
    end_ns = start * NS + round(run_seconds * NS) if is_precise else end * NS
    exe = facts.get("exe", "")
    return DarshanJob(uid, job_id, nprocs, start * NS, end_ns, run_seconds, metadata, exe, sort_mounts(mounts))


def _make_module(name: str, records: Records, partial: bool) -> Module | None:
    """The module of these records; None if its format is not known."""
    try:
        if name == "LUSTRE":
            version, table, ragged = _make_lustre(records)
        elif name == "HEATMAP":
            version, table, ragged = _make_heat_map(records)
        elif versions := [version for module, version in FIXED if module == name]:
            # Newer tools print old records with the counters of new ones: take the newest version that has its own.
            printed = next(iter(records.values()))
            having = [v for v in versions if {*FIXED[name, v].counters, *FIXED[name, v].fcounters} <= printed.keys()]
            version, ragged = max(having or versions), {}
            table = _make_table(fixed_dtype(name, version, NATIVE), records.values())
        else:
            return None
    except KeyError as error:
        raise _incomplete(f"A record of {name} has no {error.args[0]}: lines are missing.") from None
    table["id"], table["rank"] = np.array([record_id for record_id, _ in records], "u8"), [rank for _, rank in records]
    table.flags.writeable = False
    return Module(name, version, partial, table, ragged)


def _make_table(dtype: Any, records: Collection[Values]) -> NDArray[Any]:
    """The records as the structured array of a log: counters by name. Raises KeyError if one is missing."""
    table = np.zeros(len(records), dtype)
    for counter in table.dtype.names or ():
        if counter == "file_id":
            table[counter] = [next((v for n, v in values.items() if n.endswith(_LINK)), 0) for values in records]
        elif counter.isupper():
            table[counter] = [values[counter] for values in records]
    return table


def _make_lustre(records: Records) -> tuple[int, NDArray[Any], dict[str, Ragged]]:
    """Version, records and lists of LUSTRE. Darshan 3.4.5 and later print components; before, a file had one layout."""
    osts = Ragged.of([[v for name, v in values.items() if _OST.fullmatch(name)] for values in records.values()])
    if not all("LUSTRE_NUM_COMPONENTS" in values for values in records.values()):
        return 1, _make_table(LUSTRE_V1_DTYPE, records.values()), {"ost_ids": osts}
    table = np.zeros(len(records), LUSTRE_V2_DTYPE)
    table["components"] = [values["LUSTRE_NUM_COMPONENTS"] for values in records.values()]
    table["stripes"] = np.diff(osts.offsets)
    components = [
        {counter: _number_of(values[counter.replace("COMP", f"COMP{number}", 1)]) for counter in LUSTRE_COMPONENT}
        for values in records.values()
        for number in range(1, values["LUSTRE_NUM_COMPONENTS"] + 1)
    ]
    offsets = np.concatenate([[0], np.cumsum(table["components"])])
    made = _make_table(LUSTRE_COMPONENT_DTYPE, components)
    return 2, table, {"components": Ragged(offsets, made), "ost_ids": osts}


def _number_of(value: Any) -> Any:
    """A counter of a component as a number. Of words only those matter that say whether it has objects."""
    return value if not isinstance(value, str) else _INITIALISED if "init" in value else -1


def _make_heat_map(records: Records) -> tuple[int, NDArray[Any], dict[str, Ragged]]:
    """Version, records and lists of HEATMAP: bytes read and written in each bin of time."""
    table = np.zeros(len(records), HEATMAP_DTYPE)
    table["bin_width_seconds"] = [values["HEATMAP_F_BIN_WIDTH_SECONDS"] for values in records.values()]
    table["bins"] = counts = [sum("_READ_BIN_" in name for name in values) for values in records.values()]
    ragged = {}
    for verb in ("write", "read"):
        named = f"HEATMAP_{verb.upper()}_BIN_"
        lists = [[values[f"{named}{i}"] for i in range(n)] for values, n in zip(records.values(), counts, strict=True)]
        ragged[f"{verb}_bins"] = Ragged.of(lists)
    return 1, table, ragged
