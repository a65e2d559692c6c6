"""The format of Darshan logs by version: headers, module numbers, names of counters, and record dtypes.

Counters have the names of the format itself (`POSIX_OPENS`, `POSIX_F_READ_TIME`), in record order.
`counters.toml` lists them by module and version.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from ioweather.core.errors import SourceError
from ioweather.core.units import names_of

DATA: Final = tomllib.loads(resources.files(__package__).joinpath("counters.toml").read_text(encoding="utf-8"))
_CHOICE: Final = re.compile(r"(.*)\{(.*)\}(.*)")


def _expand_words(text: str) -> Iterator[str]:
    """The words of a list in `counters.toml`, with its lists and choices written out."""
    for word in text.split():
        if word.startswith("<"):
            yield from _expand_words(DATA["words"][word.strip("<>")])
        elif choice := _CHOICE.fullmatch(word):
            yield from (f"{choice[1]}{each}{choice[3]}" for each in choice[2].split(","))
        else:
            yield word


def _prefixed(prefix: str, words: str) -> tuple[str, ...]:
    """The words of a list with a prefix."""
    return tuple(f"{prefix}_{word}" for word in _expand_words(words))


@dataclass(frozen=True)
class _RecordNames:
    """Integer and float counters of one module version, and the other fields of its record.

    `links`: a word after the rank is the id of the file of the dataset or variable. `gap_bytes`: bytes after
    the rank that mean nothing. `tail`: fields behind the counters.
    """

    counters: tuple[str, ...]
    fcounters: tuple[str, ...]
    links: bool = False
    tail: tuple[tuple[str, str], ...] = ()
    gap_bytes: int = 0


def _record_names(
    module: str, counters: str, times: str, tail: Sequence[Sequence[str]] = (), **more: Any
) -> tuple[tuple[str, int], _RecordNames]:
    """Key and value of `FIXED` from a [[version]] of `counters.toml`."""
    name, version = module.split(" ")
    prefix = name.replace("-", "").replace("/", "")
    fields = tuple((field, kind) for field, kind in tail)
    return (name, int(version)), _RecordNames(
        _prefixed(prefix, counters), _prefixed(f"{prefix}_F", times), tail=fields, **more
    )


FIXED: Final[dict[tuple[str, int], _RecordNames]] = dict(_record_names(**entry) for entry in DATA["version"])
LUSTRE_V1: Final = _prefixed("LUSTRE", DATA["lustre"]["record"])
LUSTRE_COMPONENT: Final = _prefixed("LUSTRE_COMP", DATA["lustre"]["component"])
CP: Final = _prefixed("CP", DATA["cp"]["counters"])
CP_F: Final = _prefixed("CP_F", DATA["cp"]["times"])
# By version of Darshan 1 the counters that its records lack.
CP_MISSING: Final = {version: frozenset(_prefixed("CP", words)) for version, words in DATA["cp"]["lacks"].items()}


ByteOrder: TypeAlias = Literal["little", "big"]
Compression: TypeAlias = Literal["zlib", "bzip2", "none"]

MAGIC: Final = 6567223
NATIVE: Final[ByteOrder] = "little" if sys.byteorder == "little" else "big"
ORDER_CHARACTER: Final[dict[ByteOrder, str]] = {"little": "<", "big": ">"}
COMPRESSIONS: Final[tuple[Compression, ...]] = ("zlib", "bzip2", "none")
METADATA_BYTES: Final = 1024

# Module numbers of log version 3.41; older versions lack some, and everything behind them moves down.
_MODULES_341: Final = names_of("""
    NULL POSIX MPI-IO H5F H5D PNETCDF_FILE PNETCDF_VAR BG/Q LUSTRE STDIO DXT_POSIX DXT_MPIIO MDHIM APXC APMPI HEATMAP
    DFS DAOS
""")


def _without(*missing: str) -> tuple[str, ...]:
    return tuple(name for name in _MODULES_341 if name not in missing)


@dataclass(frozen=True, eq=False)  # one per version: compared by identity, which also makes caching cheap
class HeaderLayout:
    """One log version's uncompressed header: field offsets, module names by number, and the job record."""

    version: str
    bytes: int
    module_count: int
    partial_format: str
    partial_offset: int
    map_offset: int
    versions_offset: int
    modules: tuple[str, ...]
    job_words: int
    name_lengths: bool

    def module_name(self, number: int) -> str:
        return self.modules[number] if number < len(self.modules) else f"module {number}"


def _short(version: str, modules: tuple[str, ...], *, name_lengths: bool = False) -> HeaderLayout:
    """The header of versions 3.0 to 3.2."""
    return HeaderLayout(version, 360, 16, "I", 20, 24, 296, modules, 5, name_lengths)


