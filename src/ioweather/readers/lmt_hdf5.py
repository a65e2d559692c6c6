"""Server counters in HDF5: pyLMT's daily files (source `h5lmt`) and TOKIO time series (source `tts`).

pyLMT has arrays (component, time), per second, stamped at the end of the interval. How its writer treats the data:
- stamps run from one local midnight to the next, both included, as epoch seconds (no zone is needed); step 0 repeats
  the last of the day before and is left out; on days when clocks change, arrays and stamps differ in length;
- it works hour by hour and loses the first difference of each run, so the step stamped on the hour is zero for all
  targets: no sample, unless something moved;
- a sample that a server did not send is zero and marked for its OSS; its amount is lost, not made up later;
- the file is laid out for the whole day in advance: steps not yet filled look idle. A step where nothing moved and no
  CPU was used anywhere is not filled; nor is a run of a minute or more up to the end in which nothing moved.

TOKIO has arrays (time, column), stamps at the start of the interval. The name of a dataset says its unit; its
attribute `units` does not (a file that says bytes/sec has bytes per 5 s): `readbytes`, `readops`, `opens` are amounts
per step, `readrates`, `readoprates`, `openrates` are per second. A value that was never written is -0.0. Files made
from LMT stamp states (CPU, memory, fullness) as the database does, at the end of the interval, while their amounts are
moved to its start: states are put back by one step here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from ioweather.core.contracts import ReadContext
from ioweather.core.counters.lustre_text import metadata_metric
from ioweather.core.errors import CorruptInput, SourceError
from ioweather.core.frames import Bools, Floats, Ints
from ioweather.core.tables import METRICS
from ioweather.core.units import HOUR_NS, KIB, MINUTE_NS, NS, names_of
from ioweather.readers.lmt_database import Rows, Samples, flag_late, fullness_rows, series_rows, spans_over_gaps
from ioweather.readers.reader_catalogue import FileReader

_SIGNATURE = b"\x89HDF\r\n\x1a\n"
# No counter grows by an exabyte in a step, and no share of a CPU is negative.
_MAX_VALUE = 1e18
# More empty steps than this for each one that is there: the times are broken, not the collection.
_MAX_HOLES = 20


@contextmanager
def open_archive(path: Path) -> Iterator[Any]:
    """The file as an h5py.File; what HDF5 complains about becomes a SourceError that names the file."""
    if path.stat().st_size == 0:
        raise SourceError(f"{path} is empty.", kind="EmptyInput")
    try:
        # A reader needs no lock, and archives are often where locks do not work.
        with h5py.File(path, "r", locking=False) as file:
            yield file
    except (OSError, RuntimeError, TypeError, ValueError, KeyError, OverflowError, MemoryError) as error:
        text = str(error)  # what h5py raises where the file's structure is damaged
        if "truncated" in text or "eof" in text.lower():
            hint = "Copy it again, or wait until its writer closes it."
            raise SourceError(f"{path} is truncated: {text}.", hint=hint, kind="TruncatedInput") from None
        hint = "Copy it again, or inspect it with h5dump."
        raise CorruptInput(f"HDF5 cannot read {path}: {text}.", hint=hint) from None


def _group_names(head: bytes, path: Path) -> frozenset[str] | None:
    """The groups of the file, for recognising it; none if it cannot be opened, None where it is no HDF5."""
    if not head.startswith(_SIGNATURE):
        return None
    try:
        with open_archive(path) as file:
            return frozenset(file)
    except (SourceError, OSError):
        return frozenset()


def _find_dataset(group: Any, name: str) -> Any:
    """The dataset of numbers of that name; None where there is none, or where a damaged link leads nowhere."""
    item = group.get(name)
    if not isinstance(item, h5py.Dataset):
        return None
    if item.shape is None or item.ndim == 0 or item.dtype.kind not in "iuf":
        raise CorruptInput(f"{group.file.filename}: {item.name} is not an array of numbers.")
    return item


def _decode_names(names: Any) -> list[str]:
    """Names of an HDF5 attribute: bytes or text, padded with NUL."""
    flat = np.asarray(names).ravel().tolist()
    return [(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)).strip("\0 ") for name in flat]


def _attribute(item: Any, name: str) -> str | None:
    """The text of an attribute; None where there is none."""
    value = item.attrs.get(name)
    return None if value is None else next(iter(_decode_names(value)), None)


def _check_values(values: Floats, dataset: Any, path: Path) -> Floats:
    """The values, if they can be amounts or shares at all; NaN passes as missing."""
    lowest, highest = (reduce(values, axis=None, initial=0.0) for reduce in (np.fmin.reduce, np.fmax.reduce))
    if lowest < 0 or highest > _MAX_VALUE:
        raise CorruptInput(f"{path}: {dataset.name} has values that are negative or too large.")
    return values


class _TimeAxis(NamedTuple):
    """Stamps on a regular grid: stamp i is first_ns + positions[i] * step_ns. `positions` is None without holes."""

    first_ns: int
    step_ns: int
    steps: int
    positions: Ints | None


def _time_axis(stamps: Ints, path: Path) -> _TimeAxis:
    """Epoch seconds to a grid. The step is the commonest distance; all others must be multiples of it."""
    if len(stamps) < 2:
        raise SourceError(f"{path} has {len(stamps)} time steps; at least two are needed.", kind="EmptyInput")
    distances = np.diff(stamps)
    if distances.min() <= 0:
        where = int(np.argmax(distances <= 0))
        raise CorruptInput(f"{path}: times do not increase: {stamps[where]} is followed by {stamps[where + 1]}.")
    step = int(np.bincount(distances).argmax()) if distances.max() < 1_000_000 else int(np.median(distances))
    positions, odd = np.divmod(stamps - stamps[0], step)
    if odd.any():
        raise CorruptInput(f"{path}: times are not {step} s apart: {stamps[np.argmax(odd > 0)]} is between steps.")
    steps = int(positions[-1]) + 1
    if steps > _MAX_HOLES * len(stamps):
        raise CorruptInput(f"{path}: most of the {steps} steps of {step} s are missing: it has {len(stamps)}.")
    return _TimeAxis(int(stamps[0]) * NS, step * NS, steps, None if steps == len(stamps) else positions)


def _file_system(targets: Sequence[str], fallback: str | None, path: Path) -> str:
    """The Lustre file system of the targets (fsname-OST0000), else what the caller knows, else the beginning of the
    file's name (fsname_2018-01-28.hdf5)."""
    prefixes = Counter(name.rsplit("-OST", 1)[0] for name in targets if "-OST" in name)
    if prefixes:
        return prefixes.most_common(1)[0][0]
    return fallback or path.name.split(".")[0].split("_")[0]


