"""The table `verdicts`: each finished run judged as of its end, once; late samples revise it; a day later once more."""

from __future__ import annotations

import json
from contextlib import contextmanager

import pytest

from asking import why
from ioweather.core.errors import DataUnavailable
from ioweather.core.facility import Owner
from ioweather.core.units import DAY_NS, MINUTE_NS
from ioweather.diagnosis import recorded_verdicts as verdicts
from ioweather.diagnosis import verdict as judging
from ioweather.diagnosis.recorded_verdicts import count_verdicts, due_verdicts, judge_due, read_recorded
from ioweather.topics.source import ask
from planted_association import START_NS
from planted_why import ASKED, MINUTES, add_samples, make_why_lake

LATER_NS = START_NS + MINUTES * MINUTE_NS
KINDS = ("system", "you")


FIRST_RUN = 1


@contextmanager
def judging_only(jobs):
    """Of fifty runs only these are looked at: each verdict takes most of a second."""
    listed = ", ".join(map(str, jobs))

    def some(snapshot, *request):
        rows = snapshot.query(f"SELECT log_digest FROM applications WHERE job_id IN ({listed})").fetchall()
        return [due for due in due_verdicts(snapshot, *request) if (due.digest,) in rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdicts, "due_verdicts", some)
        yield


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    made = make_why_lake(tmp_path_factory.mktemp("verdicts") / "lake")
    with judging_only([*ASKED.values(), FIRST_RUN]):
        assert judge_due(made, clock=lambda: LATER_NS, most_seconds=600)[1] == 0
    return made


def digest_of(snapshot, job_id):
    return snapshot.scalar(f"SELECT log_digest FROM applications WHERE job_id = {job_id}")


def test_lists_of_runs_say_which_verdict_they_show(lake):
    """The last one: revised where the run ended a day before the last that was judged, else as of its end."""
    with lake.snapshot() as snapshot:
        last = {
            job: "later" if late else "end"
            for job, late in snapshot.query(
                "SELECT a.job_id, max(v.as_of_ns) > max(v.end_ns) FROM applications a "
                "JOIN verdicts v USING (log_digest) GROUP BY 1"
            ).fetchall()
        }
    answer = ask("runs", lake, {"most": 1000})
    found = {run.job_id: run for run in answer.result.runs}
    assert {job: found[job].verdict_as_of for job in last} == last
    assert {run.verdict for job, run in found.items() if job not in last} == {None}
    table = answer.exhibits[0].tables[0]
    words = {row[0]: row[-1] for row in table.rows}
    assert table.columns[-1].label == "verdict"
    shown = {"normal", "storage", "the job", "both", "not explained", "not sure"}
    assert {words[str(job)] for job in last} <= shown


def test_a_run_is_due_as_of_its_end_and_a_day_later_until_it_is_judged(lake):
    with lake.snapshot() as snapshot:
        rows = snapshot.query(
            "SELECT a.job_id, v.as_of_ns - a.end_ns FROM applications a LEFT JOIN verdicts v USING (log_digest) "
            "ORDER BY ALL"
        ).fetchall()
        runs = dict(snapshot.query("SELECT log_digest, job_id FROM applications").fetchall())
        ends = dict(snapshot.query("SELECT job_id, end_ns FROM applications").fetchall())
        due = [(runs[item.digest], item.as_of_ns) for item in due_verdicts(snapshot, LATER_NS)]
        soon = due_verdicts(snapshot, ends[2])
    judged = {*ASKED.values(), FIRST_RUN}
    expected = [(job, after) for job in ends for after in (0, DAY_NS) if ends[job] + after <= LATER_NS]
    assert [row for row in rows if row[1] is not None] == sorted(row for row in expected if row[0] in judged)
    assert sorted(due) == sorted((job, ends[job] + after) for job, after in expected if job not in judged)
    assert [moment for _, moment in due[:10]] == sorted((moment for _, moment in due[:10]), reverse=True)
    assert runs[soon[0].digest] == 2, "the newest first"
    assert all(item.as_of_ns <= ends[2] for item in soon), "what has not ended is not judged"


@pytest.mark.parametrize("what", KINDS)
def test_a_row_says_what_why_says_as_of_the_end(lake, what):
    with lake.snapshot() as snapshot:
        rows = snapshot.frame("verdicts", where={"raw_job_id": ASKED[what]}).records()
        row = min(rows, key=lambda row: row["as_of_ns"])
        (first, *later) = read_recorded(snapshot, digest_of(snapshot, ASKED[what]))
    answer = why(ASKED[what], lake.root, as_of=row["as_of_ns"])
    result = answer.result
    assert (row["kind"], row["headline"], row["similar_count"]) == (result.kind, answer.headline, result.n)
    assert row["system_seconds"] == pytest.approx(max(0.0, result.seconds.system.value))
    assert json.loads(row["probabilities"]) == pytest.approx(dict(result.probabilities))
    assert json.loads(row["table_versions"]).keys() >= {"job_io", "series"}
    assert (first.at_end, first.kind, first.model_version) == (True, result.kind, judging.MODEL_VERSION)
    assert all(not verdict.at_end for verdict in later)
    assert result.recorded == (first, *later)


