"""What `agent run` does, and the command line of the one-file agent.

The one-file agent (`ioweather agent bundle`) has no package but the standard library, so its command line is argparse.
"""

from __future__ import annotations

import argparse
import io
import json
import logging
import pkgutil
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ioweather._version import __version__
from ioweather.agent.agent import Agent, AgentSettings
from ioweather.agent.delivery import Shipper, server_complaint
from ioweather.agent.delivery import main as push_files
from ioweather.agent.settings import CollectSettings, settings_from, sources_for
from ioweather.agent.spool import Spool
from ioweather.agent.status import Journal, Status, find_problems, read_status
from ioweather.core.errors import DataUnavailable, IoweatherError, UsageError
from ioweather.core.facility import Facility, load_facility, parse_facility
from ioweather.core.safe_files import default_spool_dir
from ioweather.core.units import (
    NS,
    format_bytes,
    format_seconds,
    names_of,
    now_ns,
    parse_duration_ns,
)

State = Literal["ok", "note", "problem"]
_PROGRAMS: Final = {
    "lfs": "per-OST samples (`ioweather probe --sizes`) need Lustre's client tools",
    "sacct": "`ioweather ingest --watch` reads Slurm's accounting with sacct",
    "iostat": "sysstat records block-device history: apt-get install sysstat",
}


@dataclass(frozen=True)
class Check:
    """One line of `doctor`: what was checked, the result, and what to do."""

    name: str
    state: State
    found: str
    fix: str = ""


def check_python() -> Iterator[Check]:
    """Name the interpreter."""
    yield Check("python", "ok", f"{sys.version.split()[0]} at {sys.executable}")


def check_programs() -> Iterator[Check]:
    """Look for the programs of the file system, the scheduler and the system."""
    for name, why in _PROGRAMS.items():
        place = shutil.which(name)
        yield Check(name, "ok", place) if place else Check(name, "note", "not installed", why)


def check_sources(facility: Facility) -> Iterator[Check]:
    """Say what an agent would measure here. Nothing is opened on a file system that it would probe."""
    settings = settings_from(facility.sections.get("collect", {}))
    try:
        found = sources_for((), facility, settings, "doctor")
    except UsageError as error:
        yield Check("collect", "note", error.message, error.hint)
    else:
        labels = ", ".join(source.label for source in found)
        mounts = " (paths are not checked here)" if any("/" in source.label for source in found) else ""
        yield Check("collect", "note" if mounts else "ok", labels + mounts)
        if any(source.name == "probe" for source in found):
            yield Check("probe load", "ok", f"per path: {settings.probe.load}")
    yield from _check_server(settings)


def _check_server(settings: CollectSettings) -> Iterator[Check]:
    """Say whether the server takes the rows of this host, if there is one."""
    if settings.server is None:
        return
    complaint = server_complaint(settings.server)
    if complaint:
        yield Check("server", "problem", complaint, "rows stay in the spool until the server responds")
    else:
        yield Check("server", "ok", f"{settings.server.url} responds")


def check_agent(spool: Path) -> Iterator[Check]:
    """Say whether the agent of this spool runs, and whether its rows arrive."""
    try:
        status = read_status(spool)
    except DataUnavailable:
        yield Check("agent", "note", f"no agent has run in {spool}", "run ioweather probe PATH or ioweather agent run")
        return
    age = format_seconds((now_ns() - status.written_ns) / NS)
    again = "start it again: ioweather agent run"
    if status.state == "stopped":
        yield Check("agent", "note", f"stopped {age} ago on {status.host}", again)
    elif status.is_stale(now_ns()):
        yield Check("agent", "problem", f"last report {age} ago on {status.host}", again)
    else:
        yield Check("agent", "ok", f"running on {status.host}, pid {status.pid}")
    waiting = status.spool
    if waiting.dropped_rows:
        why = waiting.dropped_why or waiting.message
        yield Check("spool", "problem", f"{waiting.dropped_rows:,} rows were dropped: {why}", "check the lake")
    elif waiting.last_ship_ok is False:
        yield Check("spool", "problem", f"delivery to the lake fails: {waiting.message}", "check space and permissions")
    else:
        yield Check("spool", "ok", f"{format_bytes(waiting.bytes)} waiting")


_PACKAGE: Final = Path(__file__).parent.parent
_CORE: Final = names_of("__init__ errors facility safe_files units")
_MAIN: Final = "import sys\n\nfrom ioweather.agent.command import main\n\nsys.exit(main())\n"
# The same files give the same bytes: sites compare digests.
_STAMP: Final = (2020, 1, 1, 0, 0, 0)


