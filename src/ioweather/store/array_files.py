"""Arrays in a file of numpy's, beside the tables: what is cut, damaged or not there is worked out again."""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
_VERSION: Final = b"\x93NUMPY\x01\x00"
_LENGTH: Final = slice(8, 10)  # of the header, which follows


def packed(arrays: Mapping[str, Any]) -> bytes:
    body = io.BytesIO()
    np.savez(body, **arrays)
    return body.getvalue()


def unpacked(path: Path, take: Callable[[Mapping[str, Any]], T]) -> T | None:
    """What `take` makes of the arrays, each read when it is asked for; None where that cannot be. No pickle is read."""
    try:
        with zipfile.ZipFile(path) as held:
            return take(_Arrays(held))
    except (OSError, ValueError, KeyError, TypeError, IndexError, EOFError, SyntaxError, zipfile.BadZipFile):
        return None


class _Arrays(Mapping[str, NDArray[Any]]):
    """As `numpy.load` reads them. That works out again for each what is in an array; files of days have equal ones."""

    def __init__(self, held: zipfile.ZipFile) -> None:
        self._held = held

    def __getitem__(self, name: str) -> NDArray[Any]:
        body = self._held.read(f"{name}.npy")
        start = _LENGTH.stop + int.from_bytes(body[_LENGTH], "little")
        if not body.startswith(_VERSION):
            raise ValueError(f"{name} is of another version")
        kind, shape, order = _described(body[_LENGTH.stop : start])
        return np.frombuffer(body[start:], kind).reshape(shape, order=order).copy("K")

    def __iter__(self) -> Iterator[str]:
        return (name.removesuffix(".npy") for name in self._held.namelist())

    def __len__(self) -> int:
        return len(self._held.namelist())


@lru_cache(1000)
def _described(header: bytes) -> tuple[np.dtype[Any], tuple[int, ...], Any]:
    said = ast.literal_eval(header.decode("latin1"))
    return np.dtype(said["descr"]), said["shape"], "F" if said["fortran_order"] else "C"
