"""The climate of a storage system (pat19): months of every target and server, in one pass over the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from ioweather.core.contracts import Need, Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.results import Exhibit, Finding
from ioweather.core.words import names_of
from ioweather.derive.system.calendar import facility_zone
from ioweather.studies.climate.calendar import days_of_week, hours_of_day
from ioweather.studies.climate.context import HIGH_CORRELATION, WAYS, Climate, Part, span
from ioweather.studies.climate.correlation import Correlations, correlate
from ioweather.studies.climate.metadata import METADATA, metadata_parts
from ioweather.studies.climate.observations import observations
from ioweather.studies.climate.parallelism import degree_distribution, high_phase_counts, sensitivity
from ioweather.studies.climate.phases import phase_part
from ioweather.studies.climate.servers import pass_over_servers, server_parts
from ioweather.studies.climate.stretches import Work
from ioweather.studies.climate.targets import correlations, totals
from ioweather.studies.climate.targets_in_one_pass import WINDOWS, Limits, limits_of, pass_over_targets
from ioweather.studies.climate.volume import cumulative, rate_distribution
from ioweather.studies.shared import choices
from ioweather.studies.shared.intervals import INTERVALS, Intervals
from ioweather.studies.shared.rollup_steps import Steps, steps_of

# pat19 section 2.2: what the hardware cannot do, and times when it was shut down. Restarted counters are ours.
NOT_REAL = ("over_limit", "reset", "shutdown")
_OPENS = "No opens and closes were recorded: LMT has them, and `ioweather collect lustre` on the metadata servers."
_CPU = "No processor load of object storage servers was recorded: LMT has it, and `ioweather collect` on these servers."
_NOTHING = {
    "pat19.fig5": "Two whole days are needed, in steps of an hour or less.",
    "pat19.fig6": "Every day of the week is needed once, whole: choose a period of a week or more.",
    "pat19.fig13": _OPENS,
    "pat19.fig14": _OPENS,
    "pat19.fig15": _CPU,
    "pat19.fig16": _CPU,
}
_BESIDE_TARGETS = ("pat19.fig13", "pat19.fig14", "pat19.fig15", "pat19.fig16")
_NO_STEP = "No step of the period has samples of the targets that can be used."


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    """Cheap exhibits first, so that whoever wants one of them need not wait for the pass over all targets."""
    parts: list[Part] = []
    if "pat19.observations" in data.wanted:  # it is made of all others
        data = replace(data, wanted=frozenset())
    for part in chain(_metadata(data, params), _servers(data, params)):
        parts.append(part)
        yield part.exhibit
    climate = _climate(data, facility, params) if data.wants(*_OF_TARGETS, "pat19.observations") else None
    made = set()
    if climate is not None:
        for part in _system(climate, data):
            parts.append(part)
            yield part.exhibit
        if data.wants("pat19.observations"):
            made.add("pat19.observations")
            yield observations(parts, climate.caveats, climate.coverage())
    made |= {part.exhibit.id for part in parts}
    for name in [name for name in STUDY.exhibits if data.wants(name) and name not in made]:
        why = _NO_STEP if climate is None and name not in _BESIDE_TARGETS else _NOTHING[name]
        yield Exhibit(name, findings=(Finding(why, "undecided", name="nothing_to_show"),))


def _metadata(data: StudyData, params: Params) -> Iterator[Part]:
    frame = data.frames.get("metadata")
    if frame is not None and frame.rows and data.wants("pat19.fig13", "pat19.fig14"):
        steps = steps_of(frame, METADATA, data.step_ns, data.period_ns)
        yield from metadata_parts(steps, on=bool(params["intervals"]), caveats=data.caveats)


def _servers(data: StudyData, params: Params) -> Iterator[Part]:
    matrix = data.matrices.get("servers", {}).get("cpu_ratio")
    if matrix is not None and matrix.steps and data.wants("pat19.fig15", "pat19.fig16"):
        yield from server_parts(
            pass_over_servers(matrix, Work(data.spread, data.records)),
            on=bool(params["intervals"]),
            caveats=data.caveats,
        )


def _climate(data: StudyData, facility: Facility, params: Params) -> Climate | None:
    """None where no step of the period can be used."""
    matrices = data.matrices.get("targets", {})
    if any(metric not in matrices or not matrices[metric].steps for metric in choices.TRAFFIC):
        return None
    filesystem = str(params["filesystem"])
    limits = limits_of(facility, filesystem, data.step_ns or matrices[choices.TRAFFIC[0]].step_ns)
    parts = {part for name, (_, *needed) in _OF_TARGETS.items() if data.wants(name) for part in needed}
    targets = pass_over_targets(matrices, limits, Work(data.spread, data.records), parts)
    if not targets.system.usable.any():
        return None
    steps = targets.system
    zone, zone_name = facility_zone(facility)
    intervals = Intervals(steps.usable, steps.step_ns, on=bool(params["intervals"]), unit=targets.unit)
    caveats = (*data.caveats, *_limit_caveats(limits, filesystem))
    where = (filesystem, str(params["component_kind"]), zone, zone_name)
    return Climate(targets, intervals, *where, _burst_buffer(data), caveats)


def _burst_buffer(data: StudyData) -> Steps | None:
    frame = data.frames.get("burst_buffer")
    if frame is None or not frame.rows:
        return None
    return steps_of(frame, choices.TRAFFIC, data.step_ns, data.period_ns)


def _limit_caveats(limits: Limits, filesystem: str) -> tuple[str, ...]:
    unset = [
        name
        for name, value in (("component_limit_bytes_per_s", limits.component), ("peak_bytes_per_s", limits.system))
        if value is None
    ]
    if not unset:
        return ()
    return (
        f"Steps above what the hardware can do are not excluded beyond what was flagged at ingest: set "
        f"{' and '.join(unset)} of {filesystem} in facility.toml.",
    )


def _system(climate: Climate, data: StudyData) -> Iterator[Part]:
    for name, (make, *_) in _OF_TARGETS.items():
        part = make(climate) if data.wants(name) else None
        if part is not None:
            yield part if isinstance(part, Part) else Part(part)


def _system_correlations(climate: Climate) -> Part:
    """pat19.fig9."""
    series = {way: climate.way(way) for way in WAYS}
    found = correlate(series, climate.system.step_ns, climate.intervals, "Reads and writes of the system")
    return Part(
        Exhibit(
            "pat19.fig9",
            charts=(found.chart,),
            estimates=found.estimates,
            findings=found.findings,
            caveats=climate.caveats,
            coverage=climate.coverage(),
        ),
        _history(climate, found),
    )


def _history(climate: Climate, found: Correlations) -> tuple[Finding, ...]:
    """The shortest window that surely tells about the next one, for each direction."""
    out = []
    for way in WAYS:
        for window in WINDOWS:
            word = span(window, climate.system.step_ns)
            low = found.estimate(f"auto_{way}[{word}]").low
            if low is not None and low > HIGH_CORRELATION:
                out.append(Finding(f"To foresee the system's {way}s, look at the last {word}.", name="history_needed"))
                break
        else:
            text = f"No window up to {span(WINDOWS[-1], climate.system.step_ns)} surely foretells the system's {way}s."
            out.append(Finding(text, "undecided", name="history_needed"))
    return tuple(out)


# How each is made, and of which parts of the pass over targets.
_OF_TARGETS: Mapping[str, tuple[Any, ...]] = {
    "pat19.fig3": (cumulative,),
    "pat19.fig4": (rate_distribution,),
    "pat19.fig5": (hours_of_day,),
    "pat19.fig6": (days_of_week,),
    "pat19.fig7": (partial(phase_part, side="high"),),
    "pat19.fig8": (partial(phase_part, side="low"),),
    "pat19.fig9": (_system_correlations,),
    "pat19.fig10": (totals, "totals", "nearest"),
    "pat19.fig11": (degree_distribution, "degrees"),
    "pat19.table1": (high_phase_counts, "degrees"),
    "pat19.sensitivity": (sensitivity, "degrees"),
    "pat19.fig12": (correlations, "lags", "nearest"),
}
STUDY = Study(
    name="climate",
    exhibits=names_of("""
        pat19.fig3 pat19.fig4 pat19.fig5 pat19.fig6 pat19.fig7 pat19.fig8 pat19.fig9 pat19.fig10 pat19.fig11
        pat19.table1 pat19.sensitivity pat19.fig12 pat19.fig13 pat19.fig14 pat19.fig15 pat19.fig16 pat19.observations
    """),
    needs=(
        Need(
            "targets",
            "series",
            metrics=choices.TRAFFIC,
            shape="matrix",
            where={"component_kind": "$component_kind", "filesystem": "$filesystem"},
            exclude_flags=NOT_REAL,
        ),
        Need(
            "servers",
            "series",
            metrics=("cpu_ratio",),
            shape="matrix",
            where={"component_kind": "oss", "filesystem": "$filesystem"},
            optional=True,
            exclude_flags=NOT_REAL,
        ),
        Need(
            "metadata",
            "series",
            metrics=METADATA,
            shape="rollup",
            where={"component_kind": "$metadata_kind", "filesystem": "$filesystem"},
            optional=True,
            exclude_flags=NOT_REAL,
        ),
        Need(
            "burst_buffer",
            "series",
            metrics=choices.TRAFFIC,
            shape="rollup",
            where={"component_kind": "$burst_buffer_kind", "filesystem": "$burst_buffer"},
            optional=True,
            exclude_flags=NOT_REAL,
        ),
    ),
    run=run,
    params=(
        *choices.TRAFFIC_PARAMS,
        Param("metadata_kind", "mds or mdt; default: mds where it is there", choose=choices.metadata_kind),
        Param("burst_buffer", "burst buffer, a file system; default: found by name", choose=choices.burst_buffer),
        Param("burst_buffer_kind", "its kind of component", choose=choices.burst_buffer_kind),
        INTERVALS,
    ),
    spreads=True,
)
