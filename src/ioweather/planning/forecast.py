"""The topic `forecast`: load or slowdown of the next two hours, and when to start, with the history from the lake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ioweather.core import choices
from ioweather.core.clock import now_ns
from ioweather.core.contracts import Inventory, Param, Params, Question
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.results import Answer, Block, Cell, largest
from ioweather.core.tables import Quality
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_seconds
from ioweather.lake import grid
from ioweather.lake.snapshot import Snapshot
from ioweather.planning.forecast_model import ForecastOutcome, History, Quantity, Seen, forecast_answer
from ioweather.stats.grid import steps_of
from ioweather.stats.slowdown import ROLLUP_COLUMNS, operation_series
from ioweather.topics.source import DataSource

WINDOW_NS = 5 * MINUTE_NS
_TABLES: Final = {
    "load": frozenset({"series"}),
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
Load comes from server samples, slowdown from the probe. Skill is how much
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


def history(snapshot: Snapshot, values: Mapping[str, Any]) -> Seen:
    """Return load or slowdown (`of`) as of `at`, or of the newest data."""
    read = _load if values["of"] == "load" else _slowdown
    at_ns = values["at"]
    quantity, seen = read(snapshot, values["filesystem"], values["op"], values["window"], at_ns)
    notes = tuple(_notes(snapshot, seen, quantity, at_ns))
    return Seen(quantity, seen, notes)


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