LAYOUTS: Final[dict[bytes, HeaderLayout]] = {
    b"3.00": _short("3.00", _without("H5D", "PNETCDF_VAR"), name_lengths=True),
    b"3.10": _short("3.10", _without("H5D", "PNETCDF_VAR")),
    b"3.20": _short("3.20", _without("PNETCDF_VAR")),
    b"3.21": _short("3.21", _without("PNETCDF_VAR")),
    b"3.41": HeaderLayout("3.41", 1328, 64, "Q", 24, 32, 1072, _MODULES_341, 7, False),
}


# Modules whose absence would turn the log's story into another one: their unknown versions are refused, not skipped.
_ESSENTIAL: Final = frozenset({"POSIX", "MPI-IO", "STDIO"})


@functools.cache
def fixed_dtype(module: str, version: int, order: ByteOrder) -> np.dtype[Any] | None:
    """Record dtype of a module of fixed-size records; None where the module or the version is not known."""
    names = FIXED.get((module, version))
    if names is None:
        if module in _ESSENTIAL:
            known = ", ".join(str(v) for m, v in sorted(FIXED) if m == module)
            raise SourceError(
                f"The {module} module has version {version}; supported versions: {known}.",
                hint="The log was written by a newer version of Darshan. A newer version of ioweather may support it.",
                kind="UnsupportedVersion",
            )
        return None
    mark = ORDER_CHARACTER[order]
    fields = [("id", f"{mark}u8"), ("rank", f"{mark}i8"), *([("file_id", f"{mark}u8")] if names.links else ())]
    if names.gap_bytes:
        fields.append(("", f"V{names.gap_bytes}"))
    fields += [(name, f"{mark}i8") for name in names.counters] + [(name, f"{mark}f8") for name in names.fcounters]
    fields += [(name, kind if kind.startswith("V") else mark + kind) for name, kind in names.tail]
    return np.dtype(fields)


RECORD_BYTES: Final = {key: np.dtype(fixed_dtype(*key, NATIVE)).itemsize for key in FIXED}


@functools.cache
def cp_dtype(version: str, order: ByteOrder) -> np.dtype[Any]:
    """Record dtype of Darshan 1.x and 2.x: one record per file, all interfaces together. 1.x has a shorter rank, fewer
    counters, and the end of the name behind them."""
    mark = ORDER_CHARACTER[order]
    without = CP_MISSING.get(version, frozenset())
    counters = [(name, f"{mark}i8") for name in CP if name not in without]
    counters += [(name, f"{mark}f8") for name in CP_F if name not in without]
    if without:
        return np.dtype([("id", f"{mark}u8"), ("rank", f"{mark}i4"), ("", "V4"), *counters, ("name_suffix", "S16")])
    return np.dtype([("id", f"{mark}u8"), ("rank", f"{mark}i8"), ("name_suffix", "S16"), *counters])


def _head(*names: str) -> list[tuple[str, str]]:
    return [("id", "u8"), ("rank", "i8"), *((name, "i8") for name in names)]


# Records of variable length, in native order: the part before the lists.
LUSTRE_V1_DTYPE: Final = np.dtype(_head(*LUSTRE_V1))
LUSTRE_V2_DTYPE: Final = np.dtype(_head("components", "stripes"))
LUSTRE_COMPONENT_DTYPE: Final = np.dtype([*((name, "i8") for name in LUSTRE_COMPONENT), ("pool", "S16")])
HEATMAP_DTYPE: Final = np.dtype([*_head(), ("bin_width_seconds", "f8"), ("bins", "i8")])
DXT_DTYPE: Final = np.dtype([*_head("shared"), ("hostname", "S64"), ("writes", "i8"), ("reads", "i8")])
_SEGMENT: Final = (("offset", "i8"), ("length", "i8"), ("start_seconds", "f8"), ("end_seconds", "f8"))
_THREADED_SEGMENT: Final = (*_SEGMENT, ("thread", "u8"))
SEGMENT_FIELDS: Final[dict[tuple[str, int], tuple[tuple[str, str], ...]]] = {
    ("DXT_POSIX", 1): _SEGMENT,
    ("DXT_POSIX", 2): _THREADED_SEGMENT,
    ("DXT_MPIIO", 1): (("", "i8"), *_SEGMENT[1:]),  # its offsets were never filled in
    ("DXT_MPIIO", 2): _SEGMENT,
    ("DXT_MPIIO", 3): _THREADED_SEGMENT,
}
VARIABLE: Final = frozenset({("LUSTRE", 1), ("LUSTRE", 2), ("HEATMAP", 1), *SEGMENT_FIELDS})
