"""Commands that ask: one per question, made from its parameters."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from ioweather.core.contracts import Param
from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.units import show_times_in, zone_named
from ioweather.topics.catalogue import QUESTIONS
from ioweather.topics.source import ask, period_between, zone_of
from ioweather.ui.cli.options import lake_option, output_options, path_option, period_options
from ioweather.ui.cli.screen import say
from ioweather.ui.cli.terminal import show_answer
from ioweather.ui.cli.why_served import SERVER_OPTIONS

# Commands whose question has another name.
_QUESTIONS_OF_COMMANDS = {"jobs": "runs", "fs": "storage"}
# Options of the command alone.
_EXTRA: dict[str, list[click.Option]] = {
    "claims": [
        click.Option(
            ["--export"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write this site's results to a file for other sites.",
        )
    ],
    "why": [
        click.Option(
            ["--recorded"], is_flag=True, help="Show only a recorded verdict; exit with code 1 if there is none yet."
        ),
        *SERVER_OPTIONS,
    ],
}


_WITHOUT_LAKE = (
    "Name the job's Darshan log instead, or ask your site for its lake (--lake) or its server "
    "(ioweather why JOB --server URL)."
)


def question_of(command: str) -> str | None:
    """The question that a command asks."""
    names = (_QUESTIONS_OF_COMMANDS.get(command, command), command.replace("-", "_"))
    return next((name for name in names if name in QUESTIONS), None)


def command_of(name: str) -> click.Command:
    """The command of a question: its parameters as arguments and options, and those that all questions share."""
    question = QUESTIONS[name]
    extra = _EXTRA.get(name, [])

    def run(lake_dir: str | None, form: str, **typed: Any) -> int | None:
        own = {option.name: typed.pop(str(option.name)) for option in extra}
        if any(own.get(each) for each in ("line", "block", "recorded")):
            _say_recorded(lake_dir, typed, line=own["line"], recorded=own["recorded"])
            return None
        start, end = typed.pop("between", (None, None))
        page, full = typed.pop("html_file", None), typed.pop("full_screen", False)
        if form == "text" and page is None:
            typed = {**question.screen, **typed}
            # Times are those of the facility, which `Times are in ZONE` names once.
            with suppress(IoweatherError):  # a lake that cannot be read is said by what reads it
                show_times_in(zone_named(zone_of(lake_dir)))
        try:
            answer = ask(name, lake_dir, typed, period_ns=period_between(start, end, lambda: zone_of(lake_dir)))
        except LakeError as error:
            if name not in ("job", "why") or lake_dir:
                raise
            raise error.reworded(f"A job ID needs a lake. {error.message}", hint=_WITHOUT_LAKE) from None
        show_answer(answer, form, page, csv_table=question.table, full=full)
        if own.get("export"):
            from ioweather.studies.claims import ClaimsOutcome, write_claims

            assert isinstance(answer.result, ClaimsOutcome)
            write_claims(answer.result.here, own["export"])
            say(f"Wrote {own['export']}.", err=True)
        return 1 if getattr(answer.result, "wrong", False) else None  # `now`: something is wrong

    callback: Any = period_options(run) if question.period else run
    if question.page:
        callback = path_option("--html", "FILE", "Write the answer as an HTML page.", "html_file")(callback)
    callback = lake_option(output_options(callback))
    command = click.Command(name, callback=callback, help=question.help, epilog=question.epilog)
    full_screen = click.Option(["--full", "full_screen"], is_flag=True, help="Show the whole answer in the terminal.")
    command.params = [
        *reversed(callback.__click_params__),
        *([full_screen] if question.blocks else []),
        *(_parameter(param) for param in question.params if param.shown),
        *extra,
    ]
    command.params.sort(key=lambda parameter: isinstance(parameter, click.Option))
    return command


def _parameter(param: Param) -> click.Parameter:
    """A parameter of a question as an argument or an option."""
    if param.required or param.positional:
        shown = param.metavar or param.name.upper()
        metavar = shown if param.required else f"[{shown}]"
        return click.Argument([param.name], nargs=-1 if param.many else 1, required=param.required, metavar=metavar)
    spelled = [f"--{param.option or param.name.replace('_', '-')}", param.name]
    known: dict[str, Any] = {"help": param.help, "metavar": param.metavar or None}
    if "/" in param.option:
        first, second = param.option.split("/")
        spelled[0] = f"--{first}/--{second}"
        known = {"help": param.help, "default": param.default and param.default == first}
        known["callback"] = lambda _, __, chosen: {True: first, False: second}.get(chosen)
    elif param.kind == "flag":
        known = {"help": param.help, "is_flag": True}
    elif param.many:
        known["multiple"] = True
    else:
        if param.default is not None:
            known |= {"default": param.default, "show_default": True}
        if param.choices:
            known |= {"type": click.Choice(param.choices), "metavar": None}
        elif param.kind == "int":
            known["type"] = int if param.least is None else click.IntRange(param.least)
    return click.Option(spelled, **known)


def _say_recorded(lake_dir: str | None, typed: Mapping[str, Any], *, line: bool, recorded: bool) -> None:
    """The verdict on record, as one line or a short text."""
    uid = None if typed.get("uid") is None else int(typed["uid"])
    recorded_verdicts = import_module("ioweather.diagnosis.recorded_verdicts")  # no other question needs its model
    text = recorded_verdicts.job_text(lake_dir, typed["job"], uid, cluster=typed.get("cluster"), recorded=recorded)
    say(*([text.line()] if line else text.block().splitlines()))
