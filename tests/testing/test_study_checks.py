"""`check_study` and `check_question`: a good one passes, each planted mistake is found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_facility import make_small_lake

from ioweather.core.contracts import Need, Param, Question, Study, StudyData
from ioweather.core.errors import DataUnavailable
from ioweather.core.frames import Frame, Text
from ioweather.core.outcomes import EventsOutcome
from ioweather.core.results import Answer, Estimate, Exhibit, Fact, FactGroup
from ioweather.testing import ChecksFailed, check_question, check_study, data_for
from ioweather.topics.study_catalogue import STUDIES

DATA = StudyData(
    {"jobs": Frame({"job_id": Text(np.arange(4, dtype=np.int32), ("a", "b", "c", "d")), "nodes": np.arange(4.0) + 1})}
)


def mean(data, facility, params):
    nodes = data.frames["jobs"].floats("nodes")
    if len(nodes) == 0:
        raise DataUnavailable("No jobs.")
    yield Exhibit("site.nodes", estimates=(Estimate("nodes", float(nodes.mean()), n=len(nodes), method="mean"),))


GOOD = Study("nodes", ("site.nodes",), (Need("jobs", "jobs", ("job_id",)),), mean, (Param("least", "Least nodes."),))
CALLS = iter(range(1000))


def unguarded(data, facility, params):
    yield Exhibit("site.nodes", estimates=(Estimate("first", float(data.frames["jobs"].floats("nodes")[0])),))


def forgetful(data, facility, params):
    yield Exhibit("site.nodes", estimates=(Estimate("calls", float(next(CALLS))),))


def meddling(data, facility, params):
    data.frames["jobs"].array("nodes")[:1] += 1
    yield from mean(data, facility, params)


def strange(data, facility, params):
    yield replace(next(mean(data, facility, params)), id="site.other")


def twice(data, facility, params):
    estimate = Estimate("same", 1.0)
    yield Exhibit("site.nodes", estimates=(estimate, estimate))


def unwritable(data, facility, params):
    yield Exhibit("site.nodes", estimates=(Estimate("x", {1}),))


def test_a_good_study_passes():
    check_study(GOOD, DATA, {})


@pytest.mark.parametrize(
    ("study", "expected"),
    [
        (replace(GOOD, run=unguarded), "little, 0 rows: IndexError"),
        (replace(GOOD, run=forgetful), "run again, it gives something else"),
        (replace(GOOD, run=meddling), "it changed the data"),
        (replace(GOOD, run=strange), "site.other: it is not among its exhibits"),
        (replace(GOOD, run=twice), "same is there twice"),
        (replace(GOOD, run=unwritable), "JSON, site.nodes"),
        (replace(GOOD, needs=GOOD.needs * 2), "jobs is there twice"),
        (replace(GOOD, params=(Param("least", ""),)), "it does not say what it is"),
    ],
)
def test_planted_mistakes_are_found(study, expected):
    data = replace(DATA, frames={"jobs": DATA.frames["jobs"].with_columns(nodes=np.arange(4.0) + 1)})
    with pytest.raises(ChecksFailed) as failed:
        check_study(study, data, {})
    assert expected in str(failed.value)


def count(source, params):
    rows = source.frame("jobs", optional=True).rows
    return Answer(
        "How many?", f"{rows} jobs.", (FactGroup("jobs", "Jobs", (Fact("count", "Jobs", rows),)),), name="nodes"
    )


def repeated(source, params):
    answer = count(source, params)
    return replace(answer, facts=answer.facts * 2)


@pytest.fixture(scope="session")
def lake(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("facility"))


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_our_own_studies(name, lake):
    params = {}
    if name == "tuning":  # no program of the facility changed: two runs are named
        with lake.snapshot() as snapshot:
            two = snapshot.query("SELECT DISTINCT log_digest FROM job_io ORDER BY 1 LIMIT 2").fetchall()
        params["logs"] = ",".join(digest for (digest,) in two)
    check_study(STUDIES[name], *data_for(STUDIES[name], lake, **params), lake.facility)


def unready(source, params):
    return count(source, params) if source.frame("jobs").rows > 2 else 1 / 0


ASKED = Question("nodes", EventsOutcome, count, frozenset({"jobs"}))


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (replace(ASKED, run=repeated), "groups of nodes: jobs is there twice"),
        (replace(ASKED, run=unready), "little, 1 rows: ZeroDivisionError"),
        (replace(ASKED, tables=frozenset()), "it reads jobs, not in its `tables`"),
        (replace(ASKED, tables=frozenset({"jobs", "nowhere"})), "nowhere: there is no such table"),
        (replace(ASKED, params=(Param("least", ""),)), "it does not say what it is"),
    ],
)
def test_planted_mistakes_of_questions_are_found(question, expected, lake):
    check_question(ASKED, lake)
    with pytest.raises(ChecksFailed) as failed:
        check_question(question, lake)
    assert expected in str(failed.value)
