"""Our questions and studies answer with few rows; a planted mistake is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from small_facility import make_small_lake

from ioweather.core.tables import concat
from ioweather.lake.lake import Lake
from ioweather.testing import ChecksFailed
from ioweather.topics.catalogue import QUESTIONS, STUDIES
from planted_responses import SIZES, rows
from topic_checks import check_question, check_study


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = make_small_lake(tmp_path_factory.mktemp("facility"))
    lake.append(
        "responses",
        concat([rows(size, 200, op=op, targets=8) for size in SIZES for op in ("read", "write")]),
        source="spool",
    )
    return lake


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in ("now", "claims")])
def test_questions(name: str, lake: Lake) -> None:
    with lake.snapshot() as snapshot:
        ((job, project),) = snapshot.query(
            "SELECT (SELECT min(job_id) FROM applications), (SELECT min(account) FROM jobs WHERE account <> '')"
        ).fetchall()
    given: dict[str, dict[str, Any]] = {
        "predict": {"size": "1GiB", "request": "16MiB"},
        "what_if": {"without": str(job)},
        "project": {"name": project},
        "compare": {"runs": [str(job), str(job)]},
    }
    params = given.get(name, {"job": str(job)} if name in ("job", "why") else {})
    check_question(QUESTIONS[name], lake, **params)


def test_a_mistake_is_found(lake: Lake) -> None:
    with pytest.raises(ChecksFailed, match="it reads "):
        check_question(replace(QUESTIONS["runs"], tables=frozenset()), lake)
    with pytest.raises(ChecksFailed, match="not among its exhibits"):
        check_study(replace(STUDIES["daily_volume"], exhibits=()), lake)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "tuning"])
def test_studies(name: str, lake: Lake) -> None:
    check_study(STUDIES[name], lake)
