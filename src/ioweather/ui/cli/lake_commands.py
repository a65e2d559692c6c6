"""Commands that bring data in and look after the lake: `ingest`, `scan`, `facility`, `sql`, `lake`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from ioweather.agent.settings import watch_settings_from
from ioweather.core.contracts import PathPolicy, ReadContext
from ioweather.core.errors import UsageError
from ioweather.core.facility import Facility, load_facility
from ioweather.core.safe_files import default_lake_dir, write_whole
from ioweather.core.units import (
    format_bytes,
    format_ratio,
    format_seconds,
    format_time_ns,
    names_of,
    parse_duration_ns,
    parse_time_ns,
    zone_named,
)
from ioweather.ingestion import scan_tree
from ioweather.ingestion.derivations import seal_and_search
from ioweather.ingestion.ingest import IngestReport, ingest_server, is_address
from ioweather.ingestion.ingest import ingest as ingest_files
from ioweather.ingestion.mappings import own_mapping, read_select_text
from ioweather.ingestion.watch import CaughtUp, catch_up
from ioweather.lake import copies, layout, maintenance, object_store
from ioweather.lake.inventory import find_overlaps, summarise_series
from ioweather.lake.lake import Lake, Snapshot, open_lake
from ioweather.lake.sandbox import run_user_sql
from ioweather.lake.workers import usable_cores
from ioweather.readers.prometheus.server import PrometheusServer
from ioweather.readers.reader_catalogue import SOURCES
from ioweather.readers.scan.tally import bins_frame, scans_frame
from ioweather.topics.source import period_between, zone_of
from ioweather.ui.cli.options import (
    converted,
    engine_options,
    lake_option,
    output_options,
    path_option,
    paths_option,
    period_options,
    progress_bar,
    working,
)
from ioweather.ui.cli.screen import say, say_json
from ioweather.ui.cli.terminal import print_answer, print_rows
from ioweather.ui.facility_draft import check_mapping, draft_facility, is_whole, mapping_lines, shared_mounts

INGEST_EPILOG = """Exit codes: 0 all ingested; 1 some files were rejected, the others ingested; 2 nothing was
ingested. Sources: `ioweather ingest --list-sources`.

--watch reads the directories given here or in [watch] of facility.toml. The first pass reads files from the last day
(--all: also older files), later passes read changed files. A systemd timer (deploy/systemd/ioweather-catch-up.timer)
runs a pass every minute.

