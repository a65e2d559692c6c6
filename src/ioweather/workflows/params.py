"""Parameters of a study: what the person typed, else the default, else what the lake suggests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ioweather.core.contracts import Inventory, Param, Params, Study
from ioweather.core.errors import UsageError
from ioweather.core.units import parse_duration_ns, parse_size

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


def _flag(text: str) -> bool:
    lowered = text.lower()
    if lowered not in _YES + _NO:
        raise ValueError(f"{text!r} is neither yes nor no")
    return lowered in _YES


_PARSERS: dict[str, Callable[[str], Any]] = {
    "text": str,
    "int": int,
    "float": float,
    "duration": parse_duration_ns,
    "size": parse_size,
    "flag": _flag,
}


def resolve_params(study: Study, typed: Mapping[str, str], inventory: Inventory) -> dict[str, Any]:
    """A value for every parameter of the study, in order of declaration; durations in ns, sizes in bytes."""
    values: dict[str, Any] = {}
    for param in study.params:
        values[param.name] = _resolve(param, typed.get(param.name), inventory, values)
    return values


def check_names(studies: list[Study], typed: Mapping[str, str]) -> None:
    """A parameter that none of the studies has is a typing mistake."""
    known = sorted({param.name for study in studies for param in study.params})
    for name in typed:
        if name not in known:
            raise UsageError(f"There is no parameter {name!r} here.", hint=f"There are: {', '.join(known) or 'none'}.")


def _resolve(param: Param, text: str | None, inventory: Inventory, values: Params) -> Any:
    if text is not None:
        try:
            return _PARSERS[param.kind](text)
        except ValueError as error:
            raise UsageError(f"{param.name}: {error}.") from None
    if param.choose is not None and param.default is None:
        return param.choose(inventory, values)
    if param.kind in ("duration", "size") and isinstance(param.default, str):
        return _PARSERS[param.kind](param.default)
    return param.default
