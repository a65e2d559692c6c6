"""TOKIO time series (HDF5, version 1): arrays (time, column), stamps at the start of the interval.

The name of a dataset says what it holds; its `units` do not (a file that says bytes/sec holds bytes per 5 s):
`readbytes`, `readops`, `opens` are amounts per step, `readrates`, `readoprates`, `openrates` are per second.
A value that was never written is -0.0. Files made from LMT take states (CPU, memory, fullness) as the database stamps
them, at the end of the interval, while their amounts are moved to its start: states are put back by one step here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.arrays import Floats, Ints
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, UnsupportedVersion
from ioweather.core.frames import Frame
from ioweather.core.units import KIB, MINUTE_NS, NS
from ioweather.core.words import names_of
from ioweather.sources.lmt import archive
from ioweather.sources.lmt.archive import TimeAxis
from ioweather.sources.lmt.reduce import Samples, flag_late, pieces, spans_over_gaps
from ioweather.sources.lmt.rows import fullness_rows, series_rows

GROUPS = ("datatargets", "mdtargets", "dataservers", "mdservers", "fullness")

_METADATA = names_of("open close mknod link unlink mkdir rmdir rename getattr setattr getxattr setxattr statfs")
_MINUS_ZERO = np.iinfo(np.int64).min  # -0.0, by its bits: what pytokio has where nothing was read
# metric -> (dataset of amounts, dataset of rates)
_AMOUNTS: dict[str, tuple[str, str]] = {
    "read_bytes": ("readbytes", "readrates"),
    "write_bytes": ("writebytes", "writerates"),
    "read_ops": ("readops", "readoprates"),
    "write_ops": ("writeops", "writeoprates"),
    **{f"{name}_ops": (f"{name}s", f"{name}rates") for name in _METADATA},
}


@dataclass(frozen=True, eq=False)
class _Table:
    """One dataset: its columns by name, and where its rows lie in time."""

    dataset: Any
    columns: Ints
    components: tuple[str, ...]
    axis: TimeAxis
    factor: float
    path: Path

    def rows(self, first: int, end: int) -> Floats:
        """Steps [first, end) of the grid; NaN where nothing was written."""
        if self.axis.positions is not None:  # holes are rare: read all, place, cut
            return self.axis.placed(self._values(0, None))[first:end]
        return self._values(first, end)

    def _values(self, first: int, end: int | None) -> Floats:
        values: Floats = archive.rows_of(self.dataset, first, end)
        if len(self.columns) < values.shape[1]:
            values = values[:, self.columns]
        values = archive.checked(values.astype(np.float64, copy=False), self.dataset, self.path)
        values[values.view(np.int64) == _MINUS_ZERO] = np.nan
        return values if self.factor == 1.0 else values * self.factor


class TtsSource:
    """TOKIO time-series HDF5, as pytokio writes it."""

    name = "tts"
    title = "TOKIO time series of server counters (HDF5)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        if not head.startswith(archive.SIGNATURE):
            return 0.0
        names = archive.top_level_names(path)
        if names & set(GROUPS):
            return 1.0
        # Unreadable or foreign: claimed weakly, so that it is refused with HDF5's own reason.
        return 0.0 if path.suffix == ".h5lmt" or names else 0.3

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        with archive.open_archive(path) as file:
            version = archive.attribute(file, "version")
            if version not in (None, "1"):
                raise UnsupportedVersion(f"{path} is a TOKIO time series of version {version}; version 1 is read.")
            groups = {name: file.get(name) for name in GROUPS if hasattr(file.get(name), "keys")}
            if not groups:
                raise CorruptInput(f"{path} has none of the groups {', '.join(GROUPS)}.")
            system = _system(groups, path, context)
            for name, group in groups.items():
                yield from _read_group(group, name, system, path, context)


def _system(groups: Mapping[str, Any], path: Path, context: ReadContext) -> str:
    for group in (groups[name] for name in ("datatargets", "fullness") if name in groups):
        for name in group:
            dataset = archive.find(group, name)
            if dataset is not None and "columns" in dataset.attrs:
                return archive.file_system_of(archive.decoded(dataset.attrs["columns"]), context.system, path)
    return archive.file_system_of((), context.system, path)


def _read_group(group: Any, name: str, system: str, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    stamps = archive.find(group, "timestamps")
    if stamps is None:
        raise CorruptInput(f"{path}: {group.name} has no timestamps.")
    axis = archive.time_axis(stamps[:].astype(np.int64), path)
    from_lmt = archive.attribute(group, "source") == "lmt"
    if name in ("datatargets", "mdtargets"):
        yield from _amount_rows(group, name, axis, system, path, context)
    elif name == "fullness":
        yield from _fullness(group, axis, from_lmt, system, path)
    else:
        yield from _states(group, name, axis, from_lmt, system, path, context)


def _table(group: Any, name: str, axis: TimeAxis, path: Path, factor: float = 1.0) -> _Table | None:
    dataset = archive.find(group, name)
    if dataset is None:
        return None
    if dataset.ndim != 2 or dataset.shape[0] < 1:
        raise CorruptInput(f"{path}: {dataset.name} has the shape {dataset.shape}, not (time, column).")
    stamps = axis.steps if axis.positions is None else len(axis.positions)
    if dataset.shape[0] != stamps:
        raise CorruptInput(f"{path}: {dataset.name} has {dataset.shape[0]} rows and {stamps} timestamps.")
    names = archive.decoded(dataset.attrs["columns"]) if "columns" in dataset.attrs else []
    # Columns that were reserved and never used have no name.
    named = [(i, text) for i, text in enumerate(names[: dataset.shape[1]]) if text and not text.startswith("_")]
    if not named:
        raise CorruptInput(f"{path}: {dataset.name} has no named columns.")
    columns = np.array([i for i, _ in named], np.int64)
    return _Table(dataset, columns, tuple(text for _, text in named), axis, factor, path)


def _kind(group: str, components: tuple[str, ...]) -> str:
    """A data target that is not an OST is a device (burst buffers)."""
    if group == "mdtargets":
        return "mdt"
    return "ost" if all("-OST" in name for name in components) else "device"


def _amount_rows(
    group: Any, name: str, axis: TimeAxis, system: str, path: Path, context: ReadContext
) -> Iterator[tuple[str, Frame]]:
    tables: dict[str, _Table] = {}
    for metric, (amounts, rates) in _AMOUNTS.items():
        table = _table(group, amounts, axis, path) or _table(group, rates, axis, path, axis.step_ns / NS)
        if table is not None:
            tables[metric] = table
    lookback = max(2, MINUTE_NS // axis.step_ns)
    for begin, first, end in pieces(axis.first_ns, axis.step_ns, axis.steps, lookback):
        values = {metric: _whole_numbers(table, begin, end) for metric, table in tables.items()}
        # The value after a hole is the difference to the last counter before it: it holds the hole's amount.
        spans = {metric: spans_over_gaps(np.isnan(array)) for metric, array in values.items()}
        moved = {metric: array for metric, array in values.items() if metric.endswith("_bytes")}
        late = flag_late(moved, spans, axis.step_ns)
        for metric, array in values.items():
            start_ns = axis.first_ns + begin * axis.step_ns
            samples = Samples(start_ns, axis.step_ns, array, True, spans[metric], late.get(metric))
            components = tables[metric].components
            yield from series_rows(
                system, _kind(name, components), components, metric, samples.after(first - begin), context
            )


def _whole_numbers(table: _Table, begin: int, end: int) -> Floats:
    """Bytes and operations are whole; a rate times its step is not, by rounding."""
    values = table.rows(begin, end)
    return values if table.factor == 1.0 else np.rint(values)


def _states(
    group: Any, name: str, axis: TimeAxis, from_lmt: bool, system: str, path: Path, context: ReadContext
) -> Iterator[tuple[str, Frame]]:
    kind = "oss" if name == "dataservers" else "mds"
    wanted = {"cpu_ratio": "cpuload"}
    if from_lmt:  # LMT's memory is a percentage; other collectors put bytes there
        wanted["memory_ratio"] = "memused"
    for metric, dataset in wanted.items():
        table = _table(group, dataset, axis, path, 0.01)
        if table is None:
            continue
        for begin, end, start_ns in _state_pieces(axis, from_lmt):
            samples = Samples(start_ns, axis.step_ns, table.rows(begin, end), False)
            yield from series_rows(system, kind, table.components, metric, samples, context)


def _fullness(group: Any, axis: TimeAxis, from_lmt: bool, system: str, path: Path) -> Iterator[tuple[str, Frame]]:
    for unit, used_name, total_name in (("bytes", "bytes", "bytestotal"), ("files", "inodes", "inodestotal")):
        dataset = archive.find(group, used_name)
        if dataset is None:
            continue
        factor = float(KIB) if unit == "bytes" and archive.attribute(dataset, "units") != "bytes" else 1.0
        used, total = (_table(group, name, axis, path, factor) for name in (used_name, total_name))
        if used is None or total is None or used.components != total.components:
            continue
        kind = _kind("datatargets", used.components)
        for begin, end, start_ns in _state_pieces(axis, from_lmt):
            capacity = total.rows(begin, end)
            for metric, values in ((f"capacity_{unit}", capacity), (f"free_{unit}", capacity - used.rows(begin, end))):
                samples = Samples(start_ns, axis.step_ns, values, False)
                yield from fullness_rows(system, kind, used.components, metric, samples)


def _state_pieces(axis: TimeAxis, from_lmt: bool) -> Iterator[tuple[int, int, int]]:
    """(first row, end row, start of the first row's interval) by piece."""
    # LMT's first stamp closes an interval that belongs to the file before.
    skipped = 1 if from_lmt else 0
    for _, first, end in pieces(axis.first_ns, axis.step_ns, axis.steps - skipped, 0):
        yield first + skipped, end + skipped, axis.first_ns + first * axis.step_ns


SOURCE = TtsSource()
