"""`ioweather collect`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.agent_options import duration_ns, run_options, spool_option
from ioweather.cli.options import lake_option
from ioweather.cli.screen import say
from ioweather.core.default_paths import default_lake_dir, default_spool_dir

EPILOG = """\b
What runs, and how often, stands in facility.toml: `probes` of a file system,
[collect] and [watch]. Runs in the foreground: docs/how-to/run-the-agent.md
has systemd and Slurm. Rows wait in the spool until the lake takes them.

\b
Example: ioweather collect probe block --lake /srv/weather
"""


@click.command(epilog=EPILOG)
@click.argument("kinds", nargs=-1, type=click.Choice(["probe", "block", "lustre", "gpfs", "nfs", "slurm"]))
@lake_option
@spool_option
@click.option("--no-ship", is_flag=True, help="Leave the rows in the spool.")
@run_options
def collect(
    kinds: tuple[str, ...],
    lake_dir: str | None,
    spool_dir: Path | None,
    no_ship: bool,
    duration: str | None,
    annotate: str | None,
) -> int:
    """Run the agent: probe, block devices, Lustre, GPFS, NFS, Slurm.

    Without a name: all that facility.toml and this machine offer.
    """
    from ioweather.collect.agent import Agent, AgentSettings
    from ioweather.collect.journal import Journal
    from ioweather.collect.settings import settings_from, sources_for
    from ioweather.collect.ship import CatchUp, Shipper
    from ioweather.collect.spool import Spool
    from ioweather.collect.watch_settings import watch_settings_from
    from ioweather.core.facility import load_facility

    lake = Path(lake_dir).absolute() if lake_dir else default_lake_dir()
    facility = load_facility(lake / "facility.toml")
    settings = settings_from(facility.sections.get("collect", {}))
    run = AgentSettings(duration_ns=duration_ns(duration, "--for"), annotation=annotate, record_gap=True)
    sources = sources_for(kinds, facility, settings, run.run_id, run.host)
    where, limit = spool_dir or default_spool_dir(), settings.spool_limit_bytes
    spool = Spool(where, run.host, run.run_id, limit_bytes=limit, keep=settings.spool_keep)
    shipper = (
        None
        if no_ship
        else Shipper(
            lake, settings.ship_period_ns, server=settings.server, lake_was_there=(lake / "lake.json").exists()
        )
    )
    watch = watch_settings_from(facility.sections.get("watch", {}))
    catch_up = None
    if watch.directories and shipper is not None and shipper.server is None:
        has_slurm = any(source.name == "slurm" for source in sources)
        catch_up = CatchUp(lake, watch.every_ns, accounting=watch.accounting and not has_slurm)
    say(f"Collecting {', '.join(source.label for source in sources)}; status in {spool.directory}.", err=True)
    journal = Journal()
    status = Agent(sources, spool, run, shipper=shipper, catch_up=catch_up, on_status=journal).run()
    journal.end(status)
    return 1 if status.spool.dropped_rows or status.spool.refused_files else 0
