"""DataSource: what questions and studies read. Values of parameters, answers to questions, provenance of results."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

from ioweather._version import __version__
from ioweather.core.contracts import ALL_TIME, Param, Params, Period, Question, Spread, Study
from ioweather.core.errors import DataUnavailable, UsageError
from ioweather.core.facility import Facility
from ioweather.core.frames import Frame
from ioweather.core.papers import exhibit_entry
from ioweather.core.results import Answer, Exhibit, Provenance
from ioweather.core.safe_files import lake_place
from ioweather.core.tables import Quality
from ioweather.core.units import now_ns, parse_duration_ns, parse_moment_ns, parse_size, zone_named
from ioweather.lake import grid, layout
from ioweather.lake.lake import OF_THE_FACILITY, Lake, lake_at
from ioweather.topics.catalogue import QUESTIONS

if TYPE_CHECKING:
    from ioweather.core.frames import BlockwiseMatrix
    from ioweather.core.results import Cell
    from ioweather.lake.lake import Snapshot


# Samples above what the hardware can do, and of restarted counters, are no amounts.
UNREAL: Final = Quality.OVER_LIMIT | Quality.RESET


def simulated_caveat(facility: Facility) -> tuple[str, ...]:
    """The caveat of results from a simulated facility; empty for a real one."""
    return ("This facility is simulated.",) if facility.simulated else ()


def has_user_rows(tables: Collection[str]) -> bool:
    """Whether one of the tables has rows of users, which not all users may see."""
    return bool(set(tables) - OF_THE_FACILITY)


def provenance_of(
    snapshot: Snapshot | None, used: Collection[str], values: Mapping[str, Any], period: Period, *, own_rows: bool
) -> Provenance:
    """What a result depends on. `used` are the tables that were read; `own_rows`: of tables about users, only rows of
    the asking user. Without a snapshot only the parameters and the software are known."""
    params = {**values, **({} if period == ALL_TIME else {"from_ns": period[0], "to_ns": period[1]})}
    if snapshot is None:
        return Provenance(params=params, software_version=__version__, made_ns=now_ns())
    tables = {name: snapshot.pinned[name] for name in snapshot.pinned if name in used}
    versions = {name: files.version for name, files in tables.items() if files.version is not None}
    if own_rows and snapshot.owner is not None:
        params["rows_of"] = snapshot.owner.user  # one person's exhibit is not another's
    digest = hashlib.sha256(
        json.dumps([sorted(snapshot.pinned[name].uris) for name in sorted(versions)]).encode()
    ).hexdigest()[:16]
    return Provenance(
        lake=str(snapshot.root),
        table_versions=versions,
        params=params,
        facility_digest=snapshot.facility.digest,
        input_digest=digest,
        software_version=__version__,
        made_ns=now_ns(),
    )


T = TypeVar("T")


# Results that several questions about one job share, by the function that makes them.
SharedResults: TypeAlias = "dict[Callable[[DataSource, Params], Any], Any]"


class DataSource:
    """The lake, and perhaps the log, that a question or a study reads; and a record of what it has read.

    `reads_files`: it may open paths, which are those of the asking user. `tables` are those that the answer depends on,
    for its provenance; a question that reads fewer than it declares sets them. `own_rows` is set if only rows of the
    asking user were read, and all users' rows would give another answer. `reads_agents`: the answer is about
    measurements of this machine, not about the facility of the lake. `is_compared`: a log was compared with runs of the
    lake.

    For studies: `wanted` are the exhibits to make (empty: all); a study may make others too. `spread(task, inputs)`
    gives task(*input) of each input in their order, like `starmap`, perhaps from other processes: task is a function of
    a module, inputs can be pickled. `quality_notes` are about flagged samples among those read.
    """

    def __init__(
        self,
        lake: Lake | str | os.PathLike[str] | None,
        until: ExitStack,
        period_ns: Period = ALL_TIME,
        *,
        reads_files: bool = True,
        shared: SharedResults | None = None,
    ) -> None:
        self._asked, self._until = lake, until
        self.was_named = lake is not None
        self.opened: Snapshot | None = None
        self.period_ns = period_ns
        self.reads_files = reads_files
        self.tables: Collection[str] = ()
        self.own_rows = False
        self.reads_agents = False
        self.is_compared = False
        self.log_params: set[str] = set()
        self.log_digests: list[str] = []
        self.file_digests: list[str] = []
        self._shared: SharedResults = {} if shared is None else shared
        self.spread: Spread = starmap
        self.wanted: frozenset[str] = frozenset()
        self.quality_notes: list[str] = []

    @classmethod
    def of(cls, snapshot: Snapshot, period_ns: Period = ALL_TIME) -> DataSource:
        """The source of a lake that is open."""
        source = cls(None, ExitStack(), period_ns)
        source.opened = snapshot
        return source

    @property
    def snapshot(self) -> Snapshot:
        """The lake as it was when it was first read."""
        if self.opened is None:
            self.opened = self._until.enter_context(self.lake.snapshot())
        return self.opened

    def snapshot_if_there(self) -> Snapshot | None:
        """The snapshot; None where no lake was named, and the person has none."""
        return self.snapshot if self.directory is not None else None

    @cached_property
    def lake(self) -> Lake:
        return lake_at(self._asked)

    @property
    def directory(self) -> Path | None:
        """The directory of the lake; None where no lake was named, and the person has none."""
        if isinstance(self._asked, Lake):
            return self._asked.root
        root = layout.default_lake_dir() if self._asked is None else lake_place(self._asked)
        return root if self.was_named or layout.is_lake(root) else None

    @property
    def facility(self) -> Facility:
        """The facility of the lake; empty for a log without a lake."""
        if self.opened is not None:
            return self.opened.facility
        is_lake = self.was_named and self.directory is not None and layout.is_lake(self.directory)
        return self.lake.facility if is_lake else Facility()

    @property
    def has_lake(self) -> bool:
        """Whether a lake was named or is open; without one, a question about a log is answered from the log alone."""
        return self.was_named or self.opened is not None

    def wants(self, *exhibits: str) -> bool:
        """Whether one of these exhibits is to be made."""
        return not self.wanted or not self.wanted.isdisjoint(exhibits)

    def shared(self, make: Callable[[DataSource, Params], T], params: Params) -> T:
        """`make(self, params)`, computed once for all questions that share results. An error is not cached."""
        if make not in self._shared:
            self._shared[make] = make(self, params)
        return cast(T, self._shared[make])

    def frame(
        self,
        table: str,
        columns: Sequence[str] = (),
        where: Mapping[str, Cell | tuple[Cell, ...]] | None = None,
        *,
        optional: bool = False,
        any_time: bool = False,
        missing: str = "",
    ) -> Frame:
        """Rows of the period (`any_time`: of all time). Raises DataUnavailable, which says `missing`, if the table is
        empty and not `optional`."""
        self.note_tables((table,))
        if not optional and not self.snapshot.filled([table]):
            raise DataUnavailable(missing or f"The lake has no rows in `{table}`.")
        period = None if any_time or self.period_ns == ALL_TIME else self.period_ns
        return self.snapshot.frame(table, columns, where or {}, period)

    def rollup(
        self,
        filesystem: str,
        component_kind: str,
        metrics: Sequence[str],
        step_ns: int,
        *,
        excluded: Quality = UNREAL,
        optional: bool = False,
    ) -> Frame:
        """Amounts of `series` summed over all components of a kind (intensive ones averaged), in steps of `step_ns`.

        Columns start_ns, metric, value and coverage (share of component-time present); in time order, a row per metric
        and step that has any data. Rows with one of the `excluded` quality flags count as missing. Without any data it
        is empty if `optional`, else DataUnavailable is raised.
        """
        try:
            selection = self._selection(filesystem, component_kind, metrics, step_ns, excluded)
        except DataUnavailable:
            if not optional:
                raise
            return Frame({})
        return grid.rollup(selection, metrics)

    def matrices(
        self,
        filesystem: str,
        component_kind: str,
        metrics: Sequence[str],
        step_ns: int,
        *,
        excluded: Quality = UNREAL,
        optional: bool = False,
    ) -> dict[str, BlockwiseMatrix]:
        """Steps by components of each metric that has data, all on one grid and of the same components; see
        `rollup`."""
        try:
            selection = self._selection(filesystem, component_kind, metrics, step_ns, excluded)
        except DataUnavailable:
            if not optional:
                raise
            return {}
        found = [metric for metric in metrics if selection.groups_of(metric)]
        return {metric: grid.matrix(selection, metric, selection.groups) for metric in found}

    def _selection(
        self, filesystem: str, component_kind: str, metrics: Sequence[str], step_ns: int, excluded: Quality
    ) -> grid.Selection:
        """Rows of `series` for a grid; notes their quality flags."""
        selection = self.snapshot.selection(
            filesystem, component_kind, metrics, step_ns, period_ns=self.period_ns, excluded_quality=int(excluded)
        )
        flagged: Counter[str] = Counter()
        for group in selection.groups:
            flagged.update(group.flagged)
        if flagged:
            listed = ", ".join(f"{n:,} {flag}" for flag, n in sorted(flagged.items()))
            self.quality_notes.append(f"Flagged samples in the data read: {listed}.")
        return selection

    def note_tables(self, tables: Collection[str]) -> None:
        """Record that rows of these tables are read as the asking user sees them."""
        self.own_rows |= self.snapshot.owner is not None and has_user_rows(tables)

    def note_logs(self, param: str, digests: Sequence[str] = (), *, from_file: bool = False) -> None:
        """Record the logs that the answer is about, and the parameter that named them: provenance gives digests, not
        paths."""
        self.log_params.add(param)
        self.log_digests += digests
        if from_file:
            self.file_digests += digests


# Values of parameters.


def _flag(text: str) -> bool:
    """Parse yes or no."""
    found = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if text.lower() not in found:
        raise ValueError(f"{text!r} is not yes or no")
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
    params: Sequence[Param], typed: Mapping[str, Any], snapshot: Callable[[], Snapshot], zone: Callable[[], str]
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
            raise UsageError(f"{param.name} is required: {param.help}")
        elif param.choose is not None and param.default is None:
            values[param.name] = param.choose(snapshot(), values)
        elif param.kind in ("duration", "size") and isinstance(param.default, str):
            values[param.name] = _PARSERS[param.kind](param.default)
        else:
            values[param.name] = () if param.many else param.default
    return values


def _parse(param: Param, typed: Any, zone: Callable[[], str]) -> Any:
    """The value of a parameter; text is parsed by its kind. Raises UsageError."""
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
        raise UsageError(f"{spelled}: {value} is less than the minimum of {param.least}.")
    return value


def refuse_unknown_names(studies: Sequence[Study | Question], typed: Mapping[str, Any]) -> None:
    """Raise UsageError if a name is no parameter of any of these studies or questions."""
    known = sorted({param.name for study in studies for param in study.params})
    for name in set(typed) - set(known):
        near = get_close_matches(name, known, n=1)
        meant = f" Did you mean {near[0]}?" if near else ""
        hint = f"Parameters: {', '.join(known) or 'none'}."
        raise UsageError(f"Parameter {name!r} does not exist here.{meant}", hint=hint)


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


# Questions and their answers.

_OWN_ROWS: Final = "This result uses your own jobs and public data. With the jobs of other users, it may differ."


def ask(
    name: str,
    lake: Lake | str | os.PathLike[str] | None = None,
    params: Mapping[str, Any] | None = None,
    *,
    period_ns: Period = ALL_TIME,
    shared: SharedResults | None = None,
    files: bool = True,
) -> Answer:
    """Answer the question of this name. `lake`: default the user's own, if the question needs one. Parameters that are
    text are parsed as on the command line. `shared` are results of other questions about the same job; without `files`
    nothing is read from a path."""
    question = QUESTIONS[name]
    typed = {key: value for key, value in (params or {}).items() if value is not None}
    refuse_unknown_names([question], typed)
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
        provenance = provenance_of(source.opened, source.tables, shown, source.period_ns, own_rows=source.own_rows)
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
    """The caveat of an answer about simulated data. Measurements by agents are real, and so is a log that is not in the
    lake, though the runs that it is compared with are not."""
    if not source.facility.simulated or source.reads_agents:
        return ()
    digests = source.file_digests
    if not digests or source.snapshot.frame("applications", ("log_digest",), {"log_digest": tuple(digests)}).rows:
        return simulated_caveat(source.facility)
    return ("The run is compared with simulated runs.",) if source.is_compared else ()


def _titled(exhibit: Exhibit) -> Exhibit:
    """The exhibit with the title that its paper's file has for it."""
    return replace(exhibit, title=exhibit_entry(exhibit.id).title)


def zone_of(lake: Lake | str | os.PathLike[str] | None) -> str:
    """Time zone of the facility, for times that are typed without one."""
    source = DataSource(lake, ExitStack())
    return (source.lake.facility.zone if source.directory else None) or "UTC"
