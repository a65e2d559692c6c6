"""Samples on a regular grid to rows of `series`: counters to amounts, late samples flagged, steps joined to minutes.

A sample carries its own step, or, where the samples before it never arrived, their amount too (LMT counters are
cumulative, so the next sample brings the sum). `spans` says how many steps a sample covers. A minute is whole when the
spans of its samples add up to it and none reaches back over its start; else it is flagged PARTIAL, and its amount is a
lower bound or includes a part of its neighbour's. Nothing is dropped: all minutes add up to all samples.

LMT's database (source `lmt`) as an SQLite file: counters to series, INFO tables to topology.
`TIMESTAMP` is the local time at which a sample arrived, floored to the step; the counters of stamp T close the
interval that ends at T. A sample that is missing is made up for by the next one, which is then LATE; counters that
dropped belong to a server that restarted (RESET). The first stamp only opens the first interval.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.lustre_text import metadata_metric, target_metric
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Bools, Floats, Frame, Ints, Text
from ioweather.core.tables import COMPONENTS, METRICS, SERIES, Quality
from ioweather.core.units import DAY_NS, HOUR_NS, KIB, MINUTE_NS, NS, local_to_ns
from ioweather.readers.reader_catalogue import FileReader
from ioweather.readers.text_files import ZONE_HINT

Flags: TypeAlias = NDArray[np.uint8]
Rows: TypeAlias = Iterator[tuple[str, Frame]]
Number = TypeVar("Number", bound=np.generic)

ABSENT = -1  # a counter without a sample
# A component's limit is learned as this many times the highest amount that any component sustained for two samples in a
# row: a late sum is alone, real load is not. Fewer samples near that height than SUPPORT prove nothing.
LIMIT_MARGIN = 1.5
LIMIT_SUPPORT = 12
# Rows of one frame: bounds the memory of a day of 5 s samples.
FRAME_ROWS = 500_000


@dataclass(frozen=True, eq=False)
class Samples:
    """One metric of many components on a regular grid; NaN where there is no sample.

    `values[i, j]` belongs to [start_ns + i * step_ns, + step_ns) of component j. `spans` (None: all 1) is the number
    of steps whose amount the sample includes; `quality` (None: all OK) its flags.
    """

    start_ns: int
    step_ns: int
    values: Floats
    extensive: bool
    spans: Ints | None = None
    quality: Flags | None = None

    def since(self, first: int) -> Samples:
        """The steps from `first` on."""
        return replace(
            self,
            start_ns=self.start_ns + first * self.step_ns,
            values=self.values[first:],
            spans=None if self.spans is None else self.spans[first:],
            quality=None if self.quality is None else self.quality[first:],
        )


class _Amounts(NamedTuple):
    """`values[i, j, k]`: growth of counter k of component j since its previous sample, NaN where there is none.

    `spans[i, j]`: steps since that sample. `restarted[i, j]`: the counters started again in between.
    """

    values: Floats
    spans: Ints
    restarted: Bools


def difference_counters(counters: Ints) -> _Amounts:
    """Differences of `counters` (step, component, counter; ABSENT where there is no sample).

    A server that restarts begins at zero with all its counters at once. If one fell, all restarted: their values are
    the amounts since, a lower bound.
    """
    step = np.arange(len(counters))[:, None]
    present: Bools = np.all(counters >= 0, axis=2)
    latest = np.maximum.accumulate(np.where(present, step, -1), axis=0)
    before = np.concatenate([np.full_like(latest[:1], -1), latest[:-1]])
    valid = present & (before >= 0)
    growth = counters - np.take_along_axis(counters, np.maximum(before, 0)[:, :, None], axis=0)
    restarted: Bools = valid & np.any(growth < 0, axis=2)
    values = np.where(restarted[:, :, None], counters, growth).astype(np.float64)
    values[~valid] = np.nan
    return _Amounts(values, np.where(valid, step - before, 1), restarted)


def spans_over_gaps(missing: Bools) -> Ints | None:
    """Steps since the component's previous sample; 1 for its first one, which has nothing to make up for."""
    if not missing.any():
        return None
    step = np.arange(len(missing))[:, None]
    latest = np.maximum.accumulate(np.where(missing, -1, step), axis=0)
    spans = np.ones(missing.shape, np.int64)
    spans[1:] = np.where(missing[1:] | (latest[:-1] < 0), 1, step[1:] - latest[:-1])
    return spans


