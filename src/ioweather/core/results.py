"""Results of analyses: estimates with intervals, findings in words, charts as data, exhibits and answers.

All of it is plain data (str, int, float, None, tuples), so that one renderer each serves terminal, HTML and JSON.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import wraps
from typing import Any, Final, Literal, ParamSpec, TypeAlias, TypeVar

from ioweather.core.tabular import Tabular, frame_of_rows
from ioweather.core.units import UNITS, format_value, joined

Cell: TypeAlias = str | int | float | bool | None
ChartKind: TypeAlias = Literal["timeline", "cdf", "histogram", "box", "band", "scatter", "heatmap", "bars", "matrix"]
SCHEMA_VERSION = 1
_BETWEEN_WORDS = re.compile(r"_(?![A-Z])")  # D_U_M_mean: the symbol stays whole


@dataclass(frozen=True)
class ResultColumn:
    """`label` is the heading a person reads; `unit` one of core.units.UNITS."""

    name: str
    label: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"column {self.name!r} has the unknown unit {self.unit!r}")

    @property
    def heading(self) -> str:
        return self.label or self.name.replace("_", " ")


_COLUMN = re.compile(r"(\w+)(?:: (.+?))?(?: \[([^\[\]]+)\])?")


def columns_of(text: str) -> tuple[ResultColumn, ...]:
    """The columns of a table from `name: heading [unit]; ...`; heading and unit may be left out."""
    found = [(each, _COLUMN.fullmatch(each.strip())) for each in text.split(";")]
    for each, match in found:
        if match is None:
            raise ValueError(f"not a column (name: heading [unit]): {each!r}")
    return tuple(ResultColumn(*(part or "" for part in match.groups())) for _, match in found if match)


@dataclass(frozen=True, repr=False)
class ResultTable(Tabular):
    """A small table that is printed, or that a chart is drawn from."""

    name: str
    columns: tuple[ResultColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.name!r}: a row of {len(row)} cells for {len(self.columns)} columns")

    @classmethod
    def of(cls, name: str, columns: str, rows: Iterable[tuple[Cell, ...]], title: str = "") -> ResultTable:
        """A table whose columns are written as in `columns_of`."""
        return cls(name, columns_of(columns), tuple(rows), title)

    def column(self, name: str) -> tuple[Cell, ...]:
        """The cells of a column."""
        index = [column.name for column in self.columns].index(name)
        return tuple([row[index] for row in self.rows])

    def _table(self) -> Any:
        return frame_of_rows([column.name for column in self.columns], self.rows)

    def _times(self) -> list[str]:
        return [column.name for column in self.columns if column.unit == "time_ns"]

    def __repr__(self) -> str:
        names = ", ".join(column.name for column in self.columns)
        return joined(f"<ResultTable {self.name}: {len(self.rows)} rows of {names}>")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval, level, sample size and method.

    `low` and `high` are None if no interval was requested or none exists; `method` then says which.
    """

    name: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    level: float | None = None
    n: int | None = None
    method: str = ""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"estimate {self.name!r} has the unknown unit {self.unit!r}")


# Quantities that cannot be negative: their intervals are made of logarithms.
POSITIVE_UNITS: Final = frozenset({"bytes", "bytes_per_s", "ops_per_s", "seconds", "factor"})


def quantity_label(name: str, unit: str) -> str:
    """Return the name of an estimate in words: 'io_ratio[my_app]' is 'I/O share [my_app]' if its unit is a ratio.
    The part in brackets is a name from the data and stays."""
    words, bracket, data_name = name.partition("[")
    words = _BETWEEN_WORDS.sub(" ", words)
    if unit == "ratio":
        words = re.sub(r"\bratio\b", "share", words)
    return re.sub(r"\bio\b", "I/O", words) + (f" [{data_name}" if bracket else "")


@dataclass(frozen=True)
class Amount:
    """A value with its 90% interval."""

    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Finding:
    """A sentence, and its mark. `supported` and `refuted` are about a paper's statement, the `claim`, and are set
    only by core.papers.claim_tests: this site agrees with the paper, or contradicts it. `undecided`: these data do not
    decide it. A note is a measurement without a claim; an alarm needs attention now. In an answer a finding has a
    `name`, which stays when the words change."""

    text: str
    kind: Literal["supported", "refuted", "undecided", "note", "alarm"] = "note"
    name: str = ""
    claim: str = ""


