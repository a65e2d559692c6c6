"""A run counts once, whatever was read of it: its log, or text that Darshan's tools made of the log.

Text has not the log's digest, so a run is known by its job, user, program, processes and start. The fullest form stays:
text of a run whose log is there is left out, and a log that comes later takes the place of its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ioweather.core.arrays import Bools
from ioweather.core.clock import utc_day
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES
from ioweather.core.units import NS
from ioweather.lake import layout
from ioweather.lake.database import connection, literal
from ioweather.lake.delta_tables import newest_files
from ioweather.lake.lake import Lake
from ioweather.lake.maintenance import forget_runs

# The fullest first; null is the log itself.
_FORMS: Final = (None, "text", "export", "trace", "totals")
_COLUMNS: Final = ("log_digest", "job_id", "uid", "exe", "nprocs", "start_ns", "end_ns", "form")
# The end of a text is cut to a second, or reckoned from a start that was.
_NEAR_NS: Final = 2 * NS


Frames = Mapping[tuple[str, str], Frame]


class _Run(NamedTuple):
    digest: str
    job_id: int
    uid: int
    exe: str | None
    nprocs: int
    start_ns: int
    end_ns: int
    form: str | None

    @property
    def identity(self) -> tuple[int, int, str | None, int, int]:
        return self.job_id, self.uid, self.exe, self.nprocs, self.start_ns // NS

    def is_less_than(self, other: _Run) -> bool:
        less = _FORMS.index(self.form) > _FORMS.index(other.form)
        return less and abs(self.end_ns - other.end_ns) <= _NEAR_NS


def without_copies(lake: Lake, made: Frames) -> tuple[Frames, frozenset[str]]:
    """The rows without those of runs that are there, or come, in a fuller form; and the digests left out. Rows of a
    less full form that are in the lake are removed from it. `made` has frames by source and table."""
    new = [_Run(*row) for (_, table), frame in made.items() if table == "applications" for row in _rows(frame)]
    old = _in_lake(lake, new) if new else []
    fuller: dict[tuple[int, int, str | None, int, int], list[_Run]] = {}
    for run in (*new, *old):
        fuller.setdefault(run.identity, []).append(run)
    copies = {run.digest for run in (*new, *old) if any(map(run.is_less_than, fuller[run.identity]))}
    forget_runs(lake, sorted(copies.intersection(run.digest for run in old)))
    left_out = frozenset(copies.intersection(run.digest for run in new))
    if not left_out:
        return made, left_out
    return {key: frame.take(~_are(frame, left_out)) for key, frame in made.items()}, left_out


def _rows(frame: Frame) -> Iterable[tuple[Any, ...]]:
    return zip(
        *(frame.text(n).tolist() if n in ("log_digest", "exe", "form") else frame.ints(n).tolist() for n in _COLUMNS),
        strict=True,
    )


def _in_lake(lake: Lake, new: list[_Run]) -> list[_Run]:
    """Runs that a new one may be a copy of, or the other way round: a text on either side."""
    texts = sorted({run.job_id for run in new if run.form is not None})
    spec = TABLES["applications"]
    files = newest_files(layout.tables_dir(lake.root), spec)
    if not files.uris:
        return []
    wanted = "form IS NOT NULL" + (f" OR job_id IN ({', '.join(map(literal, texts))})" if texts else "")
    with connection() as con:
        rows = con.execute(
            f"SELECT {', '.join(_COLUMNS)} FROM ({files.view({utc_day(run.start_ns) for run in new})}) WHERE {wanted}"
        ).fetchall()
    return [_Run(*row) for row in rows]


def _are(frame: Frame, digests: frozenset[str]) -> Bools:
    digest = frame.text("log_digest")
    marked = np.array([category in digests for category in digest.categories] + [False], np.bool_)
    return marked[digest.codes]
