"""`ioweather probe` and `ioweather agent`: measure storage, and publish the state. They need click and rich alone."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ioweather.agent.agent import Agent, AgentSettings
from ioweather.agent.command import run_agent as run_sources
from ioweather.agent.command import write_bundle
from ioweather.agent.delivery import Shipper
from ioweather.agent.exporter import export_metrics
from ioweather.agent.probe import PAPER_SIZES, Probe, ProbeSettings, Sampler, SamplerSettings, TargetProbe
from ioweather.agent.sensor import LiveSource
from ioweather.agent.spool import Spool, SpoolBusy
from ioweather.agent.status import OperationStatus, Status
from ioweather.core.errors import SourceError, UsageError
from ioweather.core.facility import facility_data, load_facility
from ioweather.core.safe_files import default_lake_dir, default_spool_dir
from ioweather.core.units import MINUTE_NS, format_bytes, format_value, parse_duration_ns, parse_size
from ioweather.ui.cli.options import F, converted, lake_option, path_option
from ioweather.ui.cli.screen import say
from ioweather.ui.cli.terminal import console, shown


def spool_option(function: F) -> F:
    text = "Directory for queued rows and status.json (default: $IOWEATHER_SPOOL, else ~/.local/state/ioweather/spool)."
    return path_option("--spool", "DIR", text, name="spool_dir")(function)


def run_options(function: F) -> F:
    """The option --for of every command that measures for a while."""
    text = "End after this time (default: at Ctrl-C)."
    return click.option("--for", "duration", metavar="DURATION", help=text)(function)


PROBE_EPILOG = """Each cycle reads and writes one request in a large file, and stats, reads, deletes and creates a
small file (kun19). The small files (3901 bytes) use the page cache; the large file bypasses it if possible.

With --sizes: one file per request size (don15). The paper's twelve sizes need 2 GiB (per OST with --osts). `nocache`
empties the cache before reads and syncs writes. Run it once per batch job, for months. `cache` repeats requests; the
paper ran it for 30 min.

\b
Exit codes: 0 done; 1 done, but rows not in the lake; 2 failed.

\b
Examples:
  ioweather probe /scratch /home --for 10min --lake weather
  ioweather probe /scratch --sizes paper --mode nocache --lake weather
"""


@click.command(epilog=PROBE_EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--period", default="1s", show_default=True, metavar="DURATION", help="Time between cycles.")
@click.option("--request", metavar="SIZE", help="Size of a data request (default: 1MiB).")
@click.option("--file-size", metavar="SIZE", help="Size of the large file (default: 64MiB).")
@click.option("--pool", type=click.IntRange(2), help="Number of small files (default: 100).")
@click.option("--targets", "each_target", is_flag=True, help="Probe every storage target too (Lustre, MooseFS).")
@click.option("--require-mount", metavar="DIR", help="Create files only while DIR is mounted.")
@click.option("--sizes", metavar="SIZE,...", help="Sample by request size: a list, or `paper` (512KiB to 1GiB).")
@click.option(
    "--mode",
    type=click.Choice(["both", "cache", "nocache"]),
    help="With --sizes: measure with the client cache, without it, or both.",
)
@click.option("--rounds", type=click.IntRange(1), help="With --sizes: number of rounds through all sizes (default: 1).")
@click.option(
    "--busy",
    type=click.FloatRange(0, 1, min_open=True),
    help="With --sizes: maximum share of time spent measuring (default: 0.1).",
)
@click.option(
    "--fill-rate", metavar="SIZE", help="Maximum rate in bytes/s when creating large files (default: 200MiB)."
)
@click.option("--keep", is_flag=True, help="Keep the files for the next run instead of removing them.")
@click.option("--name", "directory", default="", help="Folder name for the files below PATH (default: this host).")
@click.option("--system", help="Name of the file system in the lake (default: its mount point).")
@run_options
@click.option(
    "--lake", "lake_dir", metavar="DIR", help="Ingest the results into this lake when the measurement finishes."
)
@spool_option
@click.option("--json", "as_json", is_flag=True, help="Print each row immediately, one JSON object per line.")
def probe(
    paths: tuple[Path, ...],
    duration: str | None,
    lake_dir: str | None,
    spool_dir: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure the response time of small operations on the file systems of PATHS.

    Each path has its own process: a hanging operation is shown while it hangs, and other paths continue. Missed
    cycles and errors are recorded too. With --sizes, measure reads and writes by request size.
    """
    lasting_ns = converted(parse_duration_ns, duration, "--for")
    run = AgentSettings(duration_ns=lasting_ns, retry=False)
    targets = list(dict.fromkeys(str(path.absolute()) for path in paths))
    try:
        if options["sizes"]:
            sources = _samplers(targets, options, run)
        else:
            sources, load = _probes(targets, options, run)
            if not as_json:
                say(f"Load of the probe on each path: {load}.", err=True)
    except SourceError as error:
        raise UsageError(error.message, hint=error.hint) from None
    return _measure(sources, run, spool_dir, lake_dir, as_json)


