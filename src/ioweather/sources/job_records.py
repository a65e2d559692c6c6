"""Job records, whatever scheduler's accounting they were read from, as frames of `jobs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from ioweather.core.errors import SourceError
from ioweather.core.frames import Frame
from ioweather.tables.jobs import JOBS

_BATCH = 100_000


@dataclass(frozen=True)
class JobRecord:
    """One row of `jobs`."""

    cluster: str
    job_id: str
    step: str
    state: str
    submit_ns: int
    raw_job_id: int | None = None
    restart: int | None = None
    array_job_id: int | None = None
    het_offset: int | None = None
    uid: int | None = None
    user: str | None = None
    account: str | None = None
    name: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    node_count: int | None = None
    cpu_count: int | None = None
    nodes: str | None = None


def jobs_frame(records: Sequence[JobRecord]) -> Frame:
    columns = {field.name: [getattr(record, field.name) for record in records] for field in fields(JobRecord)}
    return JOBS.frame(columns, rows=len(records))


def job_frames(records: Iterable[JobRecord]) -> Iterator[tuple[str, Frame]]:
    """Frames of `jobs`, a batch at a time. What came before a trouble is good, and comes before it."""
    batch: list[JobRecord] = []
    trouble: SourceError | None = None
    try:
        for record in records:
            batch.append(record)
            if len(batch) >= _BATCH:
                yield "jobs", jobs_frame(batch)
                batch = []
    except SourceError as error:
        trouble = error
    if batch:
        yield "jobs", jobs_frame(batch)
    if trouble is not None:
        raise trouble
