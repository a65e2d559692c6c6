"""`ioweather lake`: what it holds, sealing, retention, quarantine, backup, export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ioweather.core.default_paths import default_lake_dir
from ioweather.ui.cli.options import (
    F,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    parse_period,
    period_options,
    progress_bar,
)
from ioweather.ui.cli.screen import say, say_json

if TYPE_CHECKING:
    from ioweather.lake.snapshot import Snapshot

_SERIES_FIELDS = ("filesystem", "component_kind", "source", "components", "interval_s", "first_ns", "end_ns", "rows")


def _of_lake(function: F) -> F:
    """--lake after the subcommand too; else what stands before it."""

    def chosen(ctx: click.Context, _: click.Parameter, value: str | None) -> str | None:
        return value if value is not None else ctx.obj

    text = "The lake (default: $IOWEATHER_LAKE, else in your data home)."
    return click.option("--lake", "lake_dir", metavar="DIR", callback=chosen, help=text)(function)


@click.group(invoke_without_command=True, epilog="Example: ioweather lake --lake /data/lake")
@lake_option
@output_options
@click.pass_context
def lake(ctx: click.Context, lake_dir: str | None, as_json: bool, as_csv: bool) -> None:
    """Show what the lake holds: tables, series by file system, overlaps between sources."""
    ctx.obj = lake_dir
    if ctx.invoked_subcommand is None:
        opened = open_lake_at(lake_dir)
        with opened.snapshot() as snapshot:
            _summary(snapshot, output_form(as_json, as_csv))


def _summary(snapshot: Snapshot, form: str) -> None:
    from ioweather.core.units import format_seconds, format_time_ns
    from ioweather.lake.inventory import overlaps
    from ioweather.ui.cli.render import print_rows

    tables = [(name, rows, snapshot.versions.get(name)) for name, rows in snapshot.tables().items()]
    series = _series_rows(snapshot)
    doubled = overlaps(snapshot.series(), snapshot.facility)
    if form == "json":
        body = {
            "lake": str(snapshot.root),
            "facility": snapshot.facility.name,
            "tables": {name: {"rows": rows, "version": version} for name, rows, version in tables},
            "series": [dict(zip(_SERIES_FIELDS, row, strict=True)) for row in series],
            "overlaps": doubled,
            "rows": _row_counts(snapshot),
        }
        say_json(body)
        return
    if form == "csv":
        print_rows(("table", "rows", "version"), tables, form)
        return
    say(f"Lake of {snapshot.facility.name}", str(snapshot.root), "")
    print_rows(("table", "rows", "version"), [row for row in tables if row[1]], form)
    if series:
        say("", "Series")
        shown = [
            (fs, kind, source, n, format_seconds(s), format_time_ns(a)[:10], format_time_ns(b)[:10], rows)
            for fs, kind, source, n, s, a, b, rows in series
        ]
        print_rows(("file system", "kind", "source", "parts", "step", "from", "to", "rows"), shown, form)
    if doubled:
        worst = max(doubled, key=lambda item: item["disagreement_ratio"])
        say(
            "",
            f"{len(doubled)} day-metrics come from more than one source; one is read. They differ by at most "
            f"{worst['disagreement_ratio']:.2%} ({worst['metric']} of {worst['filesystem']}, {worst['day']}).",
        )
    quarantined = snapshot.scalar("SELECT count(*) FROM quarantine")
    if quarantined:
        say("", f"{quarantined} files are in quarantine: `ioweather lake quarantine`.")
    counts = _row_counts(snapshot)
    if any(counts.values()):
        say("", f"{counts['refused']:,} rows were left out because they cannot be, {counts['flagged']:,} flagged.")


def _row_counts(snapshot: Snapshot) -> dict[str, int]:
    """Rows that the table's rules left out, and that they flagged, of all files that came."""
    sums = ", ".join(f"coalesce(sum({name}_count), 0)" for name in ("refused", "flagged"))
    refused, flagged = snapshot.query(f"SELECT {sums} FROM ingests").fetchall()[0]
    return {"refused": refused, "flagged": flagged}


