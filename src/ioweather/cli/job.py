"""`ioweather job`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioweather.cli.options import lake_option, output_form, output_options, parse_period, period_options

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy

EPILOG = """\b
A log is read where it lies: no lake is needed, and nothing is written
beside it. With --lake, accounting gives the nodes. A job id means all
logs of that job in the lake, added up.
Exit codes: 0 shown; 1 the lake has no such job; 2 not a log, or unclear.

\b
Example: ioweather job run.darshan --html run.html
"""


@click.command(epilog=EPILOG)
@click.argument("target", metavar="LOG|JOBID")
@lake_option
@output_options
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE",
              help="Write a page with everything: modules, mounts, largest files.")  # fmt: skip
@click.option("--ppn", type=click.IntRange(1), metavar="N", help="Processes per node, where accounting has no nodes.")
@click.option("--paths", "path_policy", type=click.Choice(["keep", "hash", "drop"]), default="keep", show_default=True,
              help="What to do with file paths and the command line.")  # fmt: skip
@click.option("--uid", type=int, metavar="N", help="Of several jobs with this id, the one of this user.")
@period_options
def job(
    target: str,
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    html_file: Path | None,
    ppn: int | None,
    path_policy: PathPolicy,
    uid: int | None,
    from_text: str | None,
    to_text: str | None,
) -> None:
    """Show the I/O of one job on one screen: time, speed, files, accesses, activity."""
    form = output_form(as_json, as_csv)
    from ioweather.cli.answers import show_answer
    from ioweather.workflows.job import JobRequest, describe_job

    request = JobRequest(lake_dir, ppn, path_policy, uid, parse_period(from_text, to_text, None))
    answer = describe_job(target, request, detail=html_file is not None or form == "json")
    show_answer(answer, form, html_file)
