"""The verdict on a job as plain text: what the lake recorded where it did, else judged now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from ioweather.core.errors import DataUnavailable
from ioweather.core.run_outcomes import AdviceItem, Amount, Reason, SplitSeconds, VerdictKind, WhyOutcome
from ioweather.core.tables.verdicts import PARTS
from ioweather.core.units import format_time_ns
from ioweather.diagnosis.verdict_wording import JobText
from ioweather.job_io.job_query import JOB_ID, raw_id_of
from ioweather.lake.lake import Lake
from ioweather.lake.snapshot import Snapshot
from ioweather.topics.ask import ask


def job_text(
    lake: Lake | str | Path | None, job: str, uid: int | None = None, *, files: bool = True, recorded: bool = False
) -> JobText:
    """Of a job id with a recorded verdict, that one: of several runs the one with most I/O time, as of the latest time.
    Else it is judged now, unless only what was `recorded` is wanted."""
    from ioweather.lake.place import lake_at

    if JOB_ID.fullmatch(job) and not (files and Path(job).is_file()):
        with lake_at(lake).snapshot() as snapshot:
            found = recorded_text(snapshot, job, uid)
        if found is not None:
            return found
    if recorded:
        raise DataUnavailable(
            f"No verdict on job {job} was recorded yet.", hint="`ioweather ingest --watch` makes them."
        )
    answer = ask("why", lake, {"job": job, "uid": uid}, files=files)
    return JobText(Path(job).name, answer.headline, cast(WhyOutcome, answer.result), "judged now")


def recorded_text(snapshot: Snapshot, job: str, uid: int | None = None) -> JobText | None:
    """None where no verdict on the job was recorded."""
    if not snapshot.pinned["verdicts"].uris:
        return None
    try:
        where: dict[str, Any] = {"raw_job_id": raw_id_of(snapshot, job)}
    except DataUnavailable:
        return None
    rows = snapshot.frame("verdicts", where=where | ({} if uid is None else {"uid": uid})).records()
    if not rows:
        return None
    return text_of_row(max(rows, key=lambda row: (row["io_seconds"] or 0.0, row["as_of_ns"])), job)


def text_of_row(row: dict[str, Any], job: str) -> JobText:
    at_end = row["as_of_ns"] == row["end_ns"]
    when = "as of its end" if at_end else f"as of {format_time_ns(row['as_of_ns'])}"
    return JobText(job, row["headline"], _outcome(row), when)


def _outcome(row: dict[str, Any]) -> WhyOutcome:
    """What the text shows of it."""
    parts = [
        None
        if row[f"{part}_seconds"] is None
        else Amount(row[f"{part}_seconds"], row[f"{part}_low_seconds"], row[f"{part}_high_seconds"])
        for part in PARTS
    ]
    try:
        worth = tuple(AdviceItem(**{**item, "fix": tuple(item["fix"])}) for item in json.loads(row["worth"] or "[]"))
    except (ValueError, TypeError, KeyError):  # not as this version writes it
        worth = ()
    return WhyOutcome(
        cast(VerdictKind, row["kind"]), None if row["reason"] is None else Reason(row["reason"]),
        cast(VerdictKind, row["likeliest"]), row["probability_ratio"], filesystem=row["filesystem"],
        io_seconds=row["io_seconds"], harm_seconds=row["harm_seconds"], seconds=SplitSeconds(*parts),
        n=row["similar_count"], coverage=row["coverage_ratio"], worth=worth, model_version=row["model_version"],
        as_of_ns=row["as_of_ns"],
    )  # fmt: skip
