"""First screens of the answers about storage: blocks made from their results and facts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from ioweather.core.contracts import Params
from ioweather.core.outcomes import (
    TROUBLES,
    EventOutcome,
    EventsOutcome,
    FileSystemState,
    HealthOutcome,
    NowOutcome,
    StorageOutcome,
    WhoOutcome,
)
from ioweather.core.results import Answer, Block, Item, Items, Next, ResultTable, largest
from ioweather.core.units import format_seconds

_MOST_LISTED: Final = 10
_MOST_PROBLEMS: Final = 4
_MOST_FIGURES: Final = 2
_MOST_SEARCHED: Final = 2


def who_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Jobs that cost others time; without any, who does most I/O."""
    result = answer.result
    assert isinstance(result, WhoOutcome)
    did = [f.text.partition(": ")[2] for f in answer.findings if f.name.startswith("did_")]
    rows = []
    for number, each in enumerate(result.culprits[:5]):
        doing = did[number].partition(" Ask ")[0].removeprefix("It ").rstrip(".") if number < len(did) else ""
        doing, _, where = doing.partition(": ")
        doing = ", ".join(filter(None, (doing, where.split(", ")[0])))
        name = str(each.job_id) if each.job_id is not None else each.program or "another job"
        rows.append(
            (
                name,
                each.user or "",
                each.seconds,
                None if each.probability is None else round(each.probability, 2),
                doing,
            )
        )
    if rows:
        columns = "job [text]; user [text]; cost: cost others [seconds]; sure [ratio]; doing [text]"
        yield ResultTable.of("culprits", columns, rows)
    else:
        for name in ("talkers", "beside"):
            yield from (largest(group, 5) for group in answer.facts if group.name == name)
    yield from (largest(group, 3) for group in answer.facts if group.name == "storms")
    yield from (f for f in answer.findings if f.name == "known" or (result.about == "run" and f.name == "tell_1"))
    first = next((each.job_id for each in result.culprits if each.job_id is not None), None)
    yield Next(f"ioweather who --without {first}" if first is not None else "ioweather health")


def health_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Each incident: what, when, and what it cost."""
    result = answer.result
    assert isinstance(result, HealthOutcome)
    found = result.unhealthy
    items = []
    for each in found[:_MOST_LISTED]:
        what = each.cause.removeprefix(f"{each.component} ")
        runs = each.runs or 0
        lost = f"{runs:,} run{'s' if runs != 1 else ''} lost {format_seconds(each.lost_seconds or 0.0)}"
        sure = f"{each.probability:.0%} sure" if each.probability is not None else ""
        note = ", ".join(filter(None, [lost if runs and each.lost_seconds else "", sure]))
        page = f"components/{each.component}" if each.component else ""
        items.append(Item(each.component or each.filesystem or "", what, each.start_ns, each.end_ns, note, page))
    if items:
        more = f"{len(found) - len(items):,} more: --from, --to or --csv" if len(found) > len(items) else ""
        yield Items("", tuple(items), more=more)
    yield from answer.findings[:_MOST_SEARCHED]
    if items:
        costliest = max(found, key=lambda each: each.lost_seconds or 0.0)
        if costliest.component:
            yield Next(f"ioweather fs {costliest.component}")


def now_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """The slowest operations, then what is wrong."""
    result = answer.result
    assert isinstance(result, NowOutcome)
    slowest = sorted(result.operations, key=lambda each: -(each.slowdown or 0.0))[:_MOST_LISTED]
    rows = [
        (
            f"{o.filesystem} from {o.host}" if o.host else o.filesystem,
            o.op,
            o.slowdown,
            o.median_seconds,
            o.usual_seconds,
        )
        for o in slowest
    ]
    if rows:
        columns = "where [text]; operation [text]; slowdown: against usual [factor]; takes [seconds]; usual [seconds]"
        left = len(result.operations) - len(rows)
        yield ResultTable.of("operations", columns, rows, f"The slowest of {len(result.operations)}" if left else "")
    yield from (finding for finding in answer.findings if finding.kind == "alarm")


def storage_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """The state of each file system, or of one place; load and slowdown over time; problems."""
    result = answer.result
    assert isinstance(result, StorageOutcome)
    if len(result.filesystems) > 1:
        rows = [
            (s.filesystem, _state(s), s.slowdown, s.read_bytes_per_s, s.write_bytes_per_s, s.load_ratio)
            for s in result.filesystems
        ]
        columns = (
            "filesystem: file system [text]; state [text]; slowdown [factor]; reads [bytes_per_s]; "
            "writes [bytes_per_s]; load: of peak [ratio]"
        )
        yield ResultTable.of("filesystems", columns, rows)
    else:
        yield from (largest(replace(group, title=""), 7) for group in answer.facts)
    charts = [(exhibit.title, chart) for exhibit in answer.exhibits for chart in exhibit.charts]
    lines = [replace(chart, title=chart.title or title) for title, chart in charts if chart.kind == "timeline"]
    yield from lines[:_MOST_FIGURES]
    troubles = [each for each in result.events if each.kind in TROUBLES and each.kind != "episode"]
    if troubles:
        items = tuple(_item(event) for event in troubles[:_MOST_PROBLEMS])
        left = len(troubles) - len(items)
        yield Items("Problems", items, more=f"{left:,} more: ioweather health" if left else "")
    where = [event.component for event in troubles if event.component] + [c.component for c in result.components]
    if len(result.filesystems) > 1:
        yield Next(f"ioweather fs {result.filesystems[0].filesystem}")
    elif result.filesystems and where:
        yield Next(f"ioweather fs {where[0]}")


def _state(state: FileSystemState) -> str:
    return "not measured" if state.slowdown is None else "slow" if state.slow else "normal"


def events_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """What happened, the newest first; phases of benchmarks only where they were asked for."""
    result = answer.result
    assert isinstance(result, EventsOutcome)
    phases = [event for event in result.events if event.kind == "phase"]
    found = [event for event in result.events if event.kind != "phase"] or phases
    items = tuple(_item(event) for event in found[: 2 * _MOST_LISTED])
    left = [f"{len(found) - len(items):,} more: choose by --from, --to or --kind"] if len(found) > len(items) else []
    left += [f"{len(phases):,} phases of benchmarks: --kind phase"] if phases and found is not phases else []
    if items:
        yield Items("", items, more="; ".join(left))


def _item(event: EventOutcome) -> Item:
    """The name of the event is left out of its text, and its duration: both are beside it."""
    where = event.component or event.filesystem.removeprefix("mount:") or "facility"
    text = event.label.partition(", for ")[0].removeprefix(f"{event.component} ")
    if event.kind == "episode" and event.strength_ratio is not None:
        text = f"{text}, {event.strength_ratio:.1f}x as long as usual"
    return Item(where, text, event.start_ns, event.end_ns, page=f"components/{where}" if event.component else "")