@dataclass(frozen=True)
class Reference:
    """A line across a chart (`value`), or a shaded stretch of it (`value` to `end`).

    `role` is "this" for the subject of the chart, and "bad" for a problem.
    """

    axis: Literal["x", "y"]
    value: float
    label: str = ""
    end: float | None = None
    role: Literal["", "this", "bad"] = ""


@dataclass(frozen=True)
class Chart:
    """A picture as data: a closed kind, a table, which column goes where, and reference lines.

    Encodings by kind (column names of `table`; optional ones in brackets):
      timeline   x (time_ns), y, [series], [low, high]      cdf      x, y (0-1), [series]
      histogram  low, high, y, [series]                      box      x, q05, q25, q50, q75, q95, [series]
      band       x, y, low, high, [series]                   scatter  x, y, [series], [size], [label], [curve]
      heatmap    x, y, value, [curve]                        bars     x, y, [series], [low, high]
      matrix     x, y, value (numbers printed in cells)
    A row with a name in `curve` is a point of that line over the data, in
    the order of the rows; without x or y the line breaks there.
    `scales` sets an axis to 'log' or 'linear'; `facet` names a column that splits the chart into panels.
    """

    kind: ChartKind
    table: ResultTable
    encoding: Mapping[str, str]
    title: str = ""
    facet: str | None = None
    scales: Mapping[str, Literal["linear", "log"]] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()

    def __post_init__(self) -> None:
        known = {column.name for column in self.table.columns}
        missing = {name for name in (*self.encoding.values(), self.facet) if name is not None} - known
        if missing:
            raise ValueError(f"chart {self.title!r} encodes columns its table lacks: {sorted(missing)}")

    @classmethod
    def of(
        cls, kind: ChartKind, table: ResultTable, encoding: str, title: str = "", *, log: str = "", **more: Any
    ) -> Chart:
        """A chart whose encoding is written as `x=time y=value series`; a word alone is a column of its own name.
        `log` names the axes with logarithms, as `xy`."""
        pairs = (word.partition("=") for word in encoding.split())
        columns = {place: column or place for place, _, column in pairs}
        return cls(kind, table, columns, title, scales=dict.fromkeys(log, "log"), **more)


@dataclass(frozen=True)
class Coverage:
    """How many of the expected items are present. `excluded` counts those left out, by reason."""

    expected: int
    present: int
    unit: str
    excluded: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""

    @property
    def ratio(self) -> float | None:
        return self.present / self.expected if self.expected else None

    @property
    def sentence(self) -> str:
        """The counts as a sentence: '9 of 10 logs (90%); left out: 1 partial.'"""
        share = f" ({format_value(self.ratio, 'ratio')})" if self.ratio is not None else ""
        reasons = ", ".join(f"{n:,} {reason.replace('_', ' ')}" for reason, n in self.excluded.items() if n)
        detail = f", {self.detail.rstrip('.')}" if self.detail else ""
        left_out = f"; left out: {reasons}" if reasons else ""
        return f"{self.present:,} of {self.expected:,} {self.unit}{share}{detail}{left_out}."


@dataclass(frozen=True)
class Published:
    """A number printed in a paper, with its place."""

    exhibit: str
    quantity: str
    value: Cell
    unit: str = ""
    place: str = ""
    note: str = ""


@dataclass(frozen=True)
class Provenance:
    """Enough to make the same result again: pinned table versions, parameters, facility and software."""

    lake: str = ""
    table_versions: Mapping[str, int] = field(default_factory=dict)
    params: Mapping[str, Cell] = field(default_factory=dict)
    facility_digest: str = ""
    input_digest: str = ""
    software_version: str = ""
    made_ns: int = 0


@dataclass(frozen=True, repr=False)
class Exhibit:
    """One table or figure of a paper, made from this facility's data. Without a title of its own it gets the one that
    its paper's file has for it."""

    id: str
    title: str = ""
    tables: tuple[ResultTable, ...] = ()
    charts: tuple[Chart, ...] = ()
    estimates: tuple[Estimate, ...] = ()
    findings: tuple[Finding, ...] = ()
    caveats: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    published: tuple[Published, ...] = ()
    provenance: Provenance = Provenance()

    @property
    def empty_because(self) -> str:
        """Why there is nothing to show (no chart, no row of a table, no number); '' if there is something."""
        numbers = any(estimate.value is not None and estimate.n != 0 for estimate in self.estimates)
        if self.charts or numbers or any(table.rows for table in self.tables):
            return ""
        words = [f.text for f in self.findings if not f.claim] or list(self.caveats)
        return words[0] if words else "no data to show"

    def __repr__(self) -> str:
        counts = (
            f"{len(self.tables)} tables, {len(self.charts)} charts, {len(self.estimates)} estimates, "
            f"{len(self.findings)} findings"
        )
        return joined(f"<Exhibit {self.id}: {self.title} ({counts})>")