def _probes(targets: list[str], options: dict[str, Any], run: AgentSettings) -> tuple[list[LiveSource], str]:
    """The probes, and the load that each puts on storage."""
    for name in ("mode", "rounds", "busy"):
        if options[name] is not None:
            raise UsageError(f"--{name} needs --sizes.")
    given = {
        "period_ns": converted(parse_duration_ns, options["period"], "--period"),
        "block_bytes": converted(parse_size, options["request"], "--request"),
        "file_bytes": converted(parse_size, options["file_size"], "--file-size"),
        "pool_files": options["pool"],
        "fill_bytes_per_s": converted(parse_size, options["fill_rate"], "--fill-rate"),
        "keep_files": options["keep"],
    }
    settings = ProbeSettings(**{name: value for name, value in given.items() if value is not None})
    folder, system, mount = options["directory"], options["system"], options["require_mount"]
    sources: list[LiveSource] = [
        Probe(target, settings, run.run_id, folder, system, run.host, mount) for target in targets
    ]
    if options["each_target"]:
        same = (folder, system, run.host, mount)
        sources += [TargetProbe(target, settings, run.run_id, *same) for target in targets]
    return sources, settings.load


def _samplers(targets: list[str], options: dict[str, Any], run: AgentSettings) -> list[LiveSource]:
    """The samplers of response times by request size (don15), one per target."""
    listed = [part for part in options["sizes"].split(",") if part.strip()]
    sizes = PAPER_SIZES if listed == ["paper"] else tuple(converted(parse_size, part, "--sizes") for part in listed)
    mode = options["mode"] or "both"
    settings = SamplerSettings(
        sizes=sizes or PAPER_SIZES,
        modes=("cache", "nocache") if mode == "both" else (mode,),
        rounds=options["rounds"] or (None if run.duration_ns else 1),
        busy_ratio=options["busy"] or 0.1,
        fill_bytes_per_s=converted(parse_size, options["fill_rate"] or "200MiB", "--fill-rate"),
        keep_files=options["keep"],
    )
    folder, system = options["directory"], options["system"]
    return [Sampler(target, settings, run.run_id, folder, system, run.host) for target in targets]


