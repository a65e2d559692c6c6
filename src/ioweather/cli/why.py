"""`ioweather why`: the verdict on the screen, as one line or one block of plain text, or from a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.questions import command_of
from ioweather.cli.screen import say
from ioweather.core.errors import UsageError
from ioweather.core.printable import many_lines
from ioweather.core.results import Answer
from ioweather.questions.catalogue import QUESTIONS


def _show(
    put: Callable[[], Answer], form: str, line: bool, block: bool, recorded: bool, server: str | None,
    token_file: Path | None, html_file: Path | None = None,
) -> None:  # fmt: skip
    given = click.get_current_context().params
    if server is not None:
        if form == "csv" or html_file is not None or given["full_screen"]:
            raise UsageError("With --server there are --line, --block and --json.")
        _from_server(server, token_file, given["job"], "line" if line else "json" if form == "json" else "block")
    elif line or block or recorded:
        from ioweather.workflows.job_text import job_text

        text = job_text(given["lake_dir"], given["job"], _uid(given["uid"]), recorded=recorded)
        say(*([text.line()] if line else text.block().splitlines()))
    else:
        question = QUESTIONS["why"]
        brief = {} if given["full_screen"] else question.brief
        show_answer(put(), form, html_file, csv_table=question.table, brief=brief)


def _uid(text: str | int | None) -> int | None:
    return None if text is None else int(text)


def _from_server(url: str, token_file: Path | None, job: str, form: str) -> None:
    from ioweather.collect.ask_server import ask_server

    path = f"/api/v1/ask/why?job={quote(job)}" if form == "json" else f"/api/v1/jobs/{quote(job)}/text?form={form}"
    say(*many_lines(ask_server(url, token_file, path)).split("\n"))


_OWN = [
    click.Option(["--line"], is_flag=True, help="One plain line; the recorded verdict where there is one."),
    click.Option(["--block"], is_flag=True, help="One block of plain text, for a mail or a login message."),
    click.Option(["--recorded"], is_flag=True, help="Only a recorded verdict; exit code 1 where there is none yet."),
    click.Option(["--server"], metavar="URL", envvar="IOWEATHER_SERVER",
                 help="Ask this server instead of a lake, for a job of your own."),
    click.Option(["--token-file"], type=click.Path(path_type=Path), metavar="FILE",
                 help="Your token for it (default: ~/.config/ioweather/token)."),
]  # fmt: skip
why = command_of("why", _show, _OWN)
