"""Commands that run and try: `serve`, `up`, `demo`, `report`, `simulate`, `doctor`."""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import click

from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.safe_files import default_lake_dir, default_spool_dir
from ioweather.ui.cli.measure import duration_ns
from ioweather.ui.cli.options import (
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_period,
    path_option,
    period_options,
    progress_bar,
)
from ioweather.ui.cli.screen import say

if TYPE_CHECKING:
    from ioweather.ui.local_setup import Here
    from ioweather.ui.report.write import Audience

# `ioweather serve token`: who may send rows to this server, and who may ask it for their own jobs.


@click.group(epilog="Example: ioweather serve token create n1")
def token() -> None:
    """Tokens: agents of other hosts send rows with them, people ask for their own jobs."""


@token.command(epilog="Example: ioweather serve token create login --hosts 'login*'")
@click.argument("name")
@click.option("--hosts", metavar="PATTERN", help="Hosts it may push rows for (default: only NAME).")
@click.option("--user", metavar="USER", help="Create a personal token: shows this user's jobs, cannot push rows.")
@path_option(
    "--to", "FILE", "Write the token to this file, readable only by its owner, instead of printing it.", name="file"
)
@lake_option
def create(name: str, hosts: str | None, user: str | None, file: Path | None, lake_dir: str | None) -> None:
    """Make a token. It is shown once: the lake keeps only a hash of it."""
    from ioweather.lake.tokens import create_token, revoke_token

    if user is not None and hosts is not None:
        raise UsageError("--user and --hosts cannot be used together.", hint="Personal tokens cannot push rows.")
    root = open_lake_at(lake_dir, create=True).root
    text = create_token(root, name, "" if user is not None else hosts or name, user)
    if file is None:
        say(text)
        return
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
    from ioweather.core.units import format_time_ns
    from ioweather.lake.tokens import list_tokens
    from ioweather.ui.cli.terminal import print_rows

    rows = [(t.name, t.hosts, t.user, format_time_ns(t.created_ns)) for t in list_tokens(open_lake_at(lake_dir).root)]
    print_rows(("token", "hosts", "user", "created"), rows, output_form(as_json, as_csv))


@token.command(epilog="Example: ioweather serve token revoke n1")
@click.argument("name")
@lake_option
def revoke(name: str, lake_dir: str | None) -> None:
    """Take a token back: from now on it is refused."""
    from ioweather.lake.tokens import revoke_token

    revoke_token(open_lake_at(lake_dir).root, name)
    say(f"Revoked {name}.")


SERVE_EPILOG = """\b
Listens only on this machine unless --host is set, without encryption. To
authenticate users, put it behind a reverse proxy: see [visibility] in
docs/how-to/dashboard.md. The API is at /api/v1.

\b
Example: ioweather serve --lake /srv/weather
"""


@click.group(epilog=SERVE_EPILOG, invoke_without_command=True)
@lake_option
@path_option(
    "--spool", "DIR", "Spool of an agent; may be given several times (default: yours).", "spools", multiple=True
)
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
    help="Host name that requests may use for this server (default: this machine).",
)
@path_option("--demo", "DIR", "A second, simulated lake to switch to (default: that of `ioweather demo`).", "demo_dir")
@click.option("--mcp", "with_mcp", is_flag=True, help="Also answer AI assistants, at /mcp (needs ioweather[mcp]).")
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
    with_mcp: bool,
) -> None:
    """Serve the dashboard and the API over HTTP."""
    if context.invoked_subcommand is not None:
        return
    from ioweather.agent.exporter import render
    from ioweather.core.facility import load_facility
    from ioweather.ingestion.queue import collect_queue
    from ioweather.ui.web.app import LOOPBACK, address_of, bind, bind_socket, check_reach, create_app, run

    lake = Path(lake_dir) if lake_dir else default_lake_dir()
    places = spools or (default_spool_dir(),)
    demo = demo_dir or default_lake_dir().with_name("demo")
    others = {"demo": demo} if demo != lake and (demo_dir is not None or demo.is_dir()) else {}
    allowed = (*LOOPBACK, host, *names)
    visibility = load_facility(lake / "facility.toml").visibility
    check_reach(host, visibility)
    bound = bind_socket(socket_path) if socket_path is not None else bind(host, port)
    metrics = partial(render, places[0], pushed_to=lake, others=[partial(collect_queue, lake)])
    app = create_app(lake, places, others=others, hosts=allowed, metrics=metrics, visibility=visibility)
    if with_mcp:
        _mcp_server().mount(app)
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


