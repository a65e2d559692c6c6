"""`ioweather now`: the question, again and again with --watch; the exit code says whether something is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.questions import command_of
from ioweather.core.outcomes import NowOutcome
from ioweather.core.results import Answer


def _show(put: Callable[[], Answer], form: str, watch: bool) -> int:
    while True:
        answer = put()
        if watch and form == "text":
            click.clear()
        show_answer(answer, form)
        if not watch:
            return 1 if isinstance(answer.result, NowOutcome) and answer.result.wrong else 0
        time.sleep(2)


_WATCH = click.Option(["--watch"], is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
now = command_of("now", _show, [_WATCH])
