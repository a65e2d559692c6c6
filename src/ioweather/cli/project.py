"""`ioweather project`."""

from __future__ import annotations

import click

from ioweather.cli.options import lake_option, open_lake_at, parse_period, period_options
from ioweather.cli.screen import say_json


@click.command(epilog="Example: ioweather project climate")
@click.argument("name")
@lake_option
@period_options
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--ppn", help="Processes per node, where accounting does not tell.")
def project(
    name: str, lake_dir: str | None, from_text: str | None, to_text: str | None, as_json: bool, ppn: str | None
) -> None:
    """Show one project: volume, jobs, performance, what dominates its I/O, what it keeps."""
    from ioweather.cli.render import print_answer
    from ioweather.core.results import to_jsonable
    from ioweather.workflows.project import ask_project

    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    answer = ask_project(lake, name, params={"processes_per_node": ppn} if ppn else {}, period_ns=period)
    if as_json:
        say_json(to_jsonable(answer))
    else:
        print_answer(answer)
