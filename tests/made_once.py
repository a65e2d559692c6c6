"""What takes seconds to make is made once for a test run, by the worker that needs it first. All others only read."""

from __future__ import annotations

import fcntl
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def made_once(own: Path, name: str, make: Callable[[Path], T]) -> T:
    """What `make` returned for a folder that all workers of this run share; `own` is any folder of pytest's here."""
    of_run = next((parent for parent in own.parents if parent.name.startswith("pytest-")), own.parent)
    folder, result = of_run / name, of_run / f"{name}.pickle"
    with (of_run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            shutil.rmtree(folder, ignore_errors=True)
            result.write_bytes(pickle.dumps(make(folder)))
    made: T = pickle.loads(result.read_bytes())
    return made
