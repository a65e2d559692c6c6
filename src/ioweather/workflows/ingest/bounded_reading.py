"""Reading within limits: every file is read in a child process, which the kernel bounds.

`read_bounded` reads a batch of small files at once, `read_alone_bounded` one that is large or suspect, piece by piece,
and `check_bounded` looks at one that was pushed. They may be called from any thread of any process: that of a person,
a server or a worker of a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ioweather.core.errors import TooMuchMemory
from ioweather.core.frames import Frame
from ioweather.engine import ChildDied, Children, children
from ioweather.workflows.ingest import reading as module
from ioweather.workflows.ingest.reading import (
    Batch,
    FileOutcome,
    Reading,
    check_alone,
    digests_of,
    gave_up,
    read_alone,
    read_batch,
)
from ioweather.workflows.ingest.staging import Frames

_MEMORY: Final = TooMuchMemory("").reason


def readers() -> Children:
    """The children of this process that read."""
    return children(module.__name__)


def read_bounded(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames, Batch]:
    """Outcomes and rows of the batch, and the files to be read alone at the end: those over which a reader came to an
    end, of which another one need not, and those that took too long for a first try."""
    quick = replace(reading, limits=reading.limits.in_a_hurry())
    suspects: Batch = []
    batch = list(batch)
    unexplained = 0
    while batch:
        try:
            told, frames = readers().call(_read_plainly, batch, quick)
        except ChildDied as death:
            if death.position is not None:
                suspects.append(batch.pop(death.position))
            elif unexplained:  # between two files, twice
                return [], {}, suspects + batch
            else:
                unexplained += 1
            continue
        outcomes = [*map(FileOutcome._make, told)]
        if len(outcomes) > 1 and any(outcome.reason == _MEMORY for outcome in outcomes):
            # They shared it: which of them took it shows when each is alone.
            hungry = {outcome.file for outcome in outcomes if outcome.reason == _MEMORY}
            suspects += [file for file in batch if file[0] in hungry]
            outcomes = [outcome for outcome in outcomes if outcome.file not in hungry]
        return outcomes, frames, suspects
    return [], {}, suspects


def _read_plainly(batch: Batch, reading: Reading) -> tuple[list[tuple[Any, ...]], Frames]:
    """In the child. Tuples without names are sent in a third of the time, and there is one per log."""
    outcomes, frames = read_batch(batch, reading)
    return [*map(tuple, outcomes)], frames


def read_alone_bounded(
    path: Path, digest: str | None, size: int, reading: Reading
) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they come; last, what became of the file."""
    rows: Counter[str] = Counter()
    try:
        for item in readers().results(read_alone, path, digest, size, reading):
            if not isinstance(item, FileOutcome):
                rows[item[1]] += item[2].rows
            yield item
    except ChildDied as death:
        yield gave_up(death.overran, path, digest or digests_of([str(path)], reading)[0], size, reading, rows)


def check_bounded(path: Path, digest: str, size: int, reading: Reading, most_days: int) -> tuple[FileOutcome, int]:
    """What reading it would give, and over how many days its rows spread. The rows stay in the child."""
    try:
        return readers().call(check_alone, path, digest, size, reading, most_days)
    except ChildDied as death:
        return gave_up(death.overran, path, digest, size, reading, {}), 0
