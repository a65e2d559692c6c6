"""`ioweather up`."""

from __future__ import annotations

import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioweather.cli.agent_options import duration_ns
from ioweather.cli.options import lake_option
from ioweather.cli.screen import say
from ioweather.core.default_paths import default_lake_dir

if TYPE_CHECKING:
    from ioweather.workflows.site.local_setup import Here

EPILOG = """\b
Needs no root and no configuration. The probe reads and writes half a MiB
a second in a folder of its own, which is removed at the end; rows go into
the lake. The demonstration is a simulated facility, made once.
Without a terminal it ends by itself, after 20 s or when the demonstration
is made.

\b
Example: ioweather up --for 60s
"""
_FIRST_LOOK_SECONDS = 18.0
_WITHOUT_TERMINAL_SECONDS = 20.0
_LONGEST_WITHOUT_TERMINAL_SECONDS = 240.0


@click.command(epilog=EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@lake_option
@click.option("--for", "duration", metavar="DURATION", help="End after this time (default: at Ctrl-C).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the dashboard.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="Port of the dashboard.")
@click.option("--no-demo", is_flag=True, help="Do not make the demonstration.")
def up(path: Path | None, lake_dir: str | None, duration: str | None, host: str, port: int, no_demo: bool) -> None:
    """Measure the storage of this directory (or PATH) and show it: probe, block devices, dashboard, in one go."""
    from ioweather.exporter.metrics import render
    from ioweather.store.lake import open_lake
    from ioweather.web.app import LOOPBACK, create_app
    from ioweather.web.server import address_of, bind, check_reach, running
    from ioweather.workflows.site.local_setup import measuring

    limit_ns = duration_ns(duration, "--for")
    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    check_reach(host, open_lake(lake, create=True).facility.visibility)
    demo = default_lake_dir().with_name("demo")
    bound = bind(host, port)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    # Children first: they are made by fork, and a thread that runs meanwhile may hold a lock.
    with measuring(lake, demo, path, with_demo=not no_demo) as here:
        others = {} if no_demo else {"demo": demo}
        metrics = partial(render, here.spools[0], pushed_to=lake)
        app = create_app(lake, here.spools, others=others, hosts=(*LOOPBACK, host), metrics=metrics)
        with running(app, bound):
            address = address_of(bound)
            say(f"Measuring {here.target}; dashboard at {address}")
            _watch(here, stop, address, None if limit_ns is None else limit_ns / 1e9, with_demo=not no_demo)
            say("Stopping: the probe removes its files, rows go into the lake.", err=True)


def _watch(here: Here, stop: threading.Event, address: str, limit_seconds: float | None, *, with_demo: bool) -> None:
    """Show the first response times at once, `now` when a baseline is there, and the demonstration's answers when it is
    made; then wait for the end."""
    started = time.monotonic()
    terminal = sys.stdout.isatty()
    look_at = _FIRST_LOOK_SECONDS if limit_seconds is None else min(_FIRST_LOOK_SECONDS, limit_seconds * 0.8)
    first = looked = False
    shown = not with_demo
    said: set[str] = set()
    while not stop.wait(0.5):
        passed = time.monotonic() - started
        for text in here.complaints():
            if text not in said:
                said.add(text)
                say(text, err=True)
        if not first:
            first = _show_first(here)
        if not looked and passed >= look_at:
            looked = True
            _show_now(here)
            if not shown and here.demo_is_coming():
                say("A simulated facility is being made meanwhile: its answers follow.")
        if not shown and looked and here.demo_is_ready():
            shown = True
            _show_demo(here, address)
        if limit_seconds is not None:
            if passed >= limit_seconds:
                return
        elif not terminal and passed >= _WITHOUT_TERMINAL_SECONDS:
            waiting = not shown and here.demo_is_coming()
            if looked and not (waiting and passed < _LONGEST_WITHOUT_TERMINAL_SECONDS):
                say(f"The dashboard was at {address}; in a terminal it stays until Ctrl-C.")
                return


def _show_first(here: Here) -> bool:
    """One line, as soon as every operation was measured once."""
    from ioweather.collect.status import read_status
    from ioweather.core.errors import DataUnavailable
    from ioweather.core.units import format_value

    try:
        targets = read_status(here.spools[0]).targets
    except DataUnavailable:
        return False
    took = {o.op: o.last.duration_ns for t in targets for o in t.operations if o.last and o.last.duration_ns}
    if not targets or len(took) < len(targets[0].operations):
        return False
    listed = ", ".join(f"{op} {format_value(ns, 'ns')}" for op, ns in took.items())
    say(f"First response times: {listed}. What is usual is known in a moment.", wrap=78)
    return True


def _show_now(here: Here) -> None:
    from ioweather.cli.answers import show_answer
    from ioweather.core.errors import DataUnavailable
    from ioweather.workflows.ask import ask

    try:
        answer = ask("now", here.lake, {"spool": here.spools, "full": False})
    except DataUnavailable as error:
        say(f"Not measured yet: {error}", err=True)
        return
    show_answer(answer, "text")


def _show_demo(here: Here, address: str) -> None:
    """What a facility has to tell that is more than a directory."""
    from ioweather.store.lake import open_lake
    from ioweather.workflows.site.demo import tour

    say("", f"A simulated facility, to look around in ({address}?lake=demo):")
    for step in tour(open_lake(here.demo)):
        say(f"  {step.wants}  ioweather {step.command} --lake {here.demo}")
        say(step.answer.headline, wrap=78, first="    ", rest="    ")
