"""`who` through a lake in which it is known who it was: one heavy job beside one of many equal runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from planted_jobs import GIB, planted
from store_lakes import series_frame

from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.outcomes import WhatIfOutcome, WhoOutcome, WhyOutcome
from ioweather.core.results import Answer, to_jsonable
from ioweather.core.units import MINUTE_NS, NS
from ioweather.core.visibility import Owner
from ioweather.derive.jobs.job_io import job_io
from ioweather.store.lake import Lake, open_lake
from ioweather.tables import TABLES
from ioweather.tables.applications import FILES
from ioweather.tables.jobs import JOBS
from ioweather.workflows.ask import ask
from planted_association import START_NS

MINUTES = 2000
SLOWED, HEAVY, LIGHT = 902, 4711, 4712
BEGAN = START_NS + 1000 * MINUTE_NS
PEAK = 1e9  # bytes per second of a target


def runs() -> list[dict[str, Any]]:
    """Equal runs of Anna, one each hour, of about 300 s, and one of 900 s."""
    rng = np.random.default_rng(2)
    found = [(100 + n, START_NS + 60 * n * MINUTE_NS, 300.0 * float(rng.normal(1, 0.02))) for n in range(16)]
    same = {
        "exe": "/bin/strong x", "uid": 3, "nprocs": 64, "read": 200 * GIB, "files": 1, "read_count": 200_000,
        "io_rank_count": 64, "main_mount": "/scratch",
    }  # fmt: skip
    return [
        {**same, "job_id": job, "start_ns": start, "io": seconds, "run_seconds": seconds + 5}
        for job, start, seconds in [*found, (SLOWED, BEGAN, 900.0)]
    ]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    root: Path = tmp_path_factory.mktemp("who") / "lake"
    made = open_lake(root, create=True)
    jobs = runs()
    frames = planted(jobs)
    rows = [
        {"log_digest": digest, "start_ns": one["start_ns"], "record_id": 1, "rank": -1, "module": "POSIX",
         "standard_stream": False, "mount": "/scratch", "read_bytes": 200 * GIB, "read_seconds": one["io"],
         "meta_seconds": 0.0, "write_seconds": 0.0, "read_count": 200_000, "open_count": 1, "osts": "0",
         "first_read_ns": one["start_ns"], "last_read_ns": one["start_ns"] + int(one["io"] * NS)}
        for digest, one in zip(frames["applications"].text("log_digest").tolist(), jobs, strict=True)
    ]  # fmt: skip
    columns = {s.name: [row.get(s.name, None if s.nullable else 0) for row in rows] for s in FILES.columns}
    frames["files"] = FILES.frame(columns, rows=len(rows))
    frames["job_io"] = job_io(frames["applications"], frames["files"])
    for table, frame in frames.items():
        made.append(table, frame, source="darshan")
    for metric, share in (("read_bytes", 1.0), ("write_bytes", 0.001)):
        made.append("series", series_frame(share * _load(), start_ns=START_NS, metric=metric), source="lmt")
    made.append("job_operations", _counted(), source="lustre")
    made.append("jobs", _accounting(), source="slurm")
    return made


def _load() -> Any:
    """What the two targets read each minute: runs on the first, the heavy job at its limit on both."""
    load = np.full((MINUTES, 2), 1e7)
    for one in runs():
        first, count = (one["start_ns"] - START_NS) // MINUTE_NS, round(one["io"] / 60)
        load[first : first + count, 0] += 200 * GIB / count
    load[1000:1015] = 60 * PEAK
    return load


def _counted() -> Any:
    """Ten minutes' worth of the first target by the heavy job, a second's worth by the light one."""
    rows = [(HEAVY, minute, name, 40 * PEAK) for minute in range(15) for name in ("OST0000", "OST0001")]
    rows += [(LIGHT, 2, "OST0000", PEAK)]
    return TABLES["job_operations"].frame({
        "start_ns": [BEGAN + minute * MINUTE_NS for _, minute, _, _ in rows], "interval_ns": [MINUTE_NS] * len(rows),
        "component": [name for _, _, name, _ in rows], "job_key": [str(job) for job, *_ in rows],
        "job_id": [job for job, *_ in rows], "bytes": [int(size) for *_, size in rows],
        "count": [int(size // 2**20) for *_, size in rows],
    }, rows=len(rows), system="scratch", component_kind="ost", operation="read", quality=0)  # fmt: skip


def _accounting() -> Any:
    people = [(SLOWED, 3, "anna"), (HEAVY, 9, "ben"), (LIGHT, 10, "carl")]
    n = len(people)
    return JOBS.frame({
        "raw_job_id": [job for job, _, _ in people], "job_id": [str(job) for job, _, _ in people],
        "uid": [uid for _, uid, _ in people], "user": [user for _, _, user in people],
    }, rows=n, cluster="c", step="", restart=0, state="COMPLETED", account="p1", name="work", submit_ns=BEGAN - NS,
        start_ns=BEGAN, end_ns=BEGAN + 20 * MINUTE_NS)  # fmt: skip


def who(lake: Lake, **params: Any) -> tuple[Answer, WhoOutcome]:
    answer = ask("who", lake, params)
    assert isinstance(answer.result, WhoOutcome)
    to_jsonable(answer)
    return answer, answer.result


def test_the_heavy_job_is_named_beside_the_run(lake: Lake) -> None:
    answer, result = who(lake, job=str(SLOWED))
    (culprit,) = result.culprits
    assert (culprit.job_id, culprit.user, culprit.project) == (HEAVY, "ben", "p1")
    assert culprit.probability is not None
    assert culprit.probability > 0.9
    assert culprit.seconds == pytest.approx(600.0, rel=0.3)
    assert answer.headline.startswith(f"Without job {HEAVY} (ben, work) this run's I/O would have taken")
    assert result.evidence == "servers"
    assert {finding.name for finding in answer.findings} >= {"culprit_1", "tell_1", "known"}


def test_a_run_as_usual_has_no_culprit(lake: Lake) -> None:
    answer, result = who(lake, job="105")
    assert result.culprits == ()
    assert "took as long as usual" in answer.headline


def test_about_a_time_and_over_a_period(lake: Lake) -> None:
    moment = BEGAN + 5 * MINUTE_NS
    for params in ({"at": moment}, {}):
        answer = ask(
            "who", lake, params, period_ns=(0, 2**62) if params else (START_NS, START_NS + MINUTES * MINUTE_NS)
        )
        result = answer.result
        assert isinstance(result, WhoOutcome)
        assert [culprit.job_id for culprit in result.culprits] == [HEAVY]
        assert [user.user for user in result.users] == ["ben"]
        assert (result.slowed, result.talkers[0].job_id) == (1, SLOWED if params else HEAVY) or result.talkers
    users = ask("who", lake, {"by": "user"}, period_ns=(START_NS, START_NS + MINUTES * MINUTE_NS)).result
    assert isinstance(users, WhoOutcome)
    assert {talker.user for talker in users.talkers} >= {"ben", "carl"}
    assert sum(talker.bytes_ratio or 0.0 for talker in users.talkers) == pytest.approx(1.0)


def test_why_names_the_job_too(lake: Lake) -> None:
    result = ask("why", lake, {"job": str(SLOWED)}).result
    assert isinstance(result, WhyOutcome)
    assert [culprit.job_id for culprit in result.culprits] == ([HEAVY] if result.kind in ("system", "both") else [])


@pytest.mark.parametrize("user", ["anna", "ben", "nobody"])
def test_a_person_reads_of_others_only_that_there_was_a_job(lake: Lake, user: str) -> None:
    seen = lake.seen_by(Owner(user))
    if user == "anna":
        answer, result = who(seen, job=str(SLOWED))
        (culprit,) = result.culprits
        assert (culprit.job_id, culprit.user, culprit.project) == (None, None, None)
        assert culprit.seconds == pytest.approx(600.0, rel=0.3)
        assert "another job" in answer.headline
    else:
        with pytest.raises(DataUnavailable):
            who(seen, job=str(SLOWED))
        answer = ask("who", seen, period_ns=(START_NS, START_NS + MINUTES * MINUTE_NS))
        result = answer.result  # type: ignore[assignment]
        assert [culprit.job_id for culprit in result.culprits] == [HEAVY if user == "ben" else None]
    text = str(to_jsonable(answer))
    for name, job in (("anna", SLOWED), ("ben", HEAVY), ("carl", LIGHT)):
        if name != user:
            assert name not in text, name
            assert f"'job_id': {job}" not in text


def test_without_the_heavy_job_the_run_takes_as_long_as_usual(lake: Lake) -> None:
    result = ask("what_if", lake, {"without": HEAVY}).result
    assert isinstance(result, WhatIfOutcome)
    assert result.seconds == pytest.approx(600.0, rel=0.1)
    assert result.after_seconds == pytest.approx(result.before_seconds - result.seconds)
    assert [gain.job_id for gain in result.gains] == [SLOWED]
    away = ask("what_if", lake, {"move": HEAVY, "begin": BEGAN + 300 * MINUTE_NS}).result
    assert isinstance(away, WhatIfOutcome)
    assert away.seconds == pytest.approx(600.0, rel=0.1)
    there = ask("what_if", lake, {"stripe": HEAVY, "over": 2}).result
    assert isinstance(there, WhatIfOutcome)
    assert there.seconds == pytest.approx(0.0, abs=1.0)  # it was striped over both
    with pytest.raises(UsageError, match="--start"):
        ask("what_if", lake, {"move": HEAVY})
    with pytest.raises(UsageError, match="Say one of"):
        ask("what_if", lake, {})
    hidden = ask("what_if", lake.seen_by(Owner("ben")), {"without": HEAVY}).result
    assert isinstance(hidden, WhatIfOutcome)
    assert [gain.user for gain in hidden.gains] == [None]
    with pytest.raises(DataUnavailable):
        ask("what_if", lake.seen_by(Owner("carl")), {"without": HEAVY})


def test_what_is_no_job_and_no_event_is_said(lake: Lake) -> None:
    with pytest.raises(UsageError, match="There is no event"):
        who(lake, job="somebody")
    with pytest.raises(DataUnavailable):
        who(lake, job="1")