def write_bundle(out: Path, facility: Mapping[str, Any] | None = None) -> None:
    """Write the archive as an executable file, with the settings of a facility file inside if they are given."""
    sources = [*(_PACKAGE / "agent").glob("*.py"), *(_PACKAGE / "core" / "counters").glob("*.py")]
    sources += [_PACKAGE / "core" / f"{name}.py" for name in _CORE] + [_PACKAGE / "_version.py"]
    files = {f"ioweather/{source.relative_to(_PACKAGE).as_posix()}": source.read_bytes() for source in sources}
    files |= {"__main__.py": _MAIN.encode(), "ioweather/__init__.py": b'"""The agent of ioweather."""\n'}
    if facility is not None:
        settings_from(parse_facility(facility).sections.get("collect", {}))  # raises if the agent could not use it
        files[f"ioweather/agent/{EMBEDDED_SETTINGS}"] = json.dumps(facility, default=str).encode()
    made = io.BytesIO(b"#!/usr/bin/env python3\n")
    made.seek(0, io.SEEK_END)
    with zipfile.ZipFile(made, "a", zipfile.ZIP_DEFLATED) as archive:
        for path, data in sorted(files.items()):
            entry = zipfile.ZipInfo(path, _STAMP)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100755 << 16
            archive.writestr(entry, data)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(made.getvalue())
        out.chmod(0o755)
    except OSError as error:
        raise UsageError(f"Cannot write {out}: {error.strerror}.") from None


KINDS = ("probe", "block", "lustre", "gpfs", "nfs")
EMBEDDED_SETTINGS = "facility.json"


def run_agent(
    kinds: Sequence[str],
    facility: Facility,
    run: AgentSettings,
    spool_dir: Path | None,
    lake: Path | None = None,
    *,
    ship: bool = True,
) -> int:
    """Run all sources that the facility and this machine offer, or those of `kinds`, until the end; return the exit
    code. Rows go to the server in [collect], else into `lake`; without both they stay in the spool."""
    settings = settings_from(facility.sections.get("collect", {}))
    sources = sources_for(kinds, facility, settings, run.run_id, run.host)
    spool = Spool(spool_dir or default_spool_dir(), run.host, run.run_id, limit_bytes=settings.spool_limit_bytes)
    shipper = None
    if ship and (settings.server is not None or lake is not None):
        place = lake or spool.directory
        has_lake = (place / "lake.json").exists()
        shipper = Shipper(place, settings.ship_every_ns, server=settings.server, lake_was_there=has_lake)
    labels = ", ".join(source.label for source in sources)
    print(f"Collecting {labels}; status in {spool.directory}.", file=sys.stderr)
    journal = Journal()
    status = Agent(sources, spool, run, shipper=shipper, on_status=journal).run()
    journal.end(status)
    return 1 if status.spool.dropped_rows or status.spool.refused_files else 0


def status_lines(status: Status, now_ns: int) -> Iterator[str]:
    """Say how storage is now: a line for each operation and source of the agent, and what is wrong."""
    age = format_seconds(max(0, now_ns - status.written_ns) / NS)
    yield f"Agent on {status.host}: {f'not running; status from {age} ago' if status.is_stale(now_ns) else 'running'}."
    for target in status.targets:
        yield f"{target.target} ({target.state})"
        for found in target.operations:
            median, ratio = found.recent.median_ns, found.slowdown_ratio
            took = "no result in the last minute" if median is None else format_seconds(median / NS)
            usual = "" if ratio is None else f", {ratio:.2g} times the usual"
            failed = f", {found.error_count} failed" if found.error_count else ""
            yield f"  {found.op:<11} {format_bytes(found.request_bytes):>9}  {took}{usual}{failed}"
    yield from (f"{source.name}: {source.state}, {source.rows:,} rows" for source in status.other_sources)
    yield f"{status.spool.written_rows:,} rows measured, {format_bytes(status.spool.bytes)} queued."
    yield from (f"Problem: {text}" for text in find_problems(status).values())


