"""pyLMT's daily HDF5 files (h5lmt): arrays (component, time), per second, stamped at the end of the interval.

What its writer does to the data, and what is made of it here:
- stamps run from one local midnight to the next, both included, as epoch seconds (no zone is needed); step 0 repeats
  the last of the day before and is left out; on days when clocks change, arrays and stamps differ in length;
- it works hour by hour and loses the first difference of each run, so the step stamped on the hour is zero for all
  targets: no sample, unless something moved;
- a sample that a server did not send is zero and marked for its OSS; its amount is lost, not made up later;
- the file is laid out for the whole day in advance: steps not yet filled look idle. A step where nothing moved and no
  CPU was used anywhere is not filled; nor is a run of a minute or more up to the end in which nothing moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ioweather.core.arrays import Bools, Floats
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput
from ioweather.core.frames import Frame
from ioweather.core.units import HOUR_NS, MINUTE_NS, NS
from ioweather.sources.lmt import archive
from ioweather.sources.lmt.archive import TimeAxis
from ioweather.sources.lmt.reduce import Samples, flag_late, pieces
from ioweather.sources.lmt.rows import series_rows
from ioweather.sources.lustre.operations import metadata_metric

_STEPS = "FSStepsGroup/FSStepsDataSet"
_MISSING = "FSMissingGroup/FSMissingDataSet"
_BYTES = {"read_bytes": "OSTReadGroup/OSTBulkReadDataSet", "write_bytes": "OSTWriteGroup/OSTBulkWriteDataSet"}
_OPERATIONS = "MDSOpsGroup/MDSOpsDataSet"
_OSS_CPU = "OSSCPUGroup/OSSCPUDataSet"
_MDS_CPU = "MDSCPUGroup/MDSCPUDataSet"
_SERIES = (*_BYTES.values(), _OPERATIONS, _OSS_CPU, _MDS_CPU, _MISSING)


@dataclass(frozen=True, eq=False)
class _Day:
    """Everything of one file on one grid (time, component), NaN where there is no sample."""

    axis: TimeAxis
    system: str
    targets: tuple[str, ...]
    servers: tuple[str, ...]
    bytes: dict[str, Floats]
    operations: dict[str, Floats]
    server_cpu: Floats | None
    metadata_cpu: Floats | None


class H5lmtSource:
    """pyLMT daily files."""

    name = "h5lmt"
    title = "pyLMT daily server counters (h5lmt, HDF5)"
    tables = ("series",)

    def detect(self, head: bytes, path: Path) -> float:
        if not head.startswith(archive.SIGNATURE):
            return 0.0
        if "FSStepsGroup" in archive.top_level_names(path):
            return 1.0
        return 0.6 if path.suffix == ".h5lmt" else 0.0

    def read(self, path: Path, context: ReadContext) -> Iterator[tuple[str, Frame]]:
        with archive.open_archive(path) as file:
            day = _load(file, path, context)
        yield from _target_rows(day, context)
        grid = (day.axis.first_ns, day.axis.step_ns)
        # The file knows one MDS and does not name it.
        for metric, values in day.operations.items():
            yield from series_rows(
                day.system, "mdt", (f"{day.system}-MDT0000",), metric, Samples(*grid, values, True), context
            )
        for kind, names, cpu in (
            ("oss", day.servers, day.server_cpu),
            ("mds", (f"{day.system}-MDS",), day.metadata_cpu),
        ):
            if cpu is not None:
                yield from series_rows(day.system, kind, names, "cpu_ratio", Samples(*grid, cpu, False), context)


def _target_rows(day: _Day, context: ReadContext) -> Iterator[tuple[str, Frame]]:
    axis = day.axis
    lookback = max(2, MINUTE_NS // axis.step_ns)
    for begin, first, end in pieces(axis.first_ns, axis.step_ns, axis.steps, lookback):
        values = {metric: array[begin:end] for metric, array in day.bytes.items()}
        late = flag_late(values, {}, axis.step_ns)
        for metric, array in values.items():
            start_ns = axis.first_ns + begin * axis.step_ns
            samples = Samples(start_ns, axis.step_ns, array, True, quality=late[metric])
            yield from series_rows(day.system, "ost", day.targets, metric, samples.after(first - begin), context)


def _load(file: Any, path: Path, context: ReadContext) -> _Day:
    parts = {name: archive.find(file, name) for name in (_STEPS, *_SERIES)}
    parts = {name: dataset for name, dataset in parts.items() if dataset is not None}
    present = {metric: parts[name] for metric, name in _BYTES.items() if name in parts}
    if _STEPS not in parts or not present:
        raise CorruptInput(f"{path} has no {_STEPS}, or neither of {', '.join(_BYTES.values())}.")
    _check_shapes(parts, path)
    stamps = parts[_STEPS][:].astype(np.int64)
    stamps = stamps[: len(stamps) - int(np.argmax(stamps[::-1] != 0))]  # never filled
    width = min(len(stamps), *(dataset.shape[-1] for name, dataset in parts.items() if name != _STEPS))
    axis = archive.time_axis(stamps[:width], path)
    if axis.positions is not None:
        raise CorruptInput(f"{path}: steps are missing from {_STEPS}, whose writer lays out a whole day.")
    # Stamp i closes (i - 1, i]; stamp 0 is the day before's.
    axis = TimeAxis(axis.first_ns, axis.step_ns, axis.steps - 1, None)
    step = axis.step_ns / NS
    dataset = next(iter(present.values()))
    targets = archive.attribute_names(dataset, "OSTNames", dataset.shape[0], path)
    moved = {metric: np.rint(_columns(dataset, width, path) * step) for metric, dataset in present.items()}
    operations = _operations(parts.get(_OPERATIONS), width, step, path)
    servers, server_cpu = _server_cpu(parts.get(_OSS_CPU), width, path)
    metadata_cpu = None
    if _MDS_CPU in parts:
        cpu = parts[_MDS_CPU][1:width].astype(np.float64)[:, None]
        metadata_cpu = archive.checked(cpu, parts[_MDS_CPU], path) / 100
    system = archive.file_system_of(targets, archive.attribute(parts[_STEPS], "fs") or context.system, path)
    unsent = _unsent(parts.get(_MISSING), width, len(targets), moved)
    _blank(axis, moved, operations, server_cpu, metadata_cpu, unsent)
    return _Day(axis, system, tuple(targets), servers, moved, operations, server_cpu, metadata_cpu)


def _check_shapes(parts: dict[str, Any], path: Path) -> None:
    """(component, time), with the same components in what was read and written; times and the MDS's CPU are lines."""
    for name, dataset in parts.items():
        if dataset.ndim != (1 if name in (_STEPS, _MDS_CPU) else 2) or 0 in dataset.shape:
            raise CorruptInput(f"{path}: {dataset.name} has the shape {dataset.shape}.")
    if len({parts[name].shape[0] for name in _BYTES.values() if name in parts}) > 1:
        raise CorruptInput(f"{path}: {' and '.join(_BYTES.values())} have different numbers of targets.")


