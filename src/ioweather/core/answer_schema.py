"""The published schema of answers and exhibits: docs/reference/answer.schema.json, and /api/v1/schema."""

from __future__ import annotations

from typing import Any

from ioweather.core.json_schema import schema_of
from ioweather.core.outcomes import OUTCOMES
from ioweather.core.results import SCHEMA_VERSION, Answer, Exhibit


def answer_schema() -> dict[str, Any]:
    """Either an answer, whose result is that of its question, or an exhibit."""
    definitions: dict[str, Any] = {"Outcome": {}}
    answer, exhibit = (schema_of(kind, definitions) for kind in (Answer, Exhibit))
    results = {name: schema_of(kind, definitions) for name, kind in OUTCOMES.items()}
    definitions["Outcome"] = {"anyOf": list(results.values())}
    by_question = [
        {"if": {"properties": {"name": {"const": name}}}, "then": {"properties": {"result": result}}}
        for name, result in results.items()
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ioweather: answers and exhibits",
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}},
        "required": ["schema_version"],
        "if": {"required": ["headline"]},
        "then": {"allOf": [answer, *by_question]},
        "else": exhibit,
        "$defs": dict(sorted(definitions.items())),
    }
