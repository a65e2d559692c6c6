"""Of an empty lake, or of one or two rows of each table, questions and studies give an answer, nothing, or an error of
ours."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_facility import make_small_lake

from ioweather.core.contracts import ALL_TIME
from ioweather.core.errors import IoweatherError
from ioweather.core.frames import Frame
from ioweather.core.results import result_json
from ioweather.lake.lake import Lake, open_lake
from ioweather.topics.analyse import fetch
from ioweather.topics.ask import resolve_params
from ioweather.topics.catalogue import QUESTIONS, STUDIES
from ioweather.topics.source import DataSource


class _Cut(DataSource):
    """Gives the first rows of each table, and records which tables were read."""

    def __init__(self, lake: Lake, until: ExitStack, most_rows: int) -> None:
        super().__init__(lake, until)
        self.most_rows = most_rows
        self.read: set[str] = set()

    def frame(self, table: str, *args: Any, **options: Any) -> Frame:
        self.read.add(table)
        return super().frame(table, *args, **options).take(slice(self.most_rows))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return make_small_lake(tmp_path_factory.mktemp("facility"))


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "now"])
def test_a_question_of_little_data(name: str, lake: Lake, tmp_path: Path) -> None:
    question = QUESTIONS[name]
    with lake.snapshot() as snapshot:
        ((job,),) = snapshot.query("SELECT min(job_id) FROM applications").fetchall()
    given = {"predict": "1GiB", "stripe": "1GiB"}
    typed: dict[str, Any] = {param.name: given.get(name, str(job)) for param in question.params if param.required}
    typed |= {"without": str(job)} if name == "what_if" else {}
    for rows, place in enumerate((open_lake(tmp_path / "empty", create=True), lake, lake)):
        with ExitStack() as until, suppress(IoweatherError):
            source = _Cut(place, until, rows)
            source.tables = question.tables
            values = resolve_params(question.params, typed, lambda source=source: source.snapshot, lambda: "UTC")
            result_json(question.run(source, values))
            assert source.read <= question.tables


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "tuning"])
def test_a_study_of_little_data(name: str, lake: Lake) -> None:
    study = STUDIES[name]
    with ExitStack() as until:
        snapshot = DataSource(lake, until).snapshot
        values = resolve_params(study.params, {}, lambda: snapshot, lambda: "UTC")
        data = fetch(snapshot, study.needs, values, ALL_TIME)
        for rows in range(3):
            cut = replace(
                data,
                frames={need: frame.take(slice(rows)) for need, frame in data.frames.items()},
                matrices={
                    need: {metric: matrix.stretch(0, min(rows, matrix.steps)) for metric, matrix in found.items()}
                    for need, found in data.matrices.items()
                },
            )
            with suppress(IoweatherError):
                for exhibit in study.run(cut, lake.facility, values):
                    assert exhibit.id in study.exhibits
                    result_json(exhibit)
