"""`ioweather sample`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ioweather.cli.agent_options import duration_ns, place_options, run_agent, size_bytes
from ioweather.core.errors import SourceError, UsageError

EPILOG = """\b
One file per request size (don15): the twelve of the paper take 2 GiB, and as
much again per OST. NoCache empties the cache before reads and syncs writes;
run it once per batch job, for months. Cache repeats; the paper gave it 30min.

\b
Exit codes: 0 done; 1 done, but rows are not in the lake; 2 not done.

\b
Example: ioweather sample /scratch --mode nocache --rounds 1 --lake weather
"""


@click.command(epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--sizes", metavar="SIZE,...", help="Request sizes (default: 512KiB to 1GiB, powers of two).")
@click.option(
    "--mode",
    type=click.Choice(["both", "cache", "nocache"]),
    default="both",
    show_default=True,
    help="With the client's cache, or without.",
)
@click.option("--rounds", type=click.IntRange(1), help="End after so many times through all sizes.")
@click.option(
    "--busy",
    default=0.1,
    show_default=True,
    type=click.FloatRange(0, 1, min_open=True),
    help="Largest share of the time that it may be busy; it rests for the rest.",
)
@click.option("--osts", metavar="N,...", help="One file per size on each of these OSTs (needs `lfs`).")
@click.option(
    "--fill-rate",
    default="200MiB",
    show_default=True,
    metavar="SIZE",
    help="Most bytes a second while the files are made.",
)
@click.option("--keep", is_flag=True, help="Leave the files for the next run: the same place on storage.")
@click.option("--seed", help="Repeat the order of the measurements (default: a new one).")
@place_options
def sample(
    path: Path,
    duration: str | None,
    annotate: str | None,
    lake_dir: str | None,
    spool_dir: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Sample response times of reads and writes by request size on the file system of PATH."""
    from ioweather.collect.agent import AgentSettings
    from ioweather.sources.live.sampler import Sampler

    rounds = options["rounds"] or (None if duration else 1)
    run = AgentSettings(duration_ns=duration_ns(duration, "--for"), annotation=annotate, retry=False)
    try:
        settings = _settings(options, rounds)
        target = str(path.absolute())
        directory = options["directory"]
        source = Sampler(target, settings, run.run_id, directory, options["system"], options["seed"], run.host)
    except SourceError as error:
        raise UsageError(error.message, hint=error.hint) from None
    return run_agent([source], run, spool_dir, lake_dir, as_json)


def _settings(options: dict[str, Any], rounds: int | None) -> Any:
    from ioweather.sources.live.sampler import PAPER_SIZES, SamplerSettings

    sizes = tuple(size_bytes(text, "--sizes") for text in (options["sizes"] or "").split(",") if text.strip())
    try:
        osts = tuple(int(text) for text in (options["osts"] or "").split(",") if text.strip())
    except ValueError:
        raise UsageError(f"--osts {options['osts']}: expected numbers, such as 0,1,5.") from None
    return SamplerSettings(
        sizes=sizes or PAPER_SIZES,
        modes=("cache", "nocache") if options["mode"] == "both" else (options["mode"],),
        rounds=rounds,
        busy_ratio=options["busy"],
        osts=osts,
        fill_bytes_per_s=size_bytes(options["fill_rate"], "--fill-rate"),
        keep_files=options["keep"],
    )
