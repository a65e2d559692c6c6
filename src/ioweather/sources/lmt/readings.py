"""The DATA tables of an LMT database: rows to grids, counters to amounts, grids to rows of `series`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.core.units import KIB
from ioweather.sources.lmt.counters import ABSENT, Amounts, CounterMemory, amounts, unused_is_zero
from ioweather.sources.lmt.database import Collection, Database, Part, Window, open_collection, topology, windows
from ioweather.sources.lmt.reduce import Flags, Samples, flag_late
from ioweather.sources.lmt.rows import fullness_rows, series_rows
from ioweather.sources.lustre.operations import metadata_metric, target_metric
from ioweather.tables.series import Quality

FETCH_ROWS = 20_000
Rows = Iterator[tuple[str, Frame]]


def read_database(
    database: Database, context: ReadContext, *, since_ns: int | None = None, until_ns: int | None = None
) -> Rows:
    """Whole minutes of [since_ns, until_ns), or all there is."""
    collection = open_collection(database, context, since_ns=since_ns, until_ns=until_ns)
    yield "components", topology(collection)
    for window in windows(collection.stamps, since_ns):
        for read in (_targets, _target_operations, _servers, _metadata_servers, _metadata_operations):
            yield from read(collection, window)


def _targets(collection: Collection, window: Window) -> Rows:
    columns = ("READ_BYTES", "WRITE_BYTES", "KBYTES_FREE", "KBYTES_USED", "INODES_FREE", "INODES_USED")
    parts = collection.targets
    grid = _grid(collection, window, "OST_DATA", "OST_ID", columns, parts, np.int64)
    if grid is None:
        return
    memory = collection.memory.setdefault("OST_DATA", CounterMemory.empty(len(parts), 2))
    found = amounts(grid[:, :, :2], window.first, memory)
    values = {"read_bytes": found.values[:, :, 0], "write_bytes": found.values[:, :, 1]}
    late = flag_late(values, dict.fromkeys(values, found.spans), window.stamps.step_ns)
    for metric, array in values.items():
        yield from _amount_rows(collection, window, "ost", parts, metric, array, found, late[metric])
    yield from _fullness(window, "ost", parts, grid[:, :, 2:])


def _target_operations(collection: Collection, window: Window) -> Rows:
    yield from _operations(collection, window, "OST_OPS_DATA", "OST_ID", "ost", collection.targets, target_metric)


def _metadata_operations(collection: Collection, window: Window) -> Rows:
    parts = collection.metadata_targets
    yield from _operations(collection, window, "MDS_OPS_DATA", "MDS_ID", "mdt", parts, metadata_metric)


def _servers(collection: Collection, window: Window) -> Rows:
    parts = collection.servers
    grid = _grid(collection, window, "OSS_DATA", "OSS_ID", ("PCT_CPU", "PCT_MEMORY"), parts, np.float64)
    if grid is not None:
        for column, metric in enumerate(("cpu_ratio", "memory_ratio")):
            yield from _state_rows(collection, window, "oss", parts, metric, grid[:, :, column])


def _metadata_servers(collection: Collection, window: Window) -> Rows:
    hosts = collection.metadata_servers
    cpu = _grid(collection, window, "MDS_DATA", "MDS_ID", ("PCT_CPU",), hosts, np.float64)
    if cpu is not None:
        yield from _state_rows(collection, window, "mds", hosts, "cpu_ratio", cpu[:, :, 0])
    columns = ("KBYTES_FREE", "KBYTES_USED", "INODES_FREE", "INODES_USED")
    parts = collection.metadata_targets
    grid = _grid(collection, window, "MDS_DATA", "MDS_ID", columns, parts, np.int64)
    if grid is not None:
        yield from _fullness(window, "mdt", parts, grid)


def _operations(
    collection: Collection,
    window: Window,
    table: str,
    key: str,
    kind: str,
    parts: Sequence[Part],
    metric_of: Callable[[str], str | None],
) -> Rows:
    named = {identity: metric_of(name) for identity, name in collection.operations.items()}
    counted = {identity: metric for identity, metric in named.items() if metric is not None}
    layers = {identity: layer for layer, identity in enumerate(counted)}
    grid = _grid(collection, window, table, key, ("SAMPLES",), parts, np.int64, layers)
    if grid is None:
        return
    memory = collection.memory.setdefault(table, CounterMemory.empty(len(parts), len(layers)))
    found = amounts(unused_is_zero(grid, memory), window.first, memory)
    for metric in dict.fromkeys(counted.values()):
        chosen = [layer for identity, layer in layers.items() if counted[identity] == metric]
        summed = found.values[:, :, chosen].sum(axis=2)
        yield from _amount_rows(collection, window, kind, parts, metric, summed, found, None)


def _grid(
    collection: Collection,
    window: Window,
    table: str,
    key: str,
    columns: Sequence[str],
    parts: Sequence[Part],
    dtype: type[Any],
    layers: Mapping[int, int] | None = None,
) -> NDArray[Any] | None:
    """(step, component, column) of a DATA table, ABSENT where there is no row or a null; None where there is nothing.

    With `layers` a row is one value, placed by its OPERATION_ID.
    """
    stamps = window.stamps
    if table not in collection.database.tables() or not parts or len(stamps.ids) == 0 or layers == {}:
        return None
    order = np.argsort(stamps.ids, kind="stable")
    ids, steps = stamps.ids[order], stamps.steps[order] - window.first
    keys = np.array([part.key for part in parts])
    by_key = np.argsort(keys)
    width = len(columns) if layers is None else len(layers)
    grid = np.full((window.end - window.first, len(parts), width), ABSENT, dtype)
    listed = ", ".join(f"COALESCE({column}, {ABSENT})" for column in columns)
    found = collection.database.query(
        f"SELECT TS_ID, {key}{'' if layers is None else ', OPERATION_ID'}, {listed} FROM {table}"
        " WHERE TS_ID BETWEEN ? AND ? ORDER BY TS_ID",
        (int(ids[0]), int(ids[-1])),
    )
    while batch := list(islice(found, FETCH_ROWS)):
        block = _numbers(batch, dtype, table, collection)
        place, row_known = _locate(ids, block[:, 0])
        sorted_place, part_known = _locate(keys[by_key], block[:, 1])
        part, known = by_key[sorted_place], row_known & part_known
        if layers is None:
            grid[steps[place[known]], part[known]] = block[known, 2:]
        else:
            layer = np.array([layers.get(row[2], -1) for row in batch])
            known &= layer >= 0
            grid[steps[place[known]], part[known], layer[known]] = block[known, 3]
    return grid


def _numbers(batch: list[Sequence[Any]], dtype: type[Any], table: str, collection: Collection) -> NDArray[Any]:
    try:
        return np.array(batch, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise CorruptInput(
            f"{collection.database.where}: {table} holds what is no number: {str(error)[:80]}."
        ) from None


def _locate(ordered: Ints, wanted: NDArray[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """Where each value stands in an ordered list, and whether it is there at all."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted


def _amount_rows(
    collection: Collection,
    window: Window,
    kind: str,
    parts: Sequence[Part],
    metric: str,
    values: Floats,
    found: Amounts,
    late: Flags | None,
) -> Rows:
    quality = ((found.spans > 1) & (values > 0)).astype(np.uint8) * np.uint8(Quality.LATE) if late is None else late
    # After a restart the counters hold nothing of the time before.
    quality = np.where(found.restarted, np.uint8(Quality.RESET), quality)
    samples = _wanted(window, values, True, found.spans, quality)
    for system, columns, names in _by_system(parts):
        yield from series_rows(system, kind, names, metric, samples.of(columns), collection.context)


def _state_rows(
    collection: Collection, window: Window, kind: str, parts: Sequence[Part], metric: str, percent: Floats
) -> Rows:
    samples = _wanted(window, np.where(percent >= 0, percent / 100, np.nan), False)
    for system, columns, names in _by_system(parts):
        yield from series_rows(system, kind, names, metric, samples.of(columns), collection.context)


def _fullness(window: Window, kind: str, parts: Sequence[Part], grid: Ints) -> Rows:
    """From free and used, in KiB and in inodes."""
    for unit, factor, column in (("bytes", KIB, 0), ("files", 1, 2)):
        free, used = grid[:, :, column], grid[:, :, column + 1]
        known = (free >= 0) & (used >= 0)
        for metric, amount in ((f"capacity_{unit}", free + used), (f"free_{unit}", free)):
            samples = _wanted(window, np.where(known, amount * factor, np.nan), False)
            for system, columns, names in _by_system(parts):
                yield from fullness_rows(system, kind, names, metric, samples.of(columns))


def _wanted(
    window: Window, values: Floats, extensive: bool, spans: Ints | None = None, quality: Flags | None = None
) -> Samples:
    samples = Samples(window.start_ns, window.stamps.step_ns, values, extensive, spans, quality)
    return samples.after(min(len(values), max(0, window.wanted - window.first)))


def _by_system(parts: Sequence[Part]) -> Iterator[tuple[str, list[int], list[str]]]:
    """A database usually holds one file system; where it holds more, each has its own rows."""
    systems: dict[str, list[int]] = {}
    for index, part in enumerate(parts):
        systems.setdefault(part.system, []).append(index)
    for system, columns in systems.items():
        yield system, columns, [parts[index].name for index in columns]
