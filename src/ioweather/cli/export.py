"""`ioweather export`."""

from __future__ import annotations

import logging
import signal
import threading
from pathlib import Path

import click

from ioweather.cli.agent_options import duration_ns, spool_option
from ioweather.cli.options import path_option
from ioweather.cli.screen import say
from ioweather.core.default_paths import default_spool_dir
from ioweather.core.errors import UsageError

EPILOG = """\b
Alert rules, a dashboard and the list of metrics: docs/how-to/prometheus.md.

\b
Example: ioweather export --host 127.0.0.1 --port 9754
"""


@click.command(epilog=EPILOG)
@spool_option
@path_option("--lake", "DIR", "Also what this lake's catch_up.json and queue tell: counts by verdict.", name="lake_dir")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=9754, show_default=True, type=click.IntRange(0, 65535), help="Port to listen at.")
@click.option("--listen", hidden=True, metavar="HOST:PORT", help="As --host and --port; deprecated.")
@path_option("--textfile", "FILE", "Write the metrics to this file instead (it must end in .prom for node_exporter).")
@click.option("--every", default="15s", show_default=True, metavar="DURATION", help="How often, with --textfile.")
@click.option("--once", is_flag=True, help="With --textfile: write it once.")
def export(
    spool_dir: Path | None,
    lake_dir: Path | None,
    host: str,
    port: int,
    listen: str | None,
    textfile: Path | None,
    every: str,
    once: bool,
) -> int:
    """Show the agent's status to Prometheus. A scrape reads status.json, and opens no table."""
    from ioweather.exporter.serve import parse_listen, serve, write_textfile, write_textfile_every

    directory = spool_dir or default_spool_dir()
    if once and textfile is None:
        raise UsageError("--once writes a file and needs its name.", hint="Give --textfile FILE.")
    if textfile is not None and once:
        write_textfile(directory, textfile, lake=lake_dir)
        return 0
    until = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: until.set())
    if textfile is not None:
        write_textfile_every(directory, textfile, duration_ns(every, "--every") / 1e9, until, lake=lake_dir)
        return 0
    if listen is not None:
        host, port = parse_listen(listen)
    say(f"Metrics of {directory} at http://{host}:{port}/metrics", err=True)
    log = logging.getLogger("ioweather.export")
    log.info("started: %s at %s:%d", directory, host, port)
    serve(directory, host, port, until, lake=lake_dir)
    log.info("stopped")
    return 0