# pyLMT

_STEPS = "FSStepsGroup/FSStepsDataSet"
_MISSING = "FSMissingGroup/FSMissingDataSet"
_BYTES = {"read_bytes": "OSTReadGroup/OSTBulkReadDataSet", "write_bytes": "OSTWriteGroup/OSTBulkWriteDataSet"}
_OPERATIONS = "MDSOpsGroup/MDSOpsDataSet"
_OSS_CPU = "OSSCPUGroup/OSSCPUDataSet"
_MDS_CPU = "MDSCPUGroup/MDSCPUDataSet"
_SERIES = (*_BYTES.values(), _OPERATIONS, _OSS_CPU, _MDS_CPU, _MISSING)


def _detect_h5lmt(head: bytes, path: Path) -> float:
    """1 for HDF5 with the steps of pyLMT, 0.6 for other HDF5 named .h5lmt."""
    names = _group_names(head, path)
    if names is None:
        return 0.0
    return 1.0 if "FSStepsGroup" in names else 0.6 if path.suffix == ".h5lmt" else 0.0


def _read_h5lmt(path: Path, context: ReadContext) -> Rows:
    """Rows of a day of pyLMT: bytes of OSTs, operations of the MDT, CPU of servers."""
    with open_archive(path) as file:
        found = {name: _find_dataset(file, name) for name in (_STEPS, *_SERIES)}
        parts = {name: dataset for name, dataset in found.items() if dataset is not None}
        first_ns, step_ns, width = _daily_axis(parts, path)
        # (component, time) to (time, component), without step 0.
        arrays = {
            name: np.ascontiguousarray(np.atleast_2d(parts[name][:])[:, 1:width].T, dtype=np.float64)
            for name in parts
            if name != _STEPS
        }
        for name, array in arrays.items():
            if name != _MISSING:
                _check_values(array, parts[name], path)

        def component_names(name: str, attribute: str) -> list[str]:
            """Names of the components of a dataset, from its attribute. Raises CorruptInput."""
            dataset = parts[name]
            names = _decode_names(dataset.attrs[attribute]) if attribute in dataset.attrs else []
            if len(names) != dataset.shape[0]:
                said = f"but {attribute} has {len(names)} names" if names else f"but no attribute {attribute}"
                raise CorruptInput(f"{path}: {dataset.name} has {dataset.shape[0]} components, {said}.")
            return names

        seconds = step_ns / NS
        present = {metric: name for metric, name in _BYTES.items() if name in parts}
        targets = component_names(next(iter(present.values())), "OSTNames")
        moved = {metric: np.rint(arrays[name] * seconds) for metric, name in present.items()}
        operations: dict[str, Floats] = {}
        for column, operation in enumerate(component_names(_OPERATIONS, "OpNames") if _OPERATIONS in parts else ()):
            if (metric := metadata_metric(operation)) is not None:
                counts = np.rint(arrays[_OPERATIONS][:, column : column + 1] * seconds)
                operations[metric] = operations.get(metric, 0.0) + counts
        servers = component_names(_OSS_CPU, "OSSNames") if _OSS_CPU in parts else []
        cpus = {name: arrays[name] / 100 for name in (_OSS_CPU, _MDS_CPU) if name in arrays}
        system = _file_system(targets, _attribute(parts[_STEPS], "fs") or context.system, path)
    _blank_unfilled(step_ns, moved, operations, list(cpus.values()))
    if _MISSING in arrays:
        _blank_unsent(arrays[_MISSING] != 0, moved, cpus.get(_OSS_CPU))
    late = flag_late(moved, {}, step_ns)
    # The file knows one MDS and does not name it.
    for kind, components, metric, values, flags in (
        *(("ost", targets, metric, array, late[metric]) for metric, array in moved.items()),
        *(("mdt", [f"{system}-MDT0000"], metric, array, None) for metric, array in operations.items()),
        ("oss", servers, "cpu_ratio", cpus.get(_OSS_CPU), None),
        ("mds", [f"{system}-MDS"], "cpu_ratio", cpus.get(_MDS_CPU), None),
    ):
        if values is not None:
            samples = Samples(first_ns, step_ns, values, METRICS[metric].extensive, quality=flags)
            yield from series_rows(system, kind, components, metric, samples, context)


