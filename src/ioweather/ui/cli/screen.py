"""The one way out of a command: lines, JSON and CSV. `cli.terminal` draws tables and answers with rich.

What others wrote (names, cells, quoted content) never reaches a terminal raw.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ioweather.core.results import SCHEMA_VERSION
from ioweather.core.tabular import csv_text
from ioweather.core.units import many_lines, one_line


def say(*lines: str, err: bool = False, wrap: int | None = None, first: str = "", rest: str = "") -> None:
    """Each text on a line of its own; with `wrap`, on as many of that width as it takes, the first of them after
    `first`, the others after `rest`."""
    for line in lines:
        text = one_line(line)
        click.echo(text if wrap is None else click.wrap_text(text, wrap, first, rest), err=err)


def say_json(body: Any) -> None:
    """In ASCII: JSON's own escapes stand for whatever a terminal would obey. An object says which version it is of."""
    if isinstance(body, dict):
        body = {"schema_version": SCHEMA_VERSION, **body}
    click.echo(json.dumps(body, indent=2, default=str))


def say_csv(*tables: tuple[Sequence[str], Iterable[Sequence[Any]]]) -> None:
    """Tables of column names and rows, one after the other. CSV may have line ends within quotes; a terminal gets no
    other control character."""
    text = "\n".join(csv_text(columns, rows, for_spreadsheets=False) for columns, rows in tables)
    # color: otherwise click takes escapes out of what goes into a pipe, and with them a part of a cell.
    click.echo(many_lines(text) if sys.stdout.isatty() else text, nl=False, color=True)
