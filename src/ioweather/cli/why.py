"""`ioweather why`."""

from __future__ import annotations

from pathlib import Path

import click

from ioweather.cli.options import converted, lake_option, output_form, output_options, parse_period, period_options

EPILOG = """\b
The run is compared with like runs in the lake (same user, program and
processes, bytes within 25%), at the state the servers were in. Verdicts:
normal, system, you, both, unknown. A log alone, without samples of the
system, gives unknown and what to change.
Exit codes: 0 answered, unknown included; 1 the lake has no such job;
2 not a log, or unclear.

\b
Example: ioweather why run.darshan --lake lake
"""


@click.command(epilog=EPILOG)
@click.argument("target", metavar="LOG|JOBID")
@lake_option
@output_options
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="FILE", help="Write a page instead.")
@click.option("--filesystem", metavar="NAME", help="File system to blame or clear (default: where the bytes went).")
@click.option("--resolution", metavar="TIME", help="Sampling interval (default: 60 s, finer for short runs).")
@click.option("--uid", type=int, metavar="N", help="Of several jobs with this id, the one of this user.")
@period_options
def why(
    target: str,
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    html_file: Path | None,
    filesystem: str | None,
    resolution: str | None,
    uid: int | None,
    from_text: str | None,
    to_text: str | None,
) -> None:
    """Was it me or the system? One run against its like, with the seconds each explains."""
    form = output_form(as_json, as_csv)
    from ioweather.cli.answers import show_answer
    from ioweather.core.units import parse_duration_ns
    from ioweather.workflows.job import JobRequest
    from ioweather.workflows.why import WhyRequest
    from ioweather.workflows.why import why as answer

    job = JobRequest(lake_dir, None, "keep", uid, parse_period(from_text, to_text, None))
    step = converted(parse_duration_ns, resolution, "--resolution")
    show_answer(answer(target, WhyRequest(job, filesystem, step)), form, html_file)
