"""The score card: a simulated facility through the normal door, and every answer beside what was planted."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ioweather.core.progress import Progress, silent
from ioweather.core.registry import Catalogue
from ioweather.engine import Serial, in_order
from ioweather.simulate.generate import read_manifest
from ioweather.simulate.presets import preset_named
from ioweather.workflows.score.items import Evidence, Item, Question, ask
from ioweather.workflows.simulated import ingest_simulated

# Every question, by name: one function and one line add one.

_HERE = "ioweather.workflows.score"

QUESTIONS: Catalogue[Question] = Catalogue(
    "question",
    {
        "accounting": f"{_HERE}.runs:accounting",
        "association": f"{_HERE}.runs:association",
        "attribution": f"{_HERE}.verdicts:attribution",
        "benchmark": f"{_HERE}.runs:benchmark",
        "correlations": f"{_HERE}.servers:correlations",
        "distributions": f"{_HERE}.responses:distributions",
        "episodes": f"{_HERE}.responses:episodes",
        "forecast": f"{_HERE}.responses:forecast",
        "growth": f"{_HERE}.runs:growth",
        "independence": f"{_HERE}.responses:independence",
        "io_time": f"{_HERE}.runs:io_time",
        "metadata": f"{_HERE}.servers:metadata",
        "night": f"{_HERE}.servers:night",
        "parallelism": f"{_HERE}.servers:parallelism",
        "phases": f"{_HERE}.servers:phases",
        "sick_components": f"{_HERE}.servers:sick_components",
        "slowdown": f"{_HERE}.responses:slowdown",
        "verdicts": f"{_HERE}.verdicts:verdicts",
        "volumes": f"{_HERE}.servers:volumes",
    },
)


# An error is worse than before if it grew by more than chance in the last digits would explain.
_WORSE_BY, _WORSE_RATIO = 0.005, 1.05


@dataclass(frozen=True)
class Line:
    """One item of one question; without an item `note` says why there is none."""

    question: str
    item: Item | None
    note: str = ""
    before: float | None = None  # error in the stored baseline

    @property
    def worse(self) -> bool:
        error = self.item.error if self.item is not None else None
        if self.before is None:
            return False
        return error is None or error > max(self.before * _WORSE_RATIO, self.before + _WORSE_BY)

    @property
    def key(self) -> str:
        return f"{self.question}: {self.item.name}" if self.item is not None else self.question


@dataclass(frozen=True)
class ScoreCard:
    preset: str
    seed: int
    days: int
    lines: tuple[Line, ...]
    baseline: bool  # there is a stored one for this facility

    @property
    def scored(self) -> list[Line]:
        return [line for line in self.lines if line.item is not None]

    @property
    def good(self) -> int:
        return sum(line.item.good for line in self.scored if line.item is not None)

    @property
    def worse(self) -> list[Line]:
        return [line for line in self.lines if line.worse]

    def errors(self) -> dict[str, float | None]:
        return {line.key: line.item.error for line in self.scored if line.item is not None}

    def jsonable(self) -> dict[str, Any]:
        lines = []
        for line in self.lines:
            body: dict[str, Any] = {"question": line.question, "note": line.note}
            if line.item is not None:
                item = line.item
                body |= {"name": item.name, "planted": item.planted, "recovered": item.recovered, "unit": item.unit,
                         "error": item.error, "allowed": item.allowed, "good": item.good,
                         "note": item.note, "error_before": line.before, "worse": line.worse}  # fmt: skip
            lines.append(body)
        made = {
            "preset": self.preset,
            "seed": self.seed,
            "days": self.days,
            "good": self.good,
            "scored": len(self.scored),
        }
        return made | {"baseline": self.baseline, "worse": [line.key for line in self.worse], "lines": lines}


def score(
    directory: Path,
    *,
    questions: Sequence[str] = (),
    lake_dir: Path | None = None,
    executor: Executor | None = None,
    progress: Progress = silent,
) -> ScoreCard:
    """Ingest the facility in `directory` into a lake of its own (made again), and ask the questions, in this process or
    each as a task of the executor."""
    made = read_manifest(directory)
    wanted = list(questions) or list(QUESTIONS)
    for name in wanted:
        QUESTIONS[name]  # one that does not exist is refused before the long work
    lake = ingest_simulated(made, lake_dir or directory / "lake", executor=executor, progress=progress)
    evidence = Evidence(made, lake)
    usual = made.days == preset_named(made.preset).days
    before = stored_baseline().get(f"{made.preset} seed {made.seed}", {}) if usual else {}
    lines: list[Line] = []
    progress(0, len(wanted), wanted[0])
    answers = in_order(executor or Serial(), _asked, ((name, evidence) for name in wanted))
    for place, (items, why) in enumerate(answers):
        name = wanted[place]
        progress(place + 1, len(wanted), wanted[place + 1] if place + 1 < len(wanted) else "")
        lines += [Line(name, item, before=before.get(f"{name}: {item.name}")) for item in items]
        if not items:
            lines.append(Line(name, None, why or "this facility has nothing of the kind"))
    lines += _no_longer_measured(before, wanted, {line.key for line in lines})
    return ScoreCard(made.preset, made.seed, made.days, tuple(lines), bool(before))


def _no_longer_measured(
    before: Mapping[str, float | None], wanted: Sequence[str], measured: Collection[str]
) -> Iterator[Line]:
    """What the baseline has and the card has not counts as worse: an item that was renamed would go unwatched."""
    for key, error in before.items():
        question, _, item = key.partition(": ")
        if question in wanted and key not in measured:
            yield Line(
                question, None, f"{item} is in the baseline and no longer measured", 1.0 if error is None else error
            )


def _asked(name: str, evidence: Evidence) -> tuple[list[Item], str]:
    return ask(QUESTIONS[name], evidence)


def stored_baseline() -> dict[str, dict[str, float | None]]:
    """Errors by facility and item, as they were when the baseline was stored."""
    text = files("ioweather.workflows.score").joinpath("baseline.json").read_text(encoding="utf-8")
    stored: dict[str, dict[str, float | None]] = json.loads(text)
    return stored
