"""`ioweather fs`: the question `storage`; with --live the busiest targets, updated in place until q is pressed."""

from __future__ import annotations

import os
import select
import shutil
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.safe_files import default_spool_dir
from ioweather.core.units import (
    DAY_NS,
    NS,
    format_seconds,
    format_time_ns,
    format_value,
    now_ns,
    one_line,
    show_times_in,
    zone_named,
)
from ioweather.facts.latest_rates import LatestRates, TargetRates, latest_rates
from ioweather.lake.lake import lake_at
from ioweather.topics.source import zone_of
from ioweather.ui.cli.questions import command_of
from ioweather.ui.cli.screen import say, say_json

# Key that sorts by each, and its name in --order.
ORDERS: Final = {"t": "total", "r": "read", "w": "write", "o": "ops", "n": "name"}
_WIDTH: Final = 80
_LINES: Final = 24
_PERIOD_SECONDS: Final = 2.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HEAD: Final = f"{'target':<24} {'server':<13} {'read/s':>9} {'write/s':>9} {'ops/s':>7} {'full':>4}  {'age':>6}"


def show_live(lake_dir: str | None, where: str | None, order: str, *, once: bool, as_json: bool) -> None:
    """Show the screen until q is pressed; with `once`, print one frame, or its JSON."""
    spool = default_spool_dir()
    with suppress(IoweatherError):  # what opens the lake says why it cannot be read
        show_times_in(zone_named(zone_of(lake_dir)))
    if once or as_json:
        found = _read(lake_dir, where, spool)
        if as_json:
            say_json(asdict(found))
        else:
            say(*_frame(found, order, _LINES))
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--live needs a terminal.", hint="Print one frame: --live --once")
    with _keys():
        while True:
            found = _read(lake_dir, where, spool)
            lines = [*_frame(found, order, shutil.get_terminal_size().lines - 1), _help(order)]
            text = "\x1b[K\r\n".join(lines)
            os.write(1, f"\x1b[H{text}\x1b[J".encode())
            key = _key(_PERIOD_SECONDS)
            if key in ("q", "Q", "\x1b", "\x03"):
                return
            order = ORDERS.get(key, order)


def _read(lake_dir: str | None, where: str | None, spool: Path) -> LatestRates:
    with lake_at(lake_dir).snapshot() as snapshot:
        return latest_rates(snapshot, where, spool)


@contextmanager
def _keys() -> Iterator[None]:
    """Keys arrive without Enter, and the screen comes back at the end."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        os.write(1, _ENTER.encode())
        yield
    finally:
        os.write(1, _LEAVE.encode())
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _key(seconds: float) -> str:
    """The key pressed within this time; empty if there is none, q at the end of the input."""
    if not select.select([sys.stdin], [], [], seconds)[0]:
        return ""
    return os.read(sys.stdin.fileno(), 1).decode(errors="replace") or "q"


def _help(order: str) -> str:
    keys = "  ".join(f"{key} {name}" for key, name in ORDERS.items())
    return f"Sorted by {order}. Sort: {keys}   Quit: q"[:_WIDTH]


def _frame(found: LatestRates, order: str, most: int) -> list[str]:
    """The lines of a frame: totals, then the targets that fit."""
    old = now_ns() - found.end_ns
    when = format_time_ns(found.end_ns)[0 if old > DAY_NS else 11 : 19]
    rates = [
        f"{label} {format_value(found.total(name), unit)}"
        for label, name, unit in (
            ("read", "read_bytes_per_s", "bytes_per_s"),
            ("write", "write_bytes_per_s", "bytes_per_s"),
            ("ops", "ops_per_s", "ops_per_s"),
        )
        if found.total(name) is not None
    ]
    silent = sum(each.is_silent for each in found.targets)
    count = f"{len(found.targets):,} targets" + (f", {silent:,} silent" if silent else "")
    head = f"{one_line(found.where)}  {when} ({format_seconds(max(0.0, old / NS))} ago)  {count}"
    newest = f"newest samples: {'  '.join(rates)}" if rates else "no target has rates"
    lines = [head[:_WIDTH], newest[:_WIDTH], _HEAD]
    ranked = sorted(found.targets, key=lambda each: _rank(each, order))
    room = max(most - len(lines) - 1, 1)
    lines += [_row(each, found.end_ns) for each in ranked[:room]]
    return [*lines, f"{len(ranked) - room:,} more"] if len(ranked) > room else lines


def _rank(each: TargetRates, order: str) -> tuple[bool, float, str]:
    """Sort key: the largest first, targets without a value last."""
    read, write, ops = each.read_bytes_per_s, each.write_bytes_per_s, each.ops_per_s
    total = None if read is None and write is None else (read or 0.0) + (write or 0.0)
    value = {"read": read, "write": write, "ops": ops, "total": total, "name": 0.0}[order]
    return value is None, -(value or 0.0), each.target


def _row(each: TargetRates, newest_ns: int) -> str:
    cells = [
        _short(one_line(each.target), 24),
        _short(one_line(each.server or "-"), 13),
        f"{'silent' if each.is_silent else _bytes(each.read_bytes_per_s):>9}",
        f"{_bytes(each.write_bytes_per_s):>9}",
        f"{'-' if each.ops_per_s is None else format(round(each.ops_per_s), ','):>7}",
        f"{'-' if each.full_ratio is None else format(each.full_ratio, '.0%'):>4}",
    ]
    late = (newest_ns - each.end_ns) / NS
    age = f"{late:.0f} s" if late < 100 else f"{late / 60:.0f} min"
    return f"{' '.join(cells)}  {age:>6}"


def _bytes(rate: float | None) -> str:
    return "-" if rate is None else format_value(rate, "bytes")


def _short(text: str, width: int) -> str:
    """Keep the end of a long name, in which names of targets differ."""
    return f"{text if len(text) <= width else '…' + text[1 - width :]:<{width}}"


_LIVE_OPTIONS: Final = (
    click.Option(["--live"], is_flag=True, help="Show current target rates, updated in place. Press q to quit."),
    click.Option(["--once"], is_flag=True, help="With --live: print one frame and stop."),
    click.Option(
        ["--order"],
        type=click.Choice(list(ORDERS.values())),
        default="total",
        show_default=True,
        help="With --live: sort order.",
    ),
)


def _fs_command() -> click.Command:
    """The command of the question `storage`, with --live."""
    command = command_of("storage")
    ask = command.callback
    assert ask is not None

    def run(*, live: bool, once: bool, order: str, **typed: Any) -> Any:
        if live:
            show_live(typed["lake_dir"], typed["where"], order, once=once, as_json=typed["as_json"])
            return None
        if once:
            raise UsageError("--once needs --live.")
        return ask(**typed)

    command.callback = run
    command.params += _LIVE_OPTIONS
    return command


fs = _fs_command()
