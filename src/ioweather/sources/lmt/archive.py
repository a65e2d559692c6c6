"""HDF5 archives: opened with errors a person can act on, their names decoded, their time axis checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ioweather.core.errors import CorruptInput, EmptyInput, SourceError, TruncatedInput
from ioweather.core.units import NS
from ioweather.sources.inflate import InflateError, decompressobj

SIGNATURE = b"\x89HDF\r\n\x1a\n"
# No counter grows by an exabyte in a step, and no share of a CPU is negative.
MAX_VALUE = 1e18
# More empty steps than this for each one that is there: the times are broken, not the collection.
MAX_HOLES = 20
_DEFLATE = 1  # the number of HDF5's filter


@contextmanager
def open_archive(path: Path) -> Iterator[Any]:
    """The file as an h5py.File; what HDF5 complains about becomes a SourceError that names the file."""
    import h5py  # 0.1 s: only when a file is read

    size = path.stat().st_size
    if size == 0:
        raise EmptyInput(f"{path} is empty.")
    try:
        # A reader needs no lock, and archives often lie where locks do not work.
        file = h5py.File(path, "r", locking=False)
    except OSError as error:
        raise _complaint(path, error) from None
    try:
        with file:
            yield file
    except (OSError, RuntimeError, TypeError, ValueError, KeyError, OverflowError, MemoryError) as error:
        raise _complaint(path, error) from None  # what h5py raises where the file's structure is damaged


def _complaint(path: Path, error: Exception) -> SourceError:
    text = str(error)
    if "truncated" in text or "eof" in text.lower():
        return TruncatedInput(
            f"{path} ends before it should: {text}.", hint="Copy it again, or wait until its writer has closed it."
        )
    return CorruptInput(f"HDF5 cannot read {path}: {text}.", hint="Copy it again; h5dump shows how far it is readable.")


def find(group: Any, name: str) -> Any:
    """The dataset of numbers of that name; None where there is none, or where a damaged link leads nowhere."""
    import h5py

    item = group.get(name)
    if not isinstance(item, h5py.Dataset):
        return None
    if item.shape is None or item.ndim == 0 or item.dtype.kind not in "iuf":
        raise CorruptInput(f"{group.file.filename}: {item.name} is no array of numbers.")
    return item


def top_level_names(path: Path) -> frozenset[str]:
    """What the file holds, for recognising it; nothing if it cannot be opened."""
    try:
        with open_archive(path) as file:
            return frozenset(file)
    except (SourceError, OSError):
        return frozenset()


def decoded(names: Any) -> list[str]:
    """Names as HDF5 attributes hold them: bytes or text, padded with NUL."""
    flat = np.asarray(names).ravel().tolist()
    return [(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)).strip("\0 ") for name in flat]


def attribute(item: Any, name: str) -> str | None:
    value = item.attrs.get(name)
    return None if value is None else next(iter(decoded(value)), None)


def attribute_names(dataset: Any, name: str, expected: int, path: Path) -> list[str]:
    """The names of a dataset's components."""
    if name not in dataset.attrs:
        raise CorruptInput(f"{path}: {dataset.name} has no attribute {name}, so its components have no names.")
    names = decoded(dataset.attrs[name])
    if len(names) != expected:
        raise CorruptInput(
            f"{path}: {dataset.name} has {expected} components, its attribute {name} {len(names)} names."
        )
    return names


def rows_of(dataset: Any, first: int = 0, end: int | None = None) -> NDArray[Any]:
    """Rows [first, end) of a dataset of two dimensions. Chunks that are deflated and no more are inflated here, in half
    of the time that HDF5's own zlib takes; what is stored in another way, or damaged, is left to HDF5."""
    end = dataset.shape[0] if end is None else min(end, dataset.shape[0])
    values = _inflated(dataset, first, end) if first < end and _is_deflated(dataset) else None
    return dataset[first:end] if values is None else values


