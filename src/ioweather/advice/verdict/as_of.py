"""Which verdict is shown: the one made now, as of which time, by which model, and what was recorded before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ioweather.advice.verdict.judge import MODEL_VERSION
from ioweather.core.results import Answer, Finding
from ioweather.core.run_outcomes import RecordedVerdict, WhyOutcome
from ioweather.core.units import format_time_ns


def with_recorded(answer: Answer, recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Answer:
    """The answer, which says as of when it holds. What was recorded stands beside it and does not change it."""
    if not isinstance(answer.result, WhyOutcome):
        return answer
    result = replace(answer.result, model_version=MODEL_VERSION, as_of_ns=as_of_ns, recorded=tuple(recorded))
    return replace(answer, result=result, findings=(*answer.findings, _which(recorded, as_of_ns)))


def _which(recorded: Sequence[RecordedVerdict], as_of_ns: int | None) -> Finding:
    shown = "now, from all runs" if as_of_ns is None else f"as of {format_time_ns(as_of_ns)}"
    text = f"Judged {shown} (model {MODEL_VERSION})."
    if recorded:
        text += f" Recorded: {'; '.join(map(words, recorded))}."
    return Finding(text, name="as_of")


def words(verdict: RecordedVerdict) -> str:
    """Such as: system (96%) as of its end."""
    sure = f" ({verdict.probability:.0%})" if verdict.kind != "unknown" and verdict.probability is not None else ""
    when = "as of its end" if verdict.at_end else f"as of {format_time_ns(verdict.as_of_ns)}"
    model = "" if verdict.model_version == MODEL_VERSION else f", model {verdict.model_version}"
    return f"{verdict.kind}{sure} {when}{model}"