def _series_rows(snapshot: Snapshot) -> list[tuple[str, str, str, int, float, int, int, int]]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for group in snapshot.series():
        key = (group.filesystem, group.component_kind, group.source)
        entry = found.setdefault(key, [0, group.interval_ns, group.first_ns, group.end_ns, 0])
        # The finest: the hours that a sealed day is rolled up to are made of it.
        entry[0], entry[1] = max(entry[0], group.components), min(entry[1], group.interval_ns)
        entry[2], entry[3] = min(entry[2], group.first_ns), max(entry[3], group.end_ns)
        entry[4] += group.rows
    return [(*key, n, interval / 1e9, first, end, rows) for key, (n, interval, first, end, rows) in found.items()]


@lake.command(epilog="Example: ioweather lake compact")
@click.option("--everything", is_flag=True, help="Seal today too, and search all days.")
@_of_lake
def compact(lake_dir: str | None, everything: bool) -> None:
    """Seal closed days, one sorted file each.

    Once with --everything after an upgrade: rows that an earlier version stored are searched for episodes and unhealthy
    components too. Those that come in are searched then.
    """
    from ioweather.ingestion.derivations import seal_and_search

    with progress_bar() as progress:
        sealed, events = seal_and_search(open_lake_at(lake_dir), everything=everything, progress=progress)
    rows = sum(item.rows for item in sealed)
    files = sum(item.files_before for item in sealed)
    say(f"Sealed {len(sealed)} table-days: {files} files became {len(sealed)}, {rows:,} rows.")
    if events:
        say(f"{events:,} event{' is' if events == 1 else 's are'} new or changed: ioweather events")


@lake.command(epilog="Example: ioweather lake retention --dry-run")
@click.option("--dry-run", is_flag=True, help="Say what would go; remove nothing.")
@_of_lake
def retention(lake_dir: str | None, dry_run: bool) -> None:
    """Drop what is older than facility.toml's [retention] says.

    Raw samples go where minutes of them remain; then files that no version needs.
    """
    from ioweather.lake.maintenance import apply_retention

    opened = open_lake_at(lake_dir)
    dropped = apply_retention(opened, opened.facility, dry_run=dry_run)
    verb = "Would drop" if dry_run else "Dropped"
    say(
        f"{verb} {dropped['series'] + dropped['job_operations']:,} raw samples, {dropped['responses']:,} responses "
        f"and {dropped['files']:,} old files."
    )


@lake.command(epilog="Example: ioweather lake quarantine --csv")
@output_options
@_of_lake
def quarantine(lake_dir: str | None, as_json: bool, as_csv: bool) -> None:
    """List files that were refused or read in part, with the reason."""
    from ioweather.ui.cli.render import print_rows

    with open_lake_at(lake_dir).snapshot() as snapshot:
        rows = snapshot.query("SELECT path, status, reason, message FROM quarantine ORDER BY path").fetchall()
    print_rows(("path", "status", "reason", "message"), rows, output_form(as_json, as_csv))


@lake.command(epilog="Example: ioweather lake forget iostat.log && ioweather ingest iostat.log --zone Europe/Berlin")
@click.argument("file")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_of_lake
def forget(lake_dir: str | None, file: str, yes: bool) -> int:
    """Take a file back out, with the rows it brought: to read it again, with the right --zone.

    FILE is a path as it was ingested, or the digest in the ledger. Files that one command brought go together.
    """
    from ioweather.lake.maintenance import find_file, forget_file

    opened = open_lake_at(lake_dir)
    found = find_file(opened, file)
    rows = ", ".join(f"{count:,} of {table}" for table, count in found.rows.items()) or "none"
    shown = list(found.files)
    say(f"Files: {', '.join(shown[:5])}{f' and {len(shown) - 5:,} more' if len(shown) > 5 else ''}", f"Rows: {rows}")
    if not yes and not click.confirm("Take them out of the lake?"):
        say("Nothing was removed.")
        return 1
    forget_file(opened, found)
    say("Removed. Files that hold the same rows are read again with `ioweather ingest --again`.")
    return 0