def learned_limit(amounts: Floats) -> float:
    """The largest believable amount in a step, from what components sustained; infinite in a file that is too quiet."""
    sustained = np.minimum(amounts[1:], amounts[:-1])
    top = np.fmax.reduce(sustained, axis=None, initial=0.0)
    if top <= 0 or np.count_nonzero(sustained >= top / 2) < LIMIT_SUPPORT:
        return np.inf
    return float(LIMIT_MARGIN * top)


def late_spikes(amounts: Floats, others: Collection[Floats], limit: float, window: int) -> Ints:
    """Flat indexes of spikes (amounts above the limit) that are sums of a silence: in the `window` steps before, no
    counter of the component had a sample or grew, and the mean amount of the window is within the limit."""
    spikes = np.flatnonzero(amounts > limit)
    rows, columns = np.divmod(spikes, amounts.shape[1])
    back = rows[:, None] - np.arange(window)[None, :]
    inside, column = back >= 0, columns[:, None]
    around = [other[back, column] for other in others]
    silent = np.logical_and.reduce([np.isnan(each) | (each == 0) for each in around])
    made_up = (silent & inside)[:, 1:].any(axis=1)
    believable = np.nansum(np.where(inside, amounts[back, column], 0.0), axis=1) / window <= limit
    late: Ints = spikes[made_up & believable]
    return late


