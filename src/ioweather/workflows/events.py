"""Events: slow episodes are found and stored; all kinds are listed together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ioweather.core.frames import Frame
from ioweather.core.results import Cell
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.derive.response_rollups import ROLLUP_COLUMNS
from ioweather.derive.slowdown import Episode, all_episodes, operation_series
from ioweather.store.lake import Lake
from ioweather.store.snapshot import Snapshot
from ioweather.studies.slowdown import usual_requests
from ioweather.tables import TABLES, concat
from ioweather.workflows.analyse import ALL_TIME, Period

SOURCE = "episodes"
_THRESHOLD = 2.0
# Longer histories are looked at by the hour: a minute's episode a year ago is no news.
_MINUTES_FOR_NS = 14 * 24 * HOUR_NS
_DETAILS = ("op", "request_bytes", "mode", "interval_ns", "peak_ns", "recovery_ns")


@dataclass(frozen=True)
class EventRow:
    kind: str
    filesystem: str
    label: str
    start_ns: int
    end_ns: int | None
    strength: float | None
    source: str


def find_episodes(lake: Lake) -> int:
    """Find episodes, store what is new or has changed, take back what is no longer found; returns how many rows that
    were.

    A baseline that moves, late rows and another interval give an episode other bounds: of those that overlap, the one
    found now counts.
    """
    with lake.snapshot() as snapshot:
        if not snapshot.pinned["response_rollups"].uris:
            return 0
        last = snapshot.scalar("SELECT max(start_ns) FROM response_rollups")
        first = snapshot.scalar("SELECT min(start_ns) FROM response_rollups")
        assert isinstance(last, int)
        assert isinstance(first, int)
        interval = MINUTE_NS * 10 if last - first <= _MINUTES_FOR_NS else HOUR_NS
        rollups = snapshot.frame("response_rollups", ROLLUP_COLUMNS, {"interval_ns": interval})
        stored = snapshot.frame("events", where={"kind": "episode", "source": SOURCE, "start_ns >=": first})
    # By raw system name: what file system that is, is said when read.
    every = usual_requests(operation_series(rollups, {}, interval))
    found = all_episodes(every, _THRESHOLD, baseline=snapshot.facility.baseline)
    gone = stored.take(np.array(_no_longer(stored, found, interval), np.int64))
    changed = concat([_frame(found), gone.with_columns(withdrawn=np.ones(gone.rows, np.bool_))])
    return lake.append("events", changed, source=SOURCE)


def _no_longer(stored: Frame, found: list[Episode], interval_ns: int) -> list[int]:
    """Rows of stored episodes that another one covers now, or that a look at this interval would have found again.

    What was found by shorter intervals may be too short for that, and stays; unless it was going on then.
    """
    of_series: dict[tuple[Cell, ...], list[Episode]] = {}
    for episode in found:
        of_series.setdefault(_series(vars(episode), episode.filesystem), []).append(episode)
    identities = {_identity(episode) for episode in found}
    rows = []
    for row, event in enumerate(stored.records()):
        details = json.loads(event["details"])
        start, end = event["start_ns"], event["end_ns"]
        others = of_series.get(_series(details, event["system"]), ())
        covered = any(e.end_ns > start and (end is None or e.start_ns < end) for e in others)
        too_short = details.get("interval_ns", interval_ns) < interval_ns and end is not None
        if event["event_id"] not in identities and (covered or not too_short):
            rows.append(row)
    return rows


def _frame(found: list[Episode]) -> Frame:
    return TABLES["events"].frame(
        event_id=[_identity(e) for e in found],
        kind="episode",
        system=[e.filesystem for e in found],
        start_ns=[e.start_ns for e in found],
        end_ns=[None if e.ongoing else e.end_ns for e in found],
        label=[f"slow {e.op}" for e in found],
        strength_ratio=[e.peak_ratio for e in found],
        details=[json.dumps({name: getattr(e, name) for name in _DETAILS}) for e in found],
        rows=len(found),
    )


def _series(details: Mapping[str, Cell], system: Cell) -> tuple[Cell, ...]:
    """What an episode is one of."""
    return (system, *(details.get(name) for name in ("op", "request_bytes", "mode")))


def _identity(episode: Episode) -> str:
    text = f"episode {_series(vars(episode), episode.filesystem)} {episode.start_ns}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def list_events(lake: Lake, *, kind: str | None = None, period_ns: Period = ALL_TIME) -> list[EventRow]:
    """Events of the period, the newest first; maintenance windows of the facility file among them."""
    with lake.snapshot() as snapshot:
        rows = [*_stored(snapshot), *_maintenance(snapshot)]
    low, high = period_ns
    wanted = [r for r in rows if r.start_ns < high and (r.end_ns or high) > low and kind in (None, r.kind)]
    return sorted(wanted, key=lambda row: (-row.start_ns, row.kind, row.label))


def _stored(snapshot: Snapshot) -> list[EventRow]:
    columns = ("kind", "system", "component", "label", "start_ns", "end_ns", "strength_ratio", "source")

    def where(system: str | None, component: str | None) -> str:
        filesystem = snapshot.facility.filesystem_of(system) if system else None
        return " ".join(filter(None, [filesystem, component]))

    return [
        EventRow(
            row["kind"], where(row["system"], row["component"]), row["label"], row["start_ns"], row["end_ns"],
            row["strength_ratio"], row["source"],
        )
        for row in snapshot.frame("events", columns).records()
    ]  # fmt: skip


def _maintenance(snapshot: Snapshot) -> list[EventRow]:
    return [
        EventRow(
            "maintenance", "", window.label or "maintenance", window.start_ns, window.end_ns, None, "facility.toml"
        )
        for window in snapshot.facility.maintenance
    ]
