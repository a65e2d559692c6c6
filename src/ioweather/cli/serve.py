"""`ioweather serve`."""

from __future__ import annotations

import logging
import signal
from pathlib import Path

import click

from ioweather.cli.options import lake_option
from ioweather.cli.screen import say
from ioweather.cli.tokens import token
from ioweather.core.default_paths import default_lake_dir, default_spool_dir

EPILOG = """\b
Listens at this machine alone unless --host says otherwise. There is no
encryption; a reverse proxy authenticates users: see [visibility] in
docs/how-to/dashboard.md. The API is at /api/v1.

\b
Example: ioweather serve --lake /srv/weather
"""


@click.group(epilog=EPILOG, invoke_without_command=True)
@lake_option
@click.option("--spool", "spools", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Spool of an agent; may be given several times (default: yours).")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="Port to listen at.")
@click.option("--socket", "socket_path", type=click.Path(path_type=Path), metavar="PATH",
              help="Listen at this socket for a proxy of the same group, and at no address.")  # fmt: skip
@click.option("--allow-host", "names", multiple=True, metavar="NAME",
              help="Host name that requests may use for this server (default: this machine).")  # fmt: skip
@click.option("--demo", "demo_dir", type=click.Path(path_type=Path), metavar="DIR",
              help="A second, simulated lake to switch to (default: that of `ioweather demo`).")  # fmt: skip
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
    app = create_app(lake, places, others=others, hosts=allowed, metrics=lambda: render(places[0], pushed_to=lake),
                     visibility=visibility)  # fmt: skip
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
