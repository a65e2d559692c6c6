"""Commands that study a facility: `show`, `report`; and that make one: `demo`, `simulate`."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import click

from ioweather.core.errors import LakeError, UsageError
from ioweather.core.results import SCHEMA_VERSION, result_json
from ioweather.lake.lake import open_lake
from ioweather.simulate.generate import generate
from ioweather.simulate.presets import PRESETS, for_days, preset_named
from ioweather.topics import analyse
from ioweather.topics.source import period_between, zone_of
from ioweather.ui.charts.render import Column
from ioweather.ui.cli.options import (
    engine_options,
    lake_option,
    output_options,
    path_option,
    period_options,
    progress_bar,
    working,
)
from ioweather.ui.cli.screen import say, say_json
from ioweather.ui.cli.terminal import print_exhibit, print_rows, show_answer
from ioweather.ui.local_setup import PRESET, make_demo, tour
from ioweather.ui.publish import origin_of, write_exhibit
from ioweather.ui.report.mail import mail_report
from ioweather.ui.report.write import Audience, write_report


@click.command(epilog="Example: ioweather show car11.fig7 --out throughput.svg")
@click.argument("ids", nargs=-1, metavar="[ID]...")
@lake_option
@output_options
@period_options
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the study.")
@path_option("--out", "PATH", "Write to a file: .svg .png .pdf .html .json, or only its tables: .tex .csv")
@click.option("--column", type=click.Choice(["single", "double"]), help="Figure width: one or two paper columns.")
@click.option("--fresh", is_flag=True, help="Compute again, even if the result is cached.")
@engine_options("none, in one process")
@click.option("--params", "list_params", is_flag=True, help="List the parameters and exit.")
def show(
    ids: tuple[str, ...],
    lake_dir: str | None,
    form: str,
    between: tuple[str | None, str | None],
    assignments: tuple[str, ...],
    out: Path | None,
    column: Column | None,
    fresh: bool,
    engine: dict[str, Any],
    list_params: bool,
) -> None:
    """Compute exhibits from the lake and show them with the published values. Without ID, list the tables and
    figures of the five papers and whether this lake has their data."""
    if not ids:
        _list_exhibits(lake_dir, form)
        return
    if "predictability" in ids:  # of version 0.2
        hint = "ioweather show mad17.fig6 shows the lowest error that any model of run times can reach here."
        raise UsageError("`show predictability` was removed.", hint=hint)
    if list_params:
        every = [p for exhibit_id in ids for p in analyse.parameters_of(exhibit_id)]
        rows = [(p.name, p.kind, p.default if p.choose is None else "chosen from the data", p.help) for p in every]
        print_rows(("parameter", "kind", "default", "meaning"), rows, form)
        return
    lake = open_lake(lake_dir)
    period = period_between(*between, lambda: zone_of(lake))
    params = {}
    for pair in assignments:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair}: expected NAME=VALUE.")
        params[name.strip()] = value.strip()
    with working(engine) as (pool, progress):
        how: dict[str, Any] = {"params": params, "period_ns": period, "use_cache": not fresh}
        made = analyse.make_exhibits(lake, ids, executor=pool, progress=progress, **how)
    if out is not None:
        if len(made) > 1:
            raise UsageError("--out needs exactly one exhibit.")
        write_exhibit(made[0], out, origin=origin_of(lake, made[0], period), column=column)
        say(f"Wrote {out}.", err=True)
    elif form == "json":
        body = [result_json(exhibit) for exhibit in made]
        say_json(body[0] if len(body) == 1 else body)
    else:
        for exhibit in made:
            print_exhibit(exhibit, form)


def _list_exhibits(lake_dir: str | None, form: str) -> None:
    """Print the exhibits that this lake can make and what the others lack; as JSON or CSV all of them."""
    note = ""
    try:
        with open_lake(lake_dir).snapshot() as snapshot:
            found = analyse.availability(snapshot, plugins=True)
    except LakeError as error:
        if lake_dir is not None:
            raise
        found, note = analyse.catalogue_only(), str(error)
    shown = [item for item in found if item.ready or form != "text"]
    if form == "json":
        names = ("id", "title", "study", "ready", "missing")
        say_json([{"schema_version": SCHEMA_VERSION, **{name: getattr(i, name) for name in names}} for i in shown])
        return
    if shown:
        print_rows(("exhibit", "what it shows", "state"), [(item.id, item.title, item.state) for item in shown], form)
    if form == "text":
        say("", f"This lake can make {len(shown)} of {len(found)} exhibits.")
        lacks = Counter(each for item in found if not item.ready for each in item.missing)
        say(*(f"  {n:>3} lack {reason.removeprefix('no ')}" for reason, n in lacks.most_common(8)))
        say("Show one: ioweather show ID. All of them: --csv or --json.", *([note] if note else []))


REPORT_EPILOG = """\b
The file is self-contained: it opens offline and can be printed.
Exit codes: 0 written; 1 written, but an exhibit failed; 2 failed.

