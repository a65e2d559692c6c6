"""Where a fix wins most, over all runs of a period; and what was fixed since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ioweather.core.arrays import Indices
from ioweather.core.contracts import StudyData
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.outcomes import FixedItem, TriageItem
from ioweather.facts.file_records import rows_of
from ioweather.facts.runs import instances_of, program_of
from ioweather.job_io.advisor.advise import Advised, advise
from ioweather.job_io.view import JobView, printable

# A pattern is gone where so many runs in a row had it, so many since have not, and the I/O got faster by this share.
FEWEST_RUNS: Final = 2
FASTER: Final = 0.2


@dataclass(frozen=True)
class Judged:
    """One run with a log, and what it could change."""

    row: dict[str, Any]
    advised: Advised

    @property
    def whose(self) -> tuple[str, str, str]:
        user = self.row["user"] or f"uid {self.row['uid']}"
        return printable(program_of(self.row["exe"] or "")), user, self.row["project"] or ""

    @property
    def patterns(self) -> frozenset[str]:
        return frozenset(advice.name for advice in self.advised.worth)


def judged(data: StudyData, facility: Facility, start_ns: int, most: int) -> Iterator[Judged]:
    """The runs since then with most I/O time, in order of time."""
    runs = instances_of(data, facility, {}).frame
    job_io, applications, files = (data.frames[name] for name in ("job_io", "applications", "files"))
    spent = np.nan_to_num(runs.floats("io_seconds"), nan=0.0)
    chosen = np.flatnonzero((runs.ints("start_ns") >= start_ns) & (spent > 0))
    chosen = chosen[np.argsort(-spent[chosen], kind="stable")][:most]
    chosen = chosen[np.argsort(runs.ints("start_ns")[chosen], kind="stable")]
    # Rows of each log, found once for all.
    place = rows_of(job_io.text("log_digest"), files.text("log_digest"))
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(job_io.rows + 1))
    of_application = rows_of(applications.text("log_digest"), job_io.text("log_digest"))
    of_job_io = rows_of(job_io.text("log_digest"), runs.text("log_digest"))
    rows = runs.take(chosen).records()
    for row, number in zip(rows, of_job_io[chosen].tolist(), strict=True):
        mine: Indices = order[bounds[number] : bounds[number + 1]]
        application = applications.take([int(of_application[number])])
        view = JobView(str(row["job_id"]), application, files.take(mine), job_io.take([number]), facility=facility)
        yield Judged(row, advise(view))


def worst(runs: Sequence[Judged]) -> list[TriageItem]:
    """Programs by what their changes win together, the most first. Of one run the changes together count once."""
    groups: dict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    for run in runs:
        if run.advised.together_seconds > 0:
            groups[run.whose].append(run)
    items = [_item(whose, found) for whose, found in groups.items()]
    return sorted(items, key=lambda item: (-item.seconds, item.program, item.user))


def _item(whose: tuple[str, str, str], runs: Sequence[Judged]) -> TriageItem:
    seconds: dict[str, float] = defaultdict(float)
    for run in runs:
        seconds[run.advised.worth[0].name] += run.advised.worth[0].seconds
    name = max(seconds, key=lambda pattern: seconds[pattern])
    firsts = [run.advised.worth[0] for run in runs if run.advised.worth[0].name == name]
    largest = max(firsts, key=lambda advice: advice.seconds)
    example = max(runs, key=lambda run: run.advised.together_seconds)
    return TriageItem(
        *whose, len(runs), sum(float(run.row["io_seconds"]) for run in runs),
        sum(run.advised.together_seconds for run in runs), sum(run.advised.worth[0].promise.low for run in runs),
        sum(run.advised.io_seconds or 0.0 if len(run.advised.worth) > 1 else run.advised.worth[0].promise.high
            for run in runs),
        name, largest.headline, largest.dimension, largest.evidence, largest.fix_lines, int(example.row["job_id"]),
    )  # fmt: skip


def fixed(runs: Sequence[Judged]) -> list[FixedItem]:
    """The same program of the same user with as many processes: its earlier runs had a pattern that was worth changing,
    its later ones have not, moved as much, and were faster."""
    groups: dict[tuple[Any, ...], list[Judged]] = defaultdict(list)
    for run in runs:
        groups[*run.whose, run.row["nprocs"]].append(run)
    found = [item for group in groups.values() for item in _fixed(group)]
    return sorted(found, key=lambda item: -item.won_seconds)


def _fixed(runs: Sequence[Judged]) -> Iterator[FixedItem]:
    for name in sorted(frozenset().union(*(run.patterns for run in runs))):
        last = max(number for number, run in enumerate(runs) if name in run.patterns)
        before = [run for run in runs[: last + 1] if name in run.patterns]
        after = runs[last + 1 :]
        # What had the pattern now and then was not fixed when it once had it not.
        if len(before) < FEWEST_RUNS or len(after) < FEWEST_RUNS or len(before) < last + 1:
            continue
        old, new = (float(np.median([run.row["io_seconds"] for run in part])) for part in (before, after))
        moved = [
            float(np.median([run.row["read_bytes"] + run.row["write_bytes"] for run in part]))
            for part in (before, after)
        ]
        if new <= (1.0 - FASTER) * old and moved[1] >= 0.5 * moved[0]:
            yield FixedItem(*before[0].whose, name, len(before), len(after), old, new, old - new)


def newest_ns(job_io: Frame) -> int:
    return int(job_io.ints("end_ns").max(initial=0))
