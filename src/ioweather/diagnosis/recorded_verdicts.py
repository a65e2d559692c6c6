"""The table `verdicts`: which runs are to be judged, what `why` says of each, and what was said before.

Every run is judged as of its end, soon after it, and once more a day later, when late samples and late findings are in.
Until then a verdict that lacked samples is made again, each time after twice the wait. What is to be judged follows
from the tables alone, so that whatever interrupts this, running it again goes on with what is left.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ioweather._version import __version__
from ioweather.core.clock import now_ns, utc_day
from ioweather.core.contracts import Params
from ioweather.core.errors import DataUnavailable
from ioweather.core.results import Answer, to_jsonable
from ioweather.core.run_outcomes import Amount, Reason, RecordedVerdict, VerdictKind, WhyOutcome
from ioweather.core.tables import TABLES
from ioweather.core.tables.verdicts import PARTS
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.diagnosis.verdict import MODEL_VERSION
from ioweather.job_io.job_query import find_named_log, view_of_run
from ioweather.lake.database import literal
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot
from ioweather.topics.ask import ask
from ioweather.topics.source import DataSource, SharedResults

_LOG = logging.getLogger("ioweather.verdicts")
SOURCE: Final = "why"
# Runs that ended before are history: `ioweather why` judges them when somebody asks.
REACH_DAYS: Final = 7
REVISED_AFTER_NS: Final = DAY_NS
# Samples of servers may come hours after the log.
_LACKING: Final = (Reason.NO_SYSTEM_DATA, Reason.PARTLY_SAMPLED)
_LEAST_WAIT_NS: Final = 10 * MINUTE_NS
# One commit: a kill costs no more than these.
_AT_ONCE: Final = 20


@dataclass(frozen=True)
class Due:
    digest: str
    start_ns: int
    as_of_ns: int


@dataclass(frozen=True)
class Judged:
    """`left` verdicts are due and wait for the next time."""

    made: int = 0
    left: int = 0


def judge_due(
    lake: Lake, *, most_seconds: float = 30.0, clock: Callable[[], int] = now_ns, reach_days: int = REACH_DAYS
) -> Judged:
    """Make the verdicts that are due, the newest runs first, for so many seconds."""
    until = time.monotonic() + most_seconds
    with lake.snapshot() as snapshot:
        due = due_verdicts(snapshot, clock(), reach_days)
        pinned = _Pinned(snapshot) if due else lake
        rows: list[dict[str, Any]] = []
        made = 0
        for item in due:
            if time.monotonic() > until:
                break
            rows.append(_row(pinned, snapshot, item, clock()))
            made += 1
            if len(rows) >= _AT_ONCE:
                _store(lake, rows)
                rows = []
        _store(lake, rows)
    return Judged(made, len(due) - made)


class _Pinned(Lake):
    """A lake as it was at one moment: to look at all its tables again for every run takes longer than to judge it."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.root)
        self._pinned, self._series, self._facility = snapshot.pinned, snapshot.series(), snapshot.facility

    def snapshot(self) -> Snapshot:
        return Snapshot(self.root, self._pinned, self._facility, None, self._series)


def due_verdicts(snapshot: Snapshot, at_ns: int, reach_days: int = REACH_DAYS) -> list[Due]:
    """Of runs that ended in the last days: those without a verdict of this model as of their end, then those whose
    verdict lacked samples that may be there now, then those that are a day old."""
    if not snapshot.pinned["applications"].uris:
        return []
    first = at_ns - reach_days * DAY_NS
    runs = snapshot.rows("applications", {"end_ns <=": at_ns, "end_ns >": first})
    held = snapshot.rows("verdicts", {"model_version >=": MODEL_VERSION}, (first, at_ns + 1))
    lacking = ", ".join(literal(str(reason)) for reason in _LACKING)
    again = f"""v.reason IN ({lacking}) AND {at_ns} - v.judged_ns >= {_LEAST_WAIT_NS}
        AND {at_ns} - r.end_ns >= 2 * (v.judged_ns - r.end_ns) AND {at_ns} < r.end_ns + {REVISED_AFTER_NS}"""
    sql = f"""WITH runs AS ({runs}), held AS ({held})
        SELECT r.log_digest, r.start_ns, r.end_ns AS as_of_ns, CASE WHEN v.log_digest IS NULL THEN 0 ELSE 1 END AS turn
        FROM runs r LEFT JOIN held v ON v.log_digest = r.log_digest AND v.as_of_ns = r.end_ns
        WHERE v.log_digest IS NULL OR ({again})
        UNION ALL
        SELECT r.log_digest, r.start_ns, r.end_ns + {REVISED_AFTER_NS}, 2 FROM runs r
        ANTI JOIN held v ON v.log_digest = r.log_digest AND v.as_of_ns = r.end_ns + {REVISED_AFTER_NS}
        WHERE r.end_ns + {REVISED_AFTER_NS} <= {at_ns}
        ORDER BY turn, as_of_ns DESC, log_digest"""
    found = snapshot.bare.execute(sql).fetchall()
    return [Due(str(digest), int(start), int(moment)) for digest, start, moment, _ in found]