def _settings(place: Path | None) -> Facility:
    """The facility in a file, or in a directory; else the one that was put into this archive."""
    if place is not None:
        file = place / "facility.toml" if place.is_dir() else place
        if not file.exists() and place.is_dir():
            file = place / "facility.json"
        if not file.exists():
            raise UsageError(f"{file} does not exist.", hint="Use --settings FILE.")
        return load_facility(file)
    try:
        data = pkgutil.get_data("ioweather.agent", EMBEDDED_SETTINGS)
    except OSError:
        return Facility()
    return parse_facility(json.loads(data)) if data else Facility()


def _arguments() -> argparse.ArgumentParser:
    """Return the command line of the one-file agent."""
    parser = argparse.ArgumentParser(prog="ioweather-agent", description="Measure storage on this host continuously.")
    parser.add_argument("--version", action="version", version=f"ioweather-agent {__version__}")
    parser.add_argument("--verbose", action="store_true", help="Log every start, stop and problem.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], text: str, *, settings: bool = False
    ) -> argparse.ArgumentParser:
        """Add a subcommand with --spool, and --settings if asked for; return its parser."""
        found = commands.add_parser(name, help=text, description=text)
        found.set_defaults(run=run)
        found.add_argument("--spool", type=Path, metavar="DIR", help="Directory of the row queue and status.json.")
        if settings:
            help_text = "facility.toml or .json, or its directory (default: the settings in the bundle)."
            found.add_argument("--settings", type=Path, metavar="FILE", help=help_text)
        return found

    run = add("run", _run, "Probe, read counters, spool rows and push them to the server.", settings=True)
    run.add_argument("kinds", nargs="*", metavar="KIND", help=f"Sources to run: {', '.join(KINDS)} (default: all).")
    run.add_argument("--no-push", action="store_true", help="Keep the rows in the spool.")
    run.add_argument("--for", dest="duration", metavar="DURATION", help="Stop after this time.")
    export = add("export", _export, "Export the agent's status to Prometheus.")
    export.add_argument("--host", default="127.0.0.1", help="Listen on this address.")
    export.add_argument("--port", default=9754, type=int, help="Listen on this port.")
    export.add_argument("--textfile", type=Path, metavar="FILE", help="Write the metrics to this .prom file instead.")
    export.add_argument("--every", default="15s", metavar="DURATION", help="Time between updates of --textfile.")
    export.add_argument("--once", action="store_true", help="Write --textfile once and exit.")
    add("now", _show_now, "Show how fast storage is now.")
    add("doctor", _examine, "Check what works on this host and how to fix the rest.", settings=True)
    push = add("push", lambda given: push_files(given.arguments), "Push files (the agent does this itself).")
    push.add_argument("arguments", nargs="+", metavar="URL TOKEN_FILE FILE")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the one-file agent; return the exit code."""
    given = _arguments().parse_args(arguments)
    level = logging.INFO if given.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(name)s: %(message)s")
    try:
        return int(given.run(given))
    except (IoweatherError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2


def _run(given: argparse.Namespace) -> int:
    """Run the agent with the settings in the bundle, or in a file."""
    unknown = sorted({*given.kinds} - {*KINDS})
    if unknown:
        raise UsageError(f"Unknown source {', '.join(unknown)}.", hint=f"Sources: {', '.join(KINDS)}.")
    duration_ns = parse_duration_ns(given.duration) if given.duration else None
    run = AgentSettings(duration_ns=duration_ns, record_gap=True)
    return run_agent(given.kinds, _settings(given.settings), run, given.spool, ship=not given.no_push)


def _export(given: argparse.Namespace) -> int:
    """Publish the metrics."""
    from ioweather.agent.exporter import export_metrics  # its server would be memory of every agent

    every_ns = parse_duration_ns(given.every)
    export_metrics(given.spool, (given.host, given.port), given.textfile, every_ns, once=given.once)
    return 0


def _show_now(given: argparse.Namespace) -> int:
    """Show the last status; the exit code is 1 if the agent is gone."""
    status = read_status(given.spool or default_spool_dir())
    print("\n".join(status_lines(status, time.time_ns())))
    return 1 if status.is_stale(time.time_ns()) else 0


def _examine(given: argparse.Namespace) -> int:
    """Print all checks; the exit code is 1 if one found a problem."""
    checks = [*check_python(), *check_programs(), *check_sources(_settings(given.settings))]
    checks += check_agent(given.spool or default_spool_dir())
    for check in checks:
        print(f"{check.state:<8} {check.name:<12} {check.found}")
        if check.fix and check.state != "ok":
            print(f"{'':22}{check.fix}")
    return 1 if any(check.state == "problem" for check in checks) else 0
