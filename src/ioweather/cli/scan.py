"""`ioweather scan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioweather.cli.options import (
    engine_options,
    executor,
    lake_option,
    output_form,
    output_options,
    paths_option,
    progress_bar,
)
from ioweather.cli.screen import say, say_json
from ioweather.core.errors import UsageError
from ioweather.core.facility import ProjectRule
from ioweather.core.words import names_of

if TYPE_CHECKING:
    from ioweather.core.contracts import PathPolicy
    from ioweather.workflows.scan import ScanReport

_CSV_COLUMNS = names_of("owner_kind owner histogram bin low high age_low_days age_high_days count bytes")

EPILOG = """\b
It reads only, stays on one file system, follows no links, enters no
snapshots, and leaves access times as they are where it may.
Exit codes: 0 all was read; 1 some directories could not be; 130 stopped
(--resume goes on).

\b
Example: ioweather scan /scratch --rate 50000 --project Earth='/scratch/es/*'
"""


@click.command(epilog=EPILOG)
@click.argument("path", type=click.Path(path_type=Path))
@lake_option
@output_options
@click.option("--entries", is_flag=True, help="Keep the list of all entries too (table scan_entries).")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most N entries per second.")
@engine_options("one per core")
@click.option("--resume", is_flag=True, help="Go on with a scan of this tree that was interrupted.")
@click.option("--restart", is_flag=True, help="Forget an interrupted scan and start over.")
@click.option(
    "--project",
    "projects",
    multiple=True,
    metavar="NAME=GLOB",
    help="Paths that belong to a project, before what facility.toml says.",
)
@paths_option("What to do with paths that are kept (largest files, entries).")
def scan(
    path: Path,
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    entries: bool,
    rate: float | None,
    engine: dict[str, Any],
    resume: bool,
    restart: bool,
    projects: tuple[str, ...],
    path_policy: PathPolicy,
) -> int:
    """Walk a directory tree and count what is in it: sizes, ages, owners, names.

    Nothing is kept per file unless --entries asks for it. Existing lists (GPFS policies, find, lfs find) go in with
    `ioweather ingest`.
    """
    form = output_form(as_json, as_csv)
    if resume and restart:
        raise UsageError("--resume and --restart exclude each other.")
    from ioweather.engine.local import usable_cores
    from ioweather.workflows.scan import ScanRequest
    from ioweather.workflows.scan import scan as run

    request = ScanRequest(
        root=path,
        workers=engine["workers"] or usable_cores(),
        rate=rate,
        entries=entries,
        resume=resume,
        restart=restart,
        projects=[_rule(text) for text in projects],
        paths=path_policy,
    )
    try:
        with progress_bar() as progress, executor(engine, lake_dir, progress, clusters_only=True) as pool:
            report = run(Path(lake_dir) if lake_dir else None, request, executor=pool, progress=progress)
    except KeyboardInterrupt:
        say("Stopped. Run the same command with --resume to go on.", err=True)
        return 130
    _print(report, form, path_policy)
    return 1 if report.tally.counts["unreadable"] else 0


def _rule(text: str) -> ProjectRule:
    name, equals, pattern = text.partition("=")
    if not (name and equals and pattern):
        raise UsageError(f"--project {text}: expected NAME=GLOB.")
    return ProjectRule(name=name, path=pattern)


def _print(report: ScanReport, form: str, paths: PathPolicy) -> None:
    from ioweather.cli.render import print_answer, print_rows
    from ioweather.sources.scan.rows import bins_frame, scans_frame
    from ioweather.workflows.scan_summary import summary

    if form == "json":
        row = scans_frame(report.facts, report.tally, paths).records()[0]
        body = {**row, "lake": str(report.lake), "seconds": round(report.seconds, 3)}
        body |= {"rows_added": report.rows_added, "rows_refused": report.rows_refused}
        say_json({**body, "largest": json.loads(row["largest"] or "{}")})
        return
    if form == "csv":
        rows = bins_frame(report.facts, report.tally).records()
        print_rows(_CSV_COLUMNS, [tuple(row[name] for name in _CSV_COLUMNS) for row in rows], form)
        return
    print_answer(summary(report))
    say("", f"In the lake as scan {report.facts.scan_id}: `ioweather show car11.fig8`.")
