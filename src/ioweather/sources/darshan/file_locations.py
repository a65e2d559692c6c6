"""Where the files of a log lie: path (or its hash), mount point, library, standard streams, Lustre stripes."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import PathPolicy
from ioweather.core.frames import Text
from ioweather.core.hidden_paths import path_hash
from ioweather.sources.darshan.model import DarshanLog, column

_STREAMS: Final = frozenset({"<STDIN>", "<STDOUT>", "<STDERR>"})
_LIBRARIES: Final = ("HDF5", "PnetCDF")
_Mounts = tuple[tuple[str, str], ...]


class Places:
    """Collects, log by log, the text columns of `files` that come from names. Each name is looked at once per log."""

    def __init__(self, paths: PathPolicy) -> None:
        self._policy = paths
        self._path_codes: dict[str, int] = {}
        self._mount_codes: dict[str, int] = {}
        self._mount_tables: dict[_Mounts, _MountTable] = {}
        # Distinct (path code, mount code, library code, standard stream); per log, which one each record id is.
        self._kinds: list[tuple[int, int, int, bool]] = [(-1, -1, -1, False)]
        self._known: dict[int, dict[int, int]] = {}
        self._rows: list[int] = []

    def add(self, log: DarshanLog, record_ids: list[int]) -> None:
        known = self._known.get(id(log))
        if known is None:
            known = self._known[id(log)] = self._look_up(log)
        self._rows += [known.get(record_id, 0) for record_id in record_ids]

    def columns(self) -> dict[str, Any]:
        codes = np.array(self._kinds, np.int32)[np.array(self._rows, np.int64)]
        paths = tuple(self._path_codes)
        if self._policy == "hash":
            paths = tuple(path_hash(path) for path in paths)
        path = Text(codes[:, 0], paths)
        if self._policy == "drop":
            path = Text(np.full(len(codes), -1, np.int32), ())
        return {
            "path": path,
            "mount": Text(codes[:, 1], tuple(self._mount_codes)),
            "library": Text(codes[:, 2], _LIBRARIES),
            "standard_stream": codes[:, 3].astype(np.bool_),
        }

    def _look_up(self, log: DarshanLog) -> dict[int, int]:
        mounts = self._mount_tables.get(log.job.mounts)
        if mounts is None:
            mounts = self._mount_tables[log.job.mounts] = _MountTable(log.job.mounts)
        libraries = _libraries(log)
        path_codes, mount_codes = self._path_codes, self._mount_codes
        first = len(self._kinds)
        for record_id, name in log.names.items():
            mount = mounts.of(name)
            path_code = path_codes.setdefault(name, len(path_codes))
            mount_code = -1 if mount is None else mount_codes.setdefault(mount, len(mount_codes))
            self._kinds.append((path_code, mount_code, libraries.get(record_id, -1), name in _STREAMS))
        return dict(zip(log.names, range(first, len(self._kinds)), strict=True))


class _MountTable:
    """Longest mount point above a path. Files of one directory have one answer, which is remembered."""

    def __init__(self, mounts: _Mounts) -> None:
        self._mounts = {path.rstrip("/") or "/" for path, _ in mounts}
        self._of_folder: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        if not path.startswith("/"):
            return None
        folder = path.rpartition("/")[0]
        if folder not in self._of_folder:
            self._of_folder[folder] = self._walk_up(folder)
        return path if path in self._mounts else self._of_folder[folder]

    def _walk_up(self, folder: str) -> str | None:
        while folder:
            if folder in self._mounts:
                return folder
            folder = folder.rpartition("/")[0]
        return "/" if "/" in self._mounts else None


def _libraries(log: DarshanLog) -> dict[int, int]:
    """Code of the library that a file was opened through; HDF5 first where both have it (NetCDF-4)."""
    found: dict[int, int] = {}
    for code, modules, links in (
        (1, ("PNETCDF_FILE",), ("PNETCDF_VAR",)),
        (0, ("H5F",), ("H5D",)),
    ):
        for name in modules:
            if name in log.modules:
                found.update(dict.fromkeys(log.modules[name].records["id"].tolist(), code))
        for name in links:
            if name in log.modules and (files := column(log.modules[name], "file_id")) is not None:
                found.update(dict.fromkeys(files.tolist(), code))
    raw = log.modules.get("CP")  # Darshan 2.x counts library opens in the file's one record
    if raw is not None and "CP_HDF5_OPENS" in (raw.records.dtype.names or ()):  # 1.21 does not
        opens = raw.records["CP_INDEP_NC_OPENS"] + raw.records["CP_COLL_NC_OPENS"]
        found.update(dict.fromkeys(raw.records["id"][opens > 0].tolist(), 1))
        found.update(dict.fromkeys(raw.records["id"][raw.records["CP_HDF5_OPENS"] > 0].tolist(), 0))
    return found


class StripeColumns:
    """Lustre stripes of files, where the log has them. Of several components in use the widest shows. [ours]"""

    def __init__(self) -> None:
        self._tables: dict[int, dict[int, tuple[int, int, str]]] = {}
        self._position = 0
        self._found: list[tuple[int, int, int, str]] = []

    def add(self, log: DarshanLog, record_ids: NDArray[np.uint64]) -> None:
        if "LUSTRE" in log.modules:
            table = self._tables.get(id(log))
            if table is None:
                table = self._tables[id(log)] = _stripes(log)
            for row, record_id in enumerate(record_ids.tolist()):
                if record_id in table:
                    self._found.append((self._position + row, *table[record_id]))
        self._position += len(record_ids)

    def columns(self, rows: int) -> dict[str, Any]:
        if not self._found:
            return {}
        place = np.array([row for row, *_ in self._found])
        mask = np.ones(rows, np.bool_)
        mask[place] = False
        count, size = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
        count[place] = [each for _, each, _, _ in self._found]
        size[place] = [each for _, _, each, _ in self._found]
        texts: dict[str, int] = {}
        osts = np.full(rows, -1, np.int32)
        osts[place] = [texts.setdefault(each, len(texts)) for _, _, _, each in self._found]
        return {
            "stripe_count": np.ma.MaskedArray(count, mask=mask),
            "stripe_bytes": np.ma.MaskedArray(size, mask=mask),
            "osts": Text(osts, tuple(texts)),
        }


def _stripes(log: DarshanLog) -> dict[int, tuple[int, int, str]]:
    module = log.modules["LUSTRE"]
    osts = [",".join(map(str, ids)) for ids in module.ragged["ost_ids"].tolist()]
    if "components" in module.ragged:
        layouts = [_widest(components) for components in module.ragged["components"]]
    else:
        layouts = list(
            zip(
                module.records["LUSTRE_STRIPE_WIDTH"].tolist(),
                module.records["LUSTRE_STRIPE_SIZE"].tolist(),
                strict=True,
            )
        )
    ids = module.records["id"].tolist()
    return {i: (count, size, names) for i, (count, size), names in zip(ids, layouts, osts, strict=True)}


def _widest(components: NDArray[Any]) -> tuple[int, int]:
    # LCME_FL_INIT of lustre_idl.h: a component without objects is a plan for a larger file. Plain ones have no flags.
    in_use = components[(components["LUSTRE_COMP_FLAGS"] & 0x10) > 0]
    components = in_use if len(in_use) else components
    if not len(components):
        return 0, 0
    place = int(np.argmax(components["LUSTRE_COMP_STRIPE_COUNT"]))
    return int(components["LUSTRE_COMP_STRIPE_COUNT"][place]), int(components["LUSTRE_COMP_STRIPE_SIZE"][place])
