"""`ioweather ingest`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ioweather.cli.options import (
    converted,
    engine_options,
    executor,
    lake_option,
    open_lake_at,
    output_form,
    output_options,
    paths_option,
    progress_bar,
)
from ioweather.cli.screen import say, say_json
from ioweather.core.errors import UsageError

if TYPE_CHECKING:
    from ioweather.core.facility import Facility
    from ioweather.workflows.ingest.ingest import IngestReport

EPILOG = """\b
Exit codes: 0 everything is in; 1 some files were refused (the rest is in);
2 nothing was done. Sources: `ioweather ingest --list-sources`.

\b
Example: ioweather ingest iostat/ logs/*.darshan --zone Europe/Berlin
"""


@click.command(epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH|URL]...")
@lake_option
@output_options
@click.option("--source", help="Read as this source instead of looking at the content.")
@click.option("--as", "table", metavar="TABLE", help="Read CSV, JSON or Parquet into this table (with --select).")
@click.option(
    "--select",
    "select_file",
    type=click.Path(path_type=Path),
    help="File with the SELECT that makes rows of the table.",
)
@click.option(
    "--map",
    "map_file",
    type=click.Path(path_type=Path),
    help="TOML file: which metric of Prometheus, telegraf, collectd or LDMS is which.",
)
@click.option("--zone", help="Time zone of local times without offset (default: the facility's).")
@click.option("--start", metavar="TIME", help="Start of an undated file; of a server, from when on.")
@click.option("--token-file", type=click.Path(path_type=Path), help="File with a bearer token for a server.")
@click.option("--interval", metavar="DURATION", help="Interval between the samples of an undated file.")
@click.option("--host", help="Host the file speaks of, where it does not say.")
@click.option("--system", help="File system the file speaks of, where it does not say.")
@click.option("--cluster", help="Cluster of accounting that does not say (default: the facility's, if one).")
@paths_option("What to do with file paths in Darshan logs.")
@click.option("--raw", is_flag=True, help="Keep samples finer than a minute too, where a source reduces them.")
@click.option(
    "--again",
    is_flag=True,
    help="Read files that are in already too; rows that are in are not added twice. Rows of a wrong --zone stay until "
    "`ioweather lake forget FILE`.",
)
@click.option("--no-create", is_flag=True, help="Only into a lake that is there: make none.")
@engine_options("one per core")
@click.option("--list-sources", is_flag=True, help="List what can be read, and stop.")
def ingest(
    paths: tuple[str, ...],
    lake_dir: str | None,
    as_json: bool,
    as_csv: bool,
    source: str | None,
    table: str | None,
    select_file: Path | None,
    map_file: Path | None,
    engine: dict[str, Any],
    list_sources: bool,
    no_create: bool,
    again: bool,
    token_file: Path | None,
    **known: Any,
) -> int:
    """Read files, directories and servers into the lake, whatever they are.

    Files are recognised by their content. A file that is in already is skipped; a file that grew adds only what is
    new. A bad file is refused with its reason, and the rest goes in. Servers are a Prometheus (http://HOST:9090) and a
    database of LMT (mysql://USER@HOST/filesystem_NAME): all that is new since the last time.
    """
    form = output_form(as_json, as_csv)
    if list_sources:
        return _list_sources(form)
    if not paths:
        raise UsageError("Name files or directories to read.", hint="See `ioweather ingest --help`.")
    if table is not None and map_file is not None:
        raise _no_map(table, map_file)
    if (table is None) != (select_file is None):
        raise UsageError("--as and --select go together.", hint="See docs/how-to/any-csv.md.")
    from ioweather.workflows.ingest.ingest import IngestReport, is_address
    from ioweather.workflows.ingest.ingest import ingest as run
    from ioweather.workflows.ingest.site_mapping import own_mapping

    lake = open_lake_at(lake_dir, create=not no_create)
    context = _context(known, lake.facility)
    select = (table, _text_of(select_file, "--select")) if table and select_file else None
    if not table:
        context = replace(context, mapping=_labels_mapping(map_file) if map_file else own_mapping(lake.root))
    token = _text_of(token_file, "--token-file") if token_file else None
    addresses = [path for path in paths if is_address(path)]
    if addresses:  # what asks servers is not loaded for files
        from ioweather.workflows.ingest.servers import ingest_server, server_at
    servers = [server_at(path, context, token) for path in addresses]
    files = [Path(path) for path in paths if not is_address(path)]
    report = IngestReport()
    with progress_bar() as progress:
        if files:
            with executor(engine, lake_dir, progress) as pool:
                ask = partial(run, context=context, source=source, select=select, again=again)
                report = ask(lake, files, executor=pool, progress=progress)
        for server in servers:
            report.add(ingest_server(lake, server, start_ns=context.start_ns, again=again, progress=progress))
    _print(report, form, str(lake.root))
    return 1 if report.bad or report.missing else 0


def _context(known: dict[str, Any], facility: Facility) -> Any:
    from ioweather.core.clock import parse_time_ns, zone_named
    from ioweather.core.contracts import ReadContext
    from ioweather.core.units import parse_duration_ns

    zone_name = known["zone"] or facility.zone
    zone = zone_named(zone_name) if zone_name else None
    return ReadContext(
        zone=zone,
        start_ns=converted(lambda text: parse_time_ns(text, zone), known["start"], "--start"),
        interval_ns=converted(parse_duration_ns, known["interval"], "--interval"),
        host=known["host"],
        system=known["system"],
        cluster=known["cluster"] or (facility.clusters[0] if len(facility.clusters) == 1 else None),
        paths=known["path_policy"],
        keep_raw=known["raw"],
    )


def _labels_mapping(file: Path) -> dict[str, Any]:
    """Checked here: a mistake in it is one, and not one per file."""
    from ioweather.sources.labelled.mapping import mappings_of

    document = _mapping(file)
    if "metric" not in document:
        raise UsageError(
            f"--map {file} has no [[metric]], as samples with labels need; for CSV use --as and --select.",
            hint="See docs/how-to/prometheus-in.md and docs/how-to/any-csv.md.",
        )
    mappings_of(document)
    return document


def _no_map(table: str, file: Path) -> UsageError:
    from ioweather.workflows.ingest.selected import select_of

    sql = select_of(_mapping(file))
    return UsageError(
        f"Mapping files are replaced by SQL: ioweather ingest --as {table} --select map.sql FILE; examples are in "
        "docs/how-to/any-csv.md.",
        hint=f"This does what {file} did; write it to map.sql: {sql}" if sql else "",
    )


def _text_of(file: Path, option: str) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {file}: {getattr(error, 'strerror', None) or error}.") from None


def _mapping(file: Path) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"--map {file}: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"--map {file} is not valid TOML: {error}.") from None


def _list_sources(form: str) -> int:
    from ioweather.cli.render import print_rows
    from ioweather.sources.catalogue import SOURCES

    rows = [(name, s.title, ", ".join(s.tables), SOURCES.package_of(name)) for name, s in SOURCES.items()]
    print_rows(("source", "reads", "into", "package"), rows, form)
    return 0


def _print(report: IngestReport, form: str, lake: str) -> None:
    if form == "json":
        body = {
            "lake": lake,
            "read": len(report.good),
            "known": report.known,
            "refused": [
                {"path": str(o.path), "status": o.status, "reason": o.reason, "message": o.message} for o in report.bad
            ],
            "rows_added": dict(report.rows_added),
            "rows_refused": sum(o.refused_rows for o in report.outcomes),
            "rows_flagged": sum(o.flagged_rows for o in report.outcomes),
            "flagged": [{"path": str(o.path), "rows": o.flagged_rows, "message": o.message} for o in report.flagged],
            "noted": [{"path": str(o.path), "message": o.message} for o in report.noted],
            "not_computed": report.missing,
            "seconds": round(report.seconds, 3),
        }
        say_json(body)
        return
    if form == "csv":
        from ioweather.cli.render import print_rows

        every = [(str(o.path), o.status, o.source, o.reason, o.message) for o in report.outcomes]
        print_rows(("path", "status", "source", "reason", "message"), every, "csv")
        return
    added = ", ".join(f"{n:,} rows of {table}" for table, n in sorted(report.rows_added.items()) if n) or "no new rows"
    files = len(report.outcomes)
    text = f"{len(report.good):,} of {files:,} files read into {lake} in {report.seconds:.1f} s: {added}."
    say(text, wrap=80)
    if report.known:
        say(f"{report.known:,} files were in already.")
    _print_refused(report)
    if report.missing:
        say("All rows are in the lake. Not computed from them")
        _print_messages(report.missing, "ioweather ingest --json")
    if report.noted:
        say(f"{len(report.noted):,} hold more than could be taken")
        _print_messages([outcome.message or "" for outcome in report.noted], "ioweather ingest --csv")
    if report.flagged:
        rows = sum(outcome.flagged_rows for outcome in report.flagged)
        say(f"{rows:,} rows flagged, in {len(report.flagged):,} files")
        _print_messages([outcome.message or str(outcome.path) for outcome in report.flagged], "ioweather doctor")


def _print_messages(messages: list[str], where: str, most: int = 3) -> None:
    for message in messages[:most]:
        say(message, wrap=78, first="  - ", rest="    ")
    if len(messages) > most:
        say(f"    ... and {len(messages) - most:,} more: {where}")


def _print_refused(report: IngestReport) -> None:
    """Grouped by reason, a few of each: a hundred strangers in a directory are one line of news."""
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome in report.bad:
        groups.setdefault((outcome.status, outcome.reason or ""), []).append(outcome.message or str(outcome.path))
    for (status, reason), messages in sorted(groups.items()):
        verb = "refused" if status == "quarantined" else "read in part"
        say(f"{len(messages):,} {verb}: {reason.replace('_', ' ')}")
        _print_messages(messages, "ioweather lake quarantine")
