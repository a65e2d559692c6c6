"""The topic `forecast`: load or slowdown of the next two hours, and when to start, with the history from the lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.clock import now_ns
from ioweather.core.contracts import Inventory, Param, Params, Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.frames import Frame
from ioweather.core.outcomes import ForecastOutcome
from ioweather.core.results import Answer, Block, Cell, largest
from ioweather.core.tables import Quality
from ioweather.core.tables.schema import specs_of
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_seconds
from ioweather.facts.system_activity import monitored_mounts
from ioweather.lake import grid
from ioweather.lake.database import fetch_frame
from ioweather.lake.snapshot import Snapshot
from ioweather.planning.forecast_model import AHEAD_NS, History, KnownJobs, Quantity, Seen, forecast_answer
from ioweather.stats.climatology import MEMORY_DAYS
from ioweather.stats.forecast import Jobs, laid_out
from ioweather.stats.grid import steps_of
from ioweather.stats.rollups import ROLLUP_COLUMNS
from ioweather.stats.slowdown import operation_series
from ioweather.topics.source import DataSource

WINDOW_NS = 5 * MINUTE_NS
_TABLES: Final = {
    "load": frozenset({"files", "job_operations", "jobs", "series"}),
    "slowdown": frozenset({"response_rollups"}),
}


def run(source: DataSource, params: Params) -> Answer:
    """Forecast load or slowdown of one file system."""
    source.tables = _TABLES[params["of"]]
    seen = history(source.snapshot, params)
    horizon, duration = params["horizon"], params["duration"]
    if params["window"] < WINDOW_NS:
        raise UsageError("--window must be 5 minutes or more.", hint="Shorter windows are too noisy to forecast.")
    if horizon is not None and not 0 < horizon <= 2 * HOUR_NS:
        raise UsageError("--horizon must be between 5 and 120 minutes.")
    if not 0 < duration <= DAY_NS:
        raise UsageError("--for must be at most 24 hours.")
    return forecast_answer(seen, source.facility, horizon_ns=horizon, duration_ns=duration)


def _load_or_slowdown(inventory: Inventory, _: Params) -> Cell:
    return "load" if choices.busiest_filesystem(inventory) is not None else "slowdown"


def _screen(answer: Answer, params: Params) -> Iterator[Block]:
    """What is expected, and when to start."""
    yield from (largest(group, 8) for group in answer.facts if group.name in ("expected", "best_start"))
    yield from (finding for finding in answer.findings if finding.name == "knows")


QUESTION = Question(
    name="forecast",
    result=ForecastOutcome,
    run=run,
    tables=_TABLES["load"] | _TABLES["slowdown"],
    params=(
        Param("filesystem", "File system to forecast (default: the busiest).", metavar="NAME"),
        Param(
            "of",
            "What to forecast (default: load, if sampled).",
            choose=_load_or_slowdown,
            choices=("load", "slowdown"),
        ),
        Param("op", "read or write; for slowdown, any probe operation.", metavar="OP"),
        Param("horizon", "The horizon of the headline, 5 to 120 min (default: 60min).", "duration", metavar="TIME"),
        Param("window", "Length of a window.", "duration", "5min", metavar="TIME"),
        Param("at", "As of this time (default: of the newest data).", "time", metavar="TIME"),
        Param("duration", "How long the planned job does I/O.", "duration", "1h", option="for", metavar="TIME"),
    ),
    help="""Forecast load or slowdown for the next two hours, and the best time to start a job.

    Each forecast comes with its interval and past skill. Forecasts without skill are marked.""",
    epilog="""\b
Load comes from server samples, slowdown from the probe. Running and queued
jobs come from server counters, or from accounting and logs. Skill is how much
smaller the errors were than those of 'as now' and 'as usual'.

