"""Where the files of a log lie: path (or its hash), mount point, library, standard streams, Lustre stripes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.contracts import PathPolicy
from ioweather.core.frames import Text
from ioweather.core.hidden_paths import path_hash
from ioweather.sources.darshan.model import DarshanLog, Module, column

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
        # (path code, mount code, library code, standard stream); per log, which one each record id is.
        self._kinds: list[tuple[int, int, int, bool]] = [(-1, -1, -1, False)]
        self._known: dict[int, dict[int, int]] = {}
        self._rows: list[int] = []

    def add(self, log: DarshanLog, record_ids: Sequence[int]) -> None:
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
        kinds = mounts.kinds
        return {
            record_id: kinds.get((name, library := libraries.get(record_id, -1))) or self._kind(mounts, name, library)
            for record_id, name in log.names.items()
        }

    def _kind(self, mounts: _MountTable, name: str, library: int) -> int:
        """Names of one system come again in its next log."""
        mount = mounts.of(name)
        path_code = self._path_codes.setdefault(name, len(self._path_codes))
        mount_code = -1 if mount is None else self._mount_codes.setdefault(mount, len(self._mount_codes))
        self._kinds.append((path_code, mount_code, library, name in _STREAMS))
        kind = mounts.kinds[name, library] = len(self._kinds) - 1
        return kind


class _MountTable:
    """Longest mount point above a path. Files of one directory have one answer, which is remembered."""

    def __init__(self, mounts: _Mounts) -> None:
        self._mounts = {path.rstrip("/") or "/" for path, _ in mounts}
        self._of_folder: dict[str, str | None] = {}
        self.kinds: dict[tuple[str, int], int] = {}

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


class StripeColumns:
    """Lustre stripes of files, where the log has them. Of several components in use the widest shows. [ours]"""

    def __init__(self) -> None:
        # (stripes, bytes of one, code of the OSTs); per log, which one each record id is.
        self._kinds: list[tuple[int, int, int]] = [(0, 0, -1)]
        self._ost_codes: dict[tuple[int, ...], int] = {}
        self._known: dict[int, dict[int, int]] = {}
        self._rows: list[int] = []

    def add(self, log: DarshanLog, record_ids: Sequence[int]) -> None:
        if "LUSTRE" not in log.modules:
            self._rows += [0] * len(record_ids)
            return
        known = self._known.get(id(log))
        if known is None:
            known = self._known[id(log)] = self._look_up(log.modules["LUSTRE"])
        self._rows += [known.get(record_id, 0) for record_id in record_ids]

    def columns(self) -> dict[str, Any]:
        if len(self._kinds) == 1:
            return {}
        rows = np.array(self._rows, np.int64)
        count, size, osts = np.array(self._kinds, np.int64)[rows].T
        return {
            "stripe_count": np.ma.MaskedArray(count, mask=rows == 0),
            "stripe_bytes": np.ma.MaskedArray(size, mask=rows == 0),
            "osts": Text(osts.astype(np.int32), tuple(",".join(map(str, ids)) for ids in self._ost_codes)),
        }

    def _look_up(self, module: Module) -> dict[int, int]:
        codes, first = self._ost_codes, len(self._kinds)
        osts = [codes.setdefault(tuple(ids), len(codes)) for ids in module.ragged["ost_ids"].tolist()]
        if "components" in module.ragged:
            layouts = [_widest(components) for components in module.ragged["components"]]
            self._kinds += [(*layout, code) for layout, code in zip(layouts, osts, strict=True)]
        else:
            widths, sizes = (module.records[f"LUSTRE_STRIPE_{word}"].tolist() for word in ("WIDTH", "SIZE"))
            self._kinds += zip(widths, sizes, osts, strict=True)
        return dict(zip(module.records["id"].tolist(), range(first, len(self._kinds)), strict=True))


def _widest(components: NDArray[Any]) -> tuple[int, int]:
    # LCME_FL_INIT of lustre_idl.h: a component without objects is a plan for a larger file. Plain ones have no flags.
    in_use = components[(components["LUSTRE_COMP_FLAGS"] & 0x10) > 0]
    components = in_use if len(in_use) else components
    if not len(components):
        return 0, 0
    place = int(np.argmax(components["LUSTRE_COMP_STRIPE_COUNT"]))
    return int(components["LUSTRE_COMP_STRIPE_COUNT"][place]), int(components["LUSTRE_COMP_STRIPE_SIZE"][place])