def _measure(
    sources: Sequence[LiveSource], settings: AgentSettings, spool_dir: Path | None, lake_dir: str | None, as_json: bool
) -> int:
    """Measure to the end. Prints rows as JSON, or a live table on a terminal. Returns the exit code: 1 where rows are
    not in the lake."""
    usual = spool_dir or default_spool_dir()
    try:
        spool = Spool(usual, settings.host, settings.run_id)
    except SpoolBusy:
        if spool_dir is not None:
            raise
        own = usual.with_name(f"{usual.name}-{settings.run_id}")  # a person can probe while the agent runs
        say(f"An agent is running; this run writes to {own}.", err=True)
        spool = Spool(own, settings.host, settings.run_id)
    shipper = Shipper(Path(lake_dir).absolute(), MINUTE_NS) if lake_dir else None
    with _live_table(as_json) as show:
        agent = Agent(sources, spool, settings, shipper=shipper, on_status=show, on_row=_print_row if as_json else None)
        status = agent.run()
    failed = [child.message for child in agent.children if child.failed and not child.is_ready]
    if failed and len(failed) == len(agent.children):
        raise UsageError(" ".join(dict.fromkeys(failed)))
    if as_json and lake_dir is None:
        return 0
    console().print(status_table(status))
    held = status.spool
    if lake_dir is None:
        say(f"{held.written_rows:,} rows are queued in {held.directory}.")
        say(f"To ingest them: ioweather ingest {shlex.quote(held.directory + '/segments')}")
    elif held.last_ship_ok and not held.refused_files:
        say(f"{held.written_rows:,} rows are in {lake_dir}.")
    else:
        say(f"Not all rows are in {lake_dir}: {held.message} The others are queued in {held.directory}.", err=True)
        return 1
    return 0


def _print_row(line: str) -> None:
    try:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe ended: end in the usual way
        os.kill(os.getpid(), signal.SIGTERM)
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - for the rows until then


@contextmanager
def _live_table(as_json: bool) -> Iterator[Any]:
    """A function that shows a status; None without a terminal."""
    if as_json or not sys.stdout.isatty():
        yield None
        return
    # No refresh thread: children are forked, and a fork of a process with threads can deadlock.
    with Live(console=console(), auto_refresh=False, transient=True) as live:
        yield lambda status: live.update(status_table(status), refresh=True)


_STATUS_COLUMNS = ("operation", "last", "median", "q90", "max", "usual", "slow", "done", "bad")
_SLOW, _VERY_SLOW = 2.0, 10.0


def status_table(status: Status) -> RenderableType:
    """What an agent measures now: a table per target, and a line per other source."""
    parts: list[RenderableType] = []
    for target in status.targets:
        text = shown(target.target, style="bold")
        text.append(shown(f"  {target.state}", "red" if target.state in ("hung", "failed") else "default"))
        if target.in_flight is not None and target.state != "stopped":
            text.append(shown(f", {target.in_flight.op} for {format_value(target.in_flight.age_ns, 'ns')}"))
        if target.message:
            text.append(shown(f"  {target.message}", "dim"))
        table = Table(box=None, pad_edge=False, header_style="dim", collapse_padding=True)
        for place, name in enumerate(_STATUS_COLUMNS):
            table.add_column(name, justify="left" if place == 0 else "right", no_wrap=True)
        modes = {(each.op, each.mode) for each in target.operations}
        with_mode = len(modes) > len({op for op, _ in modes})
        for operation in target.operations:
            table.add_row(*_operation_cells(operation, with_mode))
        parts += [text, table]
    for source in status.sources:
        if source.name not in ("probe", "sample"):  # these are the targets above
            parts.append(shown(f"{source.name}: {source.state}, {source.rows:,} rows. {source.message}", style="dim"))
    return Group(*parts)


def _operation_cells(operation: OperationStatus, with_mode: bool) -> list[Text]:
    """One row of the table of operations: last, median, 90%, largest and usual time, slowdown, counts."""
    last, recent, ratio = operation.last, operation.recent, operation.slowdown_ratio
    failure = errno.errorcode.get(last.errno or 0, "failed") if last is not None and last.status == "error" else ""
    size = f" {format_bytes(operation.request_bytes)}" if operation.request_bytes else ""
    times = (recent.median_ns, recent.q90_ns, recent.max_ns, operation.expected_ns)
    style = "default" if ratio is None or ratio < _SLOW else "yellow" if ratio < _VERY_SLOW else "red"
    counts = (operation.ok_count, operation.error_count + operation.missed_count)
    return [
        shown(f"{operation.op}{size}{f' {operation.mode}' if with_mode else ''}"),
        shown(failure or format_value(last.duration_ns if last else None, "ns")),
        *(shown(format_value(value, "ns")) for value in times),
        shown(format_value(ratio, "factor"), style=style),
        *(shown(f"{count:,}" if count else "–") for count in counts),
    ]