def _columns(dataset: Any, width: int, path: Path) -> Floats:
    """(component, time) to (time, component), without step 0."""
    return archive.checked(
        np.ascontiguousarray(archive.rows_of(dataset)[:, 1:width].T, dtype=np.float64), dataset, path
    )


def _operations(dataset: Any, width: int, step: float, path: Path) -> dict[str, Floats]:
    if dataset is None:
        return {}
    names = archive.attribute_names(dataset, "OpNames", dataset.shape[0], path)
    counts = np.rint(_columns(dataset, width, path) * step)
    sums: dict[str, Floats] = {}
    for column, name in enumerate(names):
        metric = metadata_metric(name)
        if metric is not None:
            sums[metric] = sums.get(metric, 0.0) + counts[:, column : column + 1]
    return sums


def _server_cpu(dataset: Any, width: int, path: Path) -> tuple[tuple[str, ...], Floats | None]:
    if dataset is None:
        return (), None
    return tuple(archive.attribute_names(dataset, "OSSNames", dataset.shape[0], path)), _columns(
        dataset, width, path
    ) / 100


def _unsent(dataset: Any, width: int, targets: int, moved: dict[str, Floats]) -> tuple[Bools, Bools] | None:
    """What servers did not send, as masks of targets and of servers.

    The file does not say which OSS serves which OST, but lists OSTs in the order of their OSSs: where they divide
    evenly they belong together in that order. Else a target that moved nothing while any server was silent is taken
    as not sent. Bytes that are there in spite of the mark arrived late, and were measured: they stay.
    """
    if dataset is None:
        return None
    servers = archive.rows_of(dataset)[:, 1:width].T != 0
    idle = np.logical_and.reduce([values == 0 for values in moved.values()])
    if servers.shape[1] and targets % servers.shape[1] == 0:
        return np.repeat(servers, targets // servers.shape[1], axis=1) & idle, servers
    return idle & servers.any(axis=1)[:, None], servers


def _blank(
    axis: TimeAxis,
    moved: dict[str, Floats],
    operations: dict[str, Floats],
    server_cpu: Floats | None,
    metadata_cpu: Floats | None,
    unsent: tuple[Bools, Bools] | None,
) -> None:
    """NaN, in place, where the file's zeros mean that there was no sample."""
    nothing_moved, nothing_done = _all_zero(list(moved.values()), axis), _all_zero(list(operations.values()), axis)
    cpus = [cpu for cpu in (server_cpu, metadata_cpu) if cpu is not None]
    unfilled = nothing_moved & nothing_done & _all_zero(cpus, axis) if cpus else np.zeros(axis.steps, np.bool_)
    closing_ns = (np.arange(axis.steps) + 1) * axis.step_ns
    on_the_hour = closing_ns % HOUR_NS == 0  # since local midnight, where the file begins
    minute = max(1, MINUTE_NS // axis.step_ns)
    for values, zero in ((moved, nothing_moved), (operations, nothing_done)):
        for array in values.values():
            array[unfilled | (zero & on_the_hour) | _tail(zero, minute)] = np.nan
    for cpu in cpus:
        cpu[unfilled | _tail(_all_zero([cpu], axis), minute)] = np.nan
    if unsent is not None:
        for array in moved.values():
            array[unsent[0]] = np.nan
        if server_cpu is not None and server_cpu.shape == unsent[1].shape:
            server_cpu[unsent[1]] = np.nan


def _all_zero(arrays: list[Floats], axis: TimeAxis) -> Bools:
    """Steps in which every array is zero throughout."""
    zero = np.ones(axis.steps, np.bool_)
    for array in arrays:
        zero &= ~array.any(axis=1)
    return zero


def _tail(zero: Bools, at_least: int) -> Bools:
    """The run of zero steps that ends the file, if it is long enough to mean something."""
    length = len(zero) if zero.all() else int(np.argmax(~zero[::-1]))
    tail = np.zeros(len(zero), np.bool_)
    if length >= at_least:
        tail[len(zero) - length :] = True
    return tail


SOURCE = H5lmtSource()