UNITS_EPILOG = """\b
As root: units of the system, sandboxed, for --user. Otherwise: units of
your own, without a sandbox; `loginctl enable-linger` keeps them running.

\b
Example: ioweather serve units --lake /srv/weather
"""


@serve.command(name="units", epilog=UNITS_EPILOG)
@lake_option
@path_option("--out", "DIR", "Output directory (default: systemd's, for the system or this user).")
@path_option("--reports", "DIR", "Directory for reports (default: `reports` next to the lake).")
@path_option("--backup", "DIR", "Directory for backups (default: `backup` next to the lake).")
@click.option("--user", metavar="NAME", help="User of the services, as root (default: ioweather).")
def units(lake_dir: str | None, out: Path | None, reports: Path | None, backup: Path | None, user: str | None) -> None:
    """Write systemd units for this installation: agent, metrics, dashboard, verdicts, nightly care, reports."""
    from ioweather.core.facility import load_facility
    from ioweather.ui.service_units import Site, write_units

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
    for path in made:
        if path.parent != where:
            say(f"Made {path}.")
    mode = "" if is_root else " --user"
    names = "ioweather-agent ioweather-export ioweather-serve ioweather-catch-up.timer ioweather-tend.timer"
    say(f"Wrote {sum(path.parent == where for path in made)} units to {where}. Start them:")
    say(f"  systemctl{mode} daemon-reload")
    say(f"  systemctl{mode} enable --now {names} ioweather-report@7d.timer")


MCP_EPILOG = """\b
An assistant starts this command and talks to it on standard input and
output (Model Context Protocol). Tools: one for each question, and the
exhibits. They only read. Over HTTP: ioweather serve --mcp.

\b
Example: ioweather mcp --lake /srv/weather
"""


@click.command(epilog=MCP_EPILOG)
@lake_option
@path_option(
    "--spool", "DIR", "Spool of an agent; may be given several times (default: yours).", "spools", multiple=True
)
def mcp(lake_dir: str | None, spools: tuple[Path, ...]) -> None:
    """Answer questions of an AI assistant about this lake."""
    _mcp_server().serve_stdio(open_lake_at(lake_dir).root, spools or (default_spool_dir(),))


def _mcp_server() -> ModuleType:
    try:
        from ioweather.ui import mcp_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("The MCP library is not installed.", hint="pip install 'ioweather[mcp]'") from None
    return mcp_server


UP_EPILOG = """\b
Needs no root and no configuration. The probe reads and writes 0.5 MiB/s in
its own folder, which is removed at the end; its rows go into the lake. The
demo is a simulated facility that is created once.
Without a terminal the command exits after 20 s or when the demo is ready.

\b
Example: ioweather up --for 60s
"""
_FIRST_LOOK_SECONDS = 18.0
_WITHOUT_TERMINAL_SECONDS = 20.0
_LONGEST_WITHOUT_TERMINAL_SECONDS = 240.0


