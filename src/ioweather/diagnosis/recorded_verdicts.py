"""The table `verdicts`: which runs are to be judged, what `why` says of each, and what was said before.

Every run is judged as of its end, soon after it, and once more a day later, when late samples and late findings are in.
Until then a verdict that lacked samples is made again, each time after twice the wait. A job without a log is judged
from its run time; if its log arrives later, the run in the log is judged too, and that verdict takes precedence. What
is to be judged follows from the tables alone, so that whatever interrupts this, running it again goes on with what is
left.
"""

from __future__ import annotations

import json
import logging
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any, Final, NamedTuple, cast

from ioweather._version import __version__
from ioweather.core.contracts import Params
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame
from ioweather.core.results import Amount, to_jsonable
from ioweather.core.tables import TABLES, VERDICT_PARTS
from ioweather.core.units import (
    DAY_NS,
    MINUTE_NS,
    format_seconds,
    format_time_ns,
    names_of,
    now_ns,
    one_line,
    utc_day,
)
from ioweather.diagnosis.jobs_without_log import find_accounted_job, judge_accounted_job
from ioweather.diagnosis.verdict import MODEL_VERSION
from ioweather.facts.accounting import counted_on_servers, match_jobs, without_log
from ioweather.facts.runs import JOB_COLUMNS
from ioweather.job_io.outcomes import AdviceItem, Reason, RecordedVerdict, SplitSeconds, VerdictKind, WhyOutcome
from ioweather.job_io.view import JOB_ID, find_named_log, raw_id_of, view_of_run
from ioweather.lake.lake import Lake, Snapshot, lake_at
from ioweather.topics.source import DataSource, SharedResults, ask

_LOG = logging.getLogger("ioweather.verdicts")
SOURCE: Final = "why"
# Runs that ended before are judged only on request (`ioweather why`).
REACH_DAYS: Final = 7
REVISED_AFTER_NS: Final = DAY_NS
# Samples of servers may come hours after the log.
_LACKING: Final = (Reason.NO_SYSTEM_DATA, Reason.PARTLY_SAMPLED)
_LEAST_WAIT_NS: Final = 10 * MINUTE_NS
# A log may reach the lake after the accounting of its job.
_LOG_WAIT_NS: Final = MINUTE_NS
# Tables that a verdict from run time depends on.
_RUN_TIME_TABLES: Final = ("job_operations", "jobs", "response_rollups", "responses", "series")
# One commit: a kill costs no more than these.
_AT_ONCE: Final = 20


class _Due(NamedTuple):
    """A verdict to make, as known at `as_of_ns`: on this log, or on the `job` without a log (one row of `jobs`).

    `turn`: 0 for the first verdict, 1 for one that lacked samples, 2 for a revision.
    """

    turn: int
    digest: str
    start_ns: int
    as_of_ns: int
    job: Frame | None = None


def judge_due(lake: Lake, *, most_seconds: float = 30.0, clock: Callable[[], int] = now_ns) -> tuple[int, int]:
    """Make the due verdicts, the newest runs first, for at most `most_seconds`.

    Return (number of verdicts made, number of those left for the next time).
    """
    until = time.monotonic() + most_seconds
    with lake.snapshot() as snapshot:
        due = due_verdicts(snapshot, clock())
        pinned = _Pinned(snapshot) if due else lake
        rows: list[dict[str, Any]] = []
        made = 0
        for item in due:
            if time.monotonic() > until:
                break
            rows.append(_make_verdict_row(pinned, snapshot, item, clock()))
            made += 1
            if len(rows) >= _AT_ONCE:
                _store_rows(lake, rows)
                rows = []
        _store_rows(lake, rows)
    return made, len(due) - made


