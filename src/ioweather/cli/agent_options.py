"""What `collect`, `probe` and `sample` share: options, the run of an agent, and its table on the terminal."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ioweather.cli.options import converted, path_option
from ioweather.cli.screen import say
from ioweather.core.default_paths import default_spool_dir
from ioweather.core.errors import UsageError
from ioweather.core.units import parse_duration_ns, parse_size

if TYPE_CHECKING:
    from ioweather.collect.agent import AgentSettings
    from ioweather.collect.spool import Spool
    from ioweather.collect.status import Status
    from ioweather.sources.live.contract import LiveSource

F = TypeVar("F", bound=Callable[..., Any])


def spool_option(function: F) -> F:
    text = "Where rows wait and status.json lies (default: $IOWEATHER_SPOOL, else in your state home)."
    return path_option("--spool", "DIR", text, name="spool_dir")(function)


def run_options(function: F) -> F:
    """Options of every command that measures for a while."""
    ending = click.option("--for", "duration", metavar="DURATION", help="End after this time (default: at Ctrl-C).")
    mark = click.option("--annotate", metavar="NAME", help="Mark the time of this run as an event of this name.")
    return ending(mark(function))


def place_options(function: F) -> F:
    """Options of `probe` and `sample`: where they measure, and where the rows go."""
    folder = "Name of the files' folder below PATH (default: this host)."
    options = (
        click.option("--name", "directory", default="", help=folder),
        click.option("--system", help="Name of the file system in the lake (default: its mount point)."),
        run_options,
        click.option("--lake", "lake_dir", metavar="DIR", help="Put the rows into this lake at the end."),
        spool_option,
        click.option("--json", "as_json", is_flag=True, help="Print every row as it comes, one JSON object a line."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def duration_ns(text: str | None, option: str) -> Any:
    return converted(parse_duration_ns, text, option)


def size_bytes(text: str | None, option: str) -> Any:
    return converted(parse_size, text, option)


def _spool_for_one_run(given: Path | None, host: str, run_id: str) -> Spool:
    """The usual spool, or one beside it where an agent has that: a person who probes does not have to stop it."""
    from ioweather.collect.spool import Spool, SpoolBusy

    usual = given or default_spool_dir()
    try:
        return Spool(usual, host, run_id)
    except SpoolBusy:
        if given is not None:
            raise
        beside = usual.with_name(f"{usual.name}-{run_id}")
        say(f"An agent is running; this run writes to {beside}.", err=True)
        return Spool(beside, host, run_id)


def run_agent(
    sources: Sequence[LiveSource], settings: AgentSettings, spool_dir: Path | None, lake_dir: str | None, as_json: bool
) -> int:
    """Run to the end: rows on standard output, or a table where that is a terminal, or nothing until the end. Gives the
    exit code: 1 where rows are not where they should be."""
    from ioweather.collect.agent import Agent
    from ioweather.collect.ship import Shipper

    spool = _spool_for_one_run(spool_dir, settings.host, settings.run_id)
    shipper = Shipper(Path(lake_dir).absolute()) if lake_dir else None
    with _table(as_json) as show:
        agent = Agent(sources, spool, settings, shipper=shipper, on_status=show, on_row=_print_row if as_json else None)
        status = agent.run()
    failed = [member.message for member in agent.members if member.failed and not member.is_ready]
    if failed and len(failed) == len(agent.members):
        raise UsageError(" ".join(dict.fromkeys(failed)))
    return 0 if as_json and lake_dir is None else _print_end(status, lake_dir)


def _print_row(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough: end as if asked to
        os.kill(os.getpid(), signal.SIGTERM)
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for what is still to come


@contextlib.contextmanager
def _table(as_json: bool) -> Iterator[Callable[[Status], None] | None]:
    if as_json or not sys.stdout.isatty():
        yield None
        return
    from rich.live import Live

    from ioweather.cli.render import console
    from ioweather.cli.status_table import status_table

    # Without its own thread: a forked child of a process with threads is asking for trouble.
    with Live(console=console(), auto_refresh=False, transient=True) as live:
        yield lambda status: live.update(status_table(status), refresh=True)


def _print_end(status: Status, lake_dir: str | None) -> int:
    """What was measured, and where it is now."""
    from ioweather.cli.render import console
    from ioweather.cli.status_table import status_table

    console().print(status_table(status))
    spool = status.spool
    if lake_dir is None:
        say(f"{spool.written_rows:,} rows wait in {spool.directory}.")
        say(f"Into the lake: ioweather ingest {shlex.quote(spool.directory + '/segments')}")
    elif spool.last_ship_ok and not spool.refused_files:
        say(f"{spool.written_rows:,} rows are in {lake_dir}.")
    else:
        say(f"Not all rows are in {lake_dir}: {spool.message} They wait in {spool.directory}.", err=True)
        return 1
    return 0
