"""`ioweather compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioweather.cli.options import lake_option, output_form, output_options

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy

EPILOG = """\b
The first is the original; the others are compared with it. Logs are read
where they lie and need no lake; job ids mean jobs in the lake.

\b
Example: ioweather compare before.darshan after.darshan
"""


@click.command(epilog=EPILOG)
@click.argument("targets", nargs=-1, required=True, metavar="LOG|JOBID...")
@lake_option
@output_options
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option("--ppn", type=click.IntRange(1), metavar="N", help="Processes per node, where accounting has no nodes.")
@click.option("--paths", "path_policy", type=click.Choice(["keep", "hash", "drop"]), default="keep", show_default=True,
              help="What to do with file paths and the command line.")  # fmt: skip
def compare(
    targets: tuple[str, ...],
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    html_file: Path | None,
    ppn: int | None,
    path_policy: PathPolicy,
) -> None:
    """Compare runs before and after a change: how much faster, and what changed in their I/O."""
    form = output_form(as_json, as_csv)
    from ioweather.cli.answers import show_answer
    from ioweather.workflows.job import JobRequest, compare_jobs

    answer = compare_jobs(targets, JobRequest(lake_dir, ppn, path_policy))
    show_answer(answer, form, html_file, csv_table="runs")
