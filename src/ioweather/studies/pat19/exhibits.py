"""The climate of a storage system (pat19): its 17 exhibits, made of months of every target and server.

The eight boxed observations of the paper are sets of claims (core/papers/pat19.toml). Each is an estimate of another
exhibit against a number. An observation is true when all its claims are supported by their intervals, false when one is
refuted, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

from ioweather.core import choices
from ioweather.core.contracts import Need, Param, Params, Study, StudyData
from ioweather.core.facility import Facility
from ioweather.core.papers.claims import STANDINGS, claims, evidence, judge
from ioweather.core.results import Cell, Coverage, Estimate, Exhibit, Finding, Piece, ResultTable, exhibit
from ioweather.stats.estimates import Intervals
from ioweather.stats.grid import facility_zone, steps_of
from ioweather.studies.pat19.components import (
    METADATA,
    degree_distribution,
    high_phase_counts,
    imbalance_of_targets,
    metadata_exhibits,
    sensitivity,
    server_exhibits,
    target_correlations,
)
from ioweather.studies.pat19.matrices import Climate, Limits, reduce_servers, reduce_targets
from ioweather.studies.pat19.system import (
    cumulative_volume,
    days_of_week,
    hours_of_day,
    phases,
    rate_distribution,
    system_correlations,
)

# pat19 section 2.2: what the hardware cannot do, and times when it was shut down. Restarted counters are ours.
NOT_REAL = ("over_limit", "reset", "shutdown")
_OPENS = "No opens and closes were recorded: LMT has them, and `ioweather agent run lustre` on the metadata servers."
_CPU = (
    "No processor load of object storage servers was recorded: LMT has it, and `ioweather agent run` on these servers."
)
_SERVERS: Final = {"pat19.fig13": _OPENS, "pat19.fig14": _OPENS, "pat19.fig15": _CPU, "pat19.fig16": _CPU}
_NOTHING: Final = {
    "pat19.fig5": "Two whole days are needed, in steps of an hour or less.",
    "pat19.fig6": "Every day of the week is needed once, whole: choose a period of a week or more.",
    **_SERVERS,
}
_TARGETS: Final[Mapping[str, Callable[[Climate], Exhibit | None]]] = {
    "pat19.fig3": cumulative_volume,
    "pat19.fig4": rate_distribution,
    "pat19.fig5": hours_of_day,
    "pat19.fig6": days_of_week,
    "pat19.fig7": lambda climate: phases(climate, "high"),
    "pat19.fig8": lambda climate: phases(climate, "low"),
    "pat19.fig9": system_correlations,
    "pat19.fig10": imbalance_of_targets,
    "pat19.fig11": degree_distribution,
    "pat19.table1": high_phase_counts,
    "pat19.sensitivity": sensitivity,
    "pat19.fig12": target_correlations,
}
# Costly parts of the reduced matrices, and the exhibits that need them.
_PARTS: Final = {"degrees": ("pat19.fig11", "pat19.table1", "pat19.sensitivity"), "lags": ("pat19.fig12",)}
# Section and words of each box.
OBSERVATIONS: Final = (
    ("3", "More is read than written; both are bursty, writes more so."),
    ("4", "Average activity has no daily or weekly pattern, but writes vary more in the evening and on Sundays."),
    ("4", "The system enters high phases more often than low ones, and stays in low ones for longer."),
    (
        "5",
        "A minute of the whole system does not foretell the next, five minutes do; reads and writes do not "
        "foretell each other.",
    ),
    ("6", "OSTs are unbalanced in reads and in writes, over long times."),
    ("6", "Few OSTs work together, in high phases too, where writes have more."),
    ("6", "At a single OST reads of a minute foretell the next ones; writes do not."),
    ("7", "Metadata activity is autocorrelated and bursty; the processors of the OSSes are mostly idle."),
)
_WORDS: Final = {"supported": "true", "refuted": "false", "undecided": "undecided"}


def run(data: StudyData, facility: Facility, params: Params) -> Iterator[Exhibit]:
    """Make the wanted exhibits; those without data say why."""
    if "pat19.observations" in data.wanted:  # it is made of all others
        data = replace(data, wanted=frozenset())
    made: list[Exhibit] = []
    metadata = data.frames.get("metadata")
    if metadata is not None and metadata.rows and data.wants("pat19.fig13", "pat19.fig14"):
        steps = steps_of(metadata, METADATA, data.step_ns, data.period_ns)
        made += metadata_exhibits(steps, data.caveats)
    matrix = data.matrices.get("servers", {}).get("cpu_ratio")
    if matrix is not None and matrix.steps and data.wants("pat19.fig15", "pat19.fig16"):
        made += server_exhibits(reduce_servers(matrix, data.spread), data.caveats)
    climate = _climate(data, facility, params) if data.wants(*_TARGETS, "pat19.observations") else None
    if climate is not None:
        found = [make(climate) for name, make in _TARGETS.items() if data.wants(name)]
        made += [each for each in found if each is not None]
        if data.wants("pat19.observations"):
            made.append(observations(made, climate.advice, climate.caveats, climate.coverage()))
    yield from made
    for name in STUDY.exhibits:
        if data.wants(name) and name not in {each.id for each in made}:
            why = "No step of the period has samples of the targets that can be used."
            why = why if climate is None and name not in _SERVERS else _NOTHING[name]
            yield Exhibit(name, findings=(Finding(why, "undecided", name="nothing_to_show"),))


def _climate(data: StudyData, facility: Facility, params: Params) -> Climate | None:
    """None where no step of the period can be used."""
    matrices = data.matrices.get("targets", {})
    if any(metric not in matrices or not matrices[metric].steps for metric in choices.TRAFFIC):
        return None
    filesystem = str(params["filesystem"])
    limits = Limits.of(facility, filesystem, data.step_ns or matrices[choices.TRAFFIC[0]].step_ns)
    parts = [part for part, names in _PARTS.items() if data.wants(*names)]
    targets = reduce_targets(matrices, limits, parts, data.spread)
    steps = targets.system
    if not steps.usable.any():
        return None
    caveats = data.caveats
    known = {"component_limit_bytes_per_s": limits.component, "peak_bytes_per_s": limits.system}
    unset = [name for name, value in known.items() if value is None]
    if unset:
        caveats = (
            *caveats,
            f"Steps above what the hardware can do are not excluded beyond what was flagged at ingest: set "
            f"{' and '.join(unset)} of {filesystem} in facility.toml.",
        )
    frame = data.frames.get("burst_buffer")
    burst_buffer = None
    if frame is not None and frame.rows:
        burst_buffer = steps_of(frame, choices.TRAFFIC, data.step_ns, data.period_ns)
    intervals = Intervals(steps.usable, steps.step_ns, unit=targets.unit)
    kind, zone = str(params["component_kind"]), facility_zone(facility)
    return Climate(targets, intervals, kind, *zone, burst_buffer, caveats)


@exhibit("pat19.observations")
def observations(
    made: Iterable[Exhibit], advice: list[Finding], caveats: tuple[str, ...], coverage: Iterable[Coverage] = ()
) -> Iterator[Piece]:
    """The eight boxed observations, from the estimates of the other exhibits."""
    known = {each.id: {e.name: e for e in each.estimates} for each in made}
    claim_rows: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    for number, (section, text) in enumerate(OBSERVATIONS, 1):
        found = [judge(c, known.get(c.exhibit, {})) for c in claims("pat19") if c.observation == number]
        claim_rows += [
            (number, j.claim.text, STANDINGS[j.standing], evidence(j) or j.why, j.claim.exhibit) for j in found
        ]
        standings = [j.standing for j in found]
        kind: Literal["supported", "refuted", "undecided"] = "undecided"
        if "refuted" in standings:
            kind = "refuted"
        elif set(standings) == {"supported"}:
            kind = "supported"
        held = f"{standings.count('supported')} of {len(found)} claims hold"
        rows.append((number, section, text, _WORDS[kind], held))
        listed = " ".join(j.claim.id for j in found)
        yield Finding(f"{number}. {text} Here: {_WORDS[kind]}.", kind, f"observation_{number}", listed)
    first = "observation [count]; section [text]; text [text]; here [text]; evidence [text]"
    yield ResultTable.of("observations", first, rows)
    second = "observation [count]; claim [text]; here [text]; evidence [text]; exhibit [text]"
    yield ResultTable.of("claims", second, claim_rows)
    yield Estimate("observations", len(OBSERVATIONS), "count", method="exact count"), advice, caveats
    yield (
        "True: every claim agrees. False: at least one is contradicted. `ioweather claims` has the same results.",
        coverage,
    )


def _need(name: str, metrics: tuple[str, ...], shape: Literal["matrix", "rollup"], kind: str, filesystem: str) -> Need:
    where = {"component_kind": kind, "filesystem": filesystem}
    optional = name != "targets"
    return Need(name, "series", metrics=metrics, shape=shape, where=where, optional=optional, exclude_flags=NOT_REAL)


STUDY = Study(
    name="climate",
    exhibits=(*_TARGETS, *_SERVERS, "pat19.observations"),
    needs=(
        _need("targets", choices.TRAFFIC, "matrix", "$component_kind", "$filesystem"),
        _need("servers", ("cpu_ratio",), "matrix", "oss", "$filesystem"),
        _need("metadata", METADATA, "rollup", "$metadata_kind", "$filesystem"),
        _need("burst_buffer", choices.TRAFFIC, "rollup", "$burst_buffer_kind", "$burst_buffer"),
    ),
    run=run,
    params=(
        *choices.TRAFFIC_PARAMS,
        Param("metadata_kind", "mds or mdt; default: mds where it is there", choose=choices.metadata_kind),
        Param("burst_buffer", "burst buffer, a file system; default: found by name", choose=choices.burst_buffer),
        Param("burst_buffer_kind", "its kind of component", choose=choices.burst_buffer_kind),
    ),
    spreads=True,
)
