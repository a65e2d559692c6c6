"""Values of parameters: as typed, else the default, else chosen from the lake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ioweather.core.clock import parse_moment_ns, zone_named
from ioweather.core.contracts import Inventory, Param, Params, Question, Study
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


def resolve_params(
    params: Sequence[Param], typed: Mapping[str, Any], inventory: Callable[[], Inventory], zone: Callable[[], str]
) -> dict[str, Any]:
    """A value for every parameter, in order of declaration; durations and times in ns, sizes in bytes. The lake is
    opened only for parameters that are chosen from it."""
    values: dict[str, Any] = {}
    for param in params:
        values[param.name] = _resolve(param, typed.get(param.name), inventory, zone, values)
    return values


def check_names(studies: Sequence[Study | Question], typed: Mapping[str, Any]) -> None:
    """Raise UsageError if a name is no parameter of any of the studies."""
    known = sorted({param.name for study in studies for param in study.params})
    for name in typed:
        if name not in known:
            from difflib import get_close_matches  # few mistype

            near = get_close_matches(name, known, n=1)
            meant = f" Did you mean {near[0]}?" if near else ""
            hint = f"There are: {', '.join(known) or 'none'}."
            raise UsageError(f"There is no parameter {name!r} here.{meant}", hint=hint)


def _resolve(
    param: Param, typed: Any, inventory: Callable[[], Inventory], zone: Callable[[], str], values: Params
) -> Any:
    if typed is not None and param.many:
        return tuple(str(each) for each in ([typed] if isinstance(typed, str) else typed))
    if typed is not None:
        return _typed(param, typed, zone)
    if param.required:
        raise UsageError(f"{param.name} is needed: {param.help}")
    if param.many:
        return ()
    if param.choose is not None and param.default is None:
        return param.choose(inventory(), values)
    if param.kind in ("duration", "size") and isinstance(param.default, str):
        return _PARSERS[param.kind](param.default)
    return param.default


def _typed(param: Param, typed: Any, zone: Callable[[], str]) -> Any:
    """Parse text as a command does; values from Python need no parsing."""
    text = typed if isinstance(typed, str) else str(typed) if param.kind == "text" else None
    try:
        if text is None:
            value = typed
        elif param.kind == "time":
            value = parse_moment_ns(text, zone_named(zone()))
        else:
            value = _PARSERS[param.kind](text)
    except ValueError as error:
        raise UsageError(f"{_spelled(param)}: {error}.") from None
    if param.choices and value not in param.choices:
        raise UsageError(f"{_spelled(param)}: {value!r} is not one of {', '.join(param.choices)}.")
    if param.least is not None and value < param.least:
        raise UsageError(f"{_spelled(param)}: {value} is below {param.least}.")
    return value


def _spelled(param: Param) -> str:
    return param.name if not param.option or "/" in param.option else param.option


def period_between(start: str | int | None, end: str | int | None, zone: Callable[[], str]) -> tuple[int, int]:
    """[start, end) in nanoseconds, from times as users write them or nanoseconds. `zone` is called only if needed."""
    low, high = (_moment(value, bound, zone) for value, bound in zip((start, end), (0, 2**62), strict=True))
    if low >= high:
        raise UsageError(f"--from {start} is not before --to {end}.")
    return low, high


def _moment(value: str | int | None, bound: int, zone: Callable[[], str]) -> int:
    if not isinstance(value, str):
        return bound if value is None else value
    try:
        return parse_moment_ns(value, zone_named(zone()))
    except ValueError as error:
        raise UsageError(f"{error}.") from None
