"""`ioweather now`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ioweather.cli.options import lake_option, output_form, output_options

EPILOG = """\b
Exit codes: 0 as usual; 1 slow, hanging, or nothing measured; 2 not done.

\b
Example: ioweather now --watch
"""


@click.command(epilog=EPILOG)
@lake_option
@output_options
@click.option("--spool", "spools", multiple=True, type=click.Path(path_type=Path), metavar="DIR",
              help="Spool of an agent; may be given several times (default: yours).")  # fmt: skip
@click.option("--exact", is_flag=True, help="From every operation in the lake, not from roll-ups.")
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
def now(lake_dir: str | None, as_json: bool, as_csv: bool, spools: tuple[Path, ...], exact: bool, watch: bool) -> int:
    """Say how slow storage is at this moment, as the agent's probe sees it, against what is usual."""
    from ioweather.cli.answers import show_answer
    from ioweather.core.default_paths import default_spool_dir
    from ioweather.workflows.now import weather_now

    form = output_form(as_json, as_csv)
    places = spools or (default_spool_dir(),)
    while True:
        answer, wrong = weather_now(places, lake_dir, exact=exact, full=form != "text")
        if watch and form == "text":
            click.clear()
        show_answer(answer, form)
        if not watch:
            return 1 if wrong else 0
        time.sleep(2)