@lake.command(epilog="Example: ioweather lake check")
@click.option("--set-aside", is_flag=True, help="Move damaged files to `damaged/` in the lake; the rest answers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_of_lake
def check(lake_dir: str | None, set_aside: bool, as_json: bool) -> int:
    """Compare every table file with the digest that was recorded when it was written.

    The exit code is 1 if a file is damaged. Restore it from a backup, or set it aside and ingest its inputs again.
    """
    from ioweather.core.units import format_bytes
    from ioweather.lake import check as checking

    opened = open_lake_at(lake_dir)
    with progress_bar() as progress:
        found = checking.check_lake(opened, progress=progress)
    inputs = checking.set_aside(opened, found.damaged) if set_aside and found.damaged else []
    if as_json:
        say_json({**vars(found), "set_aside": bool(set_aside and found.damaged), "inputs": inputs})
        return 1 if found.damaged else 0
    if not found.damaged:
        say(f"All {found.files:,} table files ({format_bytes(found.bytes)}) are intact.")
    else:
        say(f"{len(found.damaged):,} of {found.files:,} table files are damaged:", *(f"  {p}" for p in found.damaged))
    if found.without_digest:
        say(f"{found.without_digest:,} have no digest (written by ioweather 0.2) and were read instead.")
    if inputs:
        say("Their rows are missing now. Ingest these files again (ioweather ingest --again):")
        say(*(f"  {path}" for path in inputs))
    elif found.damaged and not set_aside:
        say("Restore them from a backup, or run: ioweather lake check --set-aside")
    return 1 if found.damaged else 0


@lake.command(epilog="Example: ioweather lake backup /backup/weather --verify")
@click.argument("dest", type=click.Path(path_type=Path))
@_of_lake
@click.option("--verify", is_flag=True, help="Read the backup again and compare every file.")
def backup(lake_dir: str | None, dest: Path, verify: bool) -> None:
    """Copy the lake to DEST as it is at this moment; writers may go on.

    The next time only new files are copied. DEST can be opened with --lake. Cached exhibits are left out.
    """
    from ioweather.core.units import format_bytes
    from ioweather.lake.copies import backup as run

    with progress_bar() as progress:
        done = run(open_lake_at(lake_dir), dest, verify=verify, progress=progress)
    say(
        f"{done.copied_files:,} files ({format_bytes(done.copied_bytes)}) copied to {dest}, {done.kept_files:,} were "
        f"there, {done.removed_files:,} went."
    )
    if verify:
        say("Every file has its digest.")


@lake.command(epilog="Example: ioweather lake restore /backup/weather --lake /srv/new")
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@_of_lake
def restore(lake_dir: str | None, source: Path) -> None:
    """Restore the lake from a backup, checking every file; the place must be empty."""
    from ioweather.lake.copies import restore as run

    target = Path(lake_dir) if lake_dir else default_lake_dir()
    with progress_bar() as progress:
        done = run(source, target, progress=progress)
    say(f"{done.copied_files:,} files restored to {target}; every one has its digest.")


@lake.command(epilog="Example: ioweather lake export jobs --out jobs.csv --from 2026-01-01")
@click.argument("table")
@_of_lake
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File: .parquet .csv .csv.gz")
@click.option("--where", default="", metavar="SQL", help="Only rows for which this holds.")
@period_options
def export(lake_dir: str | None, table: str, out: Path, where: str, from_text: str | None, to_text: str | None) -> None:
    """Write a table, or a part of it, as one Parquet or CSV file."""
    from ioweather.lake.copies import export_table

    opened = open_lake_at(lake_dir)
    period = parse_period(from_text, to_text, opened.facility.zone) if from_text or to_text else None
    with opened.snapshot() as snapshot:
        rows = export_table(snapshot, table, out, where=where, period_ns=period)
    say(f"Wrote {rows:,} rows of {table} to {out}.", err=True)