# A part of an exhibit; a text is a caveat.
Piece: TypeAlias = "ResultTable | Chart | Estimate | Finding | Coverage | str | Iterable[Piece]"
_PLACES: Final = {
    ResultTable: "tables",
    Chart: "charts",
    Estimate: "estimates",
    Finding: "findings",
    str: "caveats",
    Coverage: "coverage",
}
P = ParamSpec("P")


def exhibit(name: str) -> Callable[[Callable[P, Iterable[Piece]]], Callable[P, Exhibit]]:
    """Decorator: an exhibit of the pieces that a function yields. Each goes to the field for its type, in order."""

    def made_of(pieces: Callable[P, Iterable[Piece]]) -> Callable[P, Exhibit]:
        """The function that makes the exhibit of the pieces."""

        @wraps(pieces)
        def made(*args: P.args, **kwargs: P.kwargs) -> Exhibit:
            """The exhibit: each piece in the field for its type."""
            places: dict[str, Any] = {}
            for piece in _flat(pieces(*args, **kwargs)):
                place = _PLACES[type(piece)]
                places[place] = (*places.get(place, ()), piece)
            return Exhibit(name, **places)

        return made

    return made_of


def _flat(pieces: Iterable[Any]) -> Iterator[Any]:
    """The pieces of nested iterables."""
    for piece in pieces:
        if type(piece) in _PLACES:
            yield piece
        else:
            yield from _flat(piece)


@dataclass(frozen=True)
class Fact:
    """One line of an answer: a label, a value, and optionally a share (0-1) to draw as a bar. `name` is for programs,
    snake_case and unique within its group; of lists whose length depends on the data the names are numbered."""

    name: str
    label: str
    value: Cell
    unit: str = ""
    share: float | None = None
    note: str = ""


@dataclass(frozen=True)
class FactGroup:
    """`name` is unique within the answer; the title may say more of this very answer, such as a path or a length."""

    name: str
    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Item:
    """One thing in a list: its name, what about it, when, and what it cost or what to type. `end_ns` None with a start:
    it goes on. `page` is its page in the dashboard, such as `components/scratch-OST0007`."""

    name: str
    what: str
    start_ns: int | None = None
    end_ns: int | None = None
    note: str = ""
    page: str = ""


@dataclass(frozen=True)
class Items:
    """A list with a title; `numbered`: steps to take, in this order. `more` says what is left out."""

    title: str
    items: tuple[Item, ...]
    numbered: bool = False
    more: str = ""


@dataclass(frozen=True)
class Next:
    """The last line of a screen: the command to type next."""

    command: str
    why: str = "Next"


# What the first screen of an answer is made of: bars and values, lists and steps, a table, a figure, a note, the next
# command. Terminal, HTML and JSON draw each kind in one place.
Block: TypeAlias = FactGroup | Items | ResultTable | Chart | Finding | Next


