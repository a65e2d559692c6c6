"""`ioweather why`: the verdict on the screen, as a line or a block of plain text; `why_served` is that of a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.questions import command_of
from ioweather.cli.screen import say
from ioweather.cli.why_served import SERVER_OPTIONS
from ioweather.core.results import Answer
from ioweather.questions.catalogue import QUESTIONS


def _show(
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
        from ioweather.workflows.job_text import job_text

        text = job_text(given["lake_dir"], given["job"], _uid(given["uid"]), recorded=recorded)
        say(*([text.line()] if line else text.block().splitlines()))
    else:
        question = QUESTIONS["why"]
        brief = {} if given["full_screen"] else question.brief
        show_answer(put(), form, html_file, csv_table=question.table, brief=brief)


def _uid(text: str | int | None) -> int | None:
    return None if text is None else int(text)


_RECORDED = click.Option(
    ["--recorded"], is_flag=True, help="Only a recorded verdict; exit code 1 where there is none yet."
)
why = command_of("why", _show, [_RECORDED, *SERVER_OPTIONS])
