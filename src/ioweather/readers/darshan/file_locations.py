"""Columns of `files` that follow from a record's id: path (or its hash), mount point, library, Lustre stripes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import PathPolicy
from ioweather.core.foreign_text import path_hash
from ioweather.core.frames import Text
from ioweather.readers.darshan.log import DarshanLog, Module, column

_STREAMS: Final = frozenset({"<STDIN>", "<STDOUT>", "<STDERR>"})
_LIBRARIES: Final = ("HDF5", "PnetCDF")
_Known = dict[int, int]


class FileLocations:
    """Collects the columns log by log. Each name and each layout is looked up once per log."""

    def __init__(self, paths: PathPolicy) -> None:
        self._policy = paths
        self._path_codes: dict[str, int] = {}
        self._mount_codes: dict[str, int] = {}
        self._ost_codes: dict[tuple[int, ...], int] = {}
        # (path code, mount code, library code, standard stream) and (stripes, bytes of one, code of the OSTs); the
        # first of each belongs to records without a name or a layout.
        self._names: list[tuple[int, int, int, bool]] = [(-1, -1, -1, False)]
        self._layouts: list[tuple[int, int, int]] = [(0, 0, -1)]
        self._known: dict[int, tuple[_Known, _Known]] = {}  # per log: record id to place in the lists above
        self._name_rows: list[int] = []
        self._layout_rows: list[int] = []

    def add(self, log: DarshanLog, record_ids: Sequence[int]) -> None:
        if id(log) not in self._known:
            self._known[id(log)] = (self._look_up_names(log), self._look_up_layouts(log.modules.get("LUSTRE")))
        names, layouts = self._known[id(log)]
        self._name_rows += [names.get(record_id, 0) for record_id in record_ids]
        self._layout_rows += [layouts.get(record_id, 0) for record_id in record_ids]

    def columns(self) -> dict[str, Any]:
        codes = np.array(self._names, np.int32)[np.array(self._name_rows, np.int64)]
        paths = tuple(path_hash(path) if self._policy == "hash" else path for path in self._path_codes)
        dropped = Text(np.full(len(codes), -1, np.int32), ())
        columns: dict[str, Any] = {
            "path": dropped if self._policy == "drop" else Text(codes[:, 0], paths),
            "mount": Text(codes[:, 1], tuple(self._mount_codes)),
            "library": Text(codes[:, 2], _LIBRARIES),
            "standard_stream": codes[:, 3].astype(np.bool_),
        }
        if len(self._layouts) == 1:
            return columns
        rows = np.array(self._layout_rows, np.int64)
        count, size, osts = np.array(self._layouts, np.int64)[rows].T
        return columns | {
            "stripe_count": np.ma.MaskedArray(count, mask=rows == 0),
            "stripe_bytes": np.ma.MaskedArray(size, mask=rows == 0),
            "osts": Text(osts.astype(np.int32), tuple(",".join(map(str, ids)) for ids in self._ost_codes)),
        }

    def _look_up_names(self, log: DarshanLog) -> _Known:
        mounts = {path.rstrip("/") or "/" for path, _ in log.job.mounts}
        libraries = _libraries(log)
        of_folder: dict[str, str | None] = {}
        known: _Known = {}
        for record_id, name in log.names.items():
            mount = None
            if name.startswith("/"):
                folder = name.rpartition("/")[0]
                if folder not in of_folder:
                    of_folder[folder] = _find_mount(folder, mounts)
                mount = name if name in mounts else of_folder[folder]
            known[record_id] = len(self._names)
            path_code = self._path_codes.setdefault(name, len(self._path_codes))
            mount_code = -1 if mount is None else self._mount_codes.setdefault(mount, len(self._mount_codes))
            self._names.append((path_code, mount_code, libraries.get(record_id, -1), name in _STREAMS))
        return known

    def _look_up_layouts(self, module: Module | None) -> _Known:
        """Of several components in use the widest shows. [ours]"""
        if module is None:
            return {}
        codes, first = self._ost_codes, len(self._layouts)
        osts = [codes.setdefault(tuple(ids), len(codes)) for ids in module.ragged["ost_ids"].tolist()]
        if "components" in module.ragged:
            layouts = [_widest(components) for components in module.ragged["components"]]
            self._layouts += [(*layout, code) for layout, code in zip(layouts, osts, strict=True)]
        else:
            widths, sizes = (module.records[f"LUSTRE_STRIPE_{word}"].tolist() for word in ("WIDTH", "SIZE"))
            self._layouts += zip(widths, sizes, osts, strict=True)
        return dict(zip(module.records["id"].tolist(), range(first, len(self._layouts)), strict=True))


def _find_mount(folder: str, mounts: set[str]) -> str | None:
    """Longest mount point at or above a folder."""
    while folder:
        if folder in mounts:
            return folder
        folder = folder.rpartition("/")[0]
    return "/" if "/" in mounts else None


def _libraries(log: DarshanLog) -> dict[int, int]:
    """Code of the library that a file was opened through; HDF5 first where both have it (NetCDF-4)."""
    found: dict[int, int] = {}
    for code, opened, linked in ((1, "PNETCDF_FILE", "PNETCDF_VAR"), (0, "H5F", "H5D")):
        if opened in log.modules:
            found.update(dict.fromkeys(log.modules[opened].records["id"].tolist(), code))
        if linked in log.modules and (files := column(log.modules[linked], "file_id")) is not None:
            found.update(dict.fromkeys(files.tolist(), code))
    raw = log.modules.get("CP")  # Darshan 2.x counts library opens in the file's one record
    if raw is not None and "CP_HDF5_OPENS" in (raw.records.dtype.names or ()):  # 1.21 does not
        opens = raw.records["CP_INDEP_NC_OPENS"] + raw.records["CP_COLL_NC_OPENS"]
        found.update(dict.fromkeys(raw.records["id"][opens > 0].tolist(), 1))
        found.update(dict.fromkeys(raw.records["id"][raw.records["CP_HDF5_OPENS"] > 0].tolist(), 0))
    return found


def _widest(components: NDArray[Any]) -> tuple[int, int]:
    # LCME_FL_INIT of lustre_idl.h: a component without objects is a plan for a larger file. Plain ones have no flags.
    in_use = components[(components["LUSTRE_COMP_FLAGS"] & 0x10) > 0]
    components = in_use if len(in_use) else components
    if not len(components):
        return 0, 0
    place = int(np.argmax(components["LUSTRE_COMP_STRIPE_COUNT"]))
    return int(components["LUSTRE_COMP_STRIPE_COUNT"][place]), int(components["LUSTRE_COMP_STRIPE_SIZE"][place])