@dataclass(frozen=True, repr=False)
class Answer:
    """What a question returns; the headline alone must be worth reading. `blocks` are the first screen below it; facts,
    exhibits, findings and coverage are the evidence. `result` is what a program reads of it, and `name` that of the
    question."""

    question: str
    headline: str
    facts: tuple[FactGroup, ...] = ()
    exhibits: tuple[Exhibit, ...] = ()
    findings: tuple[Finding, ...] = ()
    caveats: tuple[str, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    provenance: Provenance = Provenance()
    name: str = ""
    result: Any = None
    blocks: tuple[Block, ...] = ()

    def __repr__(self) -> str:
        facts = sum(len(group.facts) for group in self.facts)
        return joined(f"<Answer {self.name}: {self.headline} ({facts} facts, {len(self.exhibits)} exhibits)>")


def largest_facts(group: FactGroup, most: int) -> FactGroup:
    """The group with its `most` largest facts by share, in their order, and how many were left out; the first facts if
    not all have shares. Lines about the fact above (its interval, its model) and facts of share 0 are left out."""
    about_the_one_above = ("_interval", "_model", "_how")
    never_cut = ("reading", "writing", "read", "write", "sequential", "unique", "partially_shared", "shared")
    rows = [fact for fact in group.facts if not fact.name.endswith(about_the_one_above) and fact.share != 0]
    if any(fact.share is None for fact in rows):
        return replace(group, facts=tuple(rows[:most]))
    ranked = sorted(rows, key=lambda fact: (fact.name not in never_cut, -(fact.share or 0.0)))
    shown = tuple(fact for fact in rows if fact in ranked[:most])
    cut = len(rows) - len(shown)
    more = Fact("more_rows", f"+{cut} more row{'s' if cut > 1 else ''}", "")
    return replace(group, facts=(*shown, more) if cut else shown)


def evidence_blocks(answer: Answer) -> Iterator[Block]:
    """The evidence of an answer as blocks: facts, tables and figures, findings."""
    yield from answer.facts
    for exhibit in answer.exhibits:
        if not exhibit.charts:  # a table that is the answer; one beside a chart is on its page
            yield from exhibit.tables
        yield from (replace(chart, title=chart.title or exhibit.title) for chart in exhibit.charts)
    yield from answer.findings


def estimate_table(estimates: Sequence[Estimate], most: int = 16) -> Iterator[ResultTable]:
    """Yield a table of the first `most` estimates; nothing without estimates."""
    rows: list[tuple[Cell, ...]] = []
    for each in estimates[:most]:
        value, low, high = (format_value(number, each.unit) for number in (each.value, each.low, each.high))
        interval = "" if each.low is None or each.high is None else f"{low} – {high}"
        rows.append((quantity_label(each.name, each.unit), value, interval, each.n))
    if rows:
        level = next((each.level for each in estimates[:most] if each.level), None)
        heading = "interval" if level is None else f"{level:.0%} interval" if level < 1 else "at least – at most"
        more = f"the first {most} of {len(estimates)} estimates" if len(estimates) > most else ""
        yield ResultTable.of("estimates", f"quantity; here; interval: {heading}; n [count]", rows, more)


def snake_case(text: str) -> str:
    """A name for programs, made from a title or the name of an estimate without the part in brackets."""
    kept = (letter if letter.isascii() and letter.isalnum() else " " for letter in text.partition("[")[0].lower())
    return "_".join("".join(kept).split()) or "finding"


Named = TypeVar("Named", Fact, FactGroup, Finding)


def number_names(items: Iterable[Named]) -> tuple[Named, ...]:
    """Make names unique by appending _2, _3, ... to repeated ones."""
    counts: dict[str, int] = {}
    named = []
    for item in items:
        counts[item.name] = count = counts.get(item.name, 0) + 1
        named.append(item if count == 1 else replace(item, name=f"{item.name}_{count}"))
    return tuple(named)


def result_json(result: Exhibit | Answer) -> dict[str, Any]:
    """An exhibit or an answer as JSON, the same for commands, Python and HTTP; an exhibit with the paper's values."""
    body = {"schema_version": SCHEMA_VERSION, **to_jsonable(result)}
    if isinstance(result, Exhibit):
        from ioweather.core.papers.claim_tests import comparison_table  # which is made of what is here

        body["comparison"] = to_jsonable(comparison_table(result))
    return body


def to_jsonable(value: Any) -> Any:
    """Plain JSON data of any result: NaN and infinities become null, dataclasses become objects."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [to_jsonable(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if not is_dataclass(value) or isinstance(value, type):
        return value
    body = {f.name: to_jsonable(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Answer):  # a block says of which kind it is
        kinds = (_BLOCKS[type(block)] for block in value.blocks)
        body["blocks"] = [{"block": kind, **block} for kind, block in zip(kinds, body["blocks"], strict=True)]
    return body


_BLOCKS: Final = {
    FactGroup: "bars",
    Items: "items",
    ResultTable: "table",
    Chart: "figure",
    Finding: "note",
    Next: "next",
}


def exhibit_from_json(data: Mapping[str, Any]) -> Exhibit:
    """The inverse of `to_jsonable` for exhibits, for the cache of results."""
    charts = (
        Chart(**{**c, "table": _table(c["table"]), "references": tuple(Reference(**r) for r in c["references"])})
        for c in data["charts"]
    )
    kinds = {"estimates": Estimate, "findings": Finding, "coverage": Coverage, "published": Published}
    return Exhibit(
        data["id"],
        data["title"],
        tables=tuple(map(_table, data["tables"])),
        charts=tuple(charts),
        caveats=tuple(data["caveats"]),
        provenance=Provenance(**data["provenance"]),
        **{name: tuple(kind(**each) for each in data[name]) for name, kind in kinds.items()},
    )


def _table(data: Mapping[str, Any]) -> ResultTable:
    """A table from its JSON."""
    columns, rows = (ResultColumn(**column) for column in data["columns"]), map(tuple, data["rows"])
    return ResultTable(data["name"], tuple(columns), tuple(rows), data["title"])