class _Pinned(Lake):
    """A lake at one moment. Opening its tables for every run would take longer than the verdict."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot.root)
        self._pinned, self._series, self._facility = snapshot.pinned, snapshot.series(), snapshot.facility

    def snapshot(self) -> Snapshot:
        return Snapshot(self.root, self._pinned, self._facility, None, self._series)


def due_verdicts(snapshot: Snapshot, at_ns: int) -> list[_Due]:
    """Read the due verdicts on runs of the last days, and on jobs without a log.

    First runs without a verdict of this model as of their end, then verdicts that lacked samples, then revisions a day
    later; in each of these turns, runs with a log come before jobs without one, and the newest first.
    """
    first = at_ns - REACH_DAYS * DAY_NS
    names = ("log_digest", "cluster", "raw_job_id", "as_of_ns", "judged_ns", "reason")
    held = snapshot.frame("verdicts", names, {"model_version >=": MODEL_VERSION}, period_ns=(first, at_ns + 1))
    made = {(_key_of(row), row["as_of_ns"]): row for row in held.records()}
    runs = snapshot.frame("applications", ("log_digest", "start_ns", "end_ns"), {"end_ns <=": at_ns, "end_ns >": first})
    jobs = without_log(snapshot, {"end_ns >": first, "end_ns <=": at_ns - _LOG_WAIT_NS})
    jobs = jobs.take(jobs.known("raw_job_id"))
    due = []
    for frame in (runs, jobs):
        for place, row in enumerate(frame.select([name for name in _OF_DUE if name in frame]).records()):
            end, job = row["end_ns"], None if frame is runs else frame.take([place])
            verdict, revised = made.get((_key_of(row), end)), end + REVISED_AFTER_NS
            who = row.get("log_digest") or "", row["start_ns"]
            if verdict is None:
                due.append(_Due(0, *who, end, job))
            elif verdict["reason"] in _LACKING and at_ns < revised and _is_wait_over(verdict["judged_ns"], end, at_ns):
                due.append(_Due(1, *who, end, job))
            if revised <= at_ns and (_key_of(row), revised) not in made:
                due.append(_Due(2, *who, revised, job))
    return sorted(due, key=lambda item: (item.turn, item.job is not None, -item.as_of_ns, item.digest))


_OF_DUE: Final = ("log_digest", "cluster", "raw_job_id", "start_ns", "end_ns")


def _key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what a verdict is about: a log, or a job of a cluster."""
    digest = row.get("log_digest")
    return (row["cluster"], row["raw_job_id"]) if digest is None else (digest,)


def _is_wait_over(judged_ns: int, end_ns: int, at_ns: int) -> bool:
    """Whether a verdict that lacked samples is made again: ten minutes later, then after twice the wait."""
    return at_ns - judged_ns >= _LEAST_WAIT_NS and at_ns - end_ns >= 2 * (judged_ns - end_ns)


def _make_verdict_row(lake: Lake, snapshot: Snapshot, item: _Due, at_ns: int) -> dict[str, Any]:
    """Row of `verdicts`: what `why` says of the run or of the job without a log."""
    row: dict[str, Any]
    if item.job is not None:
        (counted,) = counted_on_servers(snapshot, item.job)
        answer = judge_accounted_job(snapshot, item.job, counted, as_of_ns=item.as_of_ns)
        versions = {name: version for name, version in snapshot.versions.items() if name in _RUN_TIME_TABLES}
        names = ("cluster", "raw_job_id", "step", "uid", "start_ns", "end_ns")
        row = {"log_digest": None, **item.job.select(names).records()[0]}
    else:
        view = view_of_run(snapshot, item.digest, utc_day(item.start_ns))
        params = {"job": item.digest, "as_of": item.as_of_ns}
        shared: SharedResults = {find_named_log: view, recorded_of_job: tuple[RecordedVerdict, ...]()}
        answer = ask("why", lake, params, shared=shared, files=False)
        versions, run = dict(answer.provenance.table_versions), view.applications
        row = {name: int(run.ints(name)[0]) for name in ("uid", "start_ns", "end_ns")}
        row |= {"log_digest": item.digest, "raw_job_id": int(run.ints("job_id")[0]), "cluster": None, "step": None}
    result = cast(WhyOutcome, answer.result)
    for part in VERDICT_PARTS:
        amount: Amount = getattr(result.seconds, part) or Amount(None)
        values = {"seconds": amount.value, "low_seconds": amount.low, "high_seconds": amount.high}
        row |= {f"{part}_{name}": None if value is None else max(0.0, value) for name, value in values.items()}
    listed = {name: getattr(result, name) for name in ("probabilities", "changed", "culprits", "unhealthy", "worth")}
    listed["table_versions"] = versions
    row |= {name: json.dumps(to_jsonable(value)) if value else None for name, value in listed.items()}
    return row | {
        "as_of_ns": item.as_of_ns,
        "judged_ns": at_ns,
        "model_version": MODEL_VERSION,
        "software_version": __version__,
        "kind": result.kind,
        "reason": None if result.reason is None else str(result.reason),
        "likeliest": result.likeliest,
        "probability_ratio": result.probability,
        "io_seconds": result.io_seconds,
        "harm_seconds": result.harm_seconds,
        "filesystem": result.filesystem or None,
        "similar_count": result.n,
        "coverage_ratio": result.coverage,
        "headline": answer.headline,
    }


def _store_rows(lake: Lake, rows: list[dict[str, Any]]) -> None:
    if rows:
        columns = {name: [row[name] for row in rows] for name in rows[0]}
        lake.append("verdicts", TABLES["verdicts"].frame(columns), source=SOURCE)
        _LOG.info("%d verdicts", len(rows))


def recorded_of_job(source: DataSource, params: Params) -> tuple[RecordedVerdict, ...]:
    """Recorded verdicts on the main run of the parameter `job`; none without a lake."""
    snapshot = source.snapshot_if_there()
    if snapshot is None:
        return ()
    view = source.shared(find_named_log, params)
    return read_recorded(snapshot, str(view.applications.text("log_digest").tolist()[view.main_run]))