def _is_deflated(dataset: Any) -> bool:
    if dataset.ndim != 2 or dataset.chunks is None or dataset.dtype.kind not in "iuf":
        return False
    layout = dataset.id.get_create_plist()
    if [layout.get_filter(place)[0] for place in range(layout.get_nfilters())] != [_DEFLATE]:
        return False
    chunks = [-(-size // step) for size, step in zip(dataset.shape, dataset.chunks, strict=True)]
    return bool(dataset.id.get_num_chunks() == math.prod(chunks))  # else some were never written


def _inflated(dataset: Any, first: int, end: int) -> NDArray[Any] | None:
    height, width = dataset.chunks
    size = height * width * dataset.dtype.itemsize
    values = np.empty((end - first, dataset.shape[1]), dataset.dtype)
    for top in range(first // height * height, end, height):
        for left in range(0, dataset.shape[1], width):
            skipped_filters, raw = dataset.id.read_direct_chunk((top, left))
            stream = decompressobj()
            try:
                chunk = stream.decompress(raw, size + 1)
            except InflateError:
                return None
            if skipped_filters or len(chunk) != size or not stream.eof:
                return None
            block = np.frombuffer(chunk, dataset.dtype).reshape(height, width)
            low, high = max(top, first), min(top + height, end)
            values[low - first : high - first, left : left + width] = block[
                low - top : high - top, : dataset.shape[1] - left
            ]
    return values


def checked(values: NDArray[np.float64], dataset: Any, path: Path) -> NDArray[np.float64]:
    """The values, if they can be amounts or shares at all; NaN passes as missing."""
    if np.fmin.reduce(values, axis=None, initial=0.0) < 0 or np.fmax.reduce(values, axis=None, initial=0.0) > MAX_VALUE:
        raise CorruptInput(f"{path}: {dataset.name} has negative or impossibly large values.")
    return values


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Stamps on a regular grid: stamp i is first_ns + positions[i] * step_ns. `positions` is None without holes."""

    first_ns: int
    step_ns: int
    steps: int
    positions: NDArray[np.int64] | None

    def placed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Rows of `values` (one per stamp) at their places in the grid, NaN in the holes."""
        if self.positions is None:
            return values
        grid = np.full((self.steps, *values.shape[1:]), np.nan)
        grid[self.positions] = values
        return grid


def time_axis(stamps: NDArray[np.int64], path: Path) -> TimeAxis:
    """Epoch seconds to a grid. The step is the commonest distance; all others must be multiples of it."""
    if len(stamps) < 2:
        raise EmptyInput(f"{path} has {len(stamps)} time steps; at least two are needed.")
    distances = np.diff(stamps)
    if distances.min() <= 0:
        where = int(np.argmax(distances <= 0))
        raise CorruptInput(f"{path}: its times do not grow: {stamps[where]} is followed by {stamps[where + 1]}.")
    step = int(np.bincount(distances).argmax()) if distances.max() < 1_000_000 else int(np.median(distances))
    positions, odd = np.divmod(stamps - stamps[0], step)
    if odd.any():
        raise CorruptInput(f"{path}: its times are not {step} s apart: {stamps[np.argmax(odd > 0)]} is between steps.")
    steps = int(positions[-1]) + 1
    if steps > MAX_HOLES * len(stamps):
        raise CorruptInput(f"{path}: {len(stamps)} steps of {step} s are scattered over {steps * step} s.")
    return TimeAxis(int(stamps[0]) * NS, step * NS, steps, None if steps == len(stamps) else positions)


def file_system_of(targets: Sequence[str], fallback: str | None, path: Path) -> str:
    """The Lustre file system that the targets belong to (fsname-OST0000), else what the caller knows, else what the
    file is named after (fsname_2018-01-28.hdf5)."""
    prefixes = Counter(name.rsplit("-OST", 1)[0] for name in targets if "-OST" in name)
    if prefixes:
        return prefixes.most_common(1)[0][0]
    return fallback or path.name.split(".")[0].split("_")[0]
