"""The text of darshan-parser: what people paste into tickets where they cannot send the log.

Its records are read, one counter a line; floats have six decimals, and the start is known to the second. Sums alone
(--total, --file, --perf) and the text of darshan-dxt-parser are refused with the command that prints records.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.units import NS, whole_number
from ioweather.readers.darshan.binary import check_job, check_ranks, decode_text, digest_of, sort_mounts
from ioweather.readers.darshan.format import (
    FIXED,
    HEATMAP_DTYPE,
    LUSTRE_COMPONENT,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    NATIVE,
    fixed_dtype,
    printed_version,
)
from ioweather.readers.darshan.log import DarshanJob, DarshanLog, Module, Ragged

FIRST_LINE: Final = b"# darshan log version:"
_MODULE: Final = re.compile(r"# ([A-Z][\w/-]{1,40}) module: .{0,80}ver=(\d{1,9})")
_INCOMPLETE: Final = re.compile(r"# \*WARNING\*: The ([A-Z][\w/-]{1,40}) module contains incomplete data")
_SECTION: Final = re.compile(r"# [A-Z][\w/-]{1,40} module data")
_RECORD: Final = re.compile(r"[A-Z][\w/-]{1,40}\t")
# Lines of --total, --file, --perf and darshan-dxt-parser, with records or without.
_OTHER_FORM: Final = re.compile(r"total_[A-Z]\w{2,80}: |# total(?:_bytes)?: |# DXT, | {0,9}X_[A-Z]{1,20} ")
# A line of --file-list: id, path, times of the file; what it says is in the records too.
_FILE_LIST: Final = re.compile(r"\d{1,20}\t")

# Records of darshan-parser's text: module, rank, record id, counter, value, file name, mount point and type of file
# system, one counter a line. LUSTRE and HEATMAP print their lists so too, an item a line.

_MOST: Final = 1 << 63
_IN_USE: Final = 0x10  # LCME_FL_INIT of lustre_idl.h
_COMPONENT: Final = re.compile(r"LUSTRE_COMP(\d{1,4})_(\w{1,40})")
_OST: Final = re.compile(r"LUSTRE_(?:COMP\d{1,4}_)?OST_ID_\d{1,6}")
_BIN: Final = re.compile(r"HEATMAP_(READ|WRITE)_BIN_(\d{1,6})")
_LINK: Final = "_FILE_REC_ID"  # the file of a dataset or variable, 64 bits unsigned
_WORDS: Final = ("POOL_NAME", "STRIPE_PATTERN", "FLAGS")  # of components, printed as words

Value = float | int | str
Records = Mapping[tuple[int, int], Mapping[str, Value]]  # by rank and record id


def is_darshan_text(data: bytes) -> bool:
    """Whether the bytes are text of darshan-parser; messages of a shell or a loader may come first."""
    return data.startswith(FIRST_LINE) or b"\n" + FIRST_LINE in data[: 64 << 10]


def read_parser_text(data: bytes, wanted: Collection[str] | None) -> DarshanLog:
    """The log that a text of darshan-parser is of, with the `wanted` modules (None: all)."""
    facts, metadata, versions = dict[str, str](), dict[str, str](), dict[str, int]()
    mounts, partial, other_form = list[tuple[str, str]](), list[str](), ""
    records: dict[str, dict[tuple[int, int], dict[str, Value]]] = {}
    names: dict[int, str] = {}
    began = in_modules = False
    for number, line in enumerate(decode_text(data).split("\n"), 1):
        began = began or line.startswith(FIRST_LINE.decode())
        if not began or not line or line.isspace():
            continue
        if _OTHER_FORM.match(line):
            other_form = line
        elif line.startswith("#"):
            line = line.rstrip("\r")
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
            elif _SECTION.match(line):
                in_modules = True
            elif not in_modules:
                facts.setdefault(name, value.strip())
        elif _RECORD.match(line):
            module, record, counter, count, file_name = _parse_counter(number, line)
            records.setdefault(module, {}).setdefault(record, {})[counter] = count
            names.setdefault(record[1], file_name)
        elif not _FILE_LIST.match(line):
            raise SourceError(
                f"Line {number} is not a darshan-parser counter: {line[:60]!r}.",
                hint="Use the complete output of darshan-parser.",
                kind="TruncatedInput",
            )
    job = _parse_job(facts, metadata, mounts)
    if not records and (versions or in_modules):
        hint = "Print all records: darshan-parser JOB.darshan > job.txt"
        if other_form.lstrip("# ").startswith(("X_", "DXT")):
            raise SourceError(
                "This is a trace of darshan-dxt-parser, which is not supported.", hint=hint, kind="UnsupportedVersion"
            )
        if other_form:
            raise SourceError(
                "This darshan-parser text has sums, but no records.", hint=hint, kind="UnsupportedVersion"
            )
        raise SourceError(
            "The text is truncated: it lists modules, but none of their counters.", hint=hint, kind="TruncatedInput"
        )
    modules: dict[str, Module] = {}
    unknown: list[str] = []
    for module, own in records.items():
        version, cut = versions.get(module, -1), module in partial
        if module == "LUSTRE":
            modules[module] = _make_lustre(own, cut)
        elif module == "HEATMAP":
            modules[module] = _make_heat_map(own, cut)
        elif (module, version) in FIXED:
            version = printed_version(module, version, next(iter(own.values())))
            modules[module] = Module(module, version, cut, _make_records(module, version, own))
        else:
            unknown.append(module)
    known = {record_id for module in modules for _, record_id in records[module]}
    for made in modules.values():
        check_ranks(made, job.nprocs)
    return DarshanLog(
        facts["darshan log version"],
        NATIVE,
        "none",
        job,
        {name: module for name, module in modules.items() if wanted is None or name in wanted},
        {record_id: name for record_id, name in names.items() if record_id in known},
        tuple(partial),
        tuple(unknown),
        digest_of(data),
        tuple(name for name in modules if wanted is not None and name not in wanted),
        form="text" if records else "log",
    )


def _parse_counter(number: int, line: str) -> tuple[str, tuple[int, int], str, Value, str]:
    """Module, (rank, record id), counter, value and name of a line."""
    parts = line.rstrip("\r").split("\t", 5)
    rank = whole_number(parts[1].removeprefix("-")) if len(parts) == 6 else None
    if rank is None or not parts[2].isdecimal() or len(parts[2]) > 20:
        raise SourceError(
            f"Line {number} is not a darshan-parser counter: {line[:60]!r}.",
            hint="Use the complete output of darshan-parser.",
            kind="TruncatedInput",
        )
    value: Value
    try:
        value = float(parts[4]) if "_F_" in parts[3] else int(parts[4])
    except ValueError:
        value = parts[4] if parts[3].endswith(_WORDS) else 1 << 64
    record_id = int(parts[2])
    most = 1 << 64 if parts[3].endswith(_LINK) else _MOST
    if record_id >= 1 << 64 or (not isinstance(value, str) and not -_MOST <= value < most):
        raise CorruptInput(f"Line {number}: {parts[3][:60]} is {parts[4][:40]!r}, not a number.")
    key = -rank if parts[1].startswith("-") else rank, record_id
    return parts[0], key, parts[3], value, parts[5].rsplit("\t", 2)[0]


def _make_records(module: str, version: int, records: Records) -> np.ndarray[Any, Any]:
    """Records of fixed size as the structured array that a log has."""
    names = FIXED[module, version]
    table = np.zeros(len(records), fixed_dtype(module, version, NATIVE))
    for place, ((rank, record_id), values) in enumerate(records.items()):
        table[place]["id"], table[place]["rank"] = record_id, rank
        if names.links:
            table[place]["file_id"] = next((value for name, value in values.items() if name.endswith(_LINK)), 0)
        for counter in (*names.counters, *names.fcounters):
            table[place][counter] = _require_counter(values, counter, module, record_id)
    table.flags.writeable = False
    return table


def _require_counter(values: Mapping[str, Value], counter: str, module: str, record_id: int) -> Value:
    """The value of a counter. Raises SourceError if its line is missing."""
    if counter not in values:
        raise SourceError(
            f"Record {record_id} of {module} has no {counter}: lines are missing.",
            hint="Use the complete output of darshan-parser.",
            kind="TruncatedInput",
        )
    return values[counter]


def _make_lustre(records: Records, partial: bool) -> Module:
    """The LUSTRE module. Darshan 3.4.5 and later print components; before, a file had one layout."""
    osts = [[int(v) for name, v in values.items() if _OST.fullmatch(name)] for values in records.values()]
    if all("LUSTRE_NUM_COMPONENTS" in values for values in records.values()):
        made = [_make_components(record_id, values) for (_, record_id), values in records.items()]
        table = np.zeros(len(records), LUSTRE_V2_DTYPE)
        table["components"], table["stripes"] = [len(each) for each in made], [len(each) for each in osts]
        offsets = np.concatenate([[0], np.cumsum(table["components"])])
        ragged = {"components": Ragged(offsets, np.concatenate(made)), "ost_ids": Ragged.of(osts)}
    else:
        table = np.zeros(len(records), LUSTRE_V1_DTYPE)
        for counter in LUSTRE_V1:
            table[counter] = [_require_counter(values, counter, "LUSTRE", key[1]) for key, values in records.items()]
        ragged = {"ost_ids": Ragged.of(osts)}
    return _with_ids("LUSTRE", 2 if "components" in ragged else 1, partial, records, table, ragged)


def _make_components(record_id: int, values: Mapping[str, Value]) -> np.ndarray[Any, Any]:
    """The components of the layout of a file, in their order."""
    found: dict[int, dict[str, Value]] = {}
    for name, value in values.items():
        if match := _COMPONENT.fullmatch(name):
            found.setdefault(int(match[1]), {})[f"LUSTRE_COMP_{match[2]}"] = value
    table = np.zeros(len(found), LUSTRE_COMPONENT_DTYPE)
    for place, component in enumerate(found.values()):
        for counter in LUSTRE_COMPONENT:
            value = _require_counter(component, counter, "LUSTRE", record_id)
            # Words are of no use here, but for the one that says whether a component has objects.
            table[place][counter] = (_IN_USE if "init" in value else -1) if isinstance(value, str) else value
        table[place]["pool"] = str(component.get("LUSTRE_COMP_POOL_NAME", "")).encode()[:15]
    return table


def _make_heat_map(records: Records, partial: bool) -> Module:
    """The HEATMAP module: bytes read and written in each bin of time."""
    bins: dict[str, list[list[int]]] = {"READ": [], "WRITE": []}
    table = np.zeros(len(records), HEATMAP_DTYPE)
    for place, ((_, record_id), values) in enumerate(records.items()):
        table[place]["bin_width_seconds"] = _require_counter(
            values, "HEATMAP_F_BIN_WIDTH_SECONDS", "HEATMAP", record_id
        )
        count = 1 + max((int(match[2]) for name in values if (match := _BIN.fullmatch(name))), default=-1)
        table[place]["bins"] = count
        for verb, lists in bins.items():
            lists.append(
                [int(_require_counter(values, f"HEATMAP_{verb}_BIN_{i}", "HEATMAP", record_id)) for i in range(count)]
            )
    ragged = {"write_bins": Ragged.of(bins["WRITE"]), "read_bins": Ragged.of(bins["READ"])}
    return _with_ids("HEATMAP", 1, partial, records, table, ragged)


def _with_ids(
    name: str, version: int, partial: bool, records: Records, table: np.ndarray[Any, Any], ragged: dict[str, Ragged]
) -> Module:
    """The module of these records, with their ids and ranks."""
    table["id"] = np.array([record_id for _, record_id in records], np.uint64)
    table["rank"] = [rank for rank, _ in records]
    table.flags.writeable = False
    return Module(name, version, partial, table, ragged)


def _parse_job(facts: dict[str, str], metadata: dict[str, str], mounts: list[tuple[str, str]]) -> DarshanJob:
    """The job, from the lines at the top of the text. Raises SourceError if one is missing."""
    version = facts.get("darshan log version", "")
    if not version.startswith("3."):
        raise SourceError(
            f"Text from a log of version {version[:20]} is not supported. Supported: 3.x.",
            hint="Ingest the log itself.",
            kind="UnsupportedVersion",
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
    # From 3.41 on the time of the run is printed with decimals; start and end are cut.
    precise = version >= "3.41" and 0 <= run_seconds <= end - start + 1
    # Ids of 64 bits are printed as they are; the uid of the user `nobody` as a negative number.
    uid, job_id = (_integer(facts.get(name, "0"), name) for name in ("uid", "jobid"))
    return DarshanJob(
        uid=uid,
        job_id=job_id,
        nprocs=nprocs,
        start_ns=start * NS,
        end_ns=start * NS + round(run_seconds * NS) if precise else end * NS,
        run_seconds=run_seconds,
        metadata=metadata,
        exe=facts.get("exe", ""),
        mounts=sort_mounts(mounts),
    )


def _integer(printed: str, what: str) -> int:
    """A printed integer, which may be negative. Raises CorruptInput."""
    number = whole_number(printed.removeprefix("-"))
    if number is None:
        raise CorruptInput(f"The value of {what} is {printed[:40]!r}, which is not a number.")
    return -number if printed.startswith("-") else number