\b
Examples:
  ioweather ingest iostat/ logs/*.darshan --zone Europe/Berlin
  ioweather ingest --watch /darshan/logs --lake /srv/weather
"""


@click.command(epilog=INGEST_EPILOG)
@click.argument("paths", nargs=-1, metavar="[PATH|URL]...")
@lake_option
@output_options
@click.option("--source", help="Read as this source instead of detecting the format.")
@click.option("--as", "table", metavar="TABLE", help="Read CSV, JSON or Parquet into this table (with --select).")
@path_option("--select", "FILE|NAME", "File with the SELECT that makes rows of the table, or lfs_df or mmdf.")
@click.option("--zone", help="Time zone of local times without offset (default: the facility's).")
@click.option("--start", metavar="TIME", help="Start time of an undated file, or of the range to fetch from a server.")
@path_option("--token-file", "PATH", "File with a bearer token for a server.")
@click.option("--interval", metavar="DURATION", help="Interval between the samples of an undated file.")
@click.option("--host", help="Host name to use if the file has none.")
@click.option("--system", help="File system to use if the file contains none.")
@click.option("--cluster", help="Cluster to use if accounting contains none (default: the facility's, if only one).")
@paths_option("Keep, hash or drop file paths in Darshan logs.")
@click.option("--raw", is_flag=True, help="Keep samples below one minute that a source would aggregate.")
@click.option(
    "--again",
    is_flag=True,
    help="Read files again even if already ingested; existing rows are not duplicated. To remove rows ingested with a "
    "wrong --zone, run `ioweather lake forget FILE`.",
)
@click.option("--no-create", is_flag=True, help="Fail if the lake does not exist instead of creating it.")
@engine_options("one per core")
@click.option("--watch", is_flag=True, help="Watch directories and accounting: read new data and judge finished runs.")
@click.option("--once", is_flag=True, help="With --watch: run one pass and exit.")
@click.option("--all", "everything", is_flag=True, help="With --watch: read all files, including old ones.")
@click.option("--list-sources", is_flag=True, help="List the supported sources and exit.")
def ingest(
    paths: tuple[str, ...],
    lake_dir: str | None,
    form: str,
    source: str | None,
    table: str | None,
    select: Path | None,
    engine: dict[str, Any],
    list_sources: bool,
    no_create: bool,
    again: bool,
    token_file: Path | None,
    watch: bool,
    once: bool,
    everything: bool,
    **known: Any,
) -> int:
    """Read files, directories and servers into the lake.

    The format is detected from the content. A file that is already in the lake is skipped. A file that grew adds
    only its new rows. A bad file is rejected with a reason, and the other files are ingested. From a
    Prometheus server (http://HOST:9090), only data since the last ingest is read.
    """
    if list_sources:
        rows = [(name, s.title, ", ".join(s.tables), SOURCES.package_of(name)) for name, s in SOURCES.items()]
        print_rows(("source", "reads", "into", "package"), rows, form)
        return 0
    if watch:
        return _watch(open_lake(lake_dir, create=True), paths, form, once=once, everything=everything)
    if once or everything:
        raise UsageError("--once and --all need --watch.")
    if not paths:
        raise UsageError("Specify files or directories to read.", hint="See `ioweather ingest --help`.")
    if (table is None) != (select is None):
        raise UsageError("--as and --select must be used together.", hint="See docs/how-to/any-csv.md.")
    lake = _with_facility(open_lake(lake_dir, create=not no_create), [Path(path) for path in paths])
    context = _context(known, lake.facility)
    into = (table, read_select_text(select)) if table and select else None
    if into is None:
        context = replace(context, mapping=own_mapping(lake.root))
    token = _text_of(token_file, "--token-file").strip() if token_file else None
    servers = [PrometheusServer.from_url(path, token) for path in paths if is_address(path)]
    files = [Path(path) for path in paths if not is_address(path)]
    simulated = [path for path in files if (path / "truth.parquet").is_file() and (path / "manifest.json").is_file()]
    files = [path / "data" if path in simulated else path for path in files]
    report = IngestReport()
    with working(engine if files else {}) as (pool, progress):
        if files:
            how: dict[str, Any] = {"context": context, "source": source, "select": into, "again": again}
            report = ingest_files(lake, files, executor=pool, progress=progress, **how)
            for path in simulated:  # lists of files do not say when they were made; the manifest does
                mount = f"mount:/{lake.facility.filesystems[0].name}"
                for name, start_ns in json.loads(_text_of(path / "manifest.json", "manifest"))["scans"].items():
                    how["context"] = replace(context, start_ns=start_ns, system=context.system or mount)
                    report.add(ingest_files(lake, [path / "scans" / name], executor=pool, progress=progress, **how))
        for server in servers:
            report.add(ingest_server(lake, server, context, again=again, progress=progress))
    _print_ingested(report, form, lake.root)
    return 1 if report.bad or report.missing else 0


def _with_facility(lake: Lake, paths: list[Path]) -> Lake:
    """Give a lake without a facility.toml the one in a directory of files, and return it opened again.

    For simulated files it is in the parent directory.
    """
    own = layout.facility_file(lake.root)
    found = [path / own.name for path in paths if (path / own.name).is_file()]
    near = [path.parent / own.name for path in paths if path.is_dir() and (path.parent / own.name).is_file()]
    found += [file for file in near if load_facility(file).simulated]
    if own.exists() or len(found) != 1:
        return lake
    load_facility(found[0])  # raises where it is wrong
    write_whole(own, found[0].read_bytes(), 0o644)
    say(f"Names and time zone come from {found[0]}.")
    return open_lake(lake.root)


def _context(known: dict[str, Any], facility: Facility) -> ReadContext:
    """What files do not say about themselves: from the options, else from facility.toml."""
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


def _text_of(file: Path, option: str) -> str:
    """The text of a file that an option names."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {file}: {getattr(error, 'strerror', None) or error}.") from None


def _print_ingested(report: IngestReport, form: str, lake: Path) -> None:
    """Print what was read, refused and flagged."""
    if form == "json":
        refused = [
            {"path": str(o.path), "status": o.status, "reason": o.reason, "message": o.message} for o in report.bad
        ]
        body = {
            "lake": str(lake),
            "read": len(report.good),
            "known": report.known,
            "refused": refused,
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
        every = [(str(o.path), o.status, o.source, o.reason, o.message) for o in report.outcomes]
        print_rows(("path", "status", "source", "reason", "message"), every, "csv")
        return
    added = ", ".join(f"{n:,} rows of {table}" for table, n in sorted(report.rows_added.items()) if n) or "no new rows"
    read = f"{len(report.good):,} of {len(report.outcomes):,} files read into {lake} in {report.seconds:.1f} s"
    say(f"{read}: {added}.", wrap=80)
    if report.known:
        say(f"{report.known:,} files were already ingested.")
    refused_by: dict[tuple[str, str], list[str]] = {}  # a hundred strangers in a directory are one line of news
    for outcome in report.bad:
        refused_by.setdefault((outcome.status, outcome.reason or ""), []).append(outcome.message or str(outcome.path))
    for (status, reason), messages in sorted(refused_by.items()):
        verb = "refused" if status == "quarantined" else "partly read"
        _print_some(f"{len(messages):,} {verb}: {reason.replace('_', ' ')}", messages, "ioweather lake quarantine")
    _print_some(
        "All rows are in the lake, but these results were not computed", report.missing, "ioweather ingest --json"
    )
    noted = [outcome.message or "" for outcome in report.noted]
    _print_some(f"{len(noted):,} files contain data that could not be ingested", noted, "ioweather ingest --csv")
    flagged = [outcome.message or str(outcome.path) for outcome in report.flagged]
    rows = sum(outcome.flagged_rows for outcome in report.flagged)
    _print_some(f"{rows:,} rows in {len(flagged):,} files were flagged", flagged, "ioweather doctor")


def _print_some(heading: str, messages: Sequence[str], where: str, most: int = 3) -> None:
    """The first messages below a heading, and where the others are; nothing without messages."""
    if messages:
        say(heading)
    for message in messages[:most]:
        say(message, wrap=78, first="  - ", rest="    ")
    if len(messages) > most:
        say(f"    ... and {len(messages) - most:,} more: {where}")


def _watch(lake: Lake, paths: Sequence[str], form: str, *, once: bool, everything: bool) -> int:
    """Read new files and accounting, then judge finished runs, once or until Ctrl-C.

    Each run gets a verdict at its end in the table `verdicts`, and a revised one a day later."""
    settings = watch_settings_from(lake.facility.sections.get("watch", {}))
    for path in paths:
        if not Path(path).is_dir():
            raise UsageError(f"--watch {path}: not a directory.")
    if paths:
        settings = replace(settings, directories=tuple(Path(path).absolute() for path in paths))
    while True:
        done = catch_up(lake, settings, everything=everything)
        if form == "json":
            say_json(asdict(done))
        else:
            _print_pass(done)
        if once:
            return 1 if done.refused or done.troubles else 0
        time.sleep(max(1.0, settings.every_ns / 1e9 - done.seconds))


def _print_pass(done: CaughtUp) -> None:
    """Print what one pass of `--watch` did."""
    if done.busy:
        say("Another pass is running on this lake; nothing was done.")
        return
    rows = ", ".join(f"{n:,} rows of {table}" for table, n in done.rows_added.items()) or "no new rows"
    say(f"{done.read:,} new files read, {len(done.refused):,} refused: {rows}.", wrap=80)
    say(f"{done.verdicts:,} verdicts made.")
    if done.left_files or done.left_verdicts:
        say(f"{done.left_files:,} files and {done.left_verdicts:,} verdicts remain for the next pass.")
    for text in (*list(done.refused.values())[:3], *done.troubles):
        say(text, wrap=78, first="  - ", rest="    ")


SCAN_EPILOG = """\b
The scan is read-only, stays on one file system, does not follow links or
enter snapshots, and preserves access times if permitted.
Exit codes: 0 complete; 1 some directories could not be read; 130 stopped
(continue with --resume).

\b
Example: ioweather scan /scratch --rate 50000
"""


@click.command(epilog=SCAN_EPILOG)
@click.argument("path", type=click.Path(path_type=Path))
@lake_option
@output_options
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), metavar="N", help="At most N entries per second.")
@engine_options("one per core")
@click.option("--resume", is_flag=True, help="Continue an interrupted scan of this tree.")
@click.option("--restart", is_flag=True, help="Discard an interrupted scan and start over.")
@paths_option("Keep, hash or drop the paths of the largest files.")
def scan(
    path: Path,
    lake_dir: str | None,
    form: str,
    engine: dict[str, Any],
    path_policy: PathPolicy,
    **asked: Any,
) -> int:
    """Scan a directory tree and count sizes, ages, owners and names.

    Only the largest files are recorded individually. To read existing lists (GPFS policies, find, lfs find), use
    `ioweather ingest`.
    """
    if asked["resume"] and asked["restart"]:
        raise UsageError("--resume and --restart cannot be used together.")
    workers = engine["workers"] or usable_cores()
    request = scan_tree.ScanRequest(path, workers, paths=path_policy, **asked)
    try:
        with working(engine, clusters_only=True) as (pool, progress):
            report = scan_tree.scan(Path(lake_dir) if lake_dir else None, request, executor=pool, progress=progress)
    except KeyboardInterrupt:
        say("Stopped. To continue, run the same command with --resume.", err=True)
        return 130
    if form == "json":
        row = scans_frame(report.facts, report.tally, path_policy).records()[0]
        body = {**row, "lake": str(report.lake), "seconds": round(report.seconds, 3)}
        body |= {"rows_added": report.rows_added, "rows_refused": report.rows_refused}
        say_json({**body, "largest": json.loads(row["largest"] or "{}")})
    elif form == "csv":
        columns = names_of("owner_kind owner histogram bin low high count bytes")
        rows = bins_frame(report.facts, report.tally).records()
        print_rows(columns, [tuple(row[name] for name in columns) for row in rows], form)
    else:
        print_answer(scan_tree.summary(report))
        say("", f"Stored as scan {report.facts.scan_id}. Show it: ioweather show car11.fig8")
    return 1 if report.tally.counts["unreadable"] else 0


@click.group(epilog="Example: ioweather facility init --name Edison --zone America/Los_Angeles")
def facility() -> None:
    """Write or check the lake's facility.toml."""


@facility.command(epilog="Example: ioweather facility init --name Edison --zone America/Los_Angeles")
@lake_option
@click.option("--name", default="this facility", show_default=True, help="Name of the facility.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone of the facility.")
@click.option("--force", is_flag=True, help="Overwrite an existing facility.toml.")
def init(lake_dir: str | None, name: str, zone: str, force: bool) -> None:
    """Write a facility.toml from the data in the lake and on this machine.

    File systems come from Lustre counters and from mounts (of this machine, of logs, of probes). Servers and their
    targets come from counters, `lctl get_param '*.*.*_conn_uuid'` or `lctl dl -t`. Peaks come from IOR and IO500.
    """
    zone_named(zone)
    lake = open_lake(lake_dir, create=True)
    file = layout.facility_file(lake.root)
    if file.exists() and not force:
        raise UsageError(f"{file} already exists.", hint="Edit it, or overwrite it with --force.")
    with lake.snapshot() as snapshot:
        text = draft_facility(snapshot, shared_mounts(), name=name, zone=zone)
    file.write_text(text, encoding="utf-8")
    object_store.upload(lake.root, [file])
    say(f"Wrote {file}. Review it, then run: ioweather facility check")


@facility.command(epilog="Example: ioweather facility check --json")
@lake_option
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(lake_dir: str | None, as_json: bool) -> int:
    """Check facility.toml and list the names, mounts, targets and servers that it maps or lacks.

    Before the first ingest, the file and the mounts of this machine are checked.
    """
    root = Path(lake_dir) if lake_dir else default_lake_dir()
    has_lake = layout.is_lake(root)
    if not has_lake and not layout.facility_file(root).exists():
        raise UsageError(f"There is no {layout.facility_file(root)}.", hint="Create it: ioweather facility init")
    known = load_facility(layout.facility_file(root))
    opened = open_lake(lake_dir).snapshot() if has_lake else nullcontext(None)
    with opened as snapshot:
        described, unmapped = check_mapping(known, snapshot, shared_mounts())
    if as_json:
        body: dict[str, Any] = {"name": known.name, "zone": known.zone, "projects": len(known.projects)}
        body |= {"filesystems": [fs.name for fs in known.filesystems], "mapped": described}
        body |= {"unmapped": unmapped["names"], "unmapped_targets": unmapped["targets"]}
        body["unmapped_servers"] = unmapped["servers"]
        body["unmapped_mounts"] = [*unmapped["mounts"], *unmapped["mounted_here"]]
        say_json(body)
    else:
        say(*mapping_lines(known, described, unmapped, has_lake=has_lake), wrap=80, rest="    ")
    return 0 if is_whole(unmapped) else 1


SQL_EPILOG = """\b
Tables and columns are listed by
  SELECT table_name, column_name FROM information_schema.columns

\b
Example: ioweather sql "SELECT day, count(*) FROM series GROUP BY day"
"""


@click.command(epilog=SQL_EPILOG)
@click.argument("query", required=False)
@lake_option
@output_options
@click.option("--timeout", default=30.0, show_default=True, help="Maximum run time of the query in seconds.")
@click.option("--rows", default=10_000, show_default=True, help="Maximum number of rows to print.")
def sql(query: str | None, lake_dir: str | None, form: str, timeout: float, rows: int) -> None:
    """Query the lake in DuckDB SQL: one SELECT or EXPLAIN, read-only. Without QUERY, the query is read from standard
    input."""
    text = query if query is not None else ("" if sys.stdin.isatty() else sys.stdin.read())
    if not text.strip():
        raise UsageError("Give a query.", hint='For example: ioweather sql "SELECT * FROM ingests LIMIT 5"')
    with open_lake(lake_dir).snapshot() as snapshot:
        result = run_user_sql(snapshot, text, rows=rows, seconds=timeout)
    if form == "text" and result.columns == ("explain_key", "explain_value"):
        say(*(line for _, plan in result.rows for line in plan.splitlines()))  # a drawing in lines of its own
    else:
        print_rows(result.columns, result.rows, form)
    if result.truncated:
        say(f"Only the first {rows:,} rows are shown. Use --rows for more.", err=True)


@click.group(invoke_without_command=True, epilog="Example: ioweather lake --lake /data/lake")
@lake_option
@output_options
@click.pass_context
def lake(ctx: click.Context, lake_dir: str | None, form: str) -> None:
    """Show the contents of the lake: tables, series by file system, and overlaps between sources."""
    ctx.default_map = {name: {"lake_dir": lake_dir} for name in lake.commands}  # --lake before the subcommand
    if ctx.invoked_subcommand is None:
        with open_lake(lake_dir).snapshot() as snapshot:
            _summary(snapshot, form)


def _summary(snapshot: Snapshot, form: str) -> None:
    """Print tables, series, overlaps and refused rows of the lake."""
    tables = [(name, rows, snapshot.versions.get(name)) for name, rows in snapshot.tables().items()]
    series = summarise_series(snapshot.series())
    doubled = find_overlaps(snapshot.series(), snapshot.facility)
    sums = ", ".join(f"coalesce(sum({name}_count), 0)" for name in ("refused", "flagged"))
    refused, flagged = snapshot.query(f"SELECT {sums} FROM ingests").fetchall()[0]
    if form == "json":
        fields = names_of("filesystem component_kind source components interval_s first_ns end_ns rows")
        body = {
            "lake": str(snapshot.root),
            "facility": snapshot.facility.name,
            "tables": {name: {"rows": rows, "version": version} for name, rows, version in tables},
            "series": [dict(zip(fields, row, strict=True)) for row in series],
            "overlaps": doubled,
            "rows": {"refused": refused, "flagged": flagged},
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
        worst = format_ratio(max(item["disagreement_ratio"] for item in doubled))
        say("", f"{len(doubled)} daily metrics have several sources, which differ by at most {worst}; one is used.")
    quarantined = snapshot.scalar("SELECT count(*) FROM quarantine")
    if quarantined:
        say("", f"{quarantined} files are in quarantine: `ioweather lake quarantine`.")
    if refused or flagged:
        say("", f"{refused:,} rows with impossible values were rejected; {flagged:,} were flagged.")


@lake.command(epilog="Example: ioweather lake compact")
@click.option("--everything", is_flag=True, help="Also seal today, and search all days for events.")
@lake_option
def compact(lake_dir: str | None, everything: bool) -> None:
    """Seal closed days: merge the files of each day into one sorted file.

    After an upgrade, run it once with --everything: it also searches the rows of earlier versions for episodes and
    unhealthy components. New rows are searched at ingest.
    """
    with progress_bar() as progress:
        sealed, events = seal_and_search(open_lake(lake_dir), everything=everything, progress=progress)
    files, rows = sum(files for _, _, files, _ in sealed), sum(rows for *_, rows in sealed)
    say(f"Sealed {len(sealed)} table-days: merged {files} files into {len(sealed)} ({rows:,} rows).")
    if events:
        say(f"{events:,} event{' is' if events == 1 else 's are'} new or changed: ioweather events")


@lake.command(epilog="Example: ioweather lake retention --dry-run")
@click.option("--dry-run", is_flag=True, help="Show what would be removed, without removing anything.")
@lake_option
def retention(lake_dir: str | None, dry_run: bool) -> None:
    """Drop data that is older than [retention] in facility.toml allows.

    Raw samples are dropped if their one-minute rows remain. Files that no version needs are dropped too.
    """
    opened = open_lake(lake_dir)
    dropped = maintenance.apply_retention(opened, opened.facility, dry_run=dry_run)
    say(
        f"{'Would drop' if dry_run else 'Dropped'} {dropped['series'] + dropped['job_operations']:,} raw samples, "
        f"{dropped['responses']:,} responses and {dropped['files']:,} old files."
    )


@lake.command(epilog="Example: ioweather lake quarantine --csv")
@output_options
@lake_option
def quarantine(lake_dir: str | None, form: str) -> None:
    """List files that were refused or partly read, with the reason."""
    with open_lake(lake_dir).snapshot() as snapshot:
        rows = snapshot.query("SELECT path, status, reason, message FROM quarantine ORDER BY path").fetchall()
    print_rows(("path", "status", "reason", "message"), rows, form)


@lake.command(epilog="Example: ioweather lake forget iostat.log && ioweather ingest iostat.log --zone Europe/Berlin")
@click.argument("file")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@lake_option
def forget(lake_dir: str | None, file: str, yes: bool) -> int:
    """Remove a file and its rows from the lake, for example to read it again with the right --zone.

    FILE is the ingested path or the digest. Files that one command ingested together are removed together.
    """
    opened = open_lake(lake_dir)
    files, counts, ingest_ids = maintenance.find_file(opened, file)
    rows = ", ".join(f"{count:,} of {table}" for table, count in counts.items()) or "none"
    shown = list(files)
    say(f"Files: {', '.join(shown[:5])}{f' and {len(shown) - 5:,} more' if len(shown) > 5 else ''}", f"Rows: {rows}")
    if not yes and not click.confirm("Remove them from the lake?"):
        say("Nothing was removed.")
        return 1
    maintenance.forget_file(opened, files, counts, ingest_ids)
    say("Removed. If other files contain the same rows, ingest them again: `ioweather ingest --again FILE`.")
    return 0


@lake.command(name="check", epilog="Example: ioweather lake check")
@click.option(
    "--set-aside", is_flag=True, help="Move damaged files to `damaged/` in the lake. The other files stay usable."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@lake_option
def lake_check(lake_dir: str | None, set_aside: bool, as_json: bool) -> int:
    """Compare every table file with its recorded digest.

    The exit code is 1 if a file is damaged. Restore damaged files from a backup, or set them aside and ingest their
    inputs again.
    """
    opened = open_lake(lake_dir)
    with progress_bar() as progress:
        found = maintenance.check_lake(opened, progress=progress)
    damaged = found["damaged"]
    inputs = maintenance.set_aside(opened, damaged) if set_aside and damaged else []
    if as_json:
        say_json({**found, "set_aside": bool(set_aside and damaged), "inputs": inputs})
        return 1 if damaged else 0
    if not damaged:
        say(f"All {found['files']:,} table files ({format_bytes(found['bytes'])}) are intact.")
    else:
        say(f"{len(damaged):,} of {found['files']:,} table files are damaged:", *(f"  {path}" for path in damaged))
    if found["without_digest"]:
        say(f"{found['without_digest']:,} have no digest (written by ioweather 0.2). They were read in full instead.")
    if inputs:
        say("Their rows are missing now. Ingest these files again (ioweather ingest --again):")
        say(*(f"  {path}" for path in inputs))
    elif damaged and not set_aside:
        say("Restore them from a backup, or run: ioweather lake check --set-aside")
    return 1 if damaged else 0


@lake.command(epilog="Example: ioweather lake backup /backup/weather")
@click.argument("dest", type=click.Path(path_type=Path))
@lake_option
def backup(lake_dir: str | None, dest: Path) -> None:
    """Copy the current state of the lake to DEST, even during writes.

    Later runs copy only new files. DEST is a lake: `lake check --lake DEST` compares its files with their
    digests. To restore it, run `lake backup NEW --lake DEST`. Cached exhibits are left out.
    """
    with progress_bar() as progress:
        done = copies.backup(open_lake(lake_dir), dest, progress=progress)
    say(
        f"Copied {done['copied_files']:,} files ({format_bytes(done['copied_bytes'])}) to {dest}; "
        f"{done['kept_files']:,} already existed, {done['removed_files']:,} removed."
    )


@lake.command(epilog="Example: ioweather lake export jobs --out jobs.csv --from 2026-01-01")
@click.argument("table")
@lake_option
@path_option("--out", "PATH", "File: .parquet .csv .csv.gz", required=True)
@click.option("--where", default="", metavar="SQL", help="Only rows that match this condition.")
@period_options
def export(lake_dir: str | None, table: str, out: Path, where: str, between: tuple[str | None, str | None]) -> None:
    """Write all or part of a table to one Parquet or CSV file."""
    opened = open_lake(lake_dir)
    period = period_between(*between, lambda: zone_of(opened)) if any(between) else None
    with opened.snapshot() as snapshot:
        rows = copies.export_table(snapshot, table, out, where=where, period_ns=period)
    say(f"Wrote {rows:,} rows of {table} to {out}.", err=True)
