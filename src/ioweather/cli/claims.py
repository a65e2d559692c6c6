"""`ioweather claims`: one page of statements; --export writes this site's row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click

from ioweather.cli.answers import show_answer
from ioweather.cli.questions import command_of
from ioweather.cli.render import console, print_rows, shown
from ioweather.cli.screen import say
from ioweather.core.outcomes import ClaimsOutcome
from ioweather.core.papers import PAPERS
from ioweather.core.results import Answer, Cell
from ioweather.questions.claims import MARKS


def _show(put: Callable[[], Answer], form: str, export: Path | None, html_file: Path | None) -> None:
    answer = put()
    if export is not None:
        from ioweather.workflows.claims import write_claims

        assert isinstance(answer.result, ClaimsOutcome)
        write_claims(answer.result.here, export)
        say(f"Wrote {export}.", err=True)
    if form != "text" or html_file is not None:
        show_answer(answer, form, html_file, csv_table="claims")
        return
    _screen(answer)


def _screen(answer: Answer) -> None:
    """A line per statement: its mark, what it says, this site's value, the paper's, and those of others, under numbers
    that fit beside each other. Criteria, intervals, places and why a statement cannot be tested are in
    --html, --csv and --json."""
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
                ("", "what the paper states", "here", "paper", *numbers), [_line(row, kept) for row in rows], "text"
            )
    for caveat in answer.caveats:
        say("")
        out.print(shown(caveat))


def _line(row: Sequence[Cell], kept: Sequence[int]) -> list[Cell]:
    mark, text, value, *others = (row[place] for place in kept)
    return [mark, text, "" if mark == MARKS["untestable"] else value, *others]


_EXPORT = click.Option(
    ["--export"], type=click.Path(path_type=Path), metavar="FILE", help="Write this site's row for other sites."
)
claims = command_of("claims", _show, [_EXPORT])
