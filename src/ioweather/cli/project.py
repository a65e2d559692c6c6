"""`ioweather project`."""

from __future__ import annotations

import click

from ioweather.cli.options import (
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_period,
    period_options,
)


@click.command(epilog="Example: ioweather project climate")
@click.argument("name")
@lake_option
@period_options
@output_options
@click.option("--ppn", help="Processes per node, where accounting does not tell.")
def project(
    name: str,
    lake_dir: str | None,
    from_text: str | None,
    to_text: str | None,
    as_json: bool,
    as_csv: bool,
    ppn: str | None,
) -> None:
    """Show one project: volume, jobs, performance, what dominates its I/O, what it keeps."""
    from ioweather.cli.answers import show_answer
    from ioweather.workflows.project import ask_project

    form = output_form(as_json, as_csv)
    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    answer = ask_project(lake, name, params={"processes_per_node": ppn} if ppn else {}, period_ns=period)
    show_answer(answer, form)
