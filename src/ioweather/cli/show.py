"""`ioweather show ID`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from ioweather.cli.options import (
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_assignments,
    parse_period,
    period_options,
    progress_bar,
)
from ioweather.cli.screen import say, say_json
from ioweather.core.errors import UsageError


@click.command(epilog="Example: ioweather show car11.fig7 --out throughput.svg")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@lake_option
@output_options
@period_options
@click.option("--set", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter of the study.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write to a file: .svg .png .pdf .html .json; its tables: .tex .md .csv",
)
@click.option(
    "--column", type=click.Choice(["single", "double"]), help="A figure as wide as one column of a paper, or as both."
)
@click.option("--dark", is_flag=True, help="Draw on a dark background.")
@click.option("--fresh", is_flag=True, help="Compute again, even if the result is known.")
@click.option("--exact", is_flag=True, help="From every operation, not from roll-ups (probe exhibits).")
@engine_options("none, in one process")
@click.option("--params", "list_params", is_flag=True, help="List the parameters, and stop.")
def show(
    ids: tuple[str, ...],
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    from_text: str | None,
    to_text: str | None,
    assignments: tuple[str, ...],
    out: Path | None,
    column: Literal["single", "double"] | None,
    dark: bool,
    fresh: bool,
    exact: bool,
    engine: dict[str, Any],
    list_params: bool,
) -> None:
    """Make exhibits from the lake and show them beside the published values."""
    from ioweather.core.results import result_json
    from ioweather.workflows.analyse import make_exhibits, parameters_of

    form = output_form(as_json, as_csv)
    if list_params:
        from ioweather.cli.render import print_rows

        every = [p for exhibit_id in ids for p in parameters_of(exhibit_id)]
        rows = [(p.name, p.kind, p.default if p.choose is None else "chosen from the data", p.help) for p in every]
        print_rows(("parameter", "kind", "default", "meaning"), rows, form)
        return
    lake = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, lake.facility.zone)
    params = {**parse_assignments(assignments), **({"exact": "yes"} if exact else {})}
    with progress_bar() as progress, executor(engine, lake_dir, progress) as pool:
        made = make_exhibits(
            lake, ids, params=params, period_ns=period, use_cache=not fresh, executor=pool, progress=progress
        )
    if out is not None:
        if len(made) > 1:
            raise UsageError("--out takes one exhibit.")
        from ioweather.workflows.publish import origin_of, write_exhibit

        origin = origin_of(lake, made[0], period)
        write_exhibit(made[0], out, theme="dark" if dark else "light", origin=origin, column=column)
        say(f"Wrote {out}.", err=True)
    elif form == "json":
        body = [result_json(exhibit) for exhibit in made]
        say_json(body[0] if len(body) == 1 else body)
    else:
        from ioweather.cli.render import print_exhibit

        for exhibit in made:
            print_exhibit(exhibit, form)
