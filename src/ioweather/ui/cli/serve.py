"""Commands that serve and check: `serve`, `up`, `mcp`, `doctor`."""

from __future__ import annotations

import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ioweather.agent.delivery import FIRST_SHIPMENT_NS
from ioweather.agent.exporter import render
from ioweather.agent.status import read_status
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.facility import load_facility
from ioweather.core.safe_files import default_lake_dir, default_spool_dir
from ioweather.core.units import NS, format_time_ns, format_value, parse_duration_ns
from ioweather.ingestion.queue import collect_queue
from ioweather.lake import layout
from ioweather.lake.lake import open_lake
from ioweather.topics.source import ask
from ioweather.ui.cli.options import converted, lake_option, output_options, path_option
from ioweather.ui.cli.screen import say
from ioweather.ui.cli.terminal import print_rows, show_answer
from ioweather.ui.doctor import examine
from ioweather.ui.local_setup import Here, Site, measuring, write_units
from ioweather.ui.web.app import LOOPBACK, address_of, bind, bind_socket, check_reach, create_app, run, running
from ioweather.ui.web.tokens import create_token, list_tokens, revoke_token


@click.group(epilog="Example: ioweather serve token create n1")
def token() -> None:
    """Manage tokens: agents on other hosts push rows with them, and users see their own jobs."""


@token.command(epilog="Example: ioweather serve token create login --hosts 'login*'")
@click.argument("name")
@click.option("--hosts", metavar="PATTERN", help="Hosts whose rows the token may push (default: only NAME).")
@click.option("--user", metavar="USER", help="Create a personal token: shows this user's jobs, cannot push rows.")
@lake_option
def create(name: str, hosts: str | None, user: str | None, lake_dir: str | None) -> None:
    """Create a token. It is shown only once, because the lake stores only its hash."""
    if user is not None and hosts is not None:
        raise UsageError("--user and --hosts cannot be used together.", hint="Personal tokens cannot push rows.")
    root = open_lake(lake_dir, create=True).root
    say(create_token(root, name, "" if user is not None else hosts or name, user))


@token.command(name="list", epilog="Example: ioweather serve token list --json")
@lake_option
@output_options
def listed(lake_dir: str | None, form: str) -> None:
    """List tokens with hosts or user and creation time."""
    rows = [(t.name, t.hosts, t.user, format_time_ns(t.created_ns)) for t in list_tokens(open_lake(lake_dir).root)]
    print_rows(("token", "hosts", "user", "created"), rows, form)


@token.command(epilog="Example: ioweather serve token revoke n1")
@click.argument("name")
@lake_option
def revoke(name: str, lake_dir: str | None) -> None:
    """Revoke a token. The server then rejects it."""
    revoke_token(open_lake(lake_dir).root, name)
    say(f"Revoked {name}.")


SERVE_EPILOG = """The server listens only on this machine unless --host is set, without encryption. To authenticate
users, put it behind a reverse proxy: see [visibility] in docs/how-to/dashboard.md. The API is at /api/v1.

\b
Example: ioweather serve --lake /srv/weather
"""
_SPOOL = path_option("--spool", "DIR", "Agent spool directory, repeatable (default: yours).", "spools", multiple=True)


@click.group(epilog=SERVE_EPILOG, invoke_without_command=True)
@lake_option
@_SPOOL
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@path_option(
    "--socket", "PATH", "Listen on this socket, for a proxy in the same group, instead of an address.", "socket_path"
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Host name under which clients may reach this server (default: this machine).",
)
@click.option("--mcp", "with_mcp", is_flag=True, help="Also serve AI assistants at /mcp (needs ioweather[mcp]).")
@click.pass_context
def serve(
    context: click.Context,
    lake_dir: str | None,
    spools: tuple[Path, ...],
    host: str,
    port: int,
    socket_path: Path | None,
    names: tuple[str, ...],
    with_mcp: bool,
) -> None:
    """Serve the dashboard and the API over HTTP."""
    if context.invoked_subcommand is not None:
        return
    lake = Path(lake_dir) if lake_dir else default_lake_dir()
    places = spools or (default_spool_dir(),)
    visibility = load_facility(lake / "facility.toml").visibility
    check_reach(host, visibility)
    bound = bind_socket(socket_path) if socket_path is not None else bind(host, port)
    metrics = partial(render, places[0], pushed_to=lake, others=[partial(collect_queue, lake)])
    hosts = (*LOOPBACK, host, *names)
    app = create_app(lake, places, hosts=hosts, metrics=metrics, visibility=visibility)
    if with_mcp:
        _mcp_server().mount(app)
    say(f"Dashboard at {address_of(bound)} (stop with Ctrl-C)", err=True)
    log = logging.getLogger("ioweather.serve")
    log.info("started: %s at %s", lake, address_of(bound))
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn ends by it, and then raises it again
    try:
        run(app, bound)
    finally:
        log.info("stopped")


