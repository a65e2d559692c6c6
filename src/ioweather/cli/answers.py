"""An answer in the form that was asked for: on the screen, as JSON or CSV, or written as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ioweather.cli.render import print_answer
from ioweather.cli.screen import say, say_csv, say_json, to_csv
from ioweather.core.errors import UsageError
from ioweather.core.results import Answer, Fact, result_json


def show_answer(
    answer: Answer,
    form: str,
    html_file: Path | None = None,
    *,
    csv_table: str = "",
    brief: Mapping[str, int] | None = None,
) -> None:
    """Print the answer as `form`; with a file, write its page there instead of the screen. CSV has the facts, or the
    table of this name where the answer is a table. `brief`: on the screen only so many facts of these groups."""
    if html_file is not None:
        write_page(answer, html_file)
        say(f"Wrote {html_file}.", err=True)
    if form == "json":
        say_json(result_json(answer))
    elif form == "csv":
        say_csv(answer_csv(answer, csv_table))
    elif html_file is None:
        print_answer(shortened(answer, brief) if brief else answer, is_short=bool(brief))


_EVIDENCE = ("_interval", "_model", "_how")  # lines about the one above them
_ALWAYS = ("reading", "writing", "read", "write", "sequential")  # rows that are never cut


def shortened(answer: Answer, brief: Mapping[str, int]) -> Answer:
    """For one screen: what was asked, and what somebody should look at."""
    groups = {group.name: group for group in answer.facts if group.name in brief}
    if not groups:  # an answer of another kind, such as that of servers alone
        return answer
    facts = {name: _largest(groups[name].facts, most) for name, most in brief.items() if name in groups}
    return replace(
        answer,
        facts=tuple(replace(groups[name], facts=rows) for name, rows in facts.items() if rows),
        exhibits=(),
        # A finding with the name of a group that is shown says more about it.
        findings=tuple(f for f in answer.findings if f.name not in groups and (f.kind != "note" or f.name in brief)),
        coverage=(),
        caveats=answer.caveats[:1],
    )


def _largest(facts: Sequence[Fact], most: int) -> tuple[Fact, ...]:
    """The largest `most` rows in their order, and how many were cut; the first ones where not all have shares."""
    rows = [fact for fact in facts if not fact.name.endswith(_EVIDENCE) and fact.share != 0]
    if any(fact.share is None for fact in rows):
        return tuple(rows[:most])
    ranked = sorted(rows, key=lambda fact: (fact.name not in _ALWAYS, -(fact.share or 0.0)))
    shown = tuple(fact for fact in rows if fact in ranked[:most])
    cut = len(rows) - len(shown)
    more = Fact("more_rows", f"+{cut} smaller row{'s' if cut > 1 else ''}", "")
    return (*shown, more) if cut else shown


def answer_csv(answer: Answer, table: str = "") -> str:
    """One line per fact, or the named table, in plain numbers. Scripts match on the names: words change."""
    for found in (each for exhibit in answer.exhibits for each in exhibit.tables if each.name == table):
        return to_csv([column.name for column in found.columns], found.rows)
    rows = [
        (group.title, fact.label, fact.value, fact.unit, fact.share, fact.note, group.name, fact.name)
        for group in answer.facts
        for fact in group.facts
    ]
    columns = ("group", "fact", "value", "unit", "share", "note", "group_name", "fact_name")
    return to_csv(columns, rows)


def write_page(answer: Answer, file: Path) -> None:
    if not file.parent.is_dir():  # said before the drawing, which takes a second or two
        raise UsageError(f"--html {file}: there is no directory {file.parent}.")
    from ioweather.figures.page import answer_html

    try:
        file.write_text(answer_html(answer), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--html {file}: {error.strerror}.") from None
