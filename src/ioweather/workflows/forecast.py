"""Windows of load or slowdown of one file system, out of the lake: the need `history`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ioweather.advice.forecast.horizons import History, Quantity, Seen
from ioweather.core.clock import now_ns
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.results import Cell
from ioweather.core.units import DAY_NS, HOUR_NS, MINUTE_NS, format_seconds
from ioweather.derive.responses.rollups import ROLLUP_COLUMNS
from ioweather.derive.responses.slowdown import OperationSeries, operation_series
from ioweather.store import grid
from ioweather.store.snapshot import Snapshot
from ioweather.studies.shared import choices
from ioweather.studies.shared.rollup_steps import steps_of
from ioweather.tables import Quality
from ioweather.workflows.known_jobs import known_jobs

# [ours] Half a year: eight weeks to learn from, the rest to judge by. More would cost reading and change nothing.
HISTORY_NS: Final = 182 * DAY_NS
_METRICS: Final = {"read": ("read_bytes",), "write": ("write_bytes",), "all": choices.TRAFFIC}
_LEFT_OUT: Final = int(Quality.OVER_LIMIT | Quality.RESET | Quality.SHUTDOWN)
_OPS: Final = ("read", "write", "create", "stat", "file_read", "delete", "write_sync")
_NEITHER: Final = "Ingest server statistics (LMT, Lustre, iostat) for load, or run `ioweather probe PATH` for slowdown."


def history(snapshot: Snapshot, values: Mapping[str, Any]) -> Seen:
    """Load or slowdown (`of`) as of `at`, or of the newest data."""
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
        raise DataUnavailable("The lake holds no server load.", hint=_NEITHER)
    if name not in {group.filesystem for group in groups}:
        known = ", ".join(sorted({group.filesystem for group in groups})) or "none"
        raise DataUnavailable(f"The lake holds no load of {name}.", hint=f"File systems with load: {known}.")
    if (op or "all") not in _METRICS:
        raise UsageError(
            f"Load of {op!r} is not kept.", hint="For load, --op is read or write; for others --of slowdown."
        )
    metrics = _METRICS[op or "all"]
    kind = choices.traffic_kind(snapshot, {"filesystem": name})
    own = [g for g in groups if g.filesystem == name and g.component_kind == kind]
    # Samples longer than the window would only be spread out: the window is then a whole number of them.
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
        raise DataUnavailable("The lake holds no probe's response times.", hint=_NEITHER)
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
    return Quantity(name, "slowdown", chosen), _windows(series)


def _windows(series: OperationSeries) -> History:
    """On a grid without holes: windows without an operation are missing."""
    first, step = int(series.start_ns[0]), series.interval_ns
    values = np.full((int(series.start_ns[-1]) - first) // step + 1, np.nan)
    values[(series.start_ns - first) // step] = series.slowdown("median")
    return History(first, step, values)


def _probed(snapshot: Snapshot) -> dict[tuple[str, str], int]:
    """Operations timed, by file system and kind."""
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
