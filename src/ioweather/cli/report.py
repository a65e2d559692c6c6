"""`ioweather report`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioweather.cli.options import (
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    parse_period,
    path_option,
    period_options,
    progress_bar,
)
from ioweather.cli.screen import say

if TYPE_CHECKING:
    from ioweather.report.write import Audience

EPILOG = """\b
The file needs nothing beside it: it opens offline and prints. PDF is
printed by Chromium, where it is installed.
Exit codes: 0 written; 1 written, but an exhibit failed; 2 not done.

\b
Example: ioweather report --for director --from 7d --out week.pdf
"""


@click.command(epilog=EPILOG)
@path_option("--out", "FILE", "The file to write.", default=Path("report.html"), show_default=True)
@lake_option
@period_options
@click.option(
    "--for",
    "audience",
    type=click.Choice(("director", "operator", "science")),
    default="science",
    show_default=True,
    help="A sheet for a director; with one for operators; with all exhibits.",
)
@click.option("--only", multiple=True, metavar="EXHIBIT", help="Of the exhibits only this one; may be given again.")
@click.option("--anonymous", is_flag=True, help="Replace users, projects, programs, hosts and paths by aliases.")
@engine_options("none, in one process")
def report(
    out: Path,
    lake_dir: str | None,
    from_text: str | None,
    to_text: str | None,
    audience: Audience,
    only: tuple[str, ...],
    anonymous: bool,
    engine: dict[str, Any],
) -> int:
    """Write what the lake can tell as one file, HTML or PDF: a sheet for the director, one for operators, and all
    exhibits with their methods as an appendix that folds."""
    from ioweather.report.write import write_report

    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    with progress_bar() as progress, executor(engine, lake_dir, progress) as pool:
        write = partial(write_report, period_ns=period, audience=audience, only=only, anonymous=anonymous)
        material = write(lake, out, executor=pool, progress=progress)
    made = len({m.exhibit.id.partition("@")[0] for m in material.made})
    held = f"{made} of {made + len(material.left_out)} exhibits, " if audience == "science" else ""
    say(f"Wrote {out}: {held}{out.stat().st_size / 1e6:.1f} MB.")
    failed = [item for item in material.left_out if item.failed]
    for item in failed:
        say(f"{item.id}: {item.reason}", err=True)
    return 1 if failed else 0
