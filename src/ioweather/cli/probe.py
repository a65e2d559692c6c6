"""`ioweather probe`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ioweather.cli.agent_options import duration_ns, place_options, run_agent, size_bytes
from ioweather.cli.screen import say
from ioweather.core.errors import SourceError, UsageError
from ioweather.sources.live.contract import LiveSource

EPILOG = """\b
Each cycle reads and writes one request in a large file and stats, reads,
deletes and creates a small one (kun19). The small files (3901 bytes) go
through the page cache; the large file does not where that can be avoided.

\b
Exit codes: 0 done; 1 done, but rows are not in the lake; 2 not done.

\b
Example: ioweather probe /scratch /home --for 10min --lake weather
"""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--period", default="1s", show_default=True, metavar="DURATION", help="Time between two cycles.")
@click.option("--request", metavar="SIZE", help="Size of a data request (default: 1MiB).")
@click.option("--file-size", metavar="SIZE", help="Size of the large file (default: 64MiB).")
@click.option("--pool", type=click.IntRange(2), help="Number of small files (default: 100).")
@click.option("--small-file", metavar="SIZE", help="Size of a small file (default: 3901).")
@click.option("--paper", is_flag=True, help="The paper's sizes: a file of 200 GiB and a pool of 200,000.")
@click.option("--fill-rate", metavar="SIZE", help="Most bytes a second while the large file is made (default: 200MiB).")
@click.option(
    "--targets",
    "each_target",
    is_flag=True,
    help="Probe every storage target too, one at each cycle (Lustre, MooseFS).",
)
@click.option("--keep", is_flag=True, help="Leave the files for the next run instead of removing them.")
@click.option("--require-mount", metavar="DIR", help="Make files only while DIR is mounted.")
@click.option("--seed", help="Repeat the places of reads and writes (default: new ones).")
@place_options
def probe(
    paths: tuple[Path, ...],
    duration: str | None,
    annotate: str | None,
    lake_dir: str | None,
    spool_dir: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure how long small operations take on the file systems of PATHS.

    One process per path; an operation that hangs is shown while it hangs, and the other paths go on. Missed cycles and
    errors are results too.
    """
    from ioweather.collect.agent import AgentSettings
    from ioweather.sources.live.probe import Probe
    from ioweather.sources.live.targets import TargetProbe

    run = AgentSettings(duration_ns=duration_ns(duration, "--for"), annotation=annotate, retry=False)
    settings = _settings(options)
    targets = list(dict.fromkeys(str(path.absolute()) for path in paths))
    try:
        sources: list[LiveSource] = [
            Probe(
                target,
                settings,
                run.run_id,
                options["directory"],
                options["system"],
                options["seed"],
                run.host,
                options["require_mount"],
            )
            for target in targets
        ]
        if options["each_target"]:
            same = (options["directory"], options["system"], run.host, options["require_mount"], settings.keep_files)
            sources += [TargetProbe(target, settings.period_ns, run.run_id, *same) for target in targets]
    except SourceError as error:
        raise UsageError(error.message, hint=error.hint) from None
    if not as_json:
        say(f"Per path: {settings.load}.", err=True)
    return run_agent(sources, run, spool_dir, lake_dir, as_json)


def _settings(options: dict[str, Any]) -> Any:
    from ioweather.sources.live.probe import ProbeSettings

    given = {
        "period_ns": duration_ns(options["period"], "--period"),
        "block_bytes": size_bytes(options["request"], "--request"),
        "file_bytes": size_bytes(options["file_size"], "--file-size"),
        "pool_files": options["pool"],
        "small_file_bytes": size_bytes(options["small_file"], "--small-file"),
        "fill_bytes_per_s": size_bytes(options["fill_rate"], "--fill-rate"),
        "keep_files": options["keep"],
    }
    base = ProbeSettings.paper() if options["paper"] else ProbeSettings()
    return replace(base, **{name: value for name, value in given.items() if value is not None})
