"""The pages *Overview*, *Now* and *Storage*; of file systems, servers and targets; of events; *Who*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote

from fastapi import APIRouter, Query
from markupsafe import Markup

from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.results import Answer, Block, Fact, FactGroup, Item, Items, ResultTable
from ioweather.core.units import NS, format_bytes, format_seconds, format_time_ns, format_value, now_ns, parse_size
from ioweather.diagnosis.events import TROUBLES, without_name
from ioweather.diagnosis.file_systems import StorageOutcome, past_moment
from ioweather.diagnosis.list_jobs import RunsOutcome
from ioweather.facts.latest_rates import latest_rates
from ioweather.facts.run_targets import target_number
from ioweather.job_io.outcomes import WhoOutcome
from ioweather.planning.forecast_model import ForecastOutcome
from ioweather.ui.charts.page import block_html
from ioweather.ui.web import shell
from ioweather.ui.web.served_lake import is_wrong
from ioweather.ui.web.shell import CHART_PX, MAIN_SHARE, PANEL_PX, Html, Listed, Place
from ioweather.ui.web.visible import RANGE_NS, OwnView, PublicView, View, data_end_ns, period_for

if TYPE_CHECKING:
    from ioweather.diagnosis.health import HealthOutcome
    from ioweather.diagnosis.triage import TriageOutcome

router = APIRouter(include_in_schema=False, default_response_class=Html)
_MOST_SLOWEST = 8
_MOST_PROBLEMS = 4
_MOST_CARDS = 6
_CARD_CHART_PX = 130
_BESIDE_PX = 250  # the numbers beside a chart, and the borders of its panel
_MOST_LINES = 4
_MOST_TILES = {"wide": 32, "narrow": 3}
_MOST_STEPS = 96
_MOST_LIVE = {"wide": 12, "narrow": 4}
_LIVE_SECONDS = 5
_MOST_EVENTS = 200
_MOST_BUSIEST = 4
_MOST_TALKERS = 50
_NOTHING = Markup('<p class="quiet">{}</p>')


@router.get("/")
def overview_page(view: PublicView) -> Html:
    """Return the *Overview*. While `ioweather up` waits for its first rows, the last response times, every 2 s."""
    served = view.served
    if served.first_page is not None and not served.has_rows:
        response = shell.page("first_page.html", view, "/", "Overview", ranged=False, **served.first_page())
        response.headers["refresh"] = "2"
        return response
    return shell.page("overview.html", view, "/", "Overview", default_ns=RANGE_NS)


@router.get("/fragments/summary")
@shell.cached_part("Overview")
def summary(view: OwnView) -> str:
    """The state now, and what problems cost in the period."""
    period = period_for(view, RANGE_NS)
    storage = view.ask("storage", {}, period).result
    health = cast("HealthOutcome", view.ask("health", {}, period).result)
    assert isinstance(storage, StorageOutcome)
    slow = [state.filesystem for state in storage.filesystems if state.slow]
    known = any(state.slowdown is not None for state in storage.filesystems)
    at = _moment_of(view, storage)
    one, many = ("was", "were") if at else ("is", "are")
    normal = f"Storage {one} normal{at or ' now'}." if known else ""
    state = f"{', '.join(slow)} {many if len(slow) > 1 else one} slow{at or ' now'}." if slow else normal
    names = {each.component for each in health.unhealthy}
    # A run that two incidents hit is in both: neither runs nor seconds can be added exactly.
    lost = sum(each.lost_seconds or 0.0 for each in health.unhealthy)
    cost = f"; they delayed runs by up to {format_seconds(lost)}" if lost else ""
    were = "component was" if len(names) == 1 else "components were"
    problems = f"{len(names)} {were} unhealthy" if names else "No component was unhealthy"
    count = len(storage.filesystems)
    age = (now_ns() - (data_end_ns(view) or storage.end_ns)) / NS
    old = f", the end of the data ({format_seconds(age)} ago)" if at and _is_newest(view) else ""
    return Markup('<h1>{}</h1>\n<p class="quiet">As of {}{} · {} file system{}</p>').format(
        f"{state} {problems} in this period{cost if names else ''}.".strip(),
        format_time_ns(storage.end_ns),
        old,
        count,
        "s" if count != 1 else "",
    )


def _is_newest(view: View) -> bool:
    """Whether the range of the page reaches the newest rows of the lake."""
    end = data_end_ns(view)
    return end is None or period_for(view, RANGE_NS)[1] >= end


def _moment_of(view: View, storage: StorageOutcome) -> str:
    """Return ` at TIME` for a past state: the end of a past range, or of data that are old; else nothing."""
    return past_moment(storage.end_ns, is_newest=_is_newest(view))


@router.get("/fragments/weather")
def weather(view: PublicView) -> Html:
    """What agents measure now, in one line; the *Now* page has the details."""
    try:
        found = view.served.now()
    except IoweatherError:
        return Html("")
    state = "wrong" if is_wrong(found) else "fine"
    return Html(shell.part("weather.html", text=found.headline, state=state, place=Place(view, "/")))


@router.get("/fragments/filesystems")
@shell.cached_part()
def filesystems(view: PublicView) -> str:
    """A card per file system: its state in words, and load and slowdown over time."""
    period = period_for(view, RANGE_NS)
    whole = view.ask("storage", {}, period)
    assert isinstance(whole.result, StorageOutcome)
    states = whole.result.filesystems
    drawn = view.drawn(_CARD_CHART_PX, *((1.0, _BESIDE_PX) if len(states) == 1 else (0.5, PANEL_PX)))
    cards: list[tuple[Any, list[Markup]]] = []
    for number, state in enumerate(states):
        answer = whole if len(states) == 1 else view.ask("storage", {"where": state.filesystem}, period)
        few = 1 if view.screen == "wide" else 0
        most = (2 if len(states) < 3 else few) if number < _MOST_CARDS else 0
        lines = shell.stacked(shell.time_lines(answer)[:most])
        cards.append((state, [shell.figure(c, f"fs{number}-{i}", drawn) for i, c in enumerate(lines)]))
    at = _moment_of(view, whole.result)
    return shell.part("filesystems.html", states=cards, at=at, place=Place(view, "/"))


@router.get("/fragments/slowest")
@shell.cached_part()
def slowest(view: OwnView) -> str:
    """Runs ordered by extra time compared with similar runs, in seconds."""
    result = view.ask("runs", {"order": "extra", "most": _MOST_SLOWEST}, period_for(view, RANGE_NS)).result
    assert isinstance(result, RunsOutcome)
    columns = (
        "job; program; user; started [time_ns]; I/O time [seconds]; × similar [factor]; "
        "beyond similar [seconds]; verdict"
    )
    rows = [
        (str(r.job_id), r.program, r.user, r.start_ns, r.io_seconds, r.slowness, r.extra_seconds, r.verdict_words)
        for r in result.runs
        if r.extra_seconds
    ]
    place = Place(view, "/")
    title = f"Of {result.count:,} jobs"
    empty = "No job took longer than similar jobs in this period."
    return shell.tables_part(Listed.of(title, columns, rows, place, empty))


@router.get("/fragments/problems")
@shell.cached_part()
def problems(view: OwnView) -> str:
    """Problems of the period, current ones first."""
    answer = view.ask("health", {}, period_for(view, RANGE_NS))
    place, count = Place(view), len(cast("HealthOutcome", answer.result).unhealthy)
    more = _more_events(place, count - _MOST_PROBLEMS)
    lists = [block for block in answer.blocks if isinstance(block, Items)]
    parts = [shell.items_part(place, replace(block, items=block.items[:_MOST_PROBLEMS], more=more)) for block in lists]
    return Markup("").join(parts) or _NOTHING.format(answer.headline)


def _more_events(place: Place, count: int) -> Markup:
    """Return a link to the events beyond those that are listed; empty if there are none."""
    return Markup('<a href="{}">{:,} more</a>').format(place.link("/events"), count) if count > 0 else Markup("")


@router.get("/fragments/fixes")
@shell.cached_part()
def fixes(view: OwnView) -> str:
    """Programs where a change saves most."""
    from ioweather.job_io.advisor.advise import ACTIONS  # reads all rules

    result = cast("TriageOutcome", view.ask("triage", {}).result)
    items = []
    for p in result.programs[:_MOST_PROBLEMS]:
        saves = f"saves {format_seconds(p.seconds)} in {'one run' if p.runs == 1 else f'{p.runs:,} runs'}"
        items.append(Item(p.program, saves, note=ACTIONS.get(p.name) or p.headline, page=f"programs/{p.program}"))
    found = Items("", tuple(items))
    return shell.items_part(Place(view), found) if items else _NOTHING.format("Nothing to change.")


@router.get("/now")
def now_page(view: PublicView) -> Html:
    return shell.page("now.html", view, "/now", "Now", ranged=False)


@router.get("/fragments/now")
def now(view: PublicView) -> Html:
    try:
        found = view.served.now()
    except IoweatherError as error:
        elsewhere = Markup('<p>For server reports, see the <a href="{}">overview</a>.</p>')
        return Html(shell.problem(error, "How slow storage is now") + elsewhere.format(Place(view).link("/")))
    state = "wrong" if is_wrong(found) else "fine"
    return Html(Markup('<div class="{}">{}</div>').format(state, shell.answer_part(found, view.drawn())))


@router.get("/fragments/forecast")
@shell.cached_part()
def forecast(view: PublicView) -> str:
    """The load and slowdown of the next hours, folded where the forecast has no skill."""
    try:
        answer = view.ask("forecast", {})
    except DataUnavailable as error:
        return _NOTHING.format(f"No forecast yet. {error.message}")
    whole = shell.answer_part(answer, view.drawn(), second=True)
    result = answer.result
    if isinstance(result, ForecastOutcome) and any((h.skill.low or 0.0) > 0 for h in result.horizons):
        return whole
    # A forecast without skill is folded below its headline.
    folded = Markup('<details><summary class="quiet">{}</summary>{}</details>')
    return folded.format(answer.headline, whole)


@router.get("/storage")
def storage_page(view: PublicView, size: str = "", op: str = "write") -> Html:
    return shell.page("storage.html", view, "/storage", "Storage", size=size, op=op, default_ns=RANGE_NS)


@router.get("/fragments/storage_home")
@shell.cached_part("Storage")
def storage_home(view: PublicView) -> str:
    """The only file system; if there are several, all of them together."""
    result = view.ask("storage", {}, period_for(view, RANGE_NS)).result
    assert isinstance(result, StorageOutcome)
    names = [state.filesystem for state in result.filesystems]
    return _storage(view, names[0] if len(names) == 1 else None, is_home=True)


@router.get("/filesystems/{name}")
def filesystem_page(view: PublicView, name: str) -> Html:
    place = Place(view, f"/filesystems/{quote(name, safe='')}")
    runs = place.link("/fragments/runs", filesystem=name, order="extra", days="7")
    parts = (
        (place.link("/fragments/storage", where=name), "Adding up the load…", "What it did"),
        (
            place.link("/fragments/targets", where=name),
            "Reading the newest samples…",
            "Newest samples of targets",
            _LIVE_SECONDS,
        ),
        (runs, "Comparing runs…", "Runs"),
    )
    return shell.parts_page(view, place.path, name, *parts, heading="", default_ns=RANGE_NS)


@router.get("/fragments/targets")
@shell.cached_part("Newest samples of targets")
def targets(view: PublicView, where: str) -> str:
    """The newest rates of the busiest targets of a file system."""
    with view.lake.snapshot() as snapshot:
        found = latest_rates(snapshot, where)
    rows = [
        (t.target, t.server or "", t.read_bytes_per_s, t.write_bytes_per_s, t.ops_per_s, t.full_ratio, t.end_ns)
        for t in found.targets
    ]
    rows.sort(key=lambda row: -((row[2] or 0.0) + (row[3] or 0.0)))
    most = _MOST_LIVE[view.screen]
    count = f"The busiest {most} of {len(rows):,} targets" if len(rows) > most else f"{len(rows):,} targets"
    columns = (
        "target; server; read [bytes_per_s]; written [bytes_per_s]; operations [ops_per_s]; full [ratio]; "
        "sampled [time_ns]"
    )
    listed = Listed.of(count, columns, rows[:most], Place(view))
    return Markup("<h2>Targets: newest samples</h2>{}").format(listed.html)


@router.get("/components/{name}")
def component_page(view: PublicView, name: str) -> Html:
    """One server or target; for a target, files to move off it too."""
    place = Place(view, f"/components/{quote(name, safe='')}")
    parts = [(place.link("/fragments/storage", where=name), "Comparing with its peers…", "What it did")]
    if target_number(name) is not None:
        parts.append((place.link("/fragments/relief", target=name), "Looking for files to move…", "Files to move"))
    return shell.parts_page(view, place.path, name, *parts, heading="", default_ns=RANGE_NS)


@router.get("/fragments/relief")
@shell.cached_part("Files to move")
def relief(view: OwnView, target: str) -> str:
    """Files to move off a busy target."""
    return shell.answers_part([view.ask("relieve", {"target": target}, period_for(view, RANGE_NS))], view)


@router.get("/fragments/transfer")
@shell.cached_part()
def transfer(
    view: PublicView,
    size: Annotated[str, Query(max_length=40)] = "64GiB",
    op: Annotated[str, Query(pattern="^(read|write)$")] = "write",
) -> str:
    """Recommended stripe count for a file of this size, and its transfer time."""
    try:
        amount = parse_size(size)
    except ValueError as error:
        raise UsageError(str(error), hint="Specify a size such as 64GiB or 1TB.") from None
    asked, answers = {"size": str(amount), "op": op}, []
    with suppress(DataUnavailable):  # it needs more samples than a prediction
        answers.append(view.ask("predict", {**asked, "stripe": "true"}))
    return shell.answers_part([*answers, view.ask("predict", asked)], view)


@router.get("/fragments/storage")
@shell.cached_part("{where}")
def storage(view: PublicView, where: str) -> str:
    return _storage(view, where)


def _storage(view: View, where: str | None, *, is_home: bool = False) -> str:
    """The state, load and slowdown on one time axis, problems beside them, and small multiples of the targets.

    `is_home`: the page is that of all storage, which has no breadcrumb.
    """
    answer = view.ask("storage", {"where": where} if where else {}, period_for(view, RANGE_NS))
    result = answer.result
    assert isinstance(result, StorageOutcome)
    place = Place(view)
    tables = [shell.components_table(place, result.components)] if result.components else []
    tables.append(shell.events_table(place, result.events, "Events in this period"))
    up = [("Storage", place.link("/storage"))]
    if result.kind not in ("facility", "filesystem"):
        up.append((str(result.filesystem), place.to("filesystems", result.filesystem)))
    up.append((result.where, ""))
    troubles = [each for each in result.events if each.kind in TROUBLES and each.kind != "episode"]
    wrong = [
        replace(block, more=_more_events(place, len(troubles) - len(block.items)))
        for block in answer.blocks
        if isinstance(block, Items)
    ]
    state = next((block for block in answer.blocks if isinstance(block, (FactGroup, ResultTable))), None)
    side = [shell.items_part(place, block) for block in wrong]
    if isinstance(state, ResultTable):
        side.append(Listed(state, place).html)
    elif state is not None:
        side.append(block_html(state, 3, view.drawn(), "state"))
    side += [block_html(finding, 3, view.drawn(), "full") for finding in answer.findings]
    drawn = view.drawn(CHART_PX, MAIN_SHARE if side else 1.0, PANEL_PX)
    lines = enumerate(shell.stacked(shell.time_lines(answer)[:_MOST_LINES]))
    charts = [shell.figure(chart, f"line{number}", drawn, 2) for number, chart in lines]
    return shell.part(
        "place_parts.html",
        head=Markup("<h1>{}</h1>").format(answer.headline),
        up="" if is_home else shell.part("crumbs.html", crumbs=up),
        charts=charts,
        side=side,
        tiles=_tiles(place, answer, result, _MOST_TILES[view.screen]),
        tables=tables,
        closing=shell.closing_part(answer),
    )


def _tiles(place: Place, answer: Answer, result: StorageOutcome, most: int) -> str:
    """Targets as small multiples on one scale, by server; of hundreds the sick ones and the busiest. A tile has its
    name and address, its number of steps, its rate as polygons (gaps are gaps), and words."""
    heat = next((c for e in answer.exhibits for c in e.charts if c.kind == "heatmap"), None)
    if heat is None or not result.components:
        return ""
    rates: dict[str, list[float | None]] = {}
    for _, name, rate in heat.table.rows:
        rates.setdefault(str(name), []).append(rate if isinstance(rate, (int, float)) else None)
    sick = {event.component: event for event in result.events if event.kind == "component_health"}
    top = max((rate for values in rates.values() for rate in values if rate is not None), default=0.0) or 1.0
    parts = sorted(result.components, key=lambda c: (c.component not in sick, -(c.most_bytes_per_s or 0.0)))
    tiles = []
    for each in sorted(parts[:most], key=lambda c: (c.server or "", c.component)):
        every = rates.get(each.component, [])
        size = -(-len(every) // _MOST_STEPS) or 1  # the highest rate of each of so many stretches
        pieces = ([v for v in every[i : i + size] if v is not None] for i in range(0, len(every), size))
        values = [max(piece, default=None) for piece in pieces]
        moved = format_bytes((each.read_bytes or 0.0) + (each.write_bytes or 0.0))
        highest = format_value(each.most_bytes_per_s, "bytes_per_s")
        context = f"{each.server or ''} · max {highest} · {moved}".removeprefix(" · ")
        event = sick.get(each.component)
        words = without_name(event.label, event.component) if event else ""
        name = each.component.removeprefix(f"{result.filesystem}-")
        address = place.to("components", each.component)
        tiles.append((name, address, len(values), list(_polygons(values, top)), context, words))
    servers = f" on {len({c.server for c in parts if c.server}):,} servers" if parts[0].server else ""
    left = max(len(parts) - most, 0)
    return shell.part("tiles.html", title=f"{len(parts):,} targets{servers}", tiles=tiles, left=left)


def _polygons(values: Sequence[float | None], top: float) -> Iterator[str]:
    """An area per stretch without gaps, in a box 40 high."""
    for known, run in groupby(enumerate(values), key=lambda each: each[1] is not None):
        if known:
            points = [(place, 40 - 38 * (value or 0.0) / top) for place, value in run]
            first, last = points[0][0], points[-1][0] + 1
            line = [*points, (last, points[-1][1]), (last, 40), (first, 40)]
            yield " ".join(f"{x},{y:.1f}" for x, y in line)


@router.get("/events")
def events_page(view: PublicView, kind: str = "") -> Html:
    address = Place(view, "/events").link("/fragments/events", kind=kind)
    return shell.parts_page(view, "/events", "Events", (address, "Looking for events…", "Events"))


@router.get("/fragments/events")
def events(view: PublicView, kind: str | None = None) -> Html:
    try:
        found = view.served.events(kind or None, period_for(view))
    except IoweatherError as error:
        return shell.failed(error)
    notes = [f"{len(found) - _MOST_EVENTS:,} older events are not shown."] if len(found) > _MOST_EVENTS else []
    title = f"{min(_MOST_EVENTS, len(found)):,} of {len(found):,} events, the newest first"
    return Html(shell.tables_part(shell.events_table(Place(view), found[:_MOST_EVENTS], title), notes=notes))


@router.get("/who")
def who_page(view: PublicView) -> Html:
    part = (Place(view, "/who").link("/fragments/who"), "Finding out who…", "Who")
    return shell.parts_page(view, "/who", "Who", part, heading="", default_ns=RANGE_NS)


def _ask_who(view: View) -> tuple[Answer, WhoOutcome]:
    """The answer of `who` by user. With nothing chosen it is about the last hour; here all data are meant."""
    low, high = period_for(view, RANGE_NS)
    answer = view.ask("who", {"by": "user"}, (low, min(high, (data_end_ns(view) or high - 1) + 1)))
    assert isinstance(answer.result, WhoOutcome)
    return answer, answer.result


@router.get("/fragments/who")
@shell.cached_part("Who")
def who(view: OwnView) -> str:
    """Jobs that slowed others, and the users who moved most."""
    answer, result = _ask_who(view)
    place = Place(view, "/who")
    culprits = [
        (str(c.job_id or ""), c.user or "", c.project or "", c.program or "", c.probability, c.seconds)
        for c in result.culprits
    ]
    talkers = [
        (t.user, t.read_bytes, t.write_bytes, t.bytes_ratio, round(t.metadata_operations))
        for t in result.talkers[:_MOST_TALKERS]
    ]
    tables = [
        Listed.of(
            "Jobs that slowed others",
            "job; user; project; program; probability [ratio]; cost others [seconds]",
            culprits,
            place,
            "No job was found to have slowed others.",
        ),
        Listed.of(
            f"Who moved the most data on {result.filesystem or 'storage'}",
            "user; read [bytes]; written [bytes]; of logged bytes [ratio]; metadata [count]",
            talkers,
            place,
            "Who moved the most data: no job records.",
        ),
    ]
    said = shell.answer_part(replace(answer, facts=(), exhibits=(), findings=()), view.drawn(), folded=False)
    return shell.part("place_parts.html", head=said, tables=tables, closing=shell.closing_part(answer))


@router.get("/fragments/busiest")
@shell.cached_part()
def busiest(view: OwnView) -> str:
    """Users ordered by the data that their jobs moved in the period."""
    answer, result = _ask_who(view)
    moved = [(talker, talker.read_bytes + talker.write_bytes) for talker in result.talkers]
    found = [each for each in moved if each[1]][:_MOST_BUSIEST]
    if not found:
        return _NOTHING.format("No logged job in this period.")
    most = max(amount for _, amount in found)
    facts = tuple(
        Fact(
            f"user_{n}",
            t.user or "not known",
            amount,
            "bytes",
            amount / most,
            f"moved, {format_bytes(t.read_bytes)} read",
        )
        for n, (t, amount) in enumerate(found)
    )
    said = [finding for finding in answer.findings if finding.name in {"known", "unplaced"}]
    blocks: list[Block] = [FactGroup("users", f"By data moved on {result.filesystem or 'storage'}", facts), *said]
    return Markup("").join(block_html(block, 3, view.drawn(), "busiest") for block in blocks)