\b
Example: ioweather report --for director --from 7d --out week.html
  ioweather report --for director --from 7d --mail head@example.org
"""


@click.command(epilog=REPORT_EPILOG)
@path_option("--out", "FILE", "Output file.", default=Path("report.html"), show_default=True)
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
@click.option(
    "--mail", multiple=True, metavar="TO", help="Send the report as text and HTML to this address (repeatable)."
)
@click.option(
    "--relay",
    metavar="HOST[:PORT]",
    envvar="IOWEATHER_RELAY",
    default="localhost",
    show_default=True,
    help="SMTP server for --mail.",
)
@click.option(
    "--sender", metavar="FROM", envvar="IOWEATHER_SENDER", help="Sender address (default: ioweather@this host)."
)
@path_option("--bundle", "DIR", "Also write an archive of data and figures here: pip install 'ioweather[bundle]'")
def report(
    out: Path,
    lake_dir: str | None,
    between: tuple[str | None, str | None],
    audience: Audience,
    mail: tuple[str, ...],
    relay: str,
    sender: str | None,
    bundle: Path | None,
) -> int:
    """Write a report as one HTML file: a page for the director, a page for operators, and all exhibits with
    their methods in a collapsible appendix."""
    lake = open_lake(lake_dir)
    period = period_between(*between, lambda: zone_of(lake))
    if bundle is not None:
        try:
            from ioweather.ui.report.bundle import check_bundle, write_bundle  # its metadata need an extra
        except ModuleNotFoundError:
            raise UsageError("--bundle needs the package rocrate.", hint="pip install 'ioweather[bundle]'") from None
        check_bundle(bundle)
    with progress_bar() as progress:
        how: dict[str, Any] = {"period_ns": period, "audience": audience, "for_bundle": bundle is not None}
        material = write_report(lake, out, **how, progress=progress)
        if bundle is not None:
            times = [f"--{word} {text}" for word, text in zip(("from", "to"), between, strict=True) if text]
            command = " ".join(["ioweather report --bundle DIR", *times])
            say(f"Wrote {bundle}: {write_bundle(material, bundle, command, progress)} files.")
    made = len({exhibit.id.partition("@")[0] for exhibit in material.made})
    held = f"{made} of {made + len(material.left_out)} exhibits, " if audience == "science" else ""
    say(f"Wrote {out}: {held}{out.stat().st_size / 1e6:.1f} MB.")
    if mail:
        mail_report(material, out, mail, sender=sender, relay=relay)
        say(f"Sent the report to {', '.join(mail)}.")
    failed = [item for item in material.left_out if item.failed]
    for item in failed:
        say(f"{item.id}: {item.reason}", err=True)
    return 1 if failed else 0


@click.command(epilog="Example: ioweather demo")
@path_option("--out", "PATH", "Directory for the demo (default: next to your lake).")
def demo(out: Path | None) -> None:
    """Create a small simulated facility in its own lake, and answer four questions about it."""
    with progress_bar() as progress:
        made = make_demo(out, progress=progress)
    say(f"A simulated facility is in {made}: {PRESET.days} days of {PRESET.oss_count} file servers.", "")
    where = f"--lake {shlex.quote(str(made))}"
    for wants, command, answer in tour(open_lake(made)):
        say(f"{wants}  (ioweather {command} {where})", "")
        if answer.name == "why":
            show_answer(answer, "text")
        else:
            say(answer.headline, wrap=80, first="  ", rest="  ")
        say("")
    say(
        "Look around:",
        f"  ioweather serve {where}",
        f"  ioweather report {where} --for director --out report.html",
        f"  ioweather show {where}",
        f"  ioweather show car11.fig7 {where}",
    )


@click.command(epilog="Example: ioweather simulate --preset laptop --out facility")
@click.option("--preset", default="laptop", show_default=True, help="Preset name; see --list.")
@click.option("--days", type=int, help="Number of days to simulate (default: as in the preset).")
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Random seed. A different seed gives a different facility.",
)
@path_option("--out", "PATH", "New directory for the files.")
@click.option("--list", "list_presets", is_flag=True, help="List the presets.")
def simulate(preset: str, days: int | None, seed: int, out: Path | None, list_presets: bool) -> None:
    """Simulate a facility with known causes, as files in the formats of real tools."""
    if list_presets:
        rows = [(p.name, p.title, p.days, p.jobs, p.osts) for p in PRESETS.values()]
        print_rows(("preset", "what", "days", "jobs", "targets"), rows, "text")
        return
    if out is None:
        raise UsageError("Specify the output directory: --out DIR.")
    chosen = preset_named(preset)
    chosen = for_days(chosen, days) if days else chosen
    with progress_bar() as progress:
        made = generate(chosen, out, seed=seed, progress=progress)
    say(
        f"{made.preset}, seed {made.seed}: {made.days} days, {made.jobs:,} jobs, {made.runs:,} runs, "
        f"{made.logs:,} Darshan logs in {made.data}."
    )
    say(f"The planted causes are in {made.truth}.")
    say(f"Next: ioweather ingest --lake LAKE {made.data}")