serve.add_command(token)


UNITS_EPILOG = """As root, the units are sandboxed system units for --user. Otherwise, they are your user units
without a sandbox; `loginctl enable-linger` keeps them running.

\b
Example: ioweather serve units --lake /srv/weather
"""


@serve.command(name="units", epilog=UNITS_EPILOG)
@lake_option
@path_option("--out", "DIR", "Output directory (default: systemd's, for the system or this user).")
@path_option("--reports", "DIR", "Directory for reports (default: `reports` next to the lake).")
@path_option("--backup", "DIR", "Directory for backups (default: `backup` next to the lake).")
@click.option("--user", metavar="NAME", help="As root: user that runs the services (default: ioweather).")
def units(lake_dir: str | None, out: Path | None, reports: Path | None, backup: Path | None, user: str | None) -> None:
    """Write systemd units for this installation: agent, metrics, dashboard, verdicts, nightly care, reports."""
    is_root = user is not None or os.geteuid() == 0
    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    facility = load_facility(lake / "facility.toml")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    where = out or (Path("/etc/systemd/system") if is_root else config / "systemd" / "user")
    site = Site(
        program=Path(sys.prefix) / "bin" / "ioweather",
        lake=lake,
        spool=Path("/var/lib/ioweather/spool") if is_root else default_spool_dir(),
        reports=reports.absolute() if reports else lake.with_name(f"{lake.name}-reports"),
        backup=backup.absolute() if backup else lake.with_name(f"{lake.name}-backup"),
        probes=[path for filesystem in facility.filesystems for path in filesystem.probes],
        user=(user or "ioweather") if is_root else None,
    )
    made = write_units(where, site)
    say(*(f"Made {path}." for path in made if path.parent != where))
    mode = "" if is_root else " --user"
    names = "ioweather-agent ioweather-export ioweather-serve ioweather-catch-up.timer ioweather-tend.timer"
    say(f"Wrote {sum(path.parent == where for path in made)} units to {where}. Start them:")
    say(f"  systemctl{mode} daemon-reload")
    say(f"  systemctl{mode} enable --now {names} ioweather-report@7d.timer")


MCP_EPILOG = """An assistant starts this command and uses standard input and output (Model Context Protocol). There
is one tool per question, and tools for exhibits. All tools are read-only. For HTTP, use ioweather serve --mcp.

\b
Example: ioweather mcp --lake /srv/weather
"""


@click.command(epilog=MCP_EPILOG)
@lake_option
@_SPOOL
def mcp(lake_dir: str | None, spools: tuple[Path, ...]) -> None:
    """Answer an AI assistant's questions about this lake."""
    _mcp_server().serve_stdio(open_lake(lake_dir).root, spools or (default_spool_dir(),))


def _mcp_server() -> ModuleType:
    """The module of the MCP server, whose library is optional."""
    try:
        from ioweather.ui import mcp_server  # an optional library
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("The MCP library is not installed.", hint="pip install 'ioweather[mcp]'") from None
    return mcp_server


UP_EPILOG = """Needs no root and no configuration. The probe reads and writes 0.5 MiB/s in its own folder and removes
the folder at the end. Its rows are ingested into the lake; the first arrive after 20 s. A simulated facility is
created once, and shown by a second dashboard at the next port.

\b
Example: ioweather up --for 60s
"""
_FIRST_LOOK_SECONDS = 18.0


