"""Commands that ask: one per question, made from its parameters, and `show` for exhibits."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import click

from ioweather.core.contracts import Param, Question
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.outcomes import ClaimsOutcome, EventOutcome, EventsOutcome, NowOutcome
from ioweather.core.results import SCHEMA_VERSION, Answer, Cell, result_json
from ioweather.core.units import NS, format_seconds, format_time_ns
from ioweather.topics.ask import ask, zone_of
from ioweather.topics.parameters import period_between
from ioweather.topics.question_catalogue import QUESTIONS
from ioweather.ui.cli.options import (
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_assignments,
    parse_period,
    period_options,
    progress_bar,
)
from ioweather.ui.cli.screen import say, say_json
from ioweather.ui.cli.terminal import console, print_exhibit, print_rows, show_answer, shown
from ioweather.ui.cli.why_served import SERVER_OPTIONS

Shown = Callable[..., int | None]


# Commands whose question has another name.
_QUESTIONS_OF_COMMANDS = {"jobs": "runs", "fs": "storage"}


def question_of(command: str) -> str | None:
    """The question that a command asks, ours or one of an installed plug-in."""
    for name in (_QUESTIONS_OF_COMMANDS.get(command, command), command.replace("-", "_")):
        if name in QUESTIONS:
            return name
    return None


def command_of(name: str) -> click.Command:
    """The command of a question: its parameters as arguments and options, and those that all questions share."""
    question = QUESTIONS[name]
    show, extra = SCREENS.get(name, (None, ()))

    def run(**typed: Any) -> int | None:
        form = output_form(typed.pop("as_json"), typed.pop("as_csv"))
        page: Path | None = typed.pop("html_file", None)
        full = typed.pop("full_screen", False)
        own = {option.name: typed.pop(str(option.name)) for option in extra}
        lake, start, end = (typed.pop(key, None) for key in ("lake_dir", "from_text", "to_text"))
        less = question.screen if form == "text" and page is None else {}

        def put() -> Answer:
            return ask(name, lake, {**less, **typed}, period_ns=period_between(start, end, lambda: zone_of(lake)))

        if show is not None:
            return show(put, form, **own, **({"html_file": page} if question.page else {}))
        show_answer(put(), form, page, csv_table=question.table, brief={} if full else question.brief)
        return None

    command = click.Command(name, callback=run, help=question.help, epilog=question.epilog)
    full_screen = click.Option(["--full", "full_screen"], is_flag=True, help="The whole answer in the terminal.")
    command.params = [
        *_shared(question),
        *([full_screen] if question.brief else []),
        *filter(None, map(_parameter, question.params)),
        *extra,
    ]
    command.params.sort(key=lambda parameter: isinstance(parameter, click.Option))
    return command


def _shared(question: Question) -> list[click.Parameter]:
    """--lake, --json, --csv, and where they make sense --html, --from and --to."""

    def nothing() -> None: ...

    decorated: Any = period_options(nothing) if question.period else nothing
    if question.page:
        kind = click.Path(path_type=Path)
        decorated = click.option("--html", "html_file", type=kind, metavar="FILE", help="Write a page.")(decorated)
    decorated = lake_option(output_options(decorated))
    return list(reversed(decorated.__click_params__))


def _parameter(param: Param) -> click.Parameter | None:
    if not param.shown:
        return None
    many = -1 if param.many else 1
    if param.required or param.positional:
        shown = param.metavar or param.name.upper()
        metavar = shown if param.required else f"[{shown}]"
        return click.Argument([param.name], nargs=many, required=param.required, metavar=metavar)
    known: dict[str, Any] = {"help": param.help, "metavar": param.metavar or None}
    if "/" in param.option:
        first, second = param.option.split("/")
        flags = f"--{first}/--{second}"
        return click.Option(
            [flags, param.name],
            default=param.default and param.default == first,
            help=param.help,
            callback=lambda _, __, chosen: {True: first, False: second}.get(chosen),
        )
    spelled = [f"--{param.option or param.name.replace('_', '-')}", param.name]
    if param.kind == "flag":
        return click.Option(spelled, is_flag=True, help=param.help)
    if param.many:
        return click.Option(spelled, multiple=True, **known)
    if param.default is not None:
        known |= {"default": param.default, "show_default": True}
    if param.choices:
        return click.Option(spelled, type=click.Choice(param.choices), **(known | {"metavar": None}))
    if param.kind == "int":
        return click.Option(spelled, type=int if param.least is None else click.IntRange(param.least), **known)
    return click.Option(spelled, **known)


def _show_now(put: Callable[[], Answer], form: str, watch: bool) -> int:
    while True:
        answer = put()
        if watch and form == "text":
            click.clear()
        show_answer(answer, form)
        if not watch:
            return 1 if isinstance(answer.result, NowOutcome) and answer.result.wrong else 0
        time.sleep(2)


_WATCH_OPTION = click.Option(["--watch"], is_flag=True, help="Show it again every two seconds, until Ctrl-C.")


def _show_events(put: Callable[[], Answer], form: str, most: int) -> None:
    answer = put()
    assert isinstance(answer.result, EventsOutcome)
    found = answer.result.events
    if form != "text":
        show_answer(answer, form, csv_table="events")
        return
    shown = [
        (
            format_time_ns(e.start_ns)[:16],
            _event_length(e),
            e.component or e.filesystem.removeprefix("mount:"),
            f"phase {e.label}" if e.kind == "phase" else e.label,
            f"{e.strength_ratio:.1f}x" if e.strength_ratio is not None else "",
        )
        for e in found[:most]
    ]
    print_rows(("from", "for", "where", "what", "strength"), shown, form)
    if len(found) > most:
        say(f"{len(found) - most:,} more: --most {len(found)} shows all; --from, --to and --kind choose.")
    if not found:
        say(answer.headline)
    for caveat in answer.caveats:
        say(caveat)


def _event_length(event: EventOutcome) -> str:
    return "ongoing" if event.end_ns is None else format_seconds((event.end_ns - event.start_ns) / NS)


_MOST_OPTION = click.Option(
    ["--most"], default=40, show_default=True, type=int, help="Lines in the terminal; --json and --csv give all."
)


def _show_claims(put: Callable[[], Answer], form: str, export: Path | None, html_file: Path | None) -> None:
    answer = put()
    if export is not None:
        from ioweather.studies.claims import write_claims

        assert isinstance(answer.result, ClaimsOutcome)
        write_claims(answer.result.here, export)
        say(f"Wrote {export}.", err=True)
    if form != "text" or html_file is not None:
        show_answer(answer, form, html_file, csv_table="claims")
        return
    _print_claims(answer)


def _print_claims(answer: Answer) -> None:
    """A line per statement: its mark, what it says, this site's value, the paper's, and those of others, under numbers
    that fit beside each other. Criteria, intervals, places and why a statement cannot be tested are in
    --html, --csv and --json."""
    from ioweather.core.papers import PAPERS

    (table,) = answer.exhibits[0].tables
    names = [column.name for column in table.columns]
    sites = [column for column in table.columns if column.name.startswith("site_")]
    numbers = [str(number) for number, _ in enumerate(sites, 1)]
    kept = [names.index(name) for name in ("mark", "text", "value", "paper", *(site.name for site in sites))]
    out = console()
    out.print(shown(answer.headline))
    if sites:
        say("", *(f"{number}: {site.heading}" for number, site in zip(numbers, sites, strict=True)))
    for key, paper in PAPERS.items():
        rows = [row for row in table.rows if str(row[0]).startswith(f"{key}.")]
        if rows:
            say("", f"{key}: {paper.site}")
            print_rows(
                ("", "what the paper states", "here", "paper", *numbers),
                [_claim_cells(row, kept) for row in rows],
                "text",
            )
    for caveat in answer.caveats:
        say("")
        out.print(shown(caveat))


def _claim_cells(row: Sequence[Cell], kept: Sequence[int]) -> list[Cell]:
    from ioweather.studies.claims import MARKS

    mark, text, value, *others = (row[place] for place in kept)
    return [mark, text, "" if mark == MARKS["untestable"] else value, *others]


_EXPORT_OPTION = click.Option(
    ["--export"], type=click.Path(path_type=Path), metavar="FILE", help="Write this site's row for other sites."
)


def _show_why(
    put: Callable[[], Answer],
    form: str,
    line: bool,
    block: bool,
    recorded: bool,
    html_file: Path | None = None,
    **_: object,
) -> None:
    given = click.get_current_context().params
    if line or block or recorded:
        from ioweather.diagnosis.recorded_verdicts import job_text

        text = job_text(given["lake_dir"], given["job"], _uid(given["uid"]), recorded=recorded)
        say(*([text.line()] if line else text.block().splitlines()))
    else:
        question = QUESTIONS["why"]
        brief = {} if given["full_screen"] else question.brief
        show_answer(put(), form, html_file, csv_table=question.table, brief=brief)


def _uid(text: str | int | None) -> int | None:
    return None if text is None else int(text)


_RECORDED_OPTION = click.Option(
    ["--recorded"], is_flag=True, help="Only a recorded verdict; exit code 1 where there is none yet."
)
# Questions with a screen of their own: `show(put, form, **options)` prints the answer that `put()` gives.
# A question with a page also passes `html_file`.
SCREENS: dict[str, tuple[Shown, Sequence[click.Option]]] = {
    "claims": (_show_claims, [_EXPORT_OPTION]),
    "events": (_show_events, [_MOST_OPTION]),
    "now": (_show_now, [_WATCH_OPTION]),
    "why": (_show_why, [_RECORDED_OPTION, *SERVER_OPTIONS]),
}


@click.command(epilog="Example: ioweather show car11.fig7 --out throughput.svg")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@lake_option
@output_options
@period_options
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the study.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write to a file: .svg .png .pdf .html .json; its tables: .tex .md .csv",
)
@click.option(
    "--column", type=click.Choice(["single", "double"]), help="A figure as wide as one column of a paper, or as both."
)
@click.option("--dark", is_flag=True, help="Draw on a dark background.")
@click.option("--fresh", is_flag=True, help="Compute again, even if the result is known.")
@click.option("--exact", is_flag=True, help="From every operation, not from roll-ups (probe exhibits).")
@engine_options("none, in one process")
@click.option("--params", "list_params", is_flag=True, help="List the parameters, and stop.")
@click.option("--ready", is_flag=True, help="Without ID: list only the exhibits that this lake can make.")
def show(
    ids: tuple[str, ...],
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    from_text: str | None,
    to_text: str | None,
    assignments: tuple[str, ...],
    out: Path | None,
    column: Literal["single", "double"] | None,
    dark: bool,
    fresh: bool,
    exact: bool,
    engine: dict[str, Any],
    list_params: bool,
    ready: bool,
) -> None:
    """Make exhibits from the lake and show them with the published values. Without ID: list the tables and figures of
    the five papers, and whether this lake can make them."""
    from ioweather.topics.analyse import make_exhibits, parameters_of

    form = output_form(as_json, as_csv)
    if not ids:
        _list_exhibits(lake_dir, form, ready)
        return
    if ids == ("predictability",):  # an answer of its own, without a paper
        period = period_between(from_text, to_text, lambda: zone_of(lake_dir))
        show_answer(ask("predictability", lake_dir, {}, period_ns=period), form)
        return
    if list_params:
        every = [p for exhibit_id in ids for p in parameters_of(exhibit_id)]
        rows = [(p.name, p.kind, p.default if p.choose is None else "chosen from the data", p.help) for p in every]
        print_rows(("parameter", "kind", "default", "meaning"), rows, form)
        return
    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    params = {**parse_assignments(assignments), **({"exact": "yes"} if exact else {})}
    with progress_bar() as progress, executor(engine, lake_dir, progress) as pool:
        made = make_exhibits(
            lake, ids, params=params, period_ns=period, use_cache=not fresh, executor=pool, progress=progress
        )
    if out is not None:
        if len(made) > 1:
            raise UsageError("--out takes one exhibit.")
        from ioweather.ui.publish import origin_of, write_exhibit

        origin = origin_of(lake, made[0], period)
        write_exhibit(made[0], out, theme="dark" if dark else "light", origin=origin, column=column)
        say(f"Wrote {out}.", err=True)
    elif form == "json":
        body = [result_json(exhibit) for exhibit in made]
        say_json(body[0] if len(body) == 1 else body)
    else:
        for exhibit in made:
            print_exhibit(exhibit, form)


def _list_exhibits(lake_dir: str | None, form: str, ready: bool) -> None:
    """Print all exhibits, and whether this lake has the rows for each."""
    from ioweather.topics.analyse import availability, catalogue_only, with_empty_ones

    try:
        with open_lake_at(lake_dir).snapshot() as snapshot:
            found = with_empty_ones(snapshot, availability(snapshot, plugins=True))
        note = ""
    except LakeError as error:
        if lake_dir is not None:
            raise
        found, note = catalogue_only(), str(error)
    shown = [item for item in found if item.ready or not ready]
    if form == "json":
        names = ("id", "title", "study", "ready", "missing", "empty")
        say_json([{"schema_version": SCHEMA_VERSION, **{name: getattr(i, name) for name in names}} for i in shown])
        return
    print_rows(("exhibit", "what it shows", "state"), [(item.id, item.title, item.state) for item in shown], form)
    if form == "text":
        empty = sum(bool(item.empty) for item in found)
        possible = sum(item.ready for item in found)
        nothing = f", {empty} are empty" if empty else ""
        say("", f"{possible} of {len(found)} are ready{nothing}, {len(found) - possible - empty} are not possible.")
        say("Ready: the rows are there. Show one: ioweather show ID")
        if note:
            say(note)