def _row(lake: Lake, snapshot: Snapshot, item: Due, at_ns: int) -> dict[str, Any]:
    view = view_of_run(snapshot, item.digest, utc_day(item.start_ns))
    params = {"job": item.digest, "as_of": item.as_of_ns}
    shared, no_verdicts = SharedResults(), tuple[RecordedVerdict, ...]()
    shared.put(find_named_log, view)
    shared.put(recorded_of_job, no_verdicts)
    answer = ask("why", lake, params, shared=shared, files=False)
    run = view.applications
    return {
        "log_digest": item.digest, "raw_job_id": int(run.ints("job_id")[0]), "uid": int(run.ints("uid")[0]),
        "start_ns": int(run.ints("start_ns")[0]), "end_ns": int(run.ints("end_ns")[0]), "as_of_ns": item.as_of_ns,
        "judged_ns": at_ns, "model_version": MODEL_VERSION, "software_version": __version__, **_columns(answer),
    }  # fmt: skip


def _columns(answer: Answer) -> dict[str, Any]:
    result = cast(WhyOutcome, answer.result)
    seconds: dict[str, float | None] = {}
    for part in PARTS:
        amount: Amount = getattr(result.seconds, part) or Amount(None)
        values = {"seconds": amount.value, "low_seconds": amount.low, "high_seconds": amount.high}
        seconds |= {f"{part}_{name}": _positive(value) for name, value in values.items()}
    listed = {
        name: _json(getattr(result, name)) for name in ("probabilities", "changed", "culprits", "unhealthy", "worth")
    }
    return {
        "kind": result.kind, "reason": None if result.reason is None else str(result.reason),
        "likeliest": result.likeliest, "probability_ratio": result.probability, "io_seconds": result.io_seconds,
        "harm_seconds": result.harm_seconds, "filesystem": result.filesystem or None, "similar_count": result.n,
        "coverage_ratio": result.coverage, "headline": answer.headline,
        "table_versions": _json(answer.provenance.table_versions), **seconds, **listed,
    }  # fmt: skip


def _positive(value: float | None) -> float | None:
    """Nobody took fewer seconds than none."""
    return None if value is None else max(0.0, value)


def _json(value: Any) -> str | None:
    return json.dumps(to_jsonable(value)) if value else None


def _store(lake: Lake, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    columns: Mapping[str, list[Any]] = {name: [row[name] for row in rows] for name in rows[0]}
    lake.append("verdicts", TABLES["verdicts"].frame(columns), source=SOURCE)
    _LOG.info("%d verdicts", len(rows))


def recorded_of_job(source: DataSource, params: Params) -> tuple[RecordedVerdict, ...]:
    """Verdicts on the run that the job of the parameter `job` is judged by; none without a lake."""
    snapshot = source.place.snapshot_if_there()
    if snapshot is None:
        return ()
    view = source.shared(find_named_log, params)
    try:
        return recorded(snapshot, str(view.applications.text("log_digest").tolist()[view.main_run]))
    except DataUnavailable:
        return ()


def recorded(snapshot: Snapshot, digest: str) -> tuple[RecordedVerdict, ...]:
    """What the lake holds of a run, the earliest `as_of_ns` first. DataUnavailable where it holds no verdicts."""
    if not snapshot.pinned["verdicts"].uris:
        raise DataUnavailable("no verdicts were recorded")
    names = ("as_of_ns", "end_ns", "kind", "likeliest", "probability_ratio", "headline", "model_version", "judged_ns")
    found = snapshot.frame("verdicts", names, {"log_digest": digest}).records()
    return tuple(
        RecordedVerdict(
            row["as_of_ns"], row["as_of_ns"] == row["end_ns"], cast(VerdictKind, row["kind"]),
            cast(VerdictKind, row["likeliest"]), row["probability_ratio"], row["headline"], row["model_version"],
            row["judged_ns"],
        )
        for row in sorted(found, key=lambda row: row["as_of_ns"])
    )  # fmt: skip


def counts(snapshot: Snapshot, at_ns: int) -> dict[str, int]:
    """Verdicts as of their ends, of runs that ended within a day, by kind."""
    rows = snapshot.rows("verdicts", None, (at_ns - DAY_NS, at_ns + 1))
    sql = f"SELECT kind, count(*) FROM ({rows}) WHERE as_of_ns = end_ns GROUP BY kind"
    return {str(kind): int(count) for kind, count in snapshot.bare.execute(sql).fetchall()}