def read_recorded(snapshot: Snapshot, digest: str) -> tuple[RecordedVerdict, ...]:
    """Recorded verdicts on a run, the earliest `as_of_ns` first."""
    is_empty = not snapshot.pinned["verdicts"].uris
    return () if is_empty else _recorded(snapshot.frame("verdicts", _RECORDED, {"log_digest": digest}))


_RECORDED: Final = names_of("as_of_ns end_ns kind likeliest probability_ratio headline model_version judged_ns")


def _recorded(found: Frame) -> tuple[RecordedVerdict, ...]:
    """Rows of `verdicts` as recorded verdicts, the earliest `as_of_ns` first."""
    return tuple(
        RecordedVerdict(at_end=row["as_of_ns"] == row.pop("end_ns"), probability=row.pop("probability_ratio"), **row)
        for row in sorted(found.select(_RECORDED).records(), key=lambda row: row["as_of_ns"])
    )


def recorded_of_accounted_job(source: DataSource, params: Params) -> tuple[RecordedVerdict, ...]:
    """Recorded verdicts on the job without a log that the parameter `job` names."""
    found = source.shared(find_accounted_job, params)
    if found is None or not source.snapshot.pinned["verdicts"].uris:
        return ()
    (row,) = found[0].records()
    where = {name: row[name] for name in ("cluster", "raw_job_id", "start_ns")}
    if row["raw_job_id"] is None:
        return ()
    rows = source.snapshot.frame("verdicts", ("log_digest", *_RECORDED), where)
    return _recorded(rows.take(rows.text("log_digest").codes < 0))


def count_verdicts(snapshot: Snapshot, at_ns: int) -> dict[str, int]:
    """Number of verdicts by kind, as of the ends of runs in the last day. A job whose log came late counts once."""
    rows = snapshot.rows("verdicts", None, (at_ns - DAY_NS, at_ns + 1))
    sql = f"""WITH every AS ({rows})
        SELECT kind, count(*) FROM every WHERE as_of_ns = end_ns AND (log_digest IS NOT NULL OR NOT EXISTS (
            SELECT 1 FROM every AS log WHERE log.log_digest IS NOT NULL AND log.raw_job_id = every.raw_job_id
            AND log.uid IS NOT DISTINCT FROM every.uid)) GROUP BY kind"""
    return {str(kind): int(count) for kind, count in snapshot.bare.execute(sql).fetchall()}


_WIDTH: Final = 80
_BAR: Final = 36
_PARTS: Final = {
    "usual": "as usual",
    "system": "storage",
    "own": "its own change",
    "unexplained": "unexplained",
}
# What a scheduler takes as a comment without trouble.
_LONGEST_LINE: Final = 500


@dataclass(frozen=True)
class JobText:
    """A verdict as plain text. `job` is the id for users, `when` the time of the verdict in words, `cluster` the
    selected one."""

    job: str
    headline: str
    outcome: WhyOutcome
    when: str
    cluster: str | None = None

    def line(self) -> str:
        """Headline with its probability, and what to change first."""
        advice = f" Worth changing: {_advice(self.outcome.worth[0])}." if self.outcome.worth else ""
        text = one_line(f"{self.headline}{advice} (ioweather, {self.when})")
        return text if len(text) <= _LONGEST_LINE else f"{text[: _LONGEST_LINE - 3]}..."

    def block(self) -> str:
        """Several lines with bars, for a log file."""
        rule, outcome = "=" * _WIDTH, self.outcome
        lines = [rule, f"I/O of job {self.job}".center(_WIDTH).rstrip(), rule, *textwrap.wrap(self.headline, _WIDTH)]
        bars = []
        for name, label in _PARTS.items():
            part: Amount | None = getattr(outcome.seconds, name)
            if outcome.io_seconds and part is not None and part.value is not None:
                seconds = max(0.0, min(part.value, outcome.io_seconds))
                share = seconds / outcome.io_seconds
                filled = "|" * round(share * _BAR)
                bars.append(f"  {label:<15} {format_seconds(seconds):>10}  [{filled:<{_BAR}} {share:4.0%}]")
        lines += ["", *bars] if bars else []
        lines += ["", "Worth changing (each alone)"] if outcome.worth else []
        for item in outcome.worth[:3]:
            lines += textwrap.wrap(_advice(item), _WIDTH, initial_indent="  * ", subsequent_indent="    ")
        similar = "similar jobs" if outcome.evidence else "similar runs"
        compared = f"{outcome.n or 'no'} {similar}"
        judged = self.when.removeprefix("judged ")
        more = f"More: ioweather why {self.job}{f' --cluster {quote(self.cluster)}' if self.cluster else ''}"
        lines += ["", f"Compared with {compared}; judged {judged}.", more, rule]
        return "\n".join(map(one_line, lines)) + "\n"