H5LMT = FileReader("h5lmt", "pyLMT daily server counters (h5lmt, HDF5)", ("series",), _detect_h5lmt, _read_h5lmt)


def _daily_axis(parts: dict[str, Any], path: Path) -> tuple[int, int, int]:
    """Start of the day, length of a step, and the number of stamps; raises where the arrays do not fit."""
    present = [name for name in _BYTES.values() if name in parts]
    if _STEPS not in parts or not present:
        raise CorruptInput(f"{path} needs {_STEPS} and one of {', '.join(_BYTES.values())}.")
    for name, dataset in parts.items():
        if dataset.ndim != (1 if name in (_STEPS, _MDS_CPU) else 2) or 0 in dataset.shape:
            raise CorruptInput(f"{path}: {dataset.name} has the unexpected shape {dataset.shape}.")
    if len({parts[name].shape[0] for name in present}) > 1:
        raise CorruptInput(f"{path}: {' and '.join(_BYTES.values())} have different numbers of targets.")
    stamps = parts[_STEPS][:].astype(np.int64)
    stamps = stamps[: len(stamps) - int(np.argmax(stamps[::-1] != 0))]  # never filled
    width = min(len(stamps), *(dataset.shape[-1] for name, dataset in parts.items() if name != _STEPS))
    axis = _time_axis(stamps[:width], path)
    if axis.positions is not None:
        raise CorruptInput(f"{path}: {_STEPS} lacks steps of the day.")
    return axis.first_ns, axis.step_ns, width


