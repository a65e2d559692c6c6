"""Commands that ask: one per question, made from its parameters, and `show` for exhibits."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import click

from ioweather.core.contracts import Param, Question
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.outcomes import ClaimsOutcome, NowOutcome
from ioweather.core.results import SCHEMA_VERSION, Answer, result_json
from ioweather.topics.ask import ask, period_between, zone_of
from ioweather.topics.catalogue import QUESTIONS
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
    times_of_facility,
)
from ioweather.ui.cli.screen import say, say_json
from ioweather.ui.cli.terminal import print_exhibit, print_rows, show_answer
from ioweather.ui.cli.why_served import SERVER_OPTIONS

# Commands whose question has another name.
_QUESTIONS_OF_COMMANDS = {"jobs": "runs", "fs": "storage"}


def question_of(command: str) -> str | None:
    """The question that a command asks."""
    for name in (_QUESTIONS_OF_COMMANDS.get(command, command), command.replace("-", "_")):
        if name in QUESTIONS:
            return name
    return None


def command_of(name: str) -> click.Command:
    """The command of a question: its parameters as arguments and options, and those that all questions share."""
    question = QUESTIONS[name]
    extra = _EXTRA.get(name, [])

    def run(**typed: Any) -> int | None:
        given = dict(typed)
        form = output_form(typed.pop("as_json"), typed.pop("as_csv"))
        page: Path | None = typed.pop("html_file", None)
        full = typed.pop("full_screen", False)
        own = {str(option.name): typed.pop(str(option.name)) for option in extra}
        lake, start, end = (typed.pop(key, None) for key in ("lake_dir", "from_text", "to_text"))
        if any(own.get(each) for each in ("line", "block", "recorded")):
            _recorded(given, line=own["line"], recorded=own["recorded"])
            return None
        is_screen = form == "text" and page is None
        less = question.screen if is_screen else {}
        if is_screen:
            times_of_facility(lake)

        def put() -> Answer:
            return ask(name, lake, {**less, **typed}, period_ns=period_between(start, end, lambda: zone_of(lake)))

        answer = _watch(put, own.get("watch", False), form, html_file=page, csv_table=question.table, full=full)
        if own.get("export"):
            from ioweather.studies.claims import write_claims

            assert isinstance(answer.result, ClaimsOutcome)
            write_claims(answer.result.here, own["export"])
            say(f"Wrote {own['export']}.", err=True)
        return 1 if isinstance(answer.result, NowOutcome) and answer.result.wrong else None

    command = click.Command(name, callback=run, help=question.help, epilog=question.epilog)
    full_screen = click.Option(["--full", "full_screen"], is_flag=True, help="The whole answer in the terminal.")
    command.params = [
        *_shared(question),
        *([full_screen] if question.blocks else []),
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


def _watch(put: Callable[[], Answer], watch: bool, form: str, **how: Any) -> Answer:
    """Show the answer of `now`; with `watch` again every two seconds, until Ctrl-C."""
    while True:
        answer = put()
        if watch and form == "text":
            click.clear()
        show_answer(answer, form, **how)
        if not watch:
            return answer
        time.sleep(2)


_WATCH_OPTION = click.Option(["--watch"], is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
_EXPORT_OPTION = click.Option(
    ["--export"],
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Export this site's row to share with other sites.",
)
_RECORDED_OPTION = click.Option(
    ["--recorded"], is_flag=True, help="Only a recorded verdict; exit code 1 where there is none yet."
)
# Options of the command alone.
_EXTRA = {"claims": [_EXPORT_OPTION], "now": [_WATCH_OPTION], "why": [_RECORDED_OPTION, *SERVER_OPTIONS]}


def _recorded(given: Mapping[str, Any], *, line: bool, recorded: bool) -> None:
    """The verdict on record, as one line or a short text."""
    from ioweather.diagnosis.recorded_verdicts import job_text

    uid = given.get("uid")
    text = job_text(given["lake_dir"], given["job"], None if uid is None else int(uid), recorded=recorded)
    say(*([text.line()] if line else text.block().splitlines()))


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
@click.option("--column", type=click.Choice(["single", "double"]), help="Figure width: one column of a paper, or both.")
@click.option("--dark", is_flag=True, help="Draw on a dark background.")
@click.option("--fresh", is_flag=True, help="Compute again, even if the result is known.")
@click.option("--exact", is_flag=True, help="From every operation, not from roll-ups (probe exhibits).")
@engine_options("none, in one process")
@click.option("--params", "list_params", is_flag=True, help="List the parameters and exit.")
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
            found = with_empty_ones(snapshot, availability(snapshot))
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
        say("Ready means that the lake has the data. Show one: ioweather show ID")
        if note:
            say(note)