\b
Example: ioweather forecast --filesystem scratch --op write --for 2h
""",
    seen_by="public",
    period=False,
    table="forecast",
    blocks=_screen,
)


# [ours] Half a year: eight weeks to learn from, the rest to judge by. More would cost reading and change nothing.
HISTORY_NS: Final = 182 * DAY_NS
_METRICS: Final = {"read": ("read_bytes",), "write": ("write_bytes",), "all": choices.TRAFFIC}
_LEFT_OUT: Final = int(Quality.OVER_LIMIT | Quality.RESET | Quality.SHUTDOWN)
_OPS: Final = ("read", "write", "create", "stat", "file_read", "delete", "write_sync")
_NEITHER: Final = "Ingest server statistics (LMT, Lustre, iostat) for load, or run `ioweather probe PATH` for slowdown."

_MOVED: Final = specs_of("key=text exe=text? slot=int64 bytes=float64")
# [ours] Minutes of all jobs together: more would take seconds, and hundreds of megabytes.
_MOST_MINUTES: Final = 2_000_000
_ACCOUNTED: Final = ("raw_job_id", "user", "uid", "name", "submit_ns", "start_ns", "end_ns")


def history(snapshot: Snapshot, values: Mapping[str, Any]) -> Seen:
    """Return load or slowdown (`of`) as of `at`, or of the newest data."""
    read = _load if values["of"] == "load" else _slowdown
    at_ns = values["at"]
    quantity, seen = read(snapshot, values["filesystem"], values["op"], values["window"], at_ns)
    notes = tuple(_notes(snapshot, seen, quantity, at_ns))
    if quantity.of == "slowdown":
        return Seen(quantity, seen, notes)
    operations = ("read", "write") if quantity.op == "all" else (quantity.op,)
    return Seen(quantity, seen, notes, known_jobs(snapshot, quantity.filesystem, operations, seen))


def _load(
    snapshot: Snapshot, filesystem: str | None, op: str | None, window_ns: int, at_ns: int | None
) -> tuple[Quantity, History]:
    name = filesystem or choices.busiest_filesystem(snapshot)
    groups = [g for g in snapshot.series() if g.metric in choices.TRAFFIC]
    if name is None:
        raise DataUnavailable("No server load in the lake.", hint=_NEITHER)
    if name not in {group.filesystem for group in groups}:
        known = ", ".join(sorted({group.filesystem for group in groups})) or "none"
        raise DataUnavailable(f"No load of {name} in the lake.", hint=f"File systems with load: {known}.")
    if (op or "all") not in _METRICS:
        raise UsageError(
            f"No load for operation {op!r}.", hint="Use --op read or --op write; for other operations, --of slowdown."
        )
    metrics = _METRICS[op or "all"]
    kind = choices.traffic_kind(snapshot, {"filesystem": name})
    own = [g for g in groups if g.filesystem == name and g.component_kind == kind]
    # If samples are longer than the window, the window becomes a whole number of samples.
    sample = max((g.interval_ns for g in own), default=window_ns)
    step = window_ns if sample <= window_ns else -(-window_ns // sample) * sample
    end = min(at_ns or 2**62, max(g.end_ns for g in own))
    selection = snapshot.selection(
        name,
        kind,
        metrics,
        step,
        period_ns=((end - HISTORY_NS) // step * step, end // step * step),
        excluded_quality=_LEFT_OUT,
    )
    steps = steps_of(grid.rollup(selection, metrics), metrics, step, (0, 2**62))
    total = np.sum([steps.values[metric] for metric in metrics], axis=0) / (step / 1e9)
    return Quantity(name, "load", op or "all"), History(steps.start_ns, step, np.asarray(total, np.float64))


def _slowdown(
    snapshot: Snapshot, filesystem: str | None, op: str | None, window_ns: int, at_ns: int | None
) -> tuple[Quantity, History]:
    counts = _probed(snapshot)
    if not counts:
        raise DataUnavailable("No probe response times in the lake.", hint=_NEITHER)
    name = filesystem or max(
        sorted({fs for fs, _ in counts}), key=lambda fs: sum(n for k, n in counts.items() if k[0] == fs)
    )
    known = [kind for fs, kind in counts if fs == name]
    if not known:
        probed = ", ".join(sorted({fs for fs, _ in counts}))
        raise DataUnavailable(f"No probe has measured {name}.", hint=f"Probed file systems: {probed}.")
    chosen = op or next((kind for kind in _OPS if kind in known), sorted(known)[0])
    if chosen not in known:
        raise UsageError(
            f"No probe has timed {chosen!r} on {name}.", hint=f"Operations there: {', '.join(sorted(known))}."
        )
    newest = int(snapshot.scalar("SELECT max(start_ns) FROM response_rollups") or 0) + MINUTE_NS
    end = min(at_ns or 2**62, newest)
    step = -(-window_ns // MINUTE_NS) * MINUTE_NS
    period = ((end - HISTORY_NS) // step * step, end // step * step)
    where: dict[str, Cell] = {"interval_ns": MINUTE_NS, "op": chosen, "filesystem": name}
    rows = snapshot.frame("response_rollups", ROLLUP_COLUMNS, where, period)
    names = {str(system): name for system in rows.text("system").categories}
    series = max(operation_series(rows, names, step), key=lambda s: int(s.count.sum()), default=None)
    if series is None:
        raise DataUnavailable(f"No probe has timed {chosen} on {name} in this period.", hint="Try a later --at.")
    # On a complete grid: windows without an operation are missing.
    first = int(series.start_ns[0])
    slowdown = np.full((int(series.start_ns[-1]) - first) // step + 1, np.nan)
    slowdown[(series.start_ns - first) // step] = series.slowdown("median")
    return Quantity(name, "slowdown", chosen), History(first, step, slowdown)


def _probed(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Count timed operations by file system and kind."""
    if not snapshot.pinned["response_rollups"].uris:
        return {}
    sql = f"SELECT system, op, sum(count) FROM response_rollups WHERE interval_ns = {HOUR_NS} GROUP BY system, op"
    found: dict[tuple[str, str], int] = {}
    for system, op, count in snapshot.query(sql).fetchall():
        key = (snapshot.facility.filesystem_of(system), op)
        found[key] = found.get(key, 0) + int(count)
    return {key: count for key, count in found.items() if count}


