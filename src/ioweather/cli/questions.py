"""The command of a question: arguments and options are its parameters, beside those that all questions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.options import lake_option, output_form, output_options, period_options
from ioweather.core.contracts import Param, Question
from ioweather.core.results import Answer
from ioweather.questions.catalogue import QUESTIONS
from ioweather.workflows.ask import ask, zone_of
from ioweather.workflows.params import period_between

Shown = Callable[..., int | None]


def __getattr__(name: str) -> click.Command:
    """Commands without a module of their own are attributes here, made when they are called for."""
    # The import system asks every module for `__path__`: no reason to look through all installed packages.
    if name.startswith("_") or name not in QUESTIONS:
        raise AttributeError(name)
    return command_of(name)


def command_of(name: str, show: Shown | None = None, extra: Sequence[click.Option] = ()) -> click.Command:
    """`show(put, form, **extra)` stands for printing the answer, where a command has a screen of its own: `put()` asks
    the question. `extra` are options of that screen; of a question with a page, `html_file` is one too."""
    question = QUESTIONS[name]

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
            default=param.default == first,
            help=param.help,
            callback=lambda _, __, chosen: first if chosen else second,
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
