"""Data of the mad17 exhibits: runs, the system during each run, groups of similar runs, and exclusions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ioweather.core import choices
from ioweather.core.contracts import Need, Param, Params, StudyData
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Bools, Floats, Frame, Ints
from ioweather.core.results import Coverage
from ioweather.core.units import format_seconds
from ioweather.facts.job_metrics import SPAN_COLUMNS, IoSpans, io_spans
from ioweather.facts.runs import LEAST_RUNS, Groups, Runs, best_grouping, group_runs, instances_of
from ioweather.facts.runs import NEEDS as RUN_NEEDS
from ioweather.facts.system_activity import OPERATIONS, STATES, job_system, monitored_mounts
from ioweather.stats.grid import Steps, SystemGrid, steps_of, traffic_steps

# As axes and legends name them.
MEASURES: Final = {
    "pearson": "Pearson",
    "spearman": "Spearman",
    "distance_correlation": "distance corr.",
    "mutual_information": "mutual inf.",
}
TIME: Final = "time with I/O (D_D)"
VOLUME: Final = "system volume during its I/O (PsiD)"
_SYSTEM: Final = {"component_kind": "$component_kind", "filesystem": "$filesystem"}
_FLAGS: Final = ("over_limit", "reset")
NEEDS: Final = (
    *RUN_NEEDS,
    Need("files", "files", columns=SPAN_COLUMNS),
    Need("traffic", "series", metrics=choices.TRAFFIC, shape="rollup", where=_SYSTEM, exclude_flags=_FLAGS),
    Need(
        "operations", "series", metrics=OPERATIONS, shape="rollup", where=_SYSTEM, exclude_flags=_FLAGS, optional=True
    ),
)
PARAMS: Final = (
    *choices.TRAFFIC_PARAMS,
    Param(
        "grouping",
        "which runs are alike: exact (same files and bytes) or similar; default: exact where it gives a "
        f"group of {LEAST_RUNS} runs",
        choices=("exact", "similar"),
    ),
    Param("group", "the group to show, by its name in mad17.table1; default: the largest"),
    Param("job", "the run to show, by job id or digest; default: the slowest of the group"),
)
SHOWN_GROUPS: Final = 3
HALF_WIDTH_SD: Final = 1.645  # 90% of a normal distribution, as mad17 draws it
SHARED_STEPS: Final = (
    "D_D and PsiD are taken over the same steps, so they go together without any contention. PsiD/D_D stands beside, "
    "and the same coefficients with all runs moved in time show how much remains then."
)
IN_TIME_ORDER: Final = "Runs near in time share the system's state; intervals resample them in blocks of neighbours."


@dataclass(frozen=True, eq=False)
class AssociationData:
    """Every run with its group and the system's activity during it; rows of all frames correspond."""

    runs: Runs
    grid: SystemGrid
    steps: Steps
    spans: IoSpans
    system: Frame
    groups: Groups
    asked: int
    params: Params
    mounts_known: bool

    @cached_property
    def complete(self) -> Bools:
        """Runs that were monitored from start to end and did I/O in monitored steps."""
        return np.asarray((self.system.text("state").codes == 0) & np.isfinite(self.of("psid_read_bytes")))

    def of(self, name: str) -> Floats:
        """A column of the runs or of the system during them, null as NaN."""
        return self.system.floats(name) if name in self.system else self.runs.floats(name)

    @cached_property
    def _times(self) -> Ints:
        return self.runs.ints("start_ns")

    def members(self, group: int) -> Ints:
        """Complete runs of a group in order of time."""
        rows = np.flatnonzero((self.groups.of_run == group) & self.complete)
        return np.asarray(rows[np.argsort(self._times[rows], kind="stable")], np.int64)

    def all_monitored(self, group: int) -> bool:
        """Return whether all files of a group are on monitored mounts."""
        monitored = self.spans.of_runs(self.members(group)).monitored
        return monitored is not None and bool(monitored.all())

    @cached_property
    def shown(self) -> list[int]:
        """The chosen group, then the largest others."""
        sizes = np.bincount(self.groups.of_run[self.complete], minlength=len(self.groups.names))
        large = [int(g) for g in np.argsort(-sizes, kind="stable") if sizes[g] >= LEAST_RUNS]
        return list(dict.fromkeys([self.asked, *large]))[:SHOWN_GROUPS]

    def name(self, group: int) -> str:
        return self.groups.names[group]

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        codes = self.system.text("state").codes
        left_out = {
            f"touch a {STATES[1]} of the samples": int((codes == 1).sum()),
            f"reach {STATES[2]} the monitored period": int((codes == 2).sum()),
            "no reads or writes recorded": int(((codes == 0) & ~self.complete).sum()),
        }
        unit, detail = "runs", "runs with samples of the system from start to end"
        left_out = {k: n for k, n in left_out.items() if n}
        runs = Coverage(self.runs.rows, int(self.complete.sum()), unit, left_out, detail)
        return (*self.runs.coverage, runs, self.steps.coverage("sampling intervals"))

    @property
    def caveats(self) -> tuple[str, ...]:
        words = {
            "exact": "Runs are grouped by user, processes, numbers of files and bytes.",
            "similar": "Runs are grouped by user, program and processes, with bytes within 25%: the run's own volume "
            "varies in the group and is part of Psi.",
        }[self.groups.grouping]
        return (words, *self.runs.caveats)

    def span_caveat(self, rows: Ints) -> tuple[str, ...]:
        """Spans much longer than the interval make D_D uninformative."""
        chosen = np.zeros(self.runs.rows, np.bool_)
        chosen[rows] = True
        span = self.spans.median_span_seconds(chosen)
        if not span > 2 * self.grid.step_seconds:
            return ()
        return (
            f"The median file is read or written over {format_seconds(span)}, {span / self.grid.step_seconds:.0f} "
            "intervals: D_D then says when files were open to I/O, not how long it took.",
        )


