"""One file of a job, or those of a pattern; and what each storage target got."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Final

import numpy as np

from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Exhibit, ResultTable, columns_of
from ioweather.derive.jobs.file_records import file_records
from ioweather.derive.jobs.job_io import job_io
from ioweather.studies.job.view import JobView

_MOST_TARGETS: Final = 1000
_COLUMNS: Final = columns_of(
    "target [text]; files [count]; read_bytes: read [bytes]; write_bytes: written [bytes]; "
    "seconds: time of all processes [seconds]"
)


def only_files(view: JobView, pattern: str) -> JobView:
    """The job as if it had used no other files. A pattern without a slash is one of names, else of whole paths."""
    path = view.files.text("path")
    wanted = [
        category is not None and fnmatchcase(category if "/" in pattern else category.rsplit("/", 1)[-1], pattern)
        for category in path.categories
    ]
    rows = np.array([*wanted, False], np.bool_)[path.codes]
    if not rows.any():
        raise DataUnavailable(f"No file of this job fits {pattern!r}. Paths that were hashed or dropped fit nothing.")
    files = view.files.take(rows)
    # A heat map is of all files.
    return replace(view, files=files, job_io=job_io(view.applications, files), heat_maps=())


def target_exhibit(view: JobView) -> Iterator[Exhibit]:
    """Bytes and time by storage target, a file's divided evenly over its targets; none where no layout is recorded."""
    records = file_records(view.applications, view.files)
    osts = records.text("osts")
    read, written = records.ints("read_bytes"), records.ints("write_bytes")
    spent = sum(records.seconds(f"{name}_seconds") for name in ("meta", "read", "write"))
    totals: dict[str, list[float]] = {}
    for code, category in enumerate(osts.categories):
        targets = [name for name in (category or "").split(",") if name]
        rows = records.counted & (osts.codes == code)
        if not targets or not rows.any():
            continue
        amounts = [float(values[rows].sum()) / len(targets) for values in (read, written, np.asarray(spent))]
        count = len(np.unique(records.file[rows]))
        for target in targets:
            mine = totals.setdefault(target, [0.0, 0.0, 0.0, 0.0])
            for place, amount in enumerate((count, *amounts)):
                mine[place] += amount
    if not totals:
        return
    ordered = sorted(totals.items(), key=lambda item: -item[1][1] - item[1][2])[:_MOST_TARGETS]
    rows_shown = tuple((name, int(v[0]), int(v[1]), int(v[2]), v[3]) for name, v in ordered)
    title = f"{len(totals):,} storage targets, the busiest first"
    table = ResultTable("targets", _COLUMNS, rows_shown, title)
    caveat = "A file's bytes and time are divided evenly over its targets."
    yield Exhibit("job_targets", "By storage target", tables=(table,), caveats=(caveat,))
