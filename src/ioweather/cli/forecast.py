"""`ioweather forecast`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import converted, lake_option, open_lake_at, output_form, output_options
from ioweather.core.units import parse_duration_ns

EPILOG = """\b
Load comes from the servers' samples, slowdown from the probe. Skill says how
much smaller the errors were than of 'as now' and 'as usual at this hour'.

\b
Example: ioweather forecast --filesystem scratch --op write --for 2h
"""


@click.command(epilog=EPILOG)
@lake_option
@output_options
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--filesystem", metavar="NAME", help="Of this file system (default: the busiest).")
@click.option("--of", type=click.Choice(["load", "slowdown"]), help="What to forecast (default: load, if sampled).")
@click.option("--op", metavar="OP", help="read or write; of slowdown any operation of the probe.")
@click.option("--horizon", metavar="TIME", help="The horizon of the headline, 5 to 120 min (default: 60min).")
@click.option("--window", metavar="TIME", default="5min", show_default=True, help="Length of a window.")
@click.option("--at", "at_text", metavar="TIME", help="As of this time (default: of the newest data).")
@click.option("--for", "duration", metavar="TIME", default="1h", show_default=True,
              help="How long the job to be started does I/O.")  # fmt: skip
def forecast(
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    html_file: Path | None,
    filesystem: str | None,
    of: str | None,
    op: str | None,
    horizon: str | None,
    window: str,
    at_text: str | None,
    duration: str,
) -> None:
    """Say what load or slowdown the next two hours bring, and when to start a job.

    Each forecast stands with its interval and with the skill that such forecasts
    had so far. Where that is not above zero, it says so."""
    form = output_form(as_json, as_csv)
    from ioweather.cli.answers import show_answer
    from ioweather.core.clock import parse_time_ns, zone_named
    from ioweather.workflows.forecast import forecast as run

    lake = open_lake_at(lake_dir)
    zone = zone_named(lake.facility.zone or "UTC")
    answer = run(
        lake,
        filesystem=filesystem,
        of=of,
        op=op,
        horizon_ns=converted(parse_duration_ns, horizon, "--horizon"),
        at_ns=converted(lambda text: parse_time_ns(text, zone), at_text, "--at"),
        duration_ns=converted(parse_duration_ns, duration, "--for"),
        window_ns=converted(parse_duration_ns, window, "--window"),
    )
    show_answer(answer, form, html_file, csv_table="forecast")
