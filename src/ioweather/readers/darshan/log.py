"""The contents of a Darshan log, whatever version wrote it, and its records as data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ioweather.core.frames import Ints, import_optional

if TYPE_CHECKING:
    from ioweather.readers.darshan.format import ByteOrder, Compression

_INSTEAD = "`.records`, a NumPy array"


class DarshanJob(NamedTuple):
    """Who ran what, when. `start_ns` and `end_ns` are those of the log: whole seconds before version 3.41.

    `run_seconds` is what Darshan itself shows: end - start, plus one second where only whole seconds are known.
    `mounts` are (path, type), the longest path first, so that the first that fits a file is its mount.
    """

    uid: int
    job_id: int
    nprocs: int
    start_ns: int
    end_ns: int
    run_seconds: float
    metadata: Mapping[str, str]
    exe: str
    mounts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Ragged:
    """A column of lists: `values[offsets[i]:offsets[i + 1]]` belongs to record i."""

    offsets: Ints
    values: NDArray[Any]

    @classmethod
    def of(cls, lists: Sequence[Sequence[int] | NDArray[Any]]) -> Ragged:
        """A column of integer lists from one list per record."""
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(items) for items in lists], out=offsets[1:])
        values = np.concatenate([np.asarray(items, dtype=np.int64) for items in lists]) if lists else offsets[:0]
        return cls(offsets, values)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, record: int) -> NDArray[Any]:
        return self.values[self.offsets[record] : self.offsets[record + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def tolist(self) -> list[list[Any]]:
        offsets, values = self.offsets.tolist(), self.values.tolist()
        return [values[first:last] for first, last in pairwise(offsets)]


@dataclass(frozen=True, eq=False)
class Module:
    """One module's records: a structured array with `id`, `rank` (-1: all ranks share the record) and the counters.

    Records of variable length have their lists in `ragged`: LUSTRE `ost_ids` (v2 also `components`), HEATMAP
    `write_bins` and `read_bins`. DXT modules have their traced operations in `segments`: record (its index), write,
    offset, length, start_seconds, end_seconds, thread; offset and thread where the version has them.
    `partial`: Darshan ran out of memory for this module, so that records are missing.
    """

    name: str
    version: int
    partial: bool
    records: NDArray[Any]
    ragged: Mapping[str, Ragged] = field(default_factory=dict)
    segments: NDArray[Any] | None = None

    def __repr__(self) -> str:
        traced = "" if self.segments is None else f", {len(self.segments):,} traced operations"
        return f"<Module {self.name} {self.version}: {len(self.records):,} records{traced}>"

    def to_pandas(self) -> Any:
        """A pandas.DataFrame; pandas must be installed. See `columns` for DXT and lists."""
        return import_optional("pandas", _INSTEAD).DataFrame(self.columns())

    def to_polars(self) -> Any:
        """A polars.DataFrame; polars must be installed. See `columns` for DXT and lists."""
        return import_optional("polars", _INSTEAD).DataFrame(self.columns())

    def columns(self) -> dict[str, Any]:
        """Name to column, in copies. Lists (OST ids, heat map bins) become lists of arrays, raw bytes text or
        hexadecimal; a DXT module becomes one row per traced operation, with the id, rank and hostname of its record."""
        columns: dict[str, Any] = {}
        for name in self.records.dtype.names or ():
            values = self.records[name].copy()
            if values.dtype.kind == "S":
                values = np.array([raw.decode("utf-8", "backslashreplace") for raw in values.tolist()], dtype=np.str_)
            elif values.dtype.kind == "V":
                values = np.array([raw.hex() for raw in values.tolist()], dtype=np.str_)
            columns[name] = values
        if self.segments is None:
            return columns | {name: list(lists) for name, lists in self.ragged.items()}
        record = self.segments["record"]
        traced = [name for name in self.segments.dtype.names or () if name != "record"]
        about = {name: columns[name][record] for name in ("id", "rank", "hostname")}
        return about | {name: self.segments[name].copy() for name in traced}


@dataclass(frozen=True, eq=False)
class DarshanLog:
    """One log. `names` maps a record id to its path (or to what the module names so); `digest` is of the file's bytes.

    `unknown_modules` are in the log but not read: their format is private to another tool, or newer than this reader.
    `skipped_modules` could be read but were not asked for. `longer_records` are modules whose records a fork of Darshan
    made longer: what it put behind the known counters is not read. `form` is None for a log, `text` for its text.
    """

    version: str
    byte_order: ByteOrder
    compression: Compression
    job: DarshanJob
    modules: Mapping[str, Module]
    names: Mapping[int, str]
    partial_modules: tuple[str, ...]
    unknown_modules: tuple[str, ...]
    digest: str
    skipped_modules: tuple[str, ...] = ()
    longer_records: tuple[str, ...] = ()
    form: str | None = None

    def records(self, module: str) -> NDArray[Any] | None:
        """Return the records of a module; None where the log has no such module."""
        return self.modules[module].records if module in self.modules else None

    def to_pandas(self, module: str = "POSIX") -> Any:
        """The module's records as a pandas.DataFrame, with the `path` of each."""
        frame = self.modules[module].to_pandas()
        frame.insert(0, "path", [self.names.get(record) for record in frame["id"].tolist()])
        return frame

    def to_polars(self, module: str = "POSIX") -> Any:
        """The module's records as a polars.DataFrame, with the `path` of each."""
        frame = self.modules[module].to_polars()
        paths = [self.names.get(record) for record in frame["id"].to_list()]
        return frame.insert_column(0, type(frame)({"path": paths})["path"])

    def __repr__(self) -> str:
        records = ", ".join(f"{name} {len(module.records):,}" for name, module in self.modules.items())
        return (
            f"<DarshanLog {self.version}: job {self.job.job_id}, {self.job.nprocs:,} processes, "
            f"{self.job.run_seconds:,.1f} s; records: {records or 'none'}>"
        )


def column(module: Module, name: str) -> NDArray[Any] | None:
    """A counter's values, one per record; None where this version of the module does not count it."""
    names = module.records.dtype.names
    return module.records[name] if names is not None and name in names else None
