"""Jobs of the scheduler without a Darshan log: listed, shown and judged from accounting, servers and probes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

import ioweather
from ioweather.agent.settings import WatchSettings
from ioweather.core.errors import UsageError
from ioweather.core.frames import Frame
from ioweather.core.tables import TABLES, encode_text
from ioweather.core.units import DAY_NS, NS
from ioweather.diagnosis.jobs_without_log import excess_fraction, judge_run_time
from ioweather.diagnosis.list_jobs import RunsOutcome
from ioweather.diagnosis.recorded_verdicts import count_verdicts, judge_due, recorded_text
from ioweather.ingestion.ingest import ingest
from ioweather.ingestion.watch import catch_up
from ioweather.job_io.outcomes import JobOutcome, WhyOutcome
from ioweather.lake.lake import Lake, open_lake
from ioweather.ui.cli.main import run as command
from ioweather.ui.report.sheets import director_sheet, find, operator_sheet
from ioweather.ui.web.app import create_app
from planted_logs import write_climate

BEGIN = 1_700_000_000 * NS


def job_rows(
    ids: list[int], seconds: list[float], *, cluster: str = "one", user: str = "ada", gap: float = 100.0
) -> Frame:
    count = len(ids)
    start = [BEGIN + int(i * gap * NS) for i in range(count)]
    return TABLES["jobs"].frame(
        cluster=cluster, raw_job_id=ids, step="", restart=0, job_id=[str(each) for each in ids], uid=1000, user=user,
        account="proj", name="climate", state="COMPLETED", submit_ns=start, start_ns=start,
        end_ns=[s + int(t * NS) for s, t in zip(start, seconds, strict=True)], node_count=4, cpu_count=16,
        nodes="n[1-4]", rows=count,
    )  # fmt: skip


def operations(job_id: int, at: int, *, read: int, write: int, cluster: str | None = None) -> Frame:
    return TABLES["job_operations"].frame(
        start_ns=BEGIN + at * NS, interval_ns=10 * NS, system="scratch", component_kind="ost",
        component="scratch-OST0000", job_key=str(job_id), job_id=job_id, cluster=cluster, operation=["read", "write"],
        count=10, bytes=[read, write], quality=0, rows=2,
    )  # fmt: skip


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    made = open_lake(tmp_path / "lake", create=True)
    made.append("jobs", job_rows(list(range(1, 13)), [60.0] * 11 + [180.0]), source="sacct")
    made.append("job_operations", operations(3, 205, read=4096, write=1024), source="lustre")
    return made


def test_jobs_are_listed_from_accounting_alone(lake: Lake) -> None:
    found = ioweather.runs(lake=lake).result
    assert isinstance(found, RunsOutcome)
    assert (found.count, found.with_log, len(found.runs)) == (12, 0, 12)
    by_id = {run.job_id: run for run in found.runs}
    assert by_id[3].read_bytes == 4096
    assert by_id[3].known_by == "servers"
    assert by_id[1].read_bytes is None
    assert by_id[1].known_by == "accounting"
    assert by_id[12].slowness == pytest.approx(3.0)
    slowest = ioweather.runs(lake=lake, order="slowest", most=1).result
    assert isinstance(slowest, RunsOutcome)
    assert [run.job_id for run in slowest.runs] == [12]


def test_job_shows_accounting_and_server_counts(lake: Lake) -> None:
    shown = ioweather.job(3, lake=lake).result
    assert isinstance(shown, JobOutcome)
    assert (shown.user, shown.nodes, shown.run_seconds, shown.logs) == ("ada", 4, 60.0, 0)
    assert (shown.read_bytes, shown.write_bytes) == (4096, 1024)
    without = ioweather.job(1, lake=lake).result
    assert isinstance(without, JobOutcome)
    assert without.read_bytes is None


def test_why_without_samples_of_storage_is_unknown_or_normal(lake: Lake) -> None:
    slow, usual = (ioweather.why(each, lake=lake).result for each in (12, 5))
    assert isinstance(slow, WhyOutcome)
    assert isinstance(usual, WhyOutcome)
    assert (slow.kind, slow.reason, slow.n, slow.evidence) == ("unknown", "no_system_data", 11, "accounting")
    assert (slow.run_seconds, slow.usual_run_seconds) == (180.0, 60.0)
    assert usual.kind == "normal"


def test_as_of_a_time_only_jobs_that_had_ended_count(lake: Lake) -> None:
    fifth_ended = BEGIN + 460 * NS
    for as_of, similar in ((None, 11), (fifth_ended, 4)):
        found = ioweather.why(5, lake=lake, as_of=as_of).result
        assert isinstance(found, WhyOutcome)
        assert (found.kind, found.n) == ("normal", similar)


def test_the_report_says_how_many_jobs_have_a_log(lake: Lake) -> None:
    (found,) = find(lake, [(0, 2**62)])
    said = " ".join(director_sheet("here", found, found, []).sentences)
    assert "0 of 12 jobs (0%) have a Darshan log" in said
    assert "Darshan" not in " ".join(director_sheet("here", *[replace(found, with_log=12)] * 2, []).sentences)


def test_equal_ids_of_two_clusters_are_told_apart(lake: Lake) -> None:
    lake.append("jobs", job_rows([3, 4], [500.0, 60.0], cluster="two", user="bob", gap=1000.0), source="sacct")
    with pytest.raises(UsageError, match="2 jobs in accounting") as error:
        ioweather.job(3, lake=lake)
    assert "--cluster" in error.value.hint
    for cluster, user, seconds in (("one", "ada", 60.0), ("two", "bob", 500.0)):
        shown = ioweather.job(3, lake=lake, cluster=cluster).result
        assert isinstance(shown, JobOutcome)
        assert (shown.user, shown.run_seconds) == (user, seconds)
    listed = ioweather.runs(lake=lake, cluster="two").result
    assert isinstance(listed, RunsOutcome)
    assert {(run.job_id, run.cluster) for run in listed.runs} == {(3, "two"), (4, "two")}
    with TestClient(create_app(lake.root), base_url="http://127.0.0.1", client=("127.0.0.1", 5)) as client:
        page = client.get("/fragments/jobs/3").text
        assert "/jobs/3?cluster=one" in page
        assert "/jobs/3?cluster=two" in page
        assert "/jobs/4" not in page
        assert "bob" in client.get("/fragments/jobs/3?cluster=two").text
        assert len(client.get("/api/v1/jobs?cluster=two").json()["jobs"]) == 2


def _planted(seed: int, *, effect: float) -> tuple[Frame, dict[str, np.ndarray], np.ndarray]:
    """300 jobs of five names; a tenth meet storage three times as slow, which multiplies their time by `effect`."""
    rng = np.random.default_rng(seed)
    count = 300
    bad = rng.random(count) < 0.1
    seconds = np.round(600.0 * np.exp(rng.normal(0.0, 0.05, count)) * np.where(bad, effect, 1.0))
    # Some are slow for reasons of their own.
    own = rng.random(count) < 0.1
    seconds = np.where(own, seconds * 2.0, seconds)
    frame = job_rows(list(range(count)), seconds.tolist())
    frame = frame.with_columns(name=encode_text([f"app{i % 5}" for i in range(count)]))
    measure = rng.normal(0.0, 0.1, count) + np.where(bad, np.log(3.0), 0.0)
    return frame, {"service": measure}, bad


def test_slow_jobs_at_slow_times_are_found_and_others_are_not() -> None:
    frame, measures, bad = _planted(1, effect=1.6)
    asked = np.flatnonzero(bad | (np.arange(frame.rows) % 6 == 0))
    bad, verdicts = bad[asked], [judge_run_time(frame, measures, row) for row in asked.tolist()]
    said = np.array([verdict.kind == "system" for verdict in verdicts])
    assert said[bad].mean() >= 0.8
    assert said[~bad].mean() <= 0.02
    probabilities = [verdict.probability or 0.0 for verdict, hit in zip(verdicts, said & bad, strict=True) if hit]
    # All exposed jobs are slow and a tenth of the others: nine in ten would have been on time.
    assert np.median(probabilities) == pytest.approx(0.9, abs=0.05)
    assert {verdict.kind for verdict in verdicts} <= {"system", "normal", "unexplained", "unknown"}


def test_storage_that_slows_nobody_is_no_cause() -> None:
    frame, measures, bad = _planted(2, effect=1.0)
    asked = np.flatnonzero(bad | (np.arange(frame.rows) % 6 == 0))
    verdicts = [judge_run_time(frame, measures, row) for row in asked.tolist()]
    sure = [verdict.probability or 0.0 for verdict in verdicts if verdict.kind == "system"]
    assert len(sure) <= 0.02 * len(verdicts)
    assert bad.any()


def test_excess_fraction_is_that_of_a_table_by_hand() -> None:
    # Exposed: 9 of 10 slow; not exposed: 4 of 40. Without the judged job 8 of 9 and 4 of 40.
    slow = [True] * 9 + [False] + [True] * 4 + [False] * 36
    exposed = [True] * 10 + [False] * 40
    frame = job_rows(list(range(50)), [200.0 if each else 100.0 for each in slow])
    measures = {"service": np.array([5.0 if each else 0.01 * (i % 3) for i, each in enumerate(exposed)])}
    found = judge_run_time(frame, measures, 0)
    assert (found.slow_exposed, found.exposed, found.slow_others, found.others) == (8, 9, 4, 40)
    usual = 4.5 / 41
    expected = 9 * (4 + usual) / (40 + 1)
    assert found.probability == pytest.approx(1 - (expected + 0.5 * usual) / (8 + 0.5))


def test_programs_that_are_often_slow_do_not_make_storage_a_cause() -> None:
    """Exposed jobs are mostly of a program that is slow in half of its runs at any time."""
    group = np.array([0] * 40 + [1] * 100)
    slow = np.array([i % 2 == 0 for i in range(40)] + [i % 20 == 0 for i in range(100)])
    exposed = np.array([i < 20 for i in range(40)] + [i < 4 for i in range(100)])
    crude = 1 - slow[~exposed].mean() / slow[exposed].mean()
    standardized = excess_fraction(slow, exposed, ~exposed, group)
    assert crude > 0.6
    assert standardized is not None
    assert standardized < 0.2


def last_end(lake: Lake) -> int:
    with lake.snapshot() as snapshot:
        return int(snapshot.scalar("SELECT max(end_ns) FROM jobs"))


def test_each_job_is_judged_as_of_its_end_and_a_day_later_and_never_twice(lake: Lake) -> None:
    end = last_end(lake)
    assert judge_due(lake, clock=lambda: end + 30 * NS) == (11, 0), "the last job ended less than a minute ago"
    assert judge_due(lake, clock=lambda: end + 61 * NS) == (1, 0)
    assert judge_due(lake, clock=lambda: end + 62 * NS) == (0, 0)
    assert judge_due(lake, clock=lambda: end + 12 * 60 * NS) == (1, 0), "the slow job lacks samples of storage"
    assert judge_due(lake, clock=lambda: end + DAY_NS) == (12, 0)
    with lake.snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT raw_job_id, log_digest, cluster, kind, reason FROM verdicts WHERE as_of_ns = end_ns ORDER BY 1"
        ).fetchall()
        assert count_verdicts(snapshot, end) == {"unknown": 5, "normal": 7}
    assert [row[0] for row in rows] == list(range(1, 13))
    assert {row[1:3] for row in rows} == {(None, "one")}
    assert [row[3] for row in rows] == ["unknown"] * 4 + ["normal"] * 7 + ["unknown"], "the first have too few before"
    assert rows[-1][4] == "no_system_data"


def test_lists_and_reports_show_recorded_verdicts_of_jobs_without_a_log(lake: Lake) -> None:
    judge_due(lake, clock=lambda: last_end(lake) + 61 * NS)
    listed = ioweather.runs(lake=lake, order="slowest", without_log=True).result
    assert isinstance(listed, RunsOutcome)
    assert (listed.runs[0].job_id, listed.runs[0].verdict, listed.runs[0].verdict_as_of) == (12, "unknown", "end")
    assert (listed.unlogged_seconds, listed.run_time_verdicts) == (840.0, {"unknown": 5, "normal": 7})
    answer = ioweather.why(12, lake=lake)
    assert isinstance(answer.result, WhyOutcome)
    assert [each.kind for each in answer.result.recorded] == ["unknown"]
    (found,) = find(lake, [(0, 2**62)])
    said = " ".join(director_sheet("here", found, found, []).sentences)
    assert "The other jobs ran for 14 min." in said
    assert "12 of these jobs were judged by their run times: 0 were slow while storage was slow" in said
    tables = {table.name: table for table in operator_sheet(found).tables}
    assert tables["unlogged"].rows[0][0] == "12"
    assert tables["unlogged"].rows[0][-1] == "not sure"


def test_a_log_that_comes_late_is_judged_too_and_counts_instead(lake: Lake, tmp_path: Path) -> None:
    end = last_end(lake)
    judge_due(lake, clock=lambda: end + 61 * NS)
    log = tmp_path / "late.darshan"
    write_climate(log, job_id=12, uid=1000, start_ns=end - 170 * NS, end_ns=end - 10 * NS)
    ingest(lake, [log])
    assert judge_due(lake, clock=lambda: end + 120 * NS) == (1, 0)
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM verdicts WHERE raw_job_id = 12") == 2
        assert sum(count_verdicts(snapshot, end).values()) == 12
        text = recorded_text(snapshot, "12")
    assert text is not None
    assert text.outcome.evidence is None, "the verdict on the log"


def test_the_line_of_a_job_is_that_of_its_cluster(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    lake.append("jobs", job_rows([3, 4], [500.0, 60.0], cluster="two", user="bob", gap=1000.0), source="sacct")
    judge_due(lake, clock=lambda: last_end(lake) + 61 * NS)
    lines = {}
    for cluster in ("one", "two"):
        assert command(["why", "3", "--line", "--recorded", "--cluster", cluster, "--lake", str(lake.root)]) == 0
        lines[cluster] = capsys.readouterr().out
    assert "only 2 similar jobs" in lines["one"]
    assert "only 0 similar jobs" in lines["two"]
    assert command(["why", "3", "--line", "--lake", str(lake.root)]) == 2
    assert "--cluster" in capsys.readouterr().err
    assert command(["jobs", "--lake", str(lake.root)]) == 0
    assert "ioweather why 12 --cluster one" in capsys.readouterr().out


def test_the_program_of_the_site_is_run_for_jobs_without_a_log(lake: Lake, tmp_path: Path) -> None:
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\necho "$1 $3: $2" >> {tmp_path}/lines\n')
    program.chmod(0o755)
    settings = WatchSettings(directories=(), accounting=False, tell=program)
    done = catch_up(lake, settings, clock=lambda: last_end(lake) + 61 * NS)
    assert (done.verdicts, done.told) == (12, 12)
    lines = (tmp_path / "lines").read_text().splitlines()
    assert {line.split(":")[0] for line in lines} == {f"{job} one" for job in range(1, 13)}
    assert all("(ioweather, at its end)" in line for line in lines)


def test_one_coincidence_of_a_slow_job_and_slow_storage_is_no_relation() -> None:
    """No other job was slow at such times: that is silence, not evidence."""
    count = 40
    frame = job_rows(list(range(count)), [200.0] + [100.0] * (count - 1))
    measures = {"service": np.array([5.0 if i < 8 else 0.01 * (i % 3) for i in range(count)])}
    found = judge_run_time(frame, measures, 0)
    assert (found.kind, found.is_exposed, found.probability) == ("unknown", True, None)
