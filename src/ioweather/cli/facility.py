"""`ioweather facility`: write and check facility.toml."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ioweather.cli.options import lake_option, open_lake_at
from ioweather.cli.screen import say, say_json
from ioweather.core.errors import UsageError

if TYPE_CHECKING:
    from ioweather.store.snapshot import Snapshot


@click.group(epilog="Example: ioweather facility init --name Edison --zone America/Los_Angeles")
def facility() -> None:
    """Name the file systems: write or check the lake's facility.toml."""


@facility.command(epilog="Example: ioweather facility init --name Edison --zone America/Los_Angeles")
@lake_option
@click.option("--name", default="this facility", show_default=True, help="Name of the facility.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone of the facility.")
@click.option("--force", is_flag=True, help="Overwrite a facility.toml that is there.")
def init(lake_dir: str | None, name: str, zone: str, force: bool) -> None:
    """Write a facility.toml that names what the lake holds, to be edited by hand."""
    from ioweather.core.clock import zone_named
    from ioweather.store import layout
    from ioweather.workflows.site.describe import draft_facility

    zone_named(zone)
    lake = open_lake_at(lake_dir, create=True)
    file = layout.facility_file(lake.root)
    if file.exists() and not force:
        raise UsageError(f"{file} is there already.", hint="Edit it, or overwrite it with --force.")
    with lake.snapshot() as snapshot:
        text = draft_facility(snapshot, name=name, zone=zone)
    file.write_text(text, encoding="utf-8")
    say(f"Wrote {file}. Edit it, then: ioweather facility check")


@facility.command(epilog="Example: ioweather facility check --json")
@lake_option
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(lake_dir: str | None, as_json: bool) -> int:
    """Check facility.toml, and list names in the data that it does not map."""
    from ioweather.engine import cluster_settings

    lake = open_lake_at(lake_dir)
    known = lake.facility
    cluster_settings(known.sections.get("engine", {}))  # refuses what it does not understand
    with lake.snapshot() as snapshot:
        unmapped = _unmapped(snapshot)
    if as_json:
        body: dict[str, Any] = {
            "name": known.name,
            "zone": known.zone,
            "filesystems": [fs.name for fs in known.filesystems],
        }
        body |= {"projects": len(known.projects), "unmapped": unmapped}
        say_json(body)
    else:
        say(
            f"{known.name}: {', '.join(fs.name for fs in known.filesystems) or 'no file system'}; "
            f"project rules: {len(known.projects)}; zone {known.zone or 'not set'}."
        )
        for name in unmapped:
            say(f"  not mapped to a file system: {name}")
        if not unmapped:
            say("Every name in the data is mapped.")
    return 1 if unmapped else 0


def _unmapped(snapshot: Snapshot) -> list[str]:
    from ioweather.workflows.site.describe import systems_of

    return sorted(name for name in systems_of(snapshot) if not snapshot.facility.is_mapped(name))
