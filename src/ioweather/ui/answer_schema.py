"""The published schema of answers and exhibits: docs/reference/answer.schema.json, and /api/v1/schema."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ioweather.core.outcomes import Outcome
from ioweather.core.results import SCHEMA_VERSION, Answer, Exhibit
from ioweather.topics.question_catalogue import QUESTIONS, TITLES

# JSON Schema of dataclasses, as `to_jsonable` writes them: what is published cannot differ from what is made.

_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a type; those of dataclasses and enums go into `definitions`, by name.

    Numbers that are not finite become null, so a float may be null wherever it stands. What a later version adds is
    allowed: readers of this version ignore it.
    """
    if kind is float:
        return {"type": ["number", "null"]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _any_of([schema_of(argument, definitions) for argument in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        return {"type": "array", "items": schema_of(arguments[0], definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema_of(arguments[1], definitions)}
    if isinstance(kind, type) and kind.__name__ not in definitions:
        definitions[kind.__name__] = {}  # it may name itself
        definitions[kind.__name__] = _definition(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


def _any_of(options: list[dict[str, Any]]) -> dict[str, Any]:
    if all(set(option) == {"type"} for option in options):
        named = [option["type"] if isinstance(option["type"], list) else [option["type"]] for option in options]
        kinds = list(dict.fromkeys(kind for kinds in named for kind in kinds))
        return {"type": kinds if len(kinds) > 1 else kinds[0]}
    return {"anyOf": options}


def _definition(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    if issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if not is_dataclass(kind):
        raise TypeError(f"{kind.__name__} is not plain data")
    hints = get_type_hints(kind, localns={"Outcome": Outcome})  # which results name and do not load
    described = {} if kind.__doc__ is None or kind.__doc__.startswith(f"{kind.__name__}(") else _doc(kind.__doc__)
    return {
        **described,
        "type": "object",
        "properties": {field.name: schema_of(hints[field.name], definitions) for field in fields(kind)},
        "required": [field.name for field in fields(kind)],
    }


def _doc(text: str) -> dict[str, str]:
    return {"description": " ".join(text.split())}


def answer_schema() -> dict[str, Any]:
    """Either an answer, whose result is that of its question, or an exhibit."""
    definitions: dict[str, Any] = {"Outcome": {}}
    answer, exhibit = (schema_of(kind, definitions) for kind in (Answer, Exhibit))
    results = {name: schema_of(QUESTIONS[name].result, definitions) for name in TITLES}
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
