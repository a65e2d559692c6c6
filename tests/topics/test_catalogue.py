"""Questions of other packages: command and function follow from the entry point; what is none is left out."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import pytest

import ioweather
from ioweather.core.contracts import Param, Params, Question
from ioweather.core.outcomes import EventsOutcome
from ioweather.core.registry import Catalogue
from ioweather.core.results import Answer
from ioweather.topics import question_catalogue as catalogue
from ioweather.topics.source import DataSource
from ioweather.ui.cli.main import run


def greet(source: DataSource, params: Params) -> Answer:
    return Answer("greeting", f"Hello {params['whom']}.", result=EventsOutcome(()))


GREETING = Question(
    "greeting", EventsOutcome, greet, params=(Param("whom", "Who is greeted.", required=True),), help="Greet."
)
NAMELESS = Question("other", EventsOutcome, greet)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Catalogue[Question]:
    def entry(name: str, what: Any) -> Any:
        return SimpleNamespace(name=name, dist=None, load=lambda: what)

    found = [entry("greeting", GREETING), entry("nameless", NAMELESS), entry("why", GREETING), entry("text", "text")]
    monkeypatch.setattr("ioweather.core.registry._entry_points", lambda group: found if "questions" in group else [])
    places = catalogue.QUESTIONS._places
    made = Catalogue[Question]("question", places, group="ioweather.questions", fault=catalogue._fault)
    users = ("ioweather", "ioweather.topics.question_catalogue", "ioweather.ui.cli.ask", "ioweather.topics.ask")
    for module in (*users, "ioweather.ui.python_api"):
        __import__(module, fromlist=["QUESTIONS"])
        monkeypatch.setattr(f"{module}.QUESTIONS", made)
    return made


def test_a_question_of_another_package(
    installed: Catalogue[Question], capsys: pytest.CaptureFixture[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOWEATHER_LAKE", str(tmp_path))
    assert run(["greeting", "you"]) == 0
    assert "Hello you." in capsys.readouterr().out
    assert ioweather.greeting("me").headline == "Hello me."  # type: ignore[attr-defined]
    vars(ioweather).pop("greeting")
    assert list(installed.plugins) == ["greeting"]
    assert {"nameless", "text", "why"} == set(installed.left_out)


def test_entry_points_are_what_is_meant() -> None:
    assert EntryPoint("x", "a:b", catalogue.QUESTIONS.group).group == "ioweather.questions"


def test_a_question_that_is_not_there() -> None:
    assert run(["whhy"]) == 2
    with pytest.raises(AttributeError):
        _ = ioweather.nothing  # type: ignore[attr-defined]
