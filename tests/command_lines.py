"""Command lines as documents and units show them: does the command line take them? Nothing is run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import click

from ioweather.ui.cli.main import OLD_NAMES, cli


@contextmanager
def _paths_of_another_machine(command: click.Command) -> Iterator[None]:
    """They need not be here."""
    strict = [p.type for p in command.params if isinstance(p.type, click.Path) and p.type.exists]
    for kind in strict:
        kind.exists = False
    try:
        yield
    finally:
        for kind in strict:
            kind.exists = True


def parse(line: str) -> None:
    """Down to the last option; a click.UsageError says what is wrong."""
    words = shlex.split(line, comments=True)[1:]
    if words and words[0] in OLD_NAMES:  # a page that tells of an earlier version
        return
    command: click.Command = cli
    context: click.Context | None = None
    while True:
        with _paths_of_another_machine(command):
            context = command.make_context(command.name, words, parent=context)
        words = [*context._protected_args, *context.args]
        if not isinstance(command, click.Group) or not words:
            return
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"there is no command {words[0]!r}")
        command, words = found, words[1:]
