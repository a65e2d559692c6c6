"""Reading in a child process with limits, so that a reader that never ends or takes all memory ends a check, not the
test run."""

from __future__ import annotations

import pickle
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ioweather.core.clock import now_ns
from ioweather.core.contracts import ReadContext, Source
from ioweather.core.errors import SourceError
from ioweather.core.units import MIB
from ioweather.engine import ChildDied, allow, allow_all, children
from ioweather.tables import TABLES

SECONDS: Final = 10.0
_MEMORY_BYTES: Final = 256 * MIB
_MEMORY_RATIO: Final = 64


@dataclass
class ReadOutcome:
    """What came of a file: rows per table, complaints of the tables about them, and the error at the end if any."""

    rows: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    refusal: str = ""
    was_ended: bool = False
    seconds: float = 0.0


def read_limited(source: Source, path: Path, context: ReadContext) -> ReadOutcome:
    """In a child, which finds modules where this process does."""
    size = path.stat().st_size if path.is_file() else sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    try:
        return children(__name__).call(_read, sys.path, pickle.dumps(source), path, size, context)
    except ChildDied as death:
        reason = f"took more than {SECONDS:g} s of processor time" if death.overran else "its process died"
        return ReadOutcome(faults=[reason], was_ended=True)


def _read(paths: Sequence[str], pickled: bytes, path: Path, size: int, context: ReadContext) -> ReadOutcome:
    sys.path[:] = [*sys.path, *(place for place in paths if place not in sys.path)]
    source: Source = pickle.loads(pickled)
    outcome = ReadOutcome()
    allow(SECONDS, _MEMORY_BYTES + _MEMORY_RATIO * size, 0)
    started = time.process_time()
    try:
        for table, frame in source.read(path, context):
            outcome.rows[table] += frame.rows
            _judge(source, table, frame, outcome)
    except SourceError as error:
        outcome.refusal = f"{type(error).__name__}: {error}"
        _check_error(error, outcome)
    except MemoryError:
        outcome.faults.append(f"took more than {(_MEMORY_BYTES + _MEMORY_RATIO * size) // MIB} MiB of memory")
    except Exception as error:
        outcome.faults.append(f"{type(error).__name__} instead of a SourceError: {error}"[:300])
    outcome.seconds = time.process_time() - started
    allow_all()
    return outcome


def _judge(source: Source, table: str, frame: Any, outcome: ReadOutcome) -> None:
    if table not in source.tables:
        outcome.faults.append(f"rows of {table}, which is not in its `tables`")
    spec = TABLES.get(table)
    if spec is None:
        return
    if tuple(frame) != spec.names:
        outcome.faults.append(f"the columns of {table} are not those of the table; use TABLES[{table!r}].frame(...)")
        return
    outcome.complaints += [
        f"{c.table}: {c.rule} ({c.rows}; first: {c.first})" for c in spec.check(frame, now_ns()).complaints
    ]


def _check_error(error: SourceError, outcome: ReadOutcome) -> None:
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception as trouble:
        outcome.faults.append(f"its {type(error).__name__} does not survive pickling ({trouble})")
        return
    if str(again) != str(error):
        outcome.faults.append(f"its {type(error).__name__} loses its message when pickled")