@click.command(epilog=UP_EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@lake_option
@click.option("--for", "duration", metavar="DURATION", help="End after this time (default: at Ctrl-C).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the dashboard.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65534), help="Port of the dashboard.")
def up(path: Path | None, lake_dir: str | None, duration: str | None, host: str, port: int) -> None:
    """Measure the storage of this directory (or PATH) with a probe and device counters, and open the dashboard."""
    limit_ns = converted(parse_duration_ns, duration, "--for")
    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    check_reach(host, open_lake(lake, create=True).facility.visibility)
    demo = default_lake_dir().with_name("demo")
    bound, bound_demo = bind(host, port), bind(host, port and port + 1)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    # Children first: they are made by fork, and a running thread may hold a lock.
    with measuring(lake, demo, path) as here, ExitStack() as servers:
        metrics = partial(render, here.spool, pushed_to=lake, others=[partial(collect_queue, lake)])
        app = create_app(lake, [here.spool], hosts=(*LOOPBACK, host), metrics=metrics)
        app.state.served.first_page = partial(_first_values, here, time.monotonic() + FIRST_SHIPMENT_NS / NS)
        address = servers.enter_context(running(app, bound))
        say(f"Measuring {here.target}; dashboard at {address}")

        def show_demo() -> None:
            shown = create_app(demo, hosts=(*LOOPBACK, host))
            shown.state.served.beside = ("this machine", address)
            app.state.served.beside = ("simulated facility", servers.enter_context(running(shown, bound_demo)))
            say(f"A simulated facility is at {address_of(bound_demo)}")

        _show_progress(here, lake, stop, math.inf if limit_ns is None else limit_ns / NS, demo, show_demo)
        say("Stopping: removing the probe files and ingesting the last rows.", err=True)


def _first_values(here: Here, first_rows_at: float) -> dict[str, Any]:
    """What the first page shows: what is measured, the time until the first rows, the last response times."""
    seconds = max(0, round(first_rows_at - time.monotonic()))
    return {"target": here.target, "seconds": seconds, "took": _last_response_times(here)}


def _last_response_times(here: Here) -> dict[str, int]:
    """The last response time of each operation of the probe, in ns; empty until each was measured once."""
    try:
        targets = read_status(here.spool).targets
    except IoweatherError:
        return {}
    took = {o.op: o.last.duration_ns for t in targets for o in t.operations if o.last and o.last.duration_ns}
    return took if targets and len(took) == len(targets[0].operations) else {}


def _show_progress(
    here: Here, lake: Path, stop: threading.Event, limit_seconds: float, demo: Path, show_demo: Callable[[], None]
) -> None:
    """Show the first response times, `now` when a baseline is there, and the demonstration when it is made, until the
    end."""
    started = time.monotonic()
    look_at = min(_FIRST_LOOK_SECONDS, limit_seconds * 0.8)
    first = looked = shown = False
    said: set[str] = set()
    while not stop.wait(0.5) and (passed := time.monotonic() - started) < limit_seconds:
        for text in {child.complaint() for child in here.children} - said - {""}:
            said.add(text)
            say(text, err=True)
        if not first and (took := _last_response_times(here)):
            first = True
            listed = ", ".join(f"{op} {format_value(ns, 'ns')}" for op, ns in took.items())
            say(f"First response times: {listed}. Learning what is normal here...", wrap=78)
        if not shown and layout.is_lake(demo):
            shown = True
            show_demo()
        if not looked and passed >= look_at:
            looked = True
            try:
                show_answer(ask("now", lake, {"spool": [here.spool]}), "text")
            except DataUnavailable as error:
                say(f"Not measured yet: {error}", err=True)


@click.command(epilog="Example: ioweather doctor --lake /srv/weather")
@lake_option
@output_options
@path_option("--spool", "DIR", "Spool of an agent (repeatable).", name="spools", multiple=True)
def doctor(lake_dir: str | None, form: str, spools: tuple[Path, ...]) -> int:
    """Check what works here, what is missing, and how to fix it.

    The checks cover packages, programs, agents and their spools, space, concurrent commits, sealing, names that
    facility.toml does not map, and host clocks. Exit code 1 if something is wrong.
    """
    found = examine(lake_dir, *spools)
    marks = {"ok": "✓", "note": "·", "problem": "✗"} if form == "text" else {}
    columns = ("", "check", "found", "what to do") if form == "text" else ("state", "check", "found", "fix")
    print_rows(columns, [(marks.get(c.state, c.state), c.name, c.found, c.fix) for c in found], form)
    return 1 if any(c.state == "problem" for c in found) else 0
