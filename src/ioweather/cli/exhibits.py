"""`ioweather exhibits`."""

from __future__ import annotations

import click

from ioweather.cli.options import lake_option, open_lake_at, output_form, output_options
from ioweather.cli.screen import say, say_json


@click.command(epilog="Example: ioweather exhibits --ready")
@lake_option
@output_options
@click.option("--ready", is_flag=True, help="Only those that this lake can make.")
def exhibits(lake_dir: str | None, as_json: bool, as_csv: bool, ready: bool) -> None:
    """List the tables and figures of the five papers, and which of them this lake can make."""
    from ioweather.cli.render import print_rows
    from ioweather.core.errors import LakeError
    from ioweather.core.results import SCHEMA_VERSION
    from ioweather.workflows.analyse import availability, catalogue_only, with_empty_ones

    form = output_form(as_json, as_csv)
    try:
        with open_lake_at(lake_dir).snapshot() as snapshot:
            found = with_empty_ones(snapshot, availability(snapshot, plugins=True))
        note = ""
    except LakeError as error:
        if lake_dir is not None:
            raise
        found, note = catalogue_only(), str(error)
    shown = [item for item in found if item.ready or not ready]
    if form == "json":
        names = ("id", "title", "study", "ready", "missing", "empty")
        body = [{"schema_version": SCHEMA_VERSION, **{name: getattr(i, name) for name in names}} for i in shown]
        say_json(body)
        return
    rows = [(item.id, item.title, item.state) for item in shown]
    print_rows(("exhibit", "what it shows", "state"), rows, form)
    if form == "text":
        empty = sum(bool(item.empty) for item in found)
        possible = sum(item.ready for item in found)
        nothing = f", {empty} are empty" if empty else ""
        say("", f"{possible} of {len(found)} are ready{nothing}, {len(found) - possible - empty} are not possible.")
        say("Ready: the rows are there. Show one: ioweather show ID")
        if note:
            say(note)