@click.command(epilog=UP_EPILOG)
@click.argument("path", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@lake_option
@click.option("--for", "duration", metavar="DURATION", help="End after this time (default: at Ctrl-C).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address of the dashboard.")
@click.option("--port", default=8585, show_default=True, type=click.IntRange(0, 65535), help="Port of the dashboard.")
@click.option("--no-demo", is_flag=True, help="Do not make the demonstration.")
def up(path: Path | None, lake_dir: str | None, duration: str | None, host: str, port: int, no_demo: bool) -> None:
    """Measure the storage of this directory (or PATH) and show it: probe, block devices, dashboard, in one go."""
    from ioweather.agent.exporter import render
    from ioweather.ingestion.queue import collect_queue
    from ioweather.lake.lake import open_lake
    from ioweather.ui.first_page import show_until_measured
    from ioweather.ui.local_setup import measuring
    from ioweather.ui.web.app import LOOPBACK, address_of, bind, check_reach, create_app, running

    limit_ns = duration_ns(duration, "--for")
    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    check_reach(host, open_lake(lake, create=True).facility.visibility)
    demo = default_lake_dir().with_name("demo")
    bound = bind(host, port)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    # Children first: they are made by fork, and a running thread may hold a lock.
    with measuring(lake, demo, path, with_demo=not no_demo) as here:
        others = {} if no_demo else {"demo": demo}
        metrics = partial(render, here.spools[0], pushed_to=lake, others=[partial(collect_queue, lake)])
        app = create_app(lake, here.spools, others=others, hosts=(*LOOPBACK, host), metrics=metrics)
        show_until_measured(app, here)
        with running(app, bound):
            address = address_of(bound)
            say(f"Measuring {here.target}; dashboard at {address}")
            _show_progress(here, stop, address, None if limit_ns is None else limit_ns / 1e9, with_demo=not no_demo)
            say("Stopping: the probe removes its files, rows go into the lake.", err=True)


def _show_progress(
    here: Here, stop: threading.Event, address: str, limit_seconds: float | None, *, with_demo: bool
) -> None:
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
                say("Creating a simulated facility in the background; its answers follow.")
        if not shown and looked and here.demo_is_ready():
            shown = True
            _show_demo(here, address)
        if limit_seconds is not None:
            if passed >= limit_seconds:
                return
        elif not terminal and passed >= _WITHOUT_TERMINAL_SECONDS:
            waiting = not shown and here.demo_is_coming()
            if looked and not (waiting and passed < _LONGEST_WITHOUT_TERMINAL_SECONDS):
                say(f"The dashboard was at {address}. In a terminal it runs until Ctrl-C.")
                return


def _show_first(here: Here) -> bool:
    """One line, as soon as every operation was measured once."""
    from ioweather.agent.status import read_status
    from ioweather.core.units import format_value

    try:
        targets = read_status(here.spools[0]).targets
    except DataUnavailable:
        return False
    took = {o.op: o.last.duration_ns for t in targets for o in t.operations if o.last and o.last.duration_ns}
    if not targets or len(took) < len(targets[0].operations):
        return False
    listed = ", ".join(f"{op} {format_value(ns, 'ns')}" for op, ns in took.items())
    say(f"First response times: {listed}. Learning what is normal here...", wrap=78)
    return True


def _show_now(here: Here) -> None:
    from ioweather.topics.ask import ask
    from ioweather.ui.cli.terminal import show_answer

    try:
        answer = ask("now", here.lake, {"spool": here.spools, "full": False})
    except DataUnavailable as error:
        say(f"Not measured yet: {error}", err=True)
        return
    show_answer(answer, "text")


def _show_demo(here: Here, address: str) -> None:
    """What a facility has to tell that is more than a directory."""
    from ioweather.lake.lake import open_lake
    from ioweather.ui.local_setup import tour

    say("", f"A simulated facility, to look around in ({address}?lake=demo):")
    for step in tour(open_lake(here.demo)):
        say(f"  {step.wants}  ioweather {step.command} --lake {here.demo}")
        say(step.answer.headline, wrap=78, first="    ", rest="    ")


@click.command(epilog="Example: ioweather demo")
@click.option("--out", type=click.Path(path_type=Path), help="Directory for the demo (default: next to your lake).")
def demo(out: Path | None) -> None:
    """Make a small simulated facility, read it into its own lake, and ask it four questions."""
    from ioweather.lake.lake import open_lake
    from ioweather.ui.cli.terminal import show_answer
    from ioweather.ui.local_setup import make_demo, tour

    with progress_bar() as progress:
        made = make_demo(out, progress=progress)
    say(f"A simulated facility is in {made.lake}: {made.days} days of {made.servers} file servers.", "")
    where = f"--lake {shlex.quote(str(made.lake))}"
    for step in tour(open_lake(made.lake)):
        say(f"{step.wants}  (ioweather {step.command} {where})", "")
        if step.answer.name == "why":
            show_answer(step.answer, "text")
        else:
            say(step.answer.headline, wrap=80, first="  ", rest="  ")
        say("")
    say("Look around:")
    for line in (
        f"ioweather serve {where}",
        f"ioweather report {where} --for director --out report.html",
        f"ioweather show --ready {where}",
        f"ioweather show car11.fig7 {where}",
    ):
        say(f"  {line}")


REPORT_EPILOG = """\b
The file is self-contained: it opens offline and can be printed. PDF output
needs Chromium.
Exit codes: 0 written; 1 written, but an exhibit failed; 2 not done.

\b
Example: ioweather report --for director --from 7d --out week.pdf
  ioweather report --for director --from 7d --mail head@example.org
"""


@click.command(epilog=REPORT_EPILOG)
@path_option("--out", "FILE", "The file to write.", default=Path("report.html"), show_default=True)
@lake_option
@period_options
@click.option(
    "--for",
    "audience",
    type=click.Choice(("director", "operator", "science")),
    default="science",
    show_default=True,
    help="Audience: director (one page), operator (adds an operations page), science (adds all exhibits).",
)
@click.option("--only", multiple=True, metavar="EXHIBIT", help="Include only this exhibit (repeatable).")
@click.option("--anonymous", is_flag=True, help="Replace users, projects, programs, hosts and paths by aliases.")
@click.option("--mail", multiple=True, metavar="TO", help="Send it as text and HTML to this address; repeatable.")
@click.option(
    "--relay",
    metavar="HOST[:PORT]",
    envvar="IOWEATHER_RELAY",
    help="SMTP server for --mail (default: this machine's sendmail).",
)
@click.option(
    "--sender", metavar="FROM", envvar="IOWEATHER_SENDER", help="Sender address (default: ioweather@this host)."
)
@path_option("--bundle", "DIR", "Write data, tables, figures, checksums and metadata here too, for an archive.")
@engine_options("none, in one process")
def report(
    out: Path,
    lake_dir: str | None,
    from_text: str | None,
    to_text: str | None,
    audience: Audience,
    only: tuple[str, ...],
    anonymous: bool,
    mail: tuple[str, ...],
    relay: str | None,
    sender: str | None,
    bundle: Path | None,
    engine: dict[str, Any],
) -> int:
    """Write a report as one HTML or PDF file: a page for the director, one for operators, and all exhibits with their
    methods in a collapsible appendix."""
    from ioweather.ui.report.bundle import check_bundle, write_bundle
    from ioweather.ui.report.write import write_report

    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    if bundle is not None:
        check_bundle(bundle)
    with progress_bar() as progress, executor(engine, lake_dir, progress) as pool:
        write = partial(write_report, period_ns=period, audience=audience, only=only, anonymous=anonymous)
        material = write(lake, out, executor=pool, progress=progress)
        if bundle is not None:
            times = [f"--{word} {text}" for word, text in (("from", from_text), ("to", to_text)) if text]
            hidden = ["--anonymous"] if anonymous else []
            again = " ".join(["ioweather report --bundle DIR", *hidden, *times, *(f"--only {each}" for each in only)])
            files = write_bundle(material, bundle, command=again, anonymous=anonymous, progress=progress)
            say(f"Wrote {bundle}: {files} files. Check it: sha256sum --check SHA256SUMS.")
    made = len({m.exhibit.id.partition("@")[0] for m in material.made})
    held = f"{made} of {made + len(material.left_out)} exhibits, " if audience == "science" else ""
    say(f"Wrote {out}: {held}{out.stat().st_size / 1e6:.1f} MB.")
    if mail:
        from ioweather.ui.report.mail import mail_report

        mail_report(material, out, mail, sender=sender, relay=relay)
        say(f"Sent it to {', '.join(mail)}.")
    failed = [item for item in material.left_out if item.failed]
    for item in failed:
        say(f"{item.id}: {item.reason}", err=True)
    return 1 if failed else 0


@click.command(epilog="Example: ioweather simulate --preset laptop --out facility")
@click.argument("former", nargs=-1, metavar="")
@click.option("--preset", default="laptop", show_default=True, help="Which facility; see --list.")
@click.option("--days", type=int, help="Number of days to simulate (default: as in the preset).")
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Random seed; another seed gives another facility of this kind.",
)
@click.option("--out", type=click.Path(path_type=Path), help="A new directory for the files.")
@engine_options("none, in one process")
@click.option("--list", "list_presets", is_flag=True, help="List the presets.")
def simulate(
    former: tuple[str, ...],
    preset: str,
    days: int | None,
    seed: int,
    out: Path | None,
    list_presets: bool,
    engine: dict[str, Any],
) -> None:
    """Make a facility whose truth is known: files as real tools write them."""
    if former:
        where = shlex.join(former[1:]) or "DIR"
        hint = f"Run: python benchmarks/score.py {where} (in the source distribution)"
        raise UsageError("`simulate score` is now a script.", hint=hint)
    from ioweather.simulate.generate import generate
    from ioweather.simulate.presets import PRESETS, for_days, preset_named

    if list_presets:
        from ioweather.ui.cli.terminal import print_rows

        rows = [(p.name, p.title, p.days, p.jobs, p.osts) for p in PRESETS.values()]
        print_rows(("preset", "what", "days", "jobs", "targets"), rows, "text")
        return
    if out is None:
        raise UsageError("Say where to make it: --out DIR.")
    chosen = preset_named(preset)
    chosen = for_days(chosen, days) if days else chosen
    with progress_bar() as progress, executor(engine, None, progress) as pool:
        made = generate(chosen, out, seed=seed, executor=pool, progress=progress)
    say(
        f"{made.preset}, seed {made.seed}: {made.days} days, {made.jobs:,} jobs, {made.runs:,} runs, "
        f"{made.logs:,} Darshan logs in {made.data}."
    )
    say(f"What was planted is in {made.truth}.")


