"""Checks of questions and studies: pure, valid JSON, with few rows, and no table but those that they name."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from functools import partial
from typing import Any

from ioweather.core.contracts import Question, Study
from ioweather.core.errors import IoweatherError
from ioweather.core.frames import BlockwiseMatrix, Frame
from ioweather.core.results import exhibit_from_json, result_json
from ioweather.lake.lake import Lake, open_lake
from ioweather.testing import ChecksFailed
from ioweather.topics.source import DataSource, resolve_params


class _Cut(DataSource):
    """Gives the first rows of each table, and records which tables were read."""

    def __init__(self, lake: Lake, until: ExitStack, most_rows: int | None) -> None:
        super().__init__(lake, until)
        self.most_rows = most_rows
        self.read: set[str] = set()

    def frame(self, table: str, *args: Any, **options: Any) -> Frame:
        self.read.add(table)
        return super().frame(table, *args, **options).take(slice(self.most_rows))

    def rollup(self, *args: Any, **options: Any) -> Frame:
        self.read.add("series")
        return super().rollup(*args, **options).take(slice(self.most_rows))

    def matrices(self, *args: Any, **options: Any) -> dict[str, BlockwiseMatrix]:
        self.read.add("series")
        found = super().matrices(*args, **options)
        if self.most_rows is None:
            return found
        return {metric: each.stretch(0, min(each.steps, self.most_rows)) for metric, each in found.items()}


def check_question(question: Question, lake: Lake, **params: Any) -> None:
    """Check what a question does with a lake that can answer it. Raises `ChecksFailed`.

    It answers the same twice, as valid JSON, and reads no tables but those that it names. With one or two rows of each
    table, and of an empty lake, it gives an answer or an error of ours.
    """
    problems, answers = [], []
    with tempfile.TemporaryDirectory() as folder:
        empty = open_lake(folder, create=True)
        for rows, place in ((None, lake), (None, lake), (0, empty), (1, lake), (2, lake)):
            with ExitStack() as until:
                source = _Cut(place, until, rows)
                source.tables = question.tables
                case = "the lake given" if rows is None else f"{rows} rows"
                try:
                    values = resolve_params(
                        question.params, params, partial(getattr, source, "snapshot"), lambda: "UTC"
                    )
                    answers.append(json.dumps(result_json(question.run(source, values)), allow_nan=False))
                except Exception as error:
                    if rows is None or not isinstance(error, IoweatherError):
                        problems.append(f"run, {case}: {type(error).__name__}: {error}")
                problems += [f"tables, {case}: it reads {name}" for name in source.read - question.tables]
    if not problems and answers[0] != answers[1]:
        problems.append("pure, the lake given: a second run returns something else")
    if problems:
        raise ChecksFailed(f"question {question.name}", problems)


def check_study(study: Study, lake: Lake, **params: Any) -> None:
    """Check what a study does with a lake that has its rows. Raises `ChecksFailed`.

    It gives exhibits that it names, as valid JSON that comes back from it. Without rows, and with one or two rows, it
    gives exhibits, an error of ours, or nothing. It reads no tables but those that it needs.
    """
    problems = []
    for rows in (None, 0, 1, 2):
        with ExitStack() as until:
            source = _Cut(lake, until, rows)
            case = "the rows given" if rows is None else f"{rows} rows"
            values = resolve_params(study.params, params, partial(getattr, source, "snapshot"), lambda: "UTC")
            try:
                for exhibit in study.run(source, values):
                    text = json.dumps(result_json(exhibit), allow_nan=False)
                    if exhibit.id not in study.exhibits:
                        problems.append(f"exhibits, {exhibit.id}: it is not among its exhibits")
                    if result_json(exhibit_from_json(json.loads(text))) != json.loads(text):
                        problems.append(f"JSON, {exhibit.id}: it changes when read back")
            except Exception as error:
                if not isinstance(error, IoweatherError):
                    problems.append(f"run, {case}: {type(error).__name__}: {error}")
            problems += [f"needs, {case}: it reads {name}" for name in source.read - study.tables]
    if problems:
        raise ChecksFailed(f"study {study.name}", problems)
