"""`ioweather events`."""

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
from ioweather.cli.screen import say

_KINDS = ("annotation", "component_health", "episode", "gap", "incident", "maintenance", "phase")


@click.command(epilog="Example: ioweather events --kind episode --from 2026-11-01")
@lake_option
@output_options
@period_options
@click.option("--kind", type=click.Choice(_KINDS), help="Only events of this kind.")
@click.option("--strongest", is_flag=True, help="The strongest first, not the newest.")
@click.option("--most", default=40, show_default=True, help="Lines in the terminal; --json and --csv give all.")
def events(
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    from_text: str | None,
    to_text: str | None,
    kind: str | None,
    strongest: bool,
    most: int,
) -> None:
    """List what happened: slow episodes (found here and stored), phases of benchmarks, incidents, maintenance, gaps.

    With --kind component_health, the last 60 days are searched for sick components: targets held at a limit they did
    not have before, components that fell silent, servers busier than their peers. On simulated facilities about half
    of the sick targets are found, and about half of those named are sick."""
    from ioweather.cli.render import print_rows
    from ioweather.core.units import format_time_ns
    from ioweather.workflows.events import find_episodes, list_events
    from ioweather.workflows.health import find_sick_components

    form = output_form(as_json, as_csv)
    lake = open_lake_at(lake_dir)
    find_episodes(lake)
    if kind == "component_health":
        find_sick_components(lake)
    period = parse_period(from_text, to_text, lake.facility.zone)
    found = list_events(lake, kind=kind, period_ns=period)
    if strongest:
        found.sort(key=lambda event: -(event.strength or 0.0))
    if form == "text":
        rows = [
            (format_time_ns(e.start_ns)[:16], _end(e.start_ns, e.end_ns), e.kind, e.filesystem, e.label,
             f"{e.strength:.1f}x" if e.strength is not None else "")
            for e in found[:most]
        ]  # fmt: skip
        print_rows(("from", "to", "kind", "where", "what", "strength"), rows, form)
        if len(found) > most:
            say(f"{len(found) - most:,} more: --most {len(found)} shows all; --from, --to and --kind choose.")
        if not found:
            say("Nothing happened that the lake knows of.")
        return
    columns = ("start_ns", "end_ns", "kind", "filesystem", "label", "strength_ratio", "source")
    full = [(e.start_ns, e.end_ns, e.kind, e.filesystem, e.label, e.strength, e.source) for e in found]
    print_rows(columns, full, form)


def _end(start_ns: int, end_ns: int | None) -> str:
    """The time alone, on the same day."""
    from ioweather.core.units import format_time_ns

    if end_ns is None:
        return "ongoing"
    start, end = format_time_ns(start_ns), format_time_ns(end_ns)
    return end[11:16] if start[:10] == end[:10] else end[:16]