@click.command(epilog="Example: ioweather doctor --lake /srv/weather")
@lake_option
@output_options
@path_option("--spool", "DIR", "Spool of an agent (repeatable; clocks are compared).", name="spools", multiple=True)
@click.option(
    "--prove",
    "proven",
    is_flag=False,
    flag_value=".",
    hidden=True,
)
def doctor(lake_dir: str | None, as_json: bool, as_csv: bool, spools: tuple[Path, ...], proven: str | None) -> int:
    """Check what works here, what is missing, and how to fix it.

    Looked at: packages, programs, agents and their spools, space, commits of racing writers, sealing, names that
    facility.toml does not map, clocks of the hosts. Exit code 1 if something is wrong.
    """
    from ioweather.ui.cli.terminal import print_rows
    from ioweather.ui.doctor import examine

    if proven is not None:
        hint = f"Run: python examples/prove.py {proven} (in the source distribution)"
        raise UsageError("`doctor --prove` is now a script.", hint=hint)
    found = examine(lake_dir, *spools)
    form = output_form(as_json, as_csv)
    marks = {"ok": "✓", "note": "·", "problem": "✗"} if form == "text" else {}
    print_rows(
        ("", "check", "found", "what to do") if form == "text" else ("state", "check", "found", "fix"),
        [(marks.get(c.state, c.state), c.name, c.found, c.fix) for c in found],
        form,
    )
    return 1 if any(c.state == "problem" for c in found) else 0