def association_data(data: StudyData, facility: Facility, params: Params) -> AssociationData | None:
    """Return the runs and the system during each; None without any run or sample."""
    runs = instances_of(data, facility, params)
    steps = traffic_steps(data, facility, str(params["filesystem"]))
    if not runs.rows or not steps.count:
        return None
    # Bytes of the rollup, and operations where they were sampled, on one grid.
    values = dict(steps.values)
    frame = data.frames.get("operations")
    if frame is not None and frame.rows:
        names = [name for name in OPERATIONS if frame.text("metric").equals(name).any()]
        counts = steps_of(frame, names, steps.step_ns, data.period_ns)
        offset = (counts.start_ns - steps.start_ns) // steps.step_ns
        for name in names:
            # On the grid of the bytes, which may begin and end elsewhere.
            values[name] = placed = np.full(steps.count, np.nan)
            first = max(0, offset)
            last = max(first, min(steps.count, offset + counts.count))
            placed[first:last] = counts.values[name][first - offset : last - offset]
    grid = SystemGrid(steps.start_ns, steps.step_ns, values)
    mounts = monitored_mounts(data.frames["files"], facility, str(params["filesystem"]))
    spans = io_spans(runs.frame, data.frames["files"], mounts)
    system = job_system(grid, runs.ints("start_ns"), runs.ints("end_ns"), spans)
    groups = group_runs(runs.frame, params.get("grouping") or best_grouping(runs.frame))
    sizes = np.bincount(groups.of_run[system.text("state").codes == 0], minlength=len(groups.names))
    asked = groups.number(str(params["group"])) if params.get("group") else int(sizes.argmax())
    if asked is None:
        few = ", ".join(groups.names[:8])
        raise UsageError(f"There is no one group {params['group']!r}.", hint=f"The largest are: {few}.")
    return AssociationData(runs, grid, steps, spans, system, groups, asked, params, mounts is not None)
