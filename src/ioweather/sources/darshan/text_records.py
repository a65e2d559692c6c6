"""Records of darshan-parser's text: module, rank, record id, counter, value, file name, mount point and type of file
system, one counter a line. LUSTRE and HEATMAP print their lists so too, an item a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ioweather.core.errors import CorruptInput, TruncatedInput
from ioweather.sources.darshan.counters import FIXED, LUSTRE_COMPONENT, LUSTRE_V1, printed_version
from ioweather.sources.darshan.layout import (
    HEATMAP_DTYPE,
    LUSTRE_COMPONENT_DTYPE,
    LUSTRE_V1_DTYPE,
    LUSTRE_V2_DTYPE,
    NATIVE,
    fixed_dtype,
)
from ioweather.sources.darshan.model import Module, Ragged
from ioweather.sources.plain_values import whole_number

_MOST: Final = 1 << 63
_IN_USE: Final = 0x10  # LCME_FL_INIT of lustre_idl.h
_COMPONENT: Final = re.compile(r"LUSTRE_COMP(\d{1,4})_(\w{1,40})")
_OST: Final = re.compile(r"LUSTRE_(?:COMP\d{1,4}_)?OST_ID_\d{1,6}")
_BIN: Final = re.compile(r"HEATMAP_(READ|WRITE)_BIN_(\d{1,6})")
_LINK: Final = "_FILE_REC_ID"  # of datasets and variables: the file they lie in, 64 bits without a sign
_WORDS: Final = ("POOL_NAME", "STRIPE_PATTERN", "FLAGS")  # of components, printed as words

Value = float | int | str
Key = tuple[str, int, int]
Records = Mapping[Key, Mapping[str, Value]]


def modules_of_records(
    lines: Sequence[tuple[int, str]], versions: Mapping[str, int], partial: Sequence[str]
) -> tuple[dict[str, Module], dict[int, str], tuple[str, ...]]:
    """Modules, names of records, and modules that are not read."""
    records: dict[Key, dict[str, Value]] = {}
    names: dict[int, str] = {}
    unknown: dict[str, None] = {}
    for module, rank, record_id, counter, value, name in _counters(lines):
        if (module, versions.get(module, -1)) not in FIXED and module not in _LISTS:
            unknown[module] = None
            continue
        records.setdefault((module, rank, record_id), {})[counter] = value
        names.setdefault(record_id, name)
    made: dict[str, Module] = {}
    for module in dict.fromkeys(key[0] for key in records):
        own = {key: values for key, values in records.items() if key[0] == module}
        if module in _LISTS:
            made[module] = _LISTS[module](own, module in partial)
        else:
            version = printed_version(module, versions[module], next(iter(own.values())))
            made[module] = Module(module, version, module in partial, _table(module, version, own))
    return made, names, tuple(unknown)


def _counters(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[str, int, int, str, Value, str]]:
    for number, line in lines:
        parts = line.rstrip("\r").split("\t", 5)
        rank = whole_number(parts[1].removeprefix("-")) if len(parts) == 6 else None
        if rank is None or not parts[2].isdecimal() or len(parts[2]) > 20:
            raise TruncatedInput(
                f"Line {number} is no counter of darshan-parser: {line[:60]!r}.", hint="Paste its whole output."
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
        name = parts[5].rsplit("\t", 2)[0]
        yield parts[0], -rank if parts[1].startswith("-") else rank, record_id, parts[3], value, name


def _table(module: str, version: int, records: Records) -> np.ndarray[Any, Any]:
    dtype = fixed_dtype(module, version, NATIVE)
    assert dtype is not None
    table = np.zeros(len(records), dtype)
    for place, ((_, rank, record_id), values) in enumerate(records.items()):
        table[place]["id"], table[place]["rank"] = record_id, rank
        if FIXED[module, version].links:
            table[place]["file_id"] = next((value for name, value in values.items() if name.endswith(_LINK)), 0)
        for counter in (*FIXED[module, version].counters, *FIXED[module, version].fcounters):
            table[place][counter] = _known(values, counter, module, record_id)
    table.flags.writeable = False
    return table


def _known(values: Mapping[str, Value], counter: str, module: str, record_id: int) -> Value:
    if counter not in values:
        raise TruncatedInput(
            f"Record {record_id} of {module} has no {counter}: lines are missing.",
            hint="Paste the whole output of darshan-parser.",
        )
    return values[counter]


def _lustre(records: Records, partial: bool) -> Module:
    """Darshan 3.4.5 and later print components; before, a file had one layout."""
    osts = [[int(v) for name, v in values.items() if _OST.fullmatch(name)] for values in records.values()]
    if all("LUSTRE_NUM_COMPONENTS" in values for values in records.values()):
        made = [_components(record_id, values) for (_, _, record_id), values in records.items()]
        table = np.zeros(len(records), LUSTRE_V2_DTYPE)
        table["components"], table["stripes"] = [len(each) for each in made], [len(each) for each in osts]
        offsets = np.concatenate([[0], np.cumsum(table["components"])])
        ragged = {"components": Ragged(offsets, np.concatenate(made)), "ost_ids": Ragged.of(osts)}
    else:
        table = np.zeros(len(records), LUSTRE_V1_DTYPE)
        for counter in LUSTRE_V1:
            table[counter] = [_known(values, counter, "LUSTRE", key[2]) for key, values in records.items()]
        ragged = {"ost_ids": Ragged.of(osts)}
    return _placed("LUSTRE", 2 if "components" in ragged else 1, partial, records, table, ragged)


def _components(record_id: int, values: Mapping[str, Value]) -> np.ndarray[Any, Any]:
    found: dict[int, dict[str, Value]] = {}
    for name, value in values.items():
        if match := _COMPONENT.fullmatch(name):
            found.setdefault(int(match[1]), {})[f"LUSTRE_COMP_{match[2]}"] = value
    table = np.zeros(len(found), LUSTRE_COMPONENT_DTYPE)
    for place, component in enumerate(found.values()):
        for counter in LUSTRE_COMPONENT:
            value = _known(component, counter, "LUSTRE", record_id)
            # Words are of no use here, but for the one that says whether a component has objects.
            table[place][counter] = (_IN_USE if "init" in value else -1) if isinstance(value, str) else value
        table[place]["pool"] = str(component.get("LUSTRE_COMP_POOL_NAME", "")).encode()[:15]
    return table


def _heat_map(records: Records, partial: bool) -> Module:
    bins: dict[str, list[list[int]]] = {"READ": [], "WRITE": []}
    table = np.zeros(len(records), HEATMAP_DTYPE)
    for place, ((_, _, record_id), values) in enumerate(records.items()):
        table[place]["bin_width_seconds"] = _known(values, "HEATMAP_F_BIN_WIDTH_SECONDS", "HEATMAP", record_id)
        count = 1 + max((int(match[2]) for name in values if (match := _BIN.fullmatch(name))), default=-1)
        table[place]["bins"] = count
        for verb, lists in bins.items():
            lists.append([int(_known(values, f"HEATMAP_{verb}_BIN_{i}", "HEATMAP", record_id)) for i in range(count)])
    ragged = {"write_bins": Ragged.of(bins["WRITE"]), "read_bins": Ragged.of(bins["READ"])}
    return _placed("HEATMAP", 1, partial, records, table, ragged)


def _placed(
    name: str, version: int, partial: bool, records: Records, table: np.ndarray[Any, Any], ragged: dict[str, Ragged]
) -> Module:
    table["id"] = np.array([record_id for _, _, record_id in records], np.uint64)
    table["rank"] = [rank for _, rank, _ in records]
    table.flags.writeable = False
    return Module(name, version, partial, table, ragged)


_LISTS: Final = {"LUSTRE": _lustre, "HEATMAP": _heat_map}
