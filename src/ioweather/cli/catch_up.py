"""`ioweather catch-up`."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioweather.cli.options import lake_option, open_lake_at
from ioweather.cli.screen import say, say_json

if TYPE_CHECKING:
    from ioweather.workflows.site.catch_up import CaughtUp

EPILOG = """\b
Directories stand in [watch] of facility.toml, or are named here. Files of
the last day are read at the first time, then those that changed since;
older ones: `ioweather ingest DIRECTORY`, or --all. One pass: the agent runs
it every minute, or a timer does (deploy/systemd/ioweather-catch-up.timer).
Exit codes: 0 done; 1 a file was refused, or could not be read; 2 not done.

\b
Example: ioweather catch-up /darshan/logs --lake /srv/weather
"""


@click.command(name="catch-up", epilog=EPILOG)
@click.argument("directories", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@lake_option
@click.option("--all", "everything", is_flag=True, help="Every file of the directories, however old.")
@click.option("--no-accounting", is_flag=True, help="Do not ask sacct.")
@click.option("--no-judge", is_flag=True, help="Only read; judge nothing.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def catch_up(
    directories: tuple[Path, ...],
    lake_dir: str | None,
    everything: bool,
    no_accounting: bool,
    no_judge: bool,
    as_json: bool,
) -> int:
    """Read what is new in watched directories and in Slurm's accounting, then judge finished runs.

    Each run gets its verdict as of its end in the table `verdicts`, and a second one a day later.
    """
    from ioweather.collect.watch_settings import watch_settings_from
    from ioweather.workflows.site.catch_up import catch_up as run

    lake = open_lake_at(lake_dir, create=True)
    settings = watch_settings_from(lake.facility.sections.get("watch", {}))
    if directories:
        settings = replace(settings, directories=tuple(path.absolute() for path in directories))
    if no_accounting:
        settings = replace(settings, accounting=False)
    done = run(lake, settings, everything=everything, judge=not no_judge)
    if as_json:
        say_json(asdict(done))
    else:
        _print(done)
    return 1 if done.refused or done.troubles else 0


def _print(done: CaughtUp) -> None:
    if done.busy:
        say("Another pass is at work on this lake; nothing was done.")
        return
    rows = ", ".join(f"{n:,} rows of {table}" for table, n in done.rows_added.items()) or "no new rows"
    say(f"{done.read:,} new files read, {len(done.refused):,} refused: {rows}.", wrap=80)
    say(f"{done.verdicts:,} verdicts made.")
    if done.left_files or done.left_verdicts:
        say(f"{done.left_files:,} files and {done.left_verdicts:,} verdicts are left for the next pass.")
    for text in (*list(done.refused.values())[:3], *done.troubles):
        say(text, wrap=78, first="  - ", rest="    ")