def _advice(item: AdviceItem) -> str:
    """Such as: small requests (39.2 s): read(fd, buffer, 4 << 20) instead of each piece."""
    how = f": {item.fix[0].rstrip('.')}" if item.fix else ""
    seconds = format_seconds(item.seconds) if item.seconds > 0 else f"up to {format_seconds(item.high)}"
    return f"{item.name.replace('_', ' ')} ({seconds}){how}"


def job_text(
    lake: Lake | str | Path | None,
    job: str,
    uid: int | None = None,
    *,
    cluster: str | None = None,
    files: bool = True,
    recorded: bool = False,
) -> JobText:
    """Text of the recorded verdict on a job id, else of a verdict made now.

    Of several runs the one with most I/O time. With `recorded`, raises DataUnavailable instead of judging now.
    """
    if JOB_ID.fullmatch(job) and not (files and Path(job).is_file()):
        with lake_at(lake).snapshot() as snapshot:
            found = recorded_text(snapshot, job, uid, cluster)
        if found is not None:
            return replace(found, cluster=cluster)
    if recorded:
        raise DataUnavailable(
            f"Job {job} has no recorded verdict yet.", hint="`ioweather ingest --watch` records verdicts."
        )
    answer = ask("why", lake, {"job": job, "uid": uid, "cluster": cluster}, files=files)
    return JobText(Path(job).name, answer.headline, cast(WhyOutcome, answer.result), "judged now", cluster)


def recorded_text(snapshot: Snapshot, job: str, uid: int | None = None, cluster: str | None = None) -> JobText | None:
    """Text of the recorded verdict on a job; None if there is none."""
    if not snapshot.pinned["verdicts"].uris:
        return None
    try:
        where: dict[str, Any] = {"raw_job_id": raw_id_of(snapshot, job)}
    except DataUnavailable:
        return None
    found = snapshot.frame("verdicts", where=where | ({} if uid is None else {"uid": uid}))
    clusters = clusters_of(snapshot, found)
    # Without accounting, no cluster is known.
    accepted = (cluster, None) if not snapshot.pinned["jobs"].uris else (cluster,)
    rows = [row for row, on in zip(found.records(), clusters, strict=True) if cluster is None or on in accepted]
    if not rows or (cluster is None and len(set(clusters) - {None}) > 1):
        return None  # of several clusters: the question says which there are
    # The verdict on a log takes precedence over one from the run time.
    best = max(rows, key=lambda row: (row["log_digest"] is not None, row["io_seconds"] or 0.0, row["as_of_ns"]))
    return text_of_row(best, job)


def clusters_of(snapshot: Snapshot, verdicts: Frame) -> list[str | None]:
    """Return the cluster of each verdict's job by its id, user and time; None if accounting does not name it."""
    ids = tuple(sorted({*verdicts.ints("raw_job_id").tolist()}))
    jobs = snapshot.frame("jobs", JOB_COLUMNS, where={"raw_job_id": ids})
    logged = verdicts.with_columns(job_id=verdicts.ints("raw_job_id"), uid=verdicts.ints("uid", missing=-1))
    matched = match_jobs(logged, jobs).text("cluster").tolist()
    return [own or found for own, found in zip(verdicts.text("cluster").tolist(), matched, strict=True)]


def text_of_row(row: dict[str, Any], job: str) -> JobText:
    """Text of a row of `verdicts`."""
    parts = {
        part: Amount(*(row[f"{part}_{name}"] for name in ("seconds", "low_seconds", "high_seconds")))
        for part in VERDICT_PARTS
        if row[f"{part}_seconds"] is not None
    }
    try:
        worth = tuple(AdviceItem(**{**item, "fix": tuple(item["fix"])}) for item in json.loads(row["worth"] or "[]"))
    except (ValueError, TypeError, KeyError):  # not as this version writes it
        worth = ()
    outcome = WhyOutcome(
        cast(VerdictKind, row["kind"]),
        None if row["reason"] is None else Reason(row["reason"]),
        cast(VerdictKind, row["likeliest"]),
        row["probability_ratio"],
        filesystem=row["filesystem"],
        io_seconds=row["io_seconds"],
        harm_seconds=row["harm_seconds"],
        seconds=SplitSeconds(**parts),
        n=row["similar_count"],
        coverage=row["coverage_ratio"],
        worth=worth,
        model_version=row["model_version"],
        as_of_ns=row["as_of_ns"],
        evidence="accounting" if row["log_digest"] is None else None,
    )
    at_end = row["as_of_ns"] == row["end_ns"]
    when = "at its end" if at_end else f"as of {format_time_ns(row['as_of_ns'])}"
    return JobText(job, row["headline"], outcome, when)
