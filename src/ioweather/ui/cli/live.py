"""`ioweather fs`: the question `storage`; with --live the busiest targets, updated until Ctrl-C."""

from __future__ import annotations

import shutil
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any, Final

import click

from ioweather.core.errors import IoweatherError
from ioweather.core.results import ResultTable
from ioweather.core.safe_files import default_spool_dir
from ioweather.core.units import NS, format_seconds, format_time_ns, format_value, now_ns, show_times_in, zone_named
from ioweather.facts.latest_rates import LatestRates, TargetRates, latest_rates
from ioweather.lake.lake import lake_at
from ioweather.topics.source import zone_of
from ioweather.ui.cli.questions import command_of
from ioweather.ui.cli.screen import say, say_json
from ioweather.ui.cli.terminal import print_table

_PERIOD_SECONDS: Final = 2.0
_COLUMNS: Final = (
    "target [text]; server [text]; read [bytes_per_s]; written [bytes_per_s]; operations [ops_per_s]; full [ratio]; "
    "age [seconds]"
)


def show_live(lake_dir: str | None, where: str | None, *, as_json: bool) -> None:
    """Print the newest rates every two seconds; without a terminal, or as JSON, once."""
    with suppress(IoweatherError):  # what opens the lake says why it cannot be read
        show_times_in(zone_named(zone_of(lake_dir)))
    while True:
        with lake_at(lake_dir).snapshot() as snapshot:
            found = latest_rates(snapshot, where, default_spool_dir())
        if as_json:
            say_json(asdict(found))
            return
        click.clear()  # nothing without a terminal
        _print_frame(found)
        if not sys.stdout.isatty():
            return
        time.sleep(_PERIOD_SECONDS)


def _print_frame(found: LatestRates) -> None:
    """Print the totals, then the targets that fit on the screen."""
    rates = [
        f"{label} {format_value(total, unit)}"
        for label, name, unit in (
            ("read", "read_bytes_per_s", "bytes_per_s"),
            ("write", "write_bytes_per_s", "bytes_per_s"),
            ("ops", "ops_per_s", "ops_per_s"),
        )
        if (total := found.total(name)) is not None
    ]
    silent = sum(each.is_silent for each in found.targets)
    count = f"{len(found.targets):,} targets" + (f", {silent:,} silent" if silent else "")
    age = format_seconds(max(0.0, (now_ns() - found.end_ns) / NS))
    say(f"{found.where}  {format_time_ns(found.end_ns)} ({age} ago)  {count}")
    say(f"newest samples: {'  '.join(rates)}" if rates else "no target has rates")
    rows = [
        (
            *(t.target, t.server, t.read_bytes_per_s, t.write_bytes_per_s, t.ops_per_s, t.full_ratio),
            (found.end_ns - t.end_ns) / NS,
        )
        for t in sorted(found.targets, key=_rank)
    ]
    print_table(ResultTable.of("targets", _COLUMNS, rows), most=max(shutil.get_terminal_size().lines - 6, 1))


def _rank(each: TargetRates) -> tuple[bool, float, str]:
    """Sort key: the largest sum of reads and writes first, targets without a value last."""
    rates = [rate for rate in (each.read_bytes_per_s, each.write_bytes_per_s) if rate is not None]
    return not rates, -sum(rates), each.target


def _fs_command() -> click.Command:
    """The command of the question `storage`, with --live."""
    command = command_of("storage")
    ask = command.callback
    assert ask is not None

    def run(*, live: bool, **typed: Any) -> Any:
        return show_live(typed["lake_dir"], typed["where"], as_json=typed["as_json"]) if live else ask(**typed)

    command.callback = run
    command.params.append(
        click.Option(["--live"], is_flag=True, help="Show current target rates, updated until Ctrl-C.")
    )
    return command


fs = _fs_command()
