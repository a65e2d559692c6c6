"""Reading within limits: every file is read in a process of its own or of its batch, which the kernel bounds.

`read_bounded` reads a batch of files, `read_alone_bounded` one file piece by piece, and `check_bounded` checks a file
that was pushed. They may be called from any thread of any process, also by the workers of a cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ioweather.core.errors import TooMuchMemory
from ioweather.core.frames import Frame
from ioweather.ingestion.reading import (
    Batch,
    FileOutcome,
    Frames,
    Reading,
    check_alone,
    digest_of,
    digest_of_name,
    gave_up,
    read_alone,
    read_batch,
)
from ioweather.lake.limited import WorkerDied, run_limited, stream_limited

_MEMORY: Final = TooMuchMemory("").reason
# Time that a reader may take for each second of its processor time: storage may be slow, but not dead.
_WALL_RATIO: Final = 10.0


def read_bounded(batch: Batch, reading: Reading) -> tuple[list[FileOutcome], Frames]:
    """Outcomes and rows of the batch. If its reader dies, or runs out of the memory that the files share, files are
    read one by one to find the cause."""
    quick = replace(reading, limits=reading.limits.in_a_hurry())
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    suspects = batch
    try:
        seconds = sum(_wall_seconds(size, quick) for *_, size in batch)
        outcomes, frames = run_limited(read_batch, batch, quick, wall_seconds=seconds)
    except WorkerDied:
        pass
    else:
        hungry = {outcome.file for outcome in outcomes if outcome.reason == _MEMORY and len(batch) > 1}
        outcomes = [outcome for outcome in outcomes if outcome.file not in hungry]
        suspects = [file for file in batch if file[0] in hungry]
    for file in suspects:
        for item in read_alone_bounded(*file, reading):
            if isinstance(item, FileOutcome):
                outcomes.append(item)
            else:
                frames.setdefault(item[:2], []).append(item[2])
    return outcomes, frames


def read_alone_bounded(
    file: str, digest: str | None, size: int, reading: Reading
) -> Iterator[tuple[str, str, Frame] | FileOutcome]:
    """(source, table, rows) as they come; last, what became of the file."""
    rows: Counter[str] = Counter()
    path = Path(file)
    try:
        pieces = stream_limited(read_alone, path, digest, size, reading, wall_seconds=_wall_seconds(size, reading))
        for item in pieces:
            if not isinstance(item, FileOutcome):
                rows[item[1]] += item[2].rows
            yield item
    except WorkerDied as death:
        try:
            digest = digest or digest_of(path, reading)
        except OSError:
            digest = digest_of_name(path)
        yield gave_up(death.overran, path, digest, size, reading, rows)


def check_bounded(path: Path, digest: str, size: int, reading: Reading, most_days: int) -> tuple[FileOutcome, int]:
    """The outcome that reading would have, and over how many days the rows spread. The rows stay in the reader."""
    try:
        seconds = _wall_seconds(size, reading)
        return run_limited(check_alone, path, digest, size, reading, most_days, wall_seconds=seconds)
    except WorkerDied as death:
        return gave_up(death.overran, path, digest, size, reading, {}), 0


def _wall_seconds(size: int, reading: Reading) -> float:
    return _WALL_RATIO * reading.limits.seconds_for(size)
