"""`ioweather serve`."""

from __future__ import annotations

import logging
import signal
from functools import partial
from pathlib import Path

import click

from ioweather.cli.options import lake_option, open_lake_at, output_form, output_options, path_option
from ioweather.cli.screen import say
from ioweather.core.default_paths import default_lake_dir, default_spool_dir

# `ioweather serve token`: who may send rows to this server, and who may ask it for their own jobs.


@click.group(epilog="Example: ioweather serve token create n1")
def token() -> None:
    """Tokens: agents of other hosts send rows with them, people ask for their own jobs."""


@token.command(epilog="Example: ioweather serve token create login --hosts 'login*'")
@click.argument("name")
@click.option("--hosts", metavar="PATTERN", help="Hosts whose rows it may bring (default: NAME alone).")
@click.option("--user", metavar="USER", help="For a person: shows this user's own jobs, and brings no rows.")
@path_option("--to", "FILE", "Write the token there, for its owner alone, instead of printing it.", name="file")
@lake_option
def create(name: str, hosts: str | None, user: str | None, file: Path | None, lake_dir: str | None) -> None:
    """Make a token. It is shown once: the lake keeps only a hash of it."""
    from ioweather.core.errors import UsageError
    from ioweather.store.tokens import create_token, revoke_token

    if user is not None and hosts is not None:
        raise UsageError("--user and --hosts exclude each other.", hint="A person's token brings no rows.")
    root = open_lake_at(lake_dir, create=True).root
    text = create_token(root, name, "" if user is not None else hosts or name, user)
    if file is None:
        say(text)
        return
    import os

    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as out:
            out.write(text + "\n")
    except OSError as error:
        revoke_token(root, name)
        raise UsageError(f"{file} cannot be made: {error.strerror}.") from None
    say(f"Wrote the token {name} to {file}.")


@token.command(name="list", epilog="Example: ioweather serve token list --json")
@lake_option
@output_options
def listed(lake_dir: str | None, as_json: bool, as_csv: bool) -> None:
    """List the tokens: names, hosts or user, since when."""
    from ioweather.cli.render import print_rows
    from ioweather.core.units import format_time_ns
    from ioweather.store.tokens import list_tokens

    rows = [(t.name, t.hosts, t.user, format_time_ns(t.created_ns)) for t in list_tokens(open_lake_at(lake_dir).root)]
    print_rows(("token", "hosts", "user", "created"), rows, output_form(as_json, as_csv))


@token.command(epilog="Example: ioweather serve token revoke n1")
@click.argument("name")
@lake_option
def revoke(name: str, lake_dir: str | None) -> None:
    """Take a token back: from now on it is refused."""
    from ioweather.store.tokens import revoke_token

    revoke_token(open_lake_at(lake_dir).root, name)
    say(f"Revoked {name}.")


EPILOG = """\b
Listens at this machine alone unless --host says otherwise. There is no
encryption; a reverse proxy authenticates users: see [visibility] in
docs/how-to/dashboard.md. The API is at /api/v1.

\b
Example: ioweather serve --lake /srv/weather
"""


@click.group(epilog=EPILOG, invoke_without_command=True)
@lake_option
@path_option(
    "--spool", "DIR", "Spool of an agent; may be given several times (default: yours).", "spools", multiple=True
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="Port to listen at.")
@path_option(
    "--socket", "PATH", "Listen at this socket for a proxy of the same group, and at no address.", "socket_path"
)
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="Host name that requests may use for this server (default: this machine).",
)
@path_option("--demo", "DIR", "A second, simulated lake to switch to (default: that of `ioweather demo`).", "demo_dir")
@click.pass_context
def serve(
    context: click.Context,
    lake_dir: str | None,
    spools: tuple[Path, ...],
    host: str,
    port: int,
    socket_path: Path | None,
    names: tuple[str, ...],
    demo_dir: Path | None,
) -> None:
    """Serve the dashboard and the API over HTTP."""
    if context.invoked_subcommand is not None:
        return
    from ioweather.core.facility import load_facility
    from ioweather.exporter.metrics import render
    from ioweather.web.app import LOOPBACK, create_app
    from ioweather.web.server import address_of, bind, bind_socket, check_reach, run

    lake = Path(lake_dir) if lake_dir else default_lake_dir()
    places = spools or (default_spool_dir(),)
    demo = demo_dir or default_lake_dir().with_name("demo")
    others = {"demo": demo} if demo != lake and (demo_dir is not None or demo.is_dir()) else {}
    allowed = (*LOOPBACK, host, *names)
    visibility = load_facility(lake / "facility.toml").visibility
    check_reach(host, visibility)
    bound = bind_socket(socket_path) if socket_path is not None else bind(host, port)
    metrics = partial(render, places[0], pushed_to=lake)
    app = create_app(lake, places, others=others, hosts=allowed, metrics=metrics, visibility=visibility)
    say(f"Dashboard at {address_of(bound)} (Ctrl-C ends it)", err=True)
    log = logging.getLogger("ioweather.serve")
    log.info("started: %s at %s", lake, address_of(bound))
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn ends by it, and then raises it again
    try:
        app.state.facilities.warm()
        run(app, bound)
    finally:
        log.info("stopped")


serve.add_command(token)