@click.group(epilog="Example: ioweather agent run --lake /srv/weather")
def agent() -> None:
    """Measure continuously: run the agent on this host, and export its state to Prometheus."""


RUN_EPILOG = """facility.toml sets what runs and how often: `probes` of a file system, [collect] and [watch]. The
agent runs in the foreground; docs/how-to/run-the-agent.md describes systemd and Slurm. Rows stay in the spool until
they are in the lake.

\b
Example: ioweather agent run probe block --lake /srv/weather
"""


@agent.command(name="run", epilog=RUN_EPILOG)
@click.argument("kinds", nargs=-1, type=click.Choice(["probe", "block", "lustre", "gpfs", "nfs"]))
@lake_option
@spool_option
@click.option("--no-ship", is_flag=True, help="Keep the rows in the spool.")
@run_options
def agent_run(
    kinds: tuple[str, ...],
    lake_dir: str | None,
    spool_dir: Path | None,
    no_ship: bool,
    duration: str | None,
) -> int:
    """Run the agent: probe, block devices, Lustre, GPFS, NFS.

    Without a name, run all sources that facility.toml and this machine provide.
    """
    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    facility = load_facility(lake / "facility.toml")
    lasting_ns = converted(parse_duration_ns, duration, "--for")
    run = AgentSettings(duration_ns=lasting_ns, record_gap=True)
    return run_sources(kinds, facility, run, spool_dir, lake, ship=not no_ship)


EXPORT_EPILOG = """\b
Alert rules, a dashboard and the list of metrics: docs/how-to/prometheus.md.

\b
Example: ioweather agent export --host 127.0.0.1 --port 9754
"""


@agent.command(name="export", epilog=EXPORT_EPILOG)
@spool_option
@path_option("--lake", "DIR", "Also export the queue and the verdict counts of this lake.", name="lake_dir")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=9754, show_default=True, type=click.IntRange(0, 65535), help="Port to listen on.")
@path_option("--textfile", "FILE", "Write the metrics to this file instead (it must end in .prom for node_exporter).")
@click.option(
    "--every", default="15s", show_default=True, metavar="DURATION", help="With --textfile: time between updates."
)
@click.option("--once", is_flag=True, help="With --textfile: write it once and exit.")
def agent_export(
    spool_dir: Path | None,
    lake_dir: Path | None,
    host: str,
    port: int,
    textfile: Path | None,
    every: str,
    once: bool,
) -> int:
    """Export the agent's status to Prometheus. A scrape reads only status.json, not the tables."""
    others = []
    if lake_dir:
        from ioweather.ingestion.queue import collect_queue

        others = [partial(collect_queue, lake_dir)]
    every_ns = converted(parse_duration_ns, every, "--every")
    export_metrics(spool_dir, (host, port), textfile, every_ns, once=once, lake=lake_dir, others=others)
    return 0


BUNDLE_EPILOG = """The file needs only Python 3.9 or newer. With --settings, it contains facility.toml. A host then
needs only this file and, to push rows, its token: docs/how-to/run-the-agent.md.

\b
Example: ioweather agent bundle --settings facility.toml
"""


@agent.command(name="bundle", epilog=BUNDLE_EPILOG)
@path_option("--out", "FILE", "Output file (default: ioweather-agent.pyz).")
@path_option("--settings", "FILE", "Include this facility.toml in the file.")
def agent_bundle(out: Path | None, settings: Path | None) -> None:
    """Create a single-file agent for hosts without ioweather."""
    if settings is not None and not settings.exists():
        raise UsageError(f"There is no {settings}.")
    data = None if settings is None else facility_data(settings)
    out = out or Path("ioweather-agent.pyz")
    write_bundle(out, data)
    say(f"Wrote {out} ({format_bytes(out.stat().st_size)}).")
