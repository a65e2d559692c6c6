"""`ioweather report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ioweather.cli.options import (
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    parse_period,
    period_options,
    progress_bar,
)
from ioweather.cli.screen import say

EPILOG = """\b
The file needs nothing beside it: it opens offline and prints.
Exit codes: 0 written; 1 written, but an exhibit failed; 2 not done.

\b
Example: ioweather report --out report.html --anonymous
"""


@click.command(epilog=EPILOG)
@click.option("--out", type=click.Path(path_type=Path), default=Path("report.html"), show_default=True, metavar="FILE",
              help="The file to write.")  # fmt: skip
@lake_option
@period_options
@click.option("--anonymous", is_flag=True, help="Replace users, projects, programs, hosts and paths by aliases.")
@engine_options("none, in one process")
def report(
    out: Path,
    lake_dir: str | None,
    from_text: str | None,
    to_text: str | None,
    anonymous: bool,
    engine: dict[str, Any],
) -> int:
    """Write everything the lake can tell as one HTML file: a summary, all exhibits, methods."""
    from ioweather.report.write import write_report

    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    with progress_bar() as progress, executor(engine, lake_dir, progress) as pool:
        material = write_report(lake, out, period_ns=period, anonymous=anonymous, executor=pool, progress=progress)
    made = len({m.exhibit.id.partition("@")[0] for m in material.made})
    say(f"Wrote {out}: {made} of {made + len(material.left_out)} exhibits, {out.stat().st_size / 1e6:.1f} MB.")
    failed = [item for item in material.left_out if item.failed]
    for item in failed:
        say(f"{item.id}: {item.reason}", err=True)
    return 1 if failed else 0