def _notes(snapshot: Snapshot, history: History, quantity: Quantity, at_ns: int | None) -> Iterator[str]:
    age = (at_ns or now_ns()) - history.end_ns
    if age > 2 * history.window_ns:
        yield f"The newest data are {format_seconds(age / 1e9)} old; 'now' means the end of the data."
    others = sorted(set(snapshot.filesystems()) - {quantity.filesystem}) if quantity.of == "load" else []
    if others:
        yield f"Other file systems: {', '.join(others)} (--filesystem)."


def known_jobs(snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], seen: History) -> KnownJobs | None:
    """Return jobs as the servers count them, else by accounting and the logs of ended jobs; None without any.

    The jobs are those of all users, like the load.
    """
    whole = snapshot.whole
    period = max(seen.start_ns, seen.end_ns - MEMORY_DAYS * DAY_NS), seen.end_ns
    accounts = whole.frame("jobs", _ACCOUNTED, {"step": "", "submit_ns <": period[1]}).records()
    accounts = [row for row in accounts if row["raw_job_id"] is not None and (row["end_ns"] or 2**62) > period[0]]
    where: dict[str, Any] = {"filesystem": filesystem, "operation": operations, "interval_ns <=": seen.window_ns}
    counts = whole.rows("job_operations", where, period) if whole.filled(["job_operations"]) else ""
    step, moved = _counted(whole, counts, _minutes(accounts, seen), seen) if counts else (seen.window_ns, None)
    live = moved is not None and moved.rows > 0
    if not live:
        step, moved = seen.window_ns, _logged(whole, filesystem, operations, seen, period) if accounts else None
    if moved is None or not moved.rows:
        return None
    numbers = {str(row["raw_job_id"]): place for place, row in enumerate(accounts)}
    programs = [(row["user"] or row["uid"], row["name"] or "") for row in accounts]
    for key, exe in zip(moved.text("key").tolist(), moved.text("exe").tolist(), strict=True):
        if str(key) not in numbers and live:
            numbers[str(key)] = len(programs)
            programs.append((None, exe or ""))
    codes = {program: code for code, program in enumerate(dict.fromkeys(programs))}
    job = np.array([numbers.get(str(key), -1) for key in moved.text("key").tolist()], np.int64)
    rows = np.flatnonzero(job >= 0)
    unaccounted = [float("nan")] * (len(programs) - len(accounts))
    submitted, began, ended = (
        np.array([*(_since(row[name], seen.start_ns) / step for row in accounts), *unaccounted])
        for name in ("submit_ns", "start_ns", "end_ns")
    )
    jobs = Jobs(submitted, began, ended, np.array([codes[program] for program in programs], np.int64))
    amounts = job[rows], moved.ints("slot")[rows], moved.floats("bytes")[rows] / (step / 1e9)
    work = laid_out(jobs, amounts, len(seen.values) * (seen.window_ns // step), AHEAD_NS // step, live=live)
    return KnownJobs(work, step)


def _since(moment_ns: int | None, start_ns: int) -> float:
    return float("inf") if moment_ns is None else float(moment_ns - start_ns)


def _minutes(accounts: list[dict[str, Any]], seen: History) -> float:
    """Minutes that jobs wait, run, and may still do I/O."""
    ends = (min(row["end_ns"] or seen.end_ns, seen.end_ns) for row in accounts)
    return float(sum(end - row["submit_ns"] + AHEAD_NS for end, row in zip(ends, accounts, strict=True))) / MINUTE_NS


def _counted(snapshot: Snapshot, counts: str, minutes: float, seen: History) -> tuple[int, Frame]:
    """Return the step and the counts, each in the step of its middle. The step is the minute if counts are as frequent,
    and not too many, else the window."""
    usual = snapshot.bare.execute(f"SELECT median(interval_ns) FROM ({counts})").fetchall()[0][0]
    often = usual is not None and usual <= MINUTE_NS and seen.window_ns % MINUTE_NS == 0
    step = MINUTE_NS if often and minutes <= _MOST_MINUTES else seen.window_ns
    sql = f"""SELECT coalesce(job_id::VARCHAR, job_key) AS key, any_value(exe) AS exe,
            (start_ns + interval_ns // 2 - {seen.start_ns}) // {step} AS slot, sum(bytes)::DOUBLE AS bytes
        FROM ({counts})
        WHERE quality & {int(Quality.WHOLE_LIFE)} = 0 AND bytes > 0 GROUP BY 1, 3 ORDER BY 1, 3"""
    return step, fetch_frame(snapshot.bare, sql, _MOVED)


def _logged(
    snapshot: Snapshot, filesystem: str, operations: tuple[str, ...], seen: History, period: tuple[int, int]
) -> Frame | None:
    """Return bytes of files moved by system calls, spread evenly from the first to the last call. Files of a run that
    were read, or written, in the same windows are added up."""
    if not snapshot.filled(["files"]):
        return None
    where: dict[str, Any] = {"module": ("POSIX", "STDIO"), "standard_stream": False}
    mounts = monitored_mounts(snapshot.frame("files", ("mount",), period_ns=period), snapshot.facility, filesystem)
    if mounts is not None:
        where["mount"] = tuple(sorted(mounts))
    files = snapshot.rows("files", where, period)
    spans = " UNION ALL ".join(
        f"""SELECT log_digest, min(first_{op}_ns) AS first_ns, max(last_{op}_ns) + 1 AS last_ns,
            sum({op}_bytes) AS moved
        FROM ({files}) WHERE {op}_bytes > 0 AND last_{op}_ns >= first_{op}_ns
        GROUP BY log_digest, (first_{op}_ns - {seen.start_ns}) // {seen.window_ns},
            (last_{op}_ns - {seen.start_ns}) // {seen.window_ns}"""
        for op in operations
    )
    begin = f"({seen.start_ns} + slot * {seen.window_ns})"
    sql = f"""SELECT job_id::VARCHAR AS key, NULL::VARCHAR AS exe, slot, sum(moved / (last_ns - first_ns)::DOUBLE
            * (least(last_ns, {begin} + {seen.window_ns}) - greatest(first_ns, {begin})))::DOUBLE AS bytes
        FROM (SELECT *, unnest(range((first_ns - {seen.start_ns}) // {seen.window_ns},
            (last_ns - 1 - {seen.start_ns}) // {seen.window_ns} + 1)) AS slot FROM ({spans}))
        JOIN ({snapshot.rows("applications", period_ns=period)}) USING (log_digest) GROUP BY 1, 3 ORDER BY 1, 3"""
    return fetch_frame(snapshot.bare, sql, _MOVED)
