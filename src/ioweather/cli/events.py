"""`ioweather events`: the list, a line each where they fit."""

from __future__ import annotations

from collections.abc import Callable

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.questions import command_of
from ioweather.cli.render import print_rows
from ioweather.cli.screen import say
from ioweather.core.outcomes import EventOutcome, EventsOutcome
from ioweather.core.results import Answer
from ioweather.core.units import NS, format_seconds, format_time_ns


def _show(put: Callable[[], Answer], form: str, most: int) -> None:
    answer = put()
    assert isinstance(answer.result, EventsOutcome)
    found = answer.result.events
    if form != "text":
        show_answer(answer, form, csv_table="events")
        return
    shown = [
        (format_time_ns(e.start_ns)[:16], _length(e), e.component or e.filesystem.removeprefix("mount:"),
         f"phase {e.label}" if e.kind == "phase" else e.label,
         f"{e.strength_ratio:.1f}x" if e.strength_ratio is not None else "")
        for e in found[:most]
    ]  # fmt: skip
    print_rows(("from", "for", "where", "what", "strength"), shown, form)
    if len(found) > most:
        say(f"{len(found) - most:,} more: --most {len(found)} shows all; --from, --to and --kind choose.")
    if not found:
        say(answer.headline)
    for caveat in answer.caveats:
        say(caveat)


def _length(event: EventOutcome) -> str:
    return "ongoing" if event.end_ns is None else format_seconds((event.end_ns - event.start_ns) / NS)


_MOST = click.Option(
    ["--most"], default=40, show_default=True, type=int, help="Lines in the terminal; --json and --csv give all."
)
events = command_of("events", _show, [_MOST])
