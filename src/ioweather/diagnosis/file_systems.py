"""`storage`: what the file systems of a facility, one of them, or one server or target did in a period."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ioweather.core.choices import TRAFFIC
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.facility import Facility
from ioweather.core.frames import Floats, Ints
from ioweather.core.results import (
    Answer,
    Block,
    Chart,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Items,
    Next,
    Reference,
    ResultColumn,
    ResultTable,
    columns_of,
    largest_facts,
    snake_case,
)
from ioweather.core.units import HOUR_NS, NS, format_time_ns, format_value, now_ns
from ioweather.diagnosis.events import TROUBLES, EventOutcome, event_item, events_of, newest_first, without_name
from ioweather.diagnosis.now import SLOW
from ioweather.facts.loads import FillLevel, LastHour, Loads, Measured, Traffic, fill_levels
from ioweather.facts.loads import loads as loads_of
from ioweather.stats.estimates import number

if TYPE_CHECKING:
    from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class FileSystemState:
    """Rates and slowdown are those of the last hour before the end of the period, whatever its length; amounts are
    those of all of it. `slowdown` is that of the slowest operation; `load_ratio` is of `peak_bytes_per_s`, the nominal
    peak of facility.toml, and None where that has none. `full_ratio` is the mean of the newest fill levels of its
    targets, `fullest` the target with the highest."""

    filesystem: str
    slowdown: float | None
    slowest_op: str | None
    slow: bool
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    peak_bytes_per_s: float | None
    load_ratio: float | None
    read_bytes: float
    write_bytes: float
    busiest: str | None
    open_events: int
    full_ratio: float | None = None
    fullest: str | None = None
    fullest_ratio: float | None = None


@dataclass(frozen=True)
class ComponentState:
    """`bytes_ratio`: of all bytes of its file system in the period."""

    component: str
    kind: str
    filesystem: str
    server: str | None
    read_bytes: float | None
    write_bytes: float | None
    bytes_ratio: float | None
    most_bytes_per_s: float | None
    full_ratio: float | None = None
    free_bytes: float | None = None


@dataclass(frozen=True)
class StorageOutcome:
    """`kind` is facility, filesystem, or the kind of component that `where` is."""

    where: str
    kind: str
    filesystem: str | None
    start_ns: int
    end_ns: int
    step_ns: int
    filesystems: tuple[FileSystemState, ...] = ()
    components: tuple[ComponentState, ...] = ()
    events: tuple[EventOutcome, ...] = ()


_OLD_NS: Final = 2 * HOUR_NS  # a state of data that end earlier is past
# Events that are shaded in time lines.
_SHADED: Final = ("incident", "component_health", "maintenance", "episode", "gap")
_PROBLEMS: Final = ("incident", "component_health", "episode")
_MOST_SHADED: Final = 8
_FULL: Final = 0.9
_MOST_NAMED: Final = 4
_TIME: Final = ResultColumn("start_ns", "time", "time_ns")


def run(source: DataSource, params: Params) -> Answer:
    """Load, slowdown and events of the file systems, or of the one place that the parameter `where` names."""
    loads = loads_of(source.snapshot, params["where"], source.period_ns)
    facility = source.facility
    events = _events(events_of(source), loads)
    names = list(dict.fromkeys([*(t.filesystem for t in loads.traffic), *(s.filesystem for s in loads.slowness)]))
    homes = [loads.filesystem] if loads.filesystem is not None else names
    fills = fill_levels(source.snapshot, homes, source.period_ns[1])
    states = () if loads.measured else tuple(_state(name, loads, facility, events, fills) for name in names)
    components = tuple(part for traffic in loads.traffic for part in _component_states(traffic, loads, fills))
    if loads.measured:  # of a server: its targets
        components = tuple(part for part in components if part.server == loads.where)
    # The most serious events, each where no more serious one is shaded.
    shaded: list[Reference] = []
    known = [event for event in events if event.kind in _SHADED]
    for event in sorted(known, key=lambda e: (_SHADED.index(e.kind), -(e.strength_ratio or 0.0))):
        low, high = max(event.start_ns, loads.start_ns), min(event.end_ns or loads.end_ns, loads.end_ns)
        if len(shaded) < _MOST_SHADED and all(high < each.value or (each.end or 0) < low for each in shaded):
            name = _name_shaded(event, loads)
            shaded.append(Reference("x", low, name, high, "bad" if event.kind in _PROBLEMS else ""))
    if loads.measured:
        fills = [fill for fill in fills if loads.where in (fill.component, loads.servers.get(fill.component))]
        facts, exhibits = _component_facts(loads, fills), _component_exhibits(loads, tuple(shaded), events)
    else:
        facts = tuple(_state_facts(state, fills) for state in states)
        exhibits = tuple(_filesystem_exhibits(loads, components, tuple(shaded)))
    newest = max((group.end_ns for group in source.snapshot.series()), default=0)
    at = past_moment(loads.end_ns, is_newest=source.period_ns[1] >= newest)
    return Answer(
        question="What is the storage doing?" if loads.kind == "facility" else f"What is {loads.where} doing?",
        headline=_headline(loads, states, at),
        facts=facts,
        exhibits=exhibits,
        findings=tuple(_full_targets(fills)),
        coverage=_coverage(loads),
        result=StorageOutcome(
            loads.where,
            loads.kind,
            loads.filesystem,
            loads.start_ns,
            loads.end_ns,
            loads.step_ns,
            states,
            components,
            tuple(events),
        ),
    )


def _events(every: Sequence[EventOutcome], loads: Loads) -> list[EventOutcome]:
    """Events of this place and time, the newest first."""
    found = [e for e in every if e.start_ns < loads.end_ns and (e.end_ns is None or e.end_ns > loads.start_ns)]
    if loads.kind == "filesystem":
        found = [e for e in found if _is_on(e, loads.where)]
    elif loads.kind != "facility":
        found = [e for e in found if e.component == loads.where or e.kind == "maintenance"]
    return newest_first(found)


def _is_on(event: EventOutcome, filesystem: str) -> bool:
    return not event.filesystem or event.filesystem.removeprefix("mount:").split(" ")[0] == filesystem


def _full_targets(fills: Sequence[FillLevel]) -> Iterator[Finding]:
    """Name the targets that are nearly full."""
    if full := [
        f"{fill.component} ({format_value(fill.full_ratio, 'ratio')})" for fill in fills if fill.full_ratio > _FULL
    ]:
        more = f" and {len(full) - _MOST_NAMED:,} more" if len(full) > _MOST_NAMED else ""
        yield Finding(f"More than 90% full: {', '.join(full[:_MOST_NAMED])}{more}.", "alarm", "full_targets")


def _fill_facts(fills: Sequence[FillLevel]) -> Iterator[Fact]:
    """Yield the fill level of the fullest of these targets."""
    for fill in fills[:1]:
        note = f"{fill.component}: {format_value(fill.free_bytes, 'bytes')} free, {format_time_ns(fill.end_ns)}"
        yield Fact("fullest", "fullest target", fill.full_ratio, "ratio", note=note)


def _state(
    name: str, loads: Loads, facility: Facility, events: Sequence[EventOutcome], fills: Sequence[FillLevel]
) -> FileSystemState:
    """Load in the last hour, amounts in the period and open events of one file system."""
    traffic = next((t for t in loads.traffic if t.filesystem == name), None)
    now = next((hour for hour in loads.last_hours if hour.filesystem == name), LastHour(name))
    nominal = next((f.peak_bytes_per_s for f in facility.filesystems if f.name == name), None)
    mine = [fill for fill in fills if fill.filesystem == name]
    going_on = [e for e in events if _is_on(e, name) and (e.end_ns is None or e.end_ns >= loads.end_ns)]
    rates = [rate for rate in (now.read, now.write) if rate is not None]
    read, write = (
        (0.0, 0.0) if traffic is None else (_total_bytes(line, loads) for line in (traffic.read, traffic.write))
    )
    return FileSystemState(
        name,
        now.slowdown,
        now.op,
        now.slowdown is not None and now.slowdown >= SLOW,
        now.read,
        now.write,
        nominal,
        sum(rates) / nominal if rates and nominal else None,
        read,
        write,
        _busiest_component(traffic),
        len([e for e in going_on if e.kind in _SHADED]),
        sum(fill.full_ratio for fill in mine) / len(mine) if mine else None,
        mine[0].component if mine else None,
        mine[0].full_ratio if mine else None,
    )


def _total_bytes(rate: Floats, loads: Loads) -> float:
    """Bytes in the period, from a rate in each step."""
    return float(np.nansum(rate)) * loads.step_ns / NS


def _busiest_component(traffic: Traffic | None) -> str | None:
    if traffic is None or not traffic.components:
        return None
    moved = np.nansum(traffic.parts_read, axis=0) + np.nansum(traffic.parts_write, axis=0)
    return traffic.components[int(np.argmax(moved))]


def _component_states(traffic: Traffic, loads: Loads, fills: Sequence[FillLevel]) -> Iterable[ComponentState]:
    """Amounts, share and highest rate of each sampled component of a file system."""
    seconds = loads.step_ns / NS
    levels = {fill.component: fill for fill in fills if fill.filesystem == traffic.filesystem}
    read, write = (np.nansum(parts, axis=0) * seconds for parts in (traffic.parts_read, traffic.parts_write))
    whole = float(read.sum() + write.sum())
    both = np.nan_to_num(traffic.parts_read) + np.nan_to_num(traffic.parts_write)
    for i, name in enumerate(traffic.components):
        moved, level = float(read[i] + write[i]), levels.get(name)
        yield ComponentState(
            name,
            traffic.component_kind,
            traffic.filesystem,
            loads.servers.get(name),
            float(read[i]),
            float(write[i]),
            moved / whole if whole else None,
            float(both[:, i].max(initial=0.0)),
            level and level.full_ratio,
            level and level.free_bytes,
        )


def _name_shaded(event: EventOutcome, loads: Loads) -> str:
    """The component of an event, else what happened; in charts of one component what was wrong with it."""
    if event.component == loads.where:
        wrong = without_name(event.label, event.component).removeprefix("was ")
        return wrong.partition(" while ")[0].partition(" (")[0]
    return (event.component or event.label).removeprefix(f"{event.filesystem.partition(' ')[0]}-")


def past_moment(end_ns: int, *, is_newest: bool) -> str:
    """Return the time of a state as ` at TIME` if the lake has newer samples or the newest are old; else nothing."""
    return "" if is_newest and now_ns() - end_ns < _OLD_NS else f" at {format_time_ns(end_ns)}"


def _headline(loads: Loads, states: Sequence[FileSystemState], at: str) -> str:
    """Return the state of the file systems; of a component its load.

    The state is the newest, or that `at` the end of a past period.
    """
    if loads.measured:
        line = loads.measured[0]
        own, others = _mean_and_peer_mean(line)
        text = "no data in this period"
        if own is not None:
            text = f"{_metric_label(line.metric)} {format_value(own, _unit(line))} on average"
            if others:
                text += f", {format_value(own / others, 'factor')} the median of its {loads.peers} peers"
        return f"{loads.where}: {text}."
    slow = [s for s in states if s.slow]
    if len(states) > 1:
        listed = ", ".join(f"{s.filesystem} ({format_value(s.slowdown, 'factor')})" for s in slow)
        busy = [s for s in states if s.load_ratio is not None]
        most = max(busy, key=lambda s: s.load_ratio or 0.0, default=None)
        load = f" Busiest: {most.filesystem} at {format_value(most.load_ratio, 'ratio')} of its peak." if most else ""
        none = f"None of {len(states)} file systems {'was' if at else 'is'} slow{at}.{load}"
        return f"Slow{at}: {listed}.{load}" if slow else none
    return " ".join(_describe_state(state, at) for state in states) or "No storage data in this period."


def _describe_state(state: FileSystemState, at: str) -> str:
    rates = [rate for rate in (state.read_bytes_per_s, state.write_bytes_per_s) if rate is not None]
    load = f", {format_value(sum(rates), 'bytes_per_s')}" if rates else ""
    share = f" ({format_value(state.load_ratio, 'ratio')} of its peak)" if state.load_ratio is not None else ""
    if state.slowdown is None:
        return f"{state.filesystem}: slowdown not measured{at}{load}{share}."
    word = "slow" if state.slow else "normal"
    op = f" ({state.slowest_op})" if state.slow else ""
    word = f"was {word}{at}" if at else f"is {word}"
    times = format_value(state.slowdown, "factor")
    return f"{state.filesystem} {word}: {times} its usual time{op}{load}{share} in the last hour."


def _state_facts(state: FileSystemState, fills: Sequence[FillLevel]) -> FactGroup:
    facts = [
        Fact("slowdown", "slowdown, last hour", state.slowdown, "factor", note=state.slowest_op or "no probe data"),
        Fact("read", "reads", state.read_bytes_per_s, "bytes_per_s", note="in the last hour"),
        Fact("write", "writes", state.write_bytes_per_s, "bytes_per_s", note="in the last hour"),
        *_fill_facts([fill for fill in fills if fill.filesystem == state.filesystem]),
        Fact("read_bytes", "read in the period", state.read_bytes, "bytes"),
        Fact("write_bytes", "written in the period", state.write_bytes, "bytes"),
        Fact("open_events", "open events", state.open_events, "count"),
    ]
    if state.load_ratio is not None:
        facts.insert(3, Fact("load", "share of nominal peak", state.load_ratio, "ratio", share=state.load_ratio))
    facts += [Fact("busiest", "busiest target", state.busiest)] if state.busiest else []
    return FactGroup(snake_case(f"filesystem_{state.filesystem}"), state.filesystem, tuple(facts))


def _filesystem_exhibits(
    loads: Loads, components: Sequence[ComponentState], shaded: tuple[Reference, ...]
) -> Iterable[Exhibit]:
    """Charts of load and slowdown, and the targets over time."""
    if loads.traffic:
        yield Exhibit("storage.load", "Load", charts=(_load_chart(loads, shaded),))
    slow = [s for s in loads.slowness if len(s.start_ns)]
    if slow:
        rows = tuple((int(t), s.filesystem, number(r)) for s in slow for t, r in zip(s.start_ns, s.ratio, strict=True))
        columns = (_TIME, *columns_of("filesystem: file system [text]; slowdown [factor]"))
        limit = Reference("y", SLOW, "slow (2x)")
        encoding = {"x": "start_ns", "y": "slowdown", "series": "filesystem"}
        table = ResultTable("slowdown", columns, rows)
        chart = Chart("timeline", table, encoding, scales={"y": "log"}, references=(*shaded, limit))
        yield Exhibit("storage.slowdown", "Slowdown of the slowest operation", charts=(chart,))
    if components:
        yield Exhibit("storage.targets", "Targets over time", charts=(_target_heat_map(loads.traffic[0]),))
        yield Exhibit("storage.components", "Targets", tables=(_component_table(components),))


def _load_chart(loads: Loads, shaded: tuple[Reference, ...]) -> Chart:
    """Time line of reads and writes of one file system, or of the sum of each of several."""
    one = len(loads.traffic) == 1
    rows: list[tuple[int, str, float | None]] = []
    for traffic in loads.traffic:
        lines = {"read": traffic.read, "write": traffic.write} if one else {traffic.filesystem: traffic.total}
        rows += [row for name, line in lines.items() for row in _line_rows(traffic.start_ns, name, line)]
    columns = (_TIME, *columns_of("what [text]; rate [bytes_per_s]"))
    encoding = {"x": "start_ns", "y": "rate", "series": "what"}
    return Chart("timeline", ResultTable("load", columns, tuple(rows)), encoding, references=shaded)


def _line_rows(start_ns: Ints, name: str, values: Floats) -> Iterable[tuple[int, str, float | None]]:
    return ((int(t), name, number(v)) for t, v in zip(start_ns, values, strict=True))


def _target_heat_map(traffic: Traffic) -> Chart:
    both = np.where(
        np.isnan(traffic.parts_read), traffic.parts_write, traffic.parts_read + np.nan_to_num(traffic.parts_write)
    )
    rows = tuple(
        (int(t), name, number(both[i, j]))
        for i, t in enumerate(traffic.start_ns)
        for j, name in enumerate(traffic.components)
    )
    columns = (
        _TIME,
        ResultColumn("component", traffic.component_kind.upper(), "text"),
        ResultColumn("rate", "", "bytes_per_s"),
    )
    encoding = {"x": "start_ns", "y": "component", "value": "rate"}
    return Chart("heatmap", ResultTable("targets", columns, rows), encoding)


def _component_table(components: Sequence[ComponentState]) -> ResultTable:
    """Amounts, share and highest rate of each target."""
    columns = columns_of(
        "component: target [text]; server [text]; read_bytes: read [bytes]; write_bytes: written [bytes]; "
        "bytes_ratio: share [ratio]; most_bytes_per_s: highest rate [bytes_per_s]"
    )
    rows = tuple(tuple(getattr(part, column.name) for column in columns) for part in components)
    return ResultTable("components", columns, rows)


def _unit(line: Measured) -> str:
    if line.metric.endswith("_bytes"):
        return "bytes_per_s" if line.per_second else "bytes"
    if line.per_second:
        return "ops_per_s"
    return "ratio" if line.metric.endswith("_ratio") else "seconds"


def _mean_and_peer_mean(line: Measured) -> tuple[float | None, float | None]:
    own = line.own[np.isfinite(line.own)]
    return (float(own.mean()) if len(own) else None), number(line.peer_mean)


def _metric_label(metric: str) -> str:
    text = metric.removesuffix("_bytes").removesuffix("_ratio").removesuffix("_seconds").replace("_ops", " operations")
    return text.upper() if text == "cpu" else text.replace("_", " ")


def _component_facts(loads: Loads, fills: Sequence[FillLevel]) -> tuple[FactGroup, ...]:
    facts = list(_fill_facts(fills))
    for line in loads.measured:
        own, others = _mean_and_peer_mean(line)
        note = f"its {loads.peers} peers (median): {format_value(others, _unit(line))}" if others is not None else ""
        facts.append(Fact(snake_case(line.metric), _metric_label(line.metric), own, _unit(line), note=note))
    server = loads.servers.get(loads.where)
    targets = [name for name, home in loads.servers.items() if home == loads.where]
    facts += [Fact("server", "server", server)] if server else []
    facts += [Fact("targets", "targets", ", ".join(targets))] if targets else []
    facts.append(Fact("filesystem", "file system", loads.filesystem))
    return (FactGroup("component", f"{loads.where}, on average", tuple(facts)),)


def _normal_maximum(loads: Loads, events: Sequence[EventOutcome]) -> dict[str, Reference]:
    """A line at the rate that a target reached before it was stuck at a limit, by the metric that shows the limit."""
    tops: dict[str, float] = {}
    for event in [e for e in events if e.component == loads.where and "normal maximum" in e.label][:1]:
        for line in loads.measured:
            ends = line.start_ns + loads.step_ns
            own = line.own[(line.start_ns >= event.start_ns) & (ends <= (event.end_ns or loads.end_ns))]
            if line.metric in TRAFFIC and np.isfinite(own).any():
                tops[line.metric] = float(np.nanmax(own)) * (event.strength_ratio or 1.0)
    metric = max(tops, key=lambda name: tops[name], default="")
    return {metric: Reference("y", tops[metric], "normal maximum")} if metric else {}


def _component_exhibits(
    loads: Loads, shaded: tuple[Reference, ...], events: Sequence[EventOutcome]
) -> tuple[Exhibit, ...]:
    """A time line for each metric of a server or target, beside its peers."""
    made, ceiling = [], _normal_maximum(loads, events)
    for line in loads.measured:
        peers = {f"highest of {loads.peers} peers": line.highest, f"median of {loads.peers} peers": line.others}
        names = (peers if loads.peers else {}) | {loads.where: line.own}
        rows = tuple(row for name, values in names.items() for row in _line_rows(line.start_ns, name, values))
        label = _metric_label(line.metric)
        title = label[:1].upper() + label[1:]
        value = ResultColumn("value", label, _unit(line))
        references = (*shaded, ceiling[line.metric]) if line.metric in ceiling else shaded
        table = ResultTable(line.metric, (_TIME, ResultColumn("what", "", "text"), value), rows)
        chart = Chart.of("timeline", table, "x=start_ns y=value series=what", references=references)
        made.append(Exhibit(f"storage.{line.metric}", title, charts=(chart,)))
    return tuple(made)


def _coverage(loads: Loads) -> tuple[Coverage, ...]:
    steps = (loads.end_ns - loads.start_ns) // loads.step_ns
    if loads.measured:
        known = int(np.isfinite(loads.measured[0].own).sum())
        return (Coverage(steps, known, "time steps with samples"),)
    found = tuple(
        Coverage(
            steps, round(t.coverage * steps), f"time steps on {t.filesystem}", detail="with samples from all targets"
        )
        for t in loads.traffic
    )
    return found or (Coverage(steps, 0, "time steps with server samples"),)


def storage_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """The state of each file system, or of one place; load and slowdown over time; problems."""
    result = answer.result
    assert isinstance(result, StorageOutcome)
    if len(result.filesystems) > 1:
        rows = [
            (
                s.filesystem,
                "not measured" if s.slowdown is None else "slow" if s.slow else "normal",
                s.slowdown,
                s.read_bytes_per_s,
                s.write_bytes_per_s,
                s.load_ratio,
                s.fullest_ratio,
            )
            for s in result.filesystems
        ]
        columns = (
            "filesystem: file system [text]; state [text]; slowdown [factor]; reads [bytes_per_s]; "
            "writes [bytes_per_s]; load: of peak [ratio]; fullest [ratio]"
        )
        yield ResultTable.of("filesystems", columns, rows)
    else:
        for group in answer.facts:
            yield largest_facts(replace(group, title=""), 7 + any(fact.name == "fullest" for fact in group.facts))
    yield from answer.findings
    charts = [(exhibit.title, chart) for exhibit in answer.exhibits for chart in exhibit.charts]
    lines = [replace(chart, title=chart.title or title) for title, chart in charts if chart.kind == "timeline"]
    yield from lines[:2]
    troubles = [each for each in result.events if each.kind in TROUBLES and each.kind != "episode"]
    if troubles:
        items = tuple(event_item(event) for event in troubles[:4])
        left = len(troubles) - len(items)
        yield Items("Problems", items, more=f"{left:,} more: ioweather health" if left else "")
    where = [event.component for event in troubles if event.component] + [c.component for c in result.components]
    if len(result.filesystems) > 1:
        yield Next(f"ioweather fs {result.filesystems[0].filesystem}")
    elif result.filesystems and where:
        yield Next(f"ioweather fs {where[0]}")


QUESTION = Question(
    name="storage",
    result=StorageOutcome,
    run=run,
    tables=frozenset({"components", "events", "response_rollups", "series"}),
    params=(Param("where", "File system, server or target (default: all file systems).", positional=True),),
    help="""Show storage activity: load as a share of its peak, slowdown and events. For a file system, also its targets
    over time; for a server or target, also a comparison with its peers.""",
    epilog="Example: ioweather fs scratch-OST0007 --from 2026-11-01",
    seen_by="public",
    blocks=storage_screen,
)