def flag_late(amounts: Mapping[str, Floats], spans: Mapping[str, Ints | None], step_ns: int) -> dict[str, Flags | None]:
    """LATE flags of the byte counters of one kind of component (all of one shape): samples after a gap whose amount
    they include, and those above the limit after the counters stood still."""
    window = max(2, MINUTE_NS // step_ns)
    flags: dict[str, Flags | None] = {}
    for metric, values in amounts.items():
        late = np.zeros(values.shape, np.uint8)
        late.reshape(-1)[late_spikes(values, amounts.values(), learned_limit(values), window)] = Quality.LATE
        covered = spans.get(metric)
        if covered is not None:
            late[(covered > 1) & (values > 0)] = Quality.LATE
        flags[metric] = late if late.any() else None
    return flags


def to_minutes(samples: Samples) -> Samples:
    """_Amounts sum, states average; a minute without any sample is NaN. Samples whose steps are no part of a minute
    (a minute or longer, 7 s, begun at odd seconds) are returned unchanged: the lake splits them by overlap."""
    step_ns = samples.step_ns
    if step_ns >= MINUTE_NS or MINUTE_NS % step_ns or samples.start_ns % step_ns or len(samples.values) == 0:
        return samples
    per_minute = MINUTE_NS // step_ns
    lead = samples.start_ns % MINUTE_NS // step_ns
    tail = -(lead + len(samples.values)) % per_minute

    def split(array: NDArray[Number], fill: float) -> NDArray[Number]:
        """(minute, sample, component), padded to whole minutes."""
        padded = np.pad(array, ((lead, tail), (0, 0)), constant_values=fill) if lead or tail else array
        return padded.reshape(-1, per_minute, array.shape[1])

    values = split(samples.values, np.nan)
    total = values.sum(axis=1)
    count = np.full(total.shape, per_minute)
    holed = np.nonzero(np.isnan(total))
    count[holed] = (~np.isnan(values[holed[0], :, holed[1]])).sum(axis=1)
    total[holed] = np.nansum(values[holed[0], :, holed[1]], axis=1)
    total[count == 0] = np.nan
    quality = np.zeros(total.shape, np.uint8)
    if samples.quality is not None:
        quality |= np.bitwise_or.reduce(split(samples.quality, 0), axis=1)
    whole = count == per_minute
    if samples.spans is not None:
        # Holes that a later sample of the minute makes up for are none, and a sample that reaches back over the
        # minute's start brings the amount of its neighbour.
        spans = split(samples.spans, 1)
        minute, component = np.nonzero(~whole | (spans.max(axis=1) > 1))
        covered = np.where(np.isnan(values[minute, :, component]), 0, spans[minute, :, component])
        reaches_back = (covered > np.arange(1, per_minute + 1)).any(axis=1)
        whole[minute, component] = (covered.sum(axis=1) == per_minute) & ~reaches_back
    quality[~whole & (count > 0)] |= np.uint8(Quality.PARTIAL)
    reduced = total if samples.extensive else total / np.maximum(count, 1)
    return Samples(samples.start_ns - lead * step_ns, MINUTE_NS, reduced, samples.extensive, quality=quality)


def series_rows(
    system: str, kind: str, components: Sequence[str], metric: str, samples: Samples, context: ReadContext
) -> Rows:
    """The minutes of one metric; before them its raw samples, where the context asks for them."""
    if samples.extensive != METRICS[metric].extensive:
        raise ValueError(f"{metric} is {'' if METRICS[metric].extensive else 'not '}an amount")
    minutes = to_minutes(samples)
    if context.keep_raw and minutes is not samples:
        yield from _sample_rows(system, kind, components, metric, samples)
    yield from _sample_rows(system, kind, components, metric, minutes)


def fullness_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """How full a target is changes slowly: only the first minute of each hour."""
    minutes = to_minutes(samples)
    starts = minutes.start_ns + np.arange(len(minutes.values)) * minutes.step_ns
    values = np.where((starts % HOUR_NS < minutes.step_ns)[:, None], minutes.values, np.nan)
    yield from _sample_rows(system, kind, components, metric, replace(minutes, values=values))


def _sample_rows(system: str, kind: str, components: Sequence[str], metric: str, samples: Samples) -> Rows:
    """One row per step and component. A missing sample has no row."""
    count = len(components)
    block = max(1, FRAME_ROWS // max(1, count))
    for first in range(0, len(samples.values), block):
        values = samples.values[first : first + block]
        steps = len(values)
        quality: Any = 0 if samples.quality is None else samples.quality[first : first + block].astype(np.int64).ravel()
        frame = SERIES.frame(
            start_ns=np.repeat(samples.start_ns + (first + np.arange(steps)) * samples.step_ns, count),
            interval_ns=samples.step_ns,
            system=system,
            component_kind=kind,
            component=Text(np.tile(np.arange(count, dtype=np.int32), steps), tuple(components)),
            metric=metric,
            value=np.ascontiguousarray(values).ravel(),
            quality=quality,
            rows=steps * count,
        ).take(~np.isnan(values).ravel())
        if frame.rows:
            yield "series", frame


_SIGNATURE = b"SQLite format 3\0"
_NEEDED_TABLES = frozenset({"TIMESTAMP_INFO", "FILESYSTEM_INFO", "OST_INFO", "OST_DATA"})
_EPOCH = dt.datetime(1970, 1, 1)
# Samples are fetched and reduced in windows of this length: one of Cori's size has 700,000 rows.
_WINDOW_SECONDS = 4 * 3600
FETCH_ROWS = 20_000
_MAX_SECONDS = 2**63 // NS - 2 * 86_400  # what fits into int64 ns, in any zone
# Read before each window, so that its first samples have one to differ from.
_LOOKBACK_SECONDS = 3600
_FULLNESS = ("KBYTES_FREE", "KBYTES_USED", "INODES_FREE", "INODES_USED")


@dataclass(frozen=True)
class _Database:
    """An LMT database in an SQLite file, open to read only: no file is ever written next to it."""

    path: Path
    connection: sqlite3.Connection

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[_Database]:
        """The database in a file."""
        # A file that no other program has open needs no lock, and may be where none can be made.
        immutable = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        address = f"file:{quote(str(path.resolve()))}?mode=ro{immutable}"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            yield cls(path, connection)

    def tables(self) -> frozenset[str]:
        """Names of its tables and views, in capitals."""
        named = self.query("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        return frozenset(str(row[0]).upper() for row in named)

    def query(self, sql: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[Any]]:
        """Rows of a SELECT, as they are fetched. Raises CorruptInput."""
        try:
            yield from self.connection.execute(sql, parameters)
        except sqlite3.Error as error:
            hint = "Create the dump again."
            raise CorruptInput(f"SQLite cannot read {self.path}: {error}.", hint=hint) from None


def _detect_lmt(head: bytes, path: Path) -> float:
    """1 for an SQLite file with the tables of LMT, 0.3 for one that cannot be read."""
    if not head.startswith(_SIGNATURE):
        return 0.0
    try:
        with _Database.open(path) as database:
            return 1.0 if database.tables() >= _NEEDED_TABLES else 0.0
    except (SourceError, sqlite3.Error):
        return 0.3  # damaged: claimed weakly, so that it is refused with SQLite's own reason


def _read_lmt(path: Path, context: ReadContext) -> Rows:
    with _Database.open(path) as database:
        yield from _read_database(database, context)


LMT = FileReader("lmt", "Lustre Monitoring Tool database (SQLite)", ("series", "components"), _detect_lmt, _read_lmt)


def _read_database(database: _Database, context: ReadContext) -> Rows:
    """Components, then the samples of each window. Raises SourceError if this is not LMT or the zone is not known."""
    tables, path = database.tables(), database.path
    if missing := _NEEDED_TABLES - tables:
        raise CorruptInput(f"{path} is not an LMT database: it has no table {', '.join(sorted(missing))}.")
    if context.zone is None:
        raise SourceError(f"{path} has local times without a time zone.", hint=ZONE_HINT, kind="UndatedInput")
    rows = list(database.query("SELECT TS_ID, TIMESTAMP FROM TIMESTAMP_INFO ORDER BY TS_ID"))
    try:
        local = np.array([str(row[1]) for row in rows], dtype="datetime64[s]").astype(np.int64)
    except ValueError as error:
        raise CorruptInput(f"{path}: TIMESTAMP_INFO has an invalid time: {error}.") from None
    if len(local) and not 0 <= local.min() <= local.max() < _MAX_SECONDS:
        raise CorruptInput(f"{path}: TIMESTAMP_INFO has times outside 1970 to 2261.")
    ids = np.array([_check_id(row[0], "TIMESTAMP_INFO", database) for row in rows], np.int64)
    times = local_seconds_to_ns(local, context.zone) // NS
    moments = np.unique(times)
    if len(moments) < 2:
        raise SourceError(f"{path} has {len(moments)} timestamps; at least two are needed.", kind="EmptyInput")
    distances = np.diff(moments)
    usual = distances[distances <= 3600]
    step = int(np.bincount(usual).argmax()) if len(usual) else int(distances.min())
    system, parts, operations = _read_components(database, tables, context)
    listed = [
        # LMT does not say since when: since the day of the first stamp, so that dumps of one day say the same.
        {
            "system": system,
            "kind": kind,
            "component": part.name,
            "server": part.server,
            "valid_from_ns": int(times.min()) // step * step * NS // DAY_NS * DAY_NS,
        }
        for kind, group in parts.items()
        for part in group
    ]
    yield "components", COMPONENTS.frame_of(listed)
    targets, servers, metadata_targets, metadata_servers = parts.values()
    for window in _split_windows(ids, times // step, step):
        reading = _WindowReader(database, tables, context, window, system)
        yield from reading.target_bytes(targets)
        yield from reading.operations("OST_OPS_DATA", "OST_ID", "ost", targets, operations, target_metric)
        yield from reading.states("OSS_DATA", "OSS_ID", "oss", servers, ("PCT_CPU", "PCT_MEMORY"))
        yield from reading.states("MDS_DATA", "MDS_ID", "mds", metadata_servers, ("PCT_CPU",))
        grid = reading.grid("MDS_DATA", "MDS_ID", _FULLNESS, metadata_targets, np.int64)
        if grid is not None:
            yield from reading.fullness("mdt", metadata_targets, grid)
        yield from reading.operations("MDS_OPS_DATA", "MDS_ID", "mdt", metadata_targets, operations, metadata_metric)


def local_seconds_to_ns(local_seconds: Ints, zone: ZoneInfo) -> Ints:
    """UTC ns of wall-clock times (seconds since 1970-01-01 00:00 on that wall), in the order they were recorded."""
    moments: list[int] = []
    for seconds in local_seconds.tolist():
        naive = _EPOCH + dt.timedelta(seconds=seconds)
        moments.append(local_to_ns(naive, zone, after_ns=moments[-1] if moments else None))
    return np.array(moments, np.int64)


def _check_id(value: Any, table: str, database: _Database) -> int:
    """SQLite stores anything in any column."""
    if type(value) is not int:
        raise CorruptInput(f"{database.path}: {table} has the id {str(value)[:40]!r}, which is not a number.")
    return value


class _Component(NamedTuple):
    """One component of the INFO tables."""

    key: int
    name: str
    server: str | None = None


def _read_components(
    database: _Database, tables: frozenset[str], context: ReadContext
) -> tuple[str, dict[str, list[_Component]], dict[int, str]]:
    """The file system, its components by kind, and the names of operations by id."""

    def rows(table: str, columns: str) -> list[Sequence[Any]]:
        """Rows of an INFO table, whose first column is an id; none if the table is absent."""
        found = list(database.query(f"SELECT {columns} FROM {table}")) if table in tables else []
        for row in found:
            _check_id(row[0], table, database)
        return found

    systems = [str(name) for _, name in rows("FILESYSTEM_INFO", "FILESYSTEM_ID, FILESYSTEM_NAME")]
    if len(systems) > 1:
        raise SourceError(
            f"{database.path} has the file systems {', '.join(systems)}, but LMT uses one database per file system.",
            hint="Copy each LMT database to its own file.",
        )
    hosts = {key: _Component(key, str(name)) for key, name in rows("OSS_INFO", "OSS_ID, HOSTNAME")}
    targets = [
        _Component(key, str(name), hosts[host].name if host in hosts else str(hostname))
        for key, host, name, hostname in rows("OST_INFO", "OST_ID, OSS_ID, OST_NAME, HOSTNAME")
    ]
    metadata = [(key, str(name), str(host)) for key, name, host in rows("MDS_INFO", "MDS_ID, MDS_NAME, HOSTNAME")]
    parts = {
        "ost": targets,
        "oss": list(hosts.values()),
        "mdt": [_Component(*row) for row in metadata],
        "mds": [_Component(key, host) for key, _, host in metadata],
    }
    operations = {row[0]: str(row[1]) for row in rows("OPERATION_INFO", "OPERATION_ID, OPERATION_NAME")}
    return next(iter(systems), context.system or "lustre"), parts, operations


class _Window(NamedTuple):
    """Some hours of samples: that of TS_ID `ids[i]` closes row `rows[i]` of a grid, which begins at start_ns. Rows
    before `wanted` only give the others something to differ from."""

    ids: Ints
    rows: Ints
    start_ns: int
    step_ns: int
    wanted: int


def _split_windows(ids: Ints, places: Ints, step: int) -> Iterator[_Window]:
    """Windows with samples. `places` are the stamps in steps of `step` seconds; the first only opens an interval."""
    opening = int(places.min())
    stamps = places * step
    for number in np.unique((stamps[places > opening] - 1) // _WINDOW_SECONDS).tolist():
        border = number * _WINDOW_SECONDS
        chosen = (stamps > border - _LOOKBACK_SECONDS) & (stamps <= border + _WINDOW_SECONDS)
        first = int(places[chosen].min())
        wanted = max(border // step + 1, opening + 1) - first
        yield _Window(ids[chosen], places[chosen] - first, (first - 1) * step * NS, step * NS, max(0, wanted))


@dataclass(frozen=True, eq=False)
class _WindowReader:
    """The DATA tables in one window: rows to grids, counters to amounts, grids to `series`."""

    database: _Database
    tables: frozenset[str]
    context: ReadContext
    window: _Window
    system: str

    def target_bytes(self, parts: list[_Component]) -> Rows:
        """Bytes read and written, and fullness, of OSTs."""
        grid = self.grid("OST_DATA", "OST_ID", ("READ_BYTES", "WRITE_BYTES", *_FULLNESS), parts, np.int64)
        if grid is None:
            return
        found = difference_counters(grid[:, :, :2])
        values = {"read_bytes": found.values[:, :, 0], "write_bytes": found.values[:, :, 1]}
        late = flag_late(values, dict.fromkeys(values, found.spans), self.window.step_ns)
        for metric, array in values.items():
            flags = late[metric]
            yield from self._amounts(parts, "ost", metric, found, array, np.uint8(0) if flags is None else flags)
        yield from self.fullness("ost", parts, grid[:, :, 2:])

    def operations(
        self,
        table: str,
        key: str,
        kind: str,
        parts: list[_Component],
        names: Mapping[int, str],
        metric_of: Callable[[str], str | None],
    ) -> Rows:
        """Operations of one kind of target, summed over the LMT operations of each metric."""
        counted = {number: metric for number, name in names.items() if (metric := metric_of(name)) is not None}
        layers = {number: layer for layer, number in enumerate(counted)}
        grid = self.grid(table, key, ("SAMPLES",), parts, np.int64, layers)
        if grid is None:
            return
        # Counters that a sample leaves out: zero until the first use, after that their last value.
        sampled: Bools = np.any(grid >= 0, axis=2)
        latest = np.maximum.accumulate(np.where(grid >= 0, np.arange(len(grid))[:, None, None], -1), axis=0)
        carried = np.where(latest >= 0, np.take_along_axis(grid, np.maximum(latest, 0), axis=0), 0)
        found = difference_counters(np.where((grid < 0) & sampled[:, :, None], carried, grid))
        for metric in dict.fromkeys(counted.values()):
            summed = found.values[:, :, [layers[number] for number in layers if counted[number] == metric]].sum(axis=2)
            late = ((found.spans > 1) & (summed > 0)).astype(np.uint8) * np.uint8(Quality.LATE)
            yield from self._amounts(parts, kind, metric, found, summed, late)

    def states(self, table: str, key: str, kind: str, parts: list[_Component], columns: Sequence[str]) -> Rows:
        """CPU and memory, from percentages."""
        grid = self.grid(table, key, columns, parts, np.float64)
        if grid is None:
            return
        for column, metric in enumerate(("cpu_ratio", "memory_ratio")[: len(columns)]):
            percent = grid[:, :, column]
            samples = self._samples(np.where(percent >= 0, percent / 100, np.nan))
            yield from self._series(parts, kind, metric, samples)

    def fullness(self, kind: str, parts: list[_Component], grid: Ints) -> Rows:
        """Capacity from free and used, in KiB and in inodes."""
        for unit, factor, column in (("bytes", KIB, 0), ("files", 1, 2)):
            free, used = grid[:, :, column], grid[:, :, column + 1]
            known = (free >= 0) & (used >= 0)
            for metric, amount in ((f"capacity_{unit}", free + used), (f"free_{unit}", free)):
                samples = self._samples(np.where(known, amount * factor, np.nan))
                yield from fullness_rows(self.system, kind, [part.name for part in parts], metric, samples)

    def grid(
        self,
        table: str,
        key: str,
        columns: Sequence[str],
        parts: list[_Component],
        dtype: type[Any],
        layers: Mapping[int, int] | None = None,
    ) -> NDArray[Any] | None:
        """(step, component, column) of a DATA table, ABSENT where there is no row or a null; None without rows.

        With `layers` a row is one value, placed by its OPERATION_ID.
        """
        if table not in self.tables or not parts or layers == {}:
            return None
        order = np.argsort(self.window.ids, kind="stable")
        ids, rows = self.window.ids[order], self.window.rows[order]
        keys = np.array([part.key for part in parts])
        by_key = np.argsort(keys)
        width = len(columns) if layers is None else len(layers)
        grid = np.full((int(rows.max()) + 1, len(parts), width), ABSENT, dtype)
        listed = ", ".join(f"COALESCE({column}, {ABSENT})" for column in columns)
        found = self.database.query(
            f"SELECT TS_ID, {key}{'' if layers is None else ', OPERATION_ID'}, {listed} FROM {table}"
            " WHERE TS_ID BETWEEN ? AND ? ORDER BY TS_ID",
            (int(ids[0]), int(ids[-1])),
        )
        while batch := list(islice(found, FETCH_ROWS)):
            try:
                block = np.array(batch, dtype)
            except (ValueError, TypeError, OverflowError) as error:
                reason = f"{self.database.path}: {table} has a value that is not a number: {str(error)[:80]}."
                raise CorruptInput(reason) from None
            row, row_known = _locate(ids, block[:, 0])
            sorted_place, part_known = _locate(keys[by_key], block[:, 1])
            part, known = by_key[sorted_place], row_known & part_known
            if layers is None:
                grid[rows[row[known]], part[known]] = block[known, 2:]
            else:
                layer = np.array([layers.get(row[2], -1) for row in batch])
                known &= layer >= 0
                grid[rows[row[known]], part[known], layer[known]] = block[known, 3]
        return grid

    def _samples(
        self, values: Floats, spans: Ints | None = None, quality: Any = None, *, extensive: bool = False
    ) -> Samples:
        """The wanted rows of the window."""
        samples = Samples(self.window.start_ns, self.window.step_ns, values, extensive, spans, quality)
        return samples.since(min(len(values), self.window.wanted))

    def _amounts(
        self, parts: list[_Component], kind: str, metric: str, found: _Amounts, values: Floats, late: Any
    ) -> Rows:
        """Rows of an amount, with LATE and RESET flags."""
        # After a restart the counters include nothing of the time before.
        quality = np.where(found.restarted, np.uint8(Quality.RESET), late)
        yield from self._series(parts, kind, metric, self._samples(values, found.spans, quality, extensive=True))

    def _series(self, parts: list[_Component], kind: str, metric: str, samples: Samples) -> Rows:
        """Rows of one metric."""
        yield from series_rows(self.system, kind, [part.name for part in parts], metric, samples, self.context)


def _locate(ordered: Ints, wanted: NDArray[Any]) -> tuple[Ints, NDArray[np.bool_]]:
    """The place of each value in an ordered list, and whether it is there at all."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return place, ordered[place] == wanted