def _blank_unfilled(
    step_ns: int, moved: dict[str, Floats], operations: dict[str, Floats], cpus: Sequence[Floats]
) -> None:
    """NaN, in place, where the file's zeros mean that there was no sample."""
    steps = len(next(iter(moved.values())))

    def all_zero(arrays: Iterable[Floats]) -> Bools:
        zero: Bools = np.logical_and.reduce([np.ones(steps, np.bool_), *(~array.any(axis=1) for array in arrays)])
        return zero

    def tail(zero: Bools) -> Bools:
        """The run of zero steps that ends the file, if it lasts a minute."""
        length = steps if zero.all() else int(np.argmax(~zero[::-1]))
        return np.arange(steps) >= steps - (length if length >= max(1, MINUTE_NS // step_ns) else 0)

    nothing_moved, nothing_done = all_zero(moved.values()), all_zero(operations.values())
    unfilled = nothing_moved & nothing_done & all_zero(cpus) & bool(cpus)
    # Since local midnight, where the file begins.
    on_the_hour = (np.arange(steps) + 1) * step_ns % HOUR_NS == 0
    for arrays, zero in ((moved, nothing_moved), (operations, nothing_done)):
        for array in arrays.values():
            array[unfilled | (zero & on_the_hour) | tail(zero)] = np.nan
    for cpu in cpus:
        cpu[unfilled | tail(all_zero([cpu]))] = np.nan


def _blank_unsent(servers: Bools, moved: dict[str, Floats], server_cpu: Floats | None) -> None:
    """NaN, in place, where a server did not send its sample; `servers` (time, server) marks those.

    The file does not say which OSS serves which OST, but lists OSTs in the order of their OSSs: where they divide
    evenly they belong together in that order. Else a target that moved nothing while any server was silent counts as
    not sent. Bytes that are there in spite of the mark arrived late, and were measured: they stay.
    """
    idle: Bools = np.all([values == 0 for values in moved.values()], axis=0)
    targets = idle.shape[1]
    if servers.shape[1] and targets % servers.shape[1] == 0:
        unsent = np.repeat(servers, targets // servers.shape[1], axis=1) & idle
    else:
        unsent = idle & np.any(servers, axis=1, keepdims=True)
    for array in moved.values():
        array[unsent] = np.nan
    if server_cpu is not None and server_cpu.shape == servers.shape:
        server_cpu[servers] = np.nan


# TOKIO time series

_GROUPS = ("datatargets", "mdtargets", "dataservers", "mdservers", "fullness")
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


def _detect_tts(head: bytes, path: Path) -> float:
    """1 for HDF5 with a group of TOKIO, 0.3 for HDF5 without any group."""
    names = _group_names(head, path)
    if names is None:
        return 0.0
    # Unreadable or foreign: claimed weakly, so that it is refused with HDF5's own reason.
    return 1.0 if names & set(_GROUPS) else 0.0 if names or path.suffix == ".h5lmt" else 0.3


def _read_tts(path: Path, context: ReadContext) -> Rows:
    """Rows of all groups of a TOKIO file, each with its own time stamps."""
    with open_archive(path) as file:
        version = _attribute(file, "version")
        if version not in (None, "1"):
            raise SourceError(
                f"{path} is a TOKIO time series of version {version}; expected 1.", kind="UnsupportedVersion"
            )
        groups = {name: file.get(name) for name in _GROUPS if hasattr(file.get(name), "keys")}
        if not groups:
            raise CorruptInput(f"{path} has none of the groups {', '.join(_GROUPS)}.")
        targets: list[str] = []
        for group in (groups[name] for name in ("fullness", "datatargets") if name in groups):
            named = [dataset for name in group if (dataset := _find_dataset(group, name)) is not None]
            targets = next((_decode_names(d.attrs["columns"]) for d in named if "columns" in d.attrs), targets)
        system = _file_system(targets, context.system, path)
        for name, group in groups.items():
            stamps = _find_dataset(group, "timestamps")
            if stamps is None:
                raise CorruptInput(f"{path}: {group.name} has no timestamps.")
            axis = _time_axis(stamps[:].astype(np.int64), path)
            if name in ("datatargets", "mdtargets"):
                yield from _target_rows(group, name, axis, system, path, context)
            else:
                yield from _state_rows(group, name, axis, system, path, context)


TTS = FileReader("tts", "TOKIO time series of server counters (HDF5)", ("series",), _detect_tts, _read_tts)


class _Table(NamedTuple):
    """The values of one dataset on the grid (step, component); NaN where nothing was written."""

    values: Floats
    components: tuple[str, ...]


def _read_table(group: Any, name: str, axis: _TimeAxis, path: Path, factor: float = 1.0) -> _Table | None:
    """The dataset of that name, times `factor`; None where there is none."""
    dataset = _find_dataset(group, name)
    if dataset is None:
        return None
    if dataset.ndim != 2 or dataset.shape[0] < 1:
        raise CorruptInput(f"{path}: {dataset.name} has shape {dataset.shape}, expected (time, column).")
    stamps = axis.steps if axis.positions is None else len(axis.positions)
    if dataset.shape[0] != stamps:
        raise CorruptInput(f"{path}: {dataset.name} has {dataset.shape[0]} rows and {stamps} timestamps.")
    names = _decode_names(dataset.attrs["columns"]) if "columns" in dataset.attrs else []
    # Columns that were reserved and never used have no name.
    named = [(i, text) for i, text in enumerate(names[: dataset.shape[1]]) if text and not text.startswith("_")]
    if not named:
        raise CorruptInput(f"{path}: {dataset.name} has no named columns.")
    stored = dataset[:]
    if len(named) < stored.shape[1]:
        stored = stored[:, [i for i, _ in named]]
    values = _check_values(stored.astype(np.float64), dataset, path)
    values[values.view(np.int64) == _MINUS_ZERO] = np.nan
    if axis.positions is not None:
        grid = np.full((axis.steps, values.shape[1]), np.nan)
        grid[axis.positions] = values
        values = grid
    return _Table(values if factor == 1.0 else values * factor, tuple(text for _, text in named))


def _data_kind(components: Sequence[str]) -> str:
    """The kind of data targets: OSTs by their names, else devices."""
    return "ost" if all("-OST" in name for name in components) else "device"


def _target_rows(group: Any, name: str, axis: _TimeAxis, system: str, path: Path, context: ReadContext) -> Rows:
    """Amounts of data and metadata targets, from amounts or rates."""
    step_ns = axis.step_ns
    tables: dict[str, _Table] = {}
    for metric, (amounts, rates) in _AMOUNTS.items():
        if (table := _read_table(group, amounts, axis, path)) is not None:
            tables[metric] = table
        elif (table := _read_table(group, rates, axis, path, step_ns / NS)) is not None:
            # A rate times its step is not whole, by rounding.
            tables[metric] = table._replace(values=np.rint(table.values) if step_ns != NS else table.values)
    values = {metric: table.values for metric, table in tables.items()}
    # The value after a hole is the difference to the last counter before it: it includes the hole's amount.
    spans = {metric: spans_over_gaps(np.isnan(array)) for metric, array in values.items()}
    late = flag_late({metric: array for metric, array in values.items() if metric.endswith("_bytes")}, spans, step_ns)
    for metric, array in values.items():
        components = tables[metric].components
        samples = Samples(axis.first_ns, step_ns, array, True, spans[metric], late.get(metric))
        # A data target that is not an OST is a device (burst buffers).
        kind = "mdt" if name == "mdtargets" else _data_kind(components)
        yield from series_rows(system, kind, components, metric, samples, context)


def _state_rows(group: Any, name: str, axis: _TimeAxis, system: str, path: Path, context: ReadContext) -> Rows:
    """CPU and memory of servers, or the fullness of targets."""
    from_lmt = _attribute(group, "source") == "lmt"
    # LMT's first stamp closes an interval that belongs to the file before.
    skipped = 1 if from_lmt else 0
    if name != "fullness":
        kind = "oss" if name == "dataservers" else "mds"
        # LMT's memory is a percentage; other collectors put bytes there.
        wanted = {"cpu_ratio": "cpuload"} | ({"memory_ratio": "memused"} if from_lmt else {})
        for metric, dataset_name in wanted.items():
            table = _read_table(group, dataset_name, axis, path, 0.01)
            if table is not None:
                samples = Samples(axis.first_ns, axis.step_ns, table.values[skipped:], False)
                yield from series_rows(system, kind, table.components, metric, samples, context)
        return
    for unit, used_name, total_name in (("bytes", "bytes", "bytestotal"), ("files", "inodes", "inodestotal")):
        dataset = _find_dataset(group, used_name)
        if dataset is None:
            continue
        factor = float(KIB) if unit == "bytes" and _attribute(dataset, "units") != "bytes" else 1.0
        used, total = (_read_table(group, each, axis, path, factor) for each in (used_name, total_name))
        if used is None or total is None or used.components != total.components:
            continue
        kind = _data_kind(used.components)
        capacity = total.values[skipped:]
        for metric, values in ((f"capacity_{unit}", capacity), (f"free_{unit}", capacity - used.values[skipped:])):
            samples = Samples(axis.first_ns, axis.step_ns, values, False)
            yield from fullness_rows(system, kind, used.components, metric, samples)