def test_only_runs_that_had_ended_count(lake):
    """Of the earliest run nothing similar had ended."""
    with lake.snapshot() as snapshot:
        (kind, reason), = snapshot.query(
            "SELECT kind, reason FROM verdicts WHERE as_of_ns = end_ns ORDER BY end_ns LIMIT 1"
        ).fetchall()  # fmt: skip
    assert (kind, reason) == ("unknown", "few_similar_runs")


def test_the_screen_says_which_verdict_it_shows(lake):
    answer = why(ASKED["system"], lake.root)
    (said,) = [finding.text for finding in answer.findings if finding.name == "as_of"]
    assert said.startswith(f"Judged now, from all runs in the lake (model {judging.MODEL_VERSION}). Recorded: system (")
    assert "at its end;" in said


def test_counts_are_of_the_last_day_as_of_the_end(lake):
    with lake.snapshot() as snapshot:
        end = snapshot.scalar(f"SELECT end_ns FROM applications WHERE job_id = {ASKED['system']}")
        found = count_verdicts(snapshot, end)
        rows = snapshot.query(
            "SELECT kind, count(*) FROM (SELECT DISTINCT raw_job_id, kind, end_ns, as_of_ns FROM verdicts) "
            f"WHERE as_of_ns = end_ns AND end_ns BETWEEN {end - DAY_NS} AND {end} GROUP BY 1"
        ).fetchall()
    assert found == dict(rows)
    assert found["system"] >= 1


def test_a_person_sees_own_verdicts_and_no_job_of_others_in_them(lake):
    jobs = {"mine": Owner("me", (3,)), "other": Owner("you", (99,))}
    with lake.seen_by(jobs["other"]).snapshot() as snapshot:
        assert snapshot.query("SELECT DISTINCT uid, culprits FROM verdicts").fetchall() == [(99, None)]
        with pytest.raises(DataUnavailable, match="no Darshan log"):
            why(ASKED["system"], lake.seen_by(jobs["other"]))
        assert read_recorded(snapshot, "somebody's") == ()
    with lake.seen_by(jobs["mine"]).snapshot() as snapshot:
        assert snapshot.query("SELECT DISTINCT uid FROM verdicts").fetchall() == [(3,)]


def test_late_samples_revise_the_verdict_and_each_wait_is_twice_as_long(tmp_path):
    lake = make_why_lake(tmp_path / "lake", with_samples=False)
    with lake.snapshot() as snapshot:
        ends = snapshot.query("SELECT job_id, end_ns FROM applications").fetchall()
        digest = digest_of(snapshot, ASKED["system"])
    end = dict(ends)[ASKED["system"]]

    def turn(minutes):
        with judging_only([ASKED["system"]]):
            judge_due(lake, clock=lambda: end + minutes * MINUTE_NS, most_seconds=600)

    def kinds():
        with lake.snapshot() as snapshot:
            return [(v.kind, v.judged_ns) for v in read_recorded(snapshot, digest) if v.at_end]

    turn(1)
    assert kinds() == [("unknown", end + MINUTE_NS)]
    turn(5)
    assert kinds() == [("unknown", end + MINUTE_NS)], "ten minutes at least"
    add_samples(lake)
    turn(11)
    assert kinds() == [("system", end + 11 * MINUTE_NS)]
    turn(60)
    assert kinds() == [("system", end + 11 * MINUTE_NS)], "what is decided is decided"
    with lake.snapshot() as snapshot:
        stored = snapshot.bare.sql(
            f"SELECT count(*) FROM ({snapshot.pinned['verdicts'].scan()}) WHERE log_digest = '{digest}'"
        ).fetchall()
    assert stored == [(2,)], "the first one stays in the table"


def test_a_pass_that_is_killed_goes_on_with_what_is_left_and_a_new_model_judges_again(tmp_path, monkeypatch):
    lake = make_why_lake(tmp_path / "lake")
    monkeypatch.setattr(verdicts, "_AT_ONCE", 1)
    store, stored = verdicts._store_rows, []

    def killed(made, rows):
        if stored:
            raise KeyboardInterrupt
        stored.extend(rows)
        store(made, rows)

    def turn(seconds=600.0):
        with judging_only([ASKED["gap"], ASKED["stranger"]]):
            return judge_due(lake, clock=lambda: LATER_NS, most_seconds=seconds)

    assert turn(-1) == (0, 3), "no time, nothing done"
    with monkeypatch.context() as patch:
        patch.setattr(verdicts, "_store_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            turn()
    assert turn() == (2, 0)
    assert turn() == (0, 0)
    newer = judging.MODEL_VERSION + 1
    monkeypatch.setattr(verdicts, "MODEL_VERSION", newer)
    assert turn() == (3, 0)
    with lake.snapshot() as snapshot:
        assert snapshot.tables()["verdicts"] == 3
        assert snapshot.query("SELECT DISTINCT model_version FROM verdicts").fetchall() == [(newer,)]
        held = snapshot.bare.sql(f"SELECT count(*) FROM ({snapshot.pinned['verdicts'].scan()})").fetchall()
    assert held == [(6,)], "those of the first model stay"
