"""Run a question on a lake or log: values of its parameters, its answer, provenance and standing caveats."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final

from ioweather.core.clock import parse_moment_ns, zone_named
from ioweather.core.contracts import ALL_TIME, Inventory, Param, Period, Question, Study
from ioweather.core.errors import UsageError
from ioweather.core.results import Answer, Exhibit
from ioweather.core.units import parse_duration_ns, parse_size
from ioweather.lake.lake import Place
from ioweather.topics.catalogue import QUESTIONS
from ioweather.topics.source import DataSource, SharedResults, provenance_of, standing_caveats

if TYPE_CHECKING:
    from ioweather.lake.lake import Lake

_OWN_ROWS: Final = "Made of your own jobs and of what all may see: with the jobs of others it may come out differently."


def _flag(text: str) -> bool:
    found = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in found:
        raise ValueError(f"{text!r} is neither yes nor no")
    return found[text.lower()]


_PARSERS: Final[Mapping[str, Callable[[str], Any]]] = {
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
    """A value for every parameter, in order of declaration: as typed, else the default, else chosen from the lake.
    Durations and times in ns, sizes in bytes. The lake is opened only for parameters that are chosen from it."""
    values: dict[str, Any] = {}
    for param in params:
        given = typed.get(param.name)
        if given is not None and param.many:
            values[param.name] = tuple(str(each) for each in ([given] if isinstance(given, str) else given))
        elif given is not None:
            values[param.name] = _parse(param, given, zone)
        elif param.required:
            raise UsageError(f"{param.name} is needed: {param.help}")
        elif param.choose is not None and param.default is None:
            values[param.name] = param.choose(inventory(), values)
        elif param.kind in ("duration", "size") and isinstance(param.default, str):
            values[param.name] = _PARSERS[param.kind](param.default)
        else:
            values[param.name] = () if param.many else param.default
    return values


def _parse(param: Param, typed: Any, zone: Callable[[], str]) -> Any:
    """Parse text as a command does; values from Python need no parsing."""
    spelled = param.name if not param.option or "/" in param.option else param.option
    value = str(typed) if param.kind == "text" else typed
    try:
        if isinstance(value, str):
            value = parse_moment_ns(value, zone_named(zone())) if param.kind == "time" else _PARSERS[param.kind](value)
    except ValueError as error:
        raise UsageError(f"{spelled}: {error}.") from None
    if param.choices and value not in param.choices:
        raise UsageError(f"{spelled}: {value!r} is not one of {', '.join(param.choices)}.")
    if param.least is not None and value < param.least:
        raise UsageError(f"{spelled}: {value} is below {param.least}.")
    return value


def check_names(studies: Sequence[Study | Question], typed: Mapping[str, Any]) -> None:
    """Raise UsageError if a name is no parameter of any of the studies."""
    known = sorted({param.name for study in studies for param in study.params})
    for name in set(typed) - set(known):
        near = get_close_matches(name, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        hint = f"There are: {', '.join(known) or 'none'}."
        raise UsageError(f"There is no parameter {name!r} here.{meant}", hint=hint)


def period_between(start: str | int | None, end: str | int | None, zone: Callable[[], str]) -> tuple[int, int]:
    """[start, end) in nanoseconds, from times as users write them or nanoseconds. `zone` is called only if needed."""
    try:
        low, high = (
            parse_moment_ns(each, zone_named(zone())) if isinstance(each, str) else bound if each is None else each
            for each, bound in zip((start, end), ALL_TIME, strict=True)
        )
    except ValueError as error:
        raise UsageError(f"{error}.") from None
    if low >= high:
        raise UsageError(f"--from {start} is not before --to {end}.")
    return low, high


def ask(
    name: str,
    lake: Lake | str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    period_ns: Period = ALL_TIME,
    shared: SharedResults | None = None,
    files: bool = True,
) -> Answer:
    """The answer to the question of this name. `lake`: default the person's own, where the question needs one. Text
    among the parameters is parsed as a command parses it. `shared` are results of other questions about the same job;
    without `files` nothing is read from a path."""
    question = QUESTIONS[name]
    typed = {key: value for key, value in (params or {}).items() if value is not None}
    check_names([question], typed)
    with ExitStack() as until:
        source = DataSource(lake, until, period_ns, reads_files=files, shared=shared)
        source.tables = question.tables
        values = resolve_params(question.params, typed, lambda: source.snapshot, lambda: zone_of(lake))
        answer = question.run(source, values)
        own = (_OWN_ROWS,) if source.own_rows else ()
        blocks = answer.blocks if question.blocks is None else tuple(question.blocks(answer, values))
        exhibits = tuple(each if each.title else _titled(each) for each in answer.exhibits)
        # Logs are named by their digests, since a path may be private.
        shown = {
            param.name: values[param.name]
            for param in question.params
            if param.shown
            and not param.local
            and param.name not in source.log_params
            and values[param.name] != param.default
        }
        provenance = provenance_of(
            source.place.opened, source.tables, shown, source.period_ns, own_rows=source.own_rows
        )
        if source.log_digests:
            digests = ",".join(digest[:16] for digest in source.log_digests)
            provenance = replace(provenance, input_digest=digests)
        return replace(
            answer,
            blocks=blocks,
            name=name,
            exhibits=exhibits,
            caveats=(*_simulated(source), *own, *answer.caveats),
            provenance=provenance,
        )


def _simulated(source: DataSource) -> tuple[str, ...]:
    """Whether the answer is about simulated data. What agents measure now is not; nor is a log that the lake does not
    have, though the runs that it is compared with are."""
    if not source.facility.simulated or source.reads_agents:
        return ()
    digests = source.file_digests
    if not digests or source.snapshot.frame("applications", ("log_digest",), {"log_digest": tuple(digests)}).rows:
        return standing_caveats(source.facility)
    return ("The runs that it is compared with are simulated.",) if source.is_compared else ()


def _titled(exhibit: Exhibit) -> Exhibit:
    """The exhibit with the title that its paper's file has for it."""
    from ioweather.core.papers import exhibit_entry  # reads five files; few answers have one

    return replace(exhibit, title=exhibit_entry(exhibit.id).title)


def zone_of(lake: Lake | str | os.PathLike[str] | None) -> str:
    """Time zone of the facility, for times that are typed without one."""
    place = Place(lake, ExitStack())
    return (place.lake.facility.zone if place.is_there else None) or "UTC"
