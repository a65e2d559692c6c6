"""The five papers as data: their exhibits and every number they print.

A published number has the name of the estimate that it is compared with: `below_ratio[1 MiB]`, `mean_rate_read`,
`pearson_write[ESB]`. In brackets is a row of a table, a project, a system or a threshold.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Final

from ioweather.core.errors import UsageError
from ioweather.core.results import Published
from ioweather.core.units import GIB, KIB, MIB, PIB, TIB, format_value

# Numbers are in the TOML files as the paper prints them ('>75%', '31.7 GiB/s'), so that they can be proofread. They
# are converted to our units here, exactly until the last step.

# Words for the mark before a number. The note of a published bound begins with them.
BOUNDS: Final = {">": "more than", "<": "less than", ">=": "at least", "<=": "at most", "~": "about"}

# Our unit -> printed units, and the factor of each.
_FACTORS: Final[Mapping[str, Mapping[str, Fraction | int]]] = {
    "": {"": 1, "TFlops": 1, "PF": 1},
    "count": {"n": 1, "k": 10**3, "M": 10**6, "billion": 10**9},
    "bytes": {
        "B": 1,
        "KiB": KIB,
        "MiB": MIB,
        "GiB": GIB,
        "TiB": TIB,
        "PiB": PIB,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "PB": 10**15,
    },
    "bytes_per_s": {
        "MiB/s": MIB,
        "GiB/s": GIB,
        "GiB/min": Fraction(GIB, 60),
        "MB/s": 10**6,
        "GB/s": 10**9,
        "GbE": Fraction(10**9, 8),
    },
    "mib_per_s_per_node": {"MiB/s/CN": 1},
    "ops_per_s": {"op/s": 1, "k/min": Fraction(10**3, 60), "M/min": Fraction(10**6, 60)},
    "seconds": {"ms": Fraction(1, 1000), "s": 1, "min": 60, "h": 3600, "d": 86_400},
    "ratio": {"%": Fraction(1, 100)},
    "factor": {"x": 1},
}
_UNITS: Final = {
    printed: (unit, Fraction(factor)) for unit, factors in _FACTORS.items() for printed, factor in factors.items()
}
_PRINTED: Final = re.compile(
    r"^(?P<bound>>=|<=|[<>~])?\s*(?P<number>[+-]?(?:\d[\d,]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(?P<unit>\S.*)?$"
)


@dataclass(frozen=True)
class _Printed:
    """A printed number in our units. `bound` is a key of BOUNDS, or empty; `scaled`: `value` differs from the printed
    digits."""

    value: int | float
    unit: str
    bound: str
    scaled: bool


def parse_printed(text: str, default_unit: str = "n") -> _Printed:
    """Convert a printed number to our units. A bare number has the printed unit `default_unit`. Raises ValueError."""
    match = _PRINTED.match(text.strip())
    if match is None or (match["unit"] or default_unit) not in _UNITS:
        raise ValueError(f"{text!r} is not a number with a known unit")
    unit, factor = _UNITS[match["unit"] or default_unit]
    exact = Fraction(match["number"].replace(",", "")) * factor
    whole = exact.denominator == 1 and unit in ("count", "bytes")
    return _Printed(int(exact) if whole else float(exact), unit, match["bound"] or "", factor != 1)


@dataclass(frozen=True)
class _ExhibitEntry:
    """A table, figure or headline statement of a paper: the study that makes it from a site's data, the page of the
    dashboard that shows it, and its equations, each with its meaning."""

    id: str
    paper: str
    title: str
    what: str
    study: str
    page: str
    equations: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Paper:
    """A paper, and the site and year that its numbers are from."""

    key: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    doi: str
    site: str
    exhibits: tuple[_ExhibitEntry, ...]

    @property
    def citation(self) -> str:
        return f"{', '.join(self.authors)}. {self.title}. {self.venue}, {self.year}. doi:{self.doi}"


@cache
def exhibits() -> tuple[_ExhibitEntry, ...]:
    """All exhibits, papers in alphabetical order, each in the order of its paper."""
    return tuple(entry for paper in PAPERS.values() for entry in paper.exhibits)


@cache
def exhibit_entry(exhibit_id: str) -> _ExhibitEntry:
    """The entry of an exhibit in its paper's file. Raises UsageError for an unknown id."""
    key = exhibit_id.partition(".")[0]
    for entry in PAPERS[key].exhibits if key in PAPERS else ():
        if entry.id == exhibit_id:
            return entry
    near = get_close_matches(exhibit_id, [entry.id for entry in exhibits()], n=2, cutoff=0.8)
    known = [entry.id for entry in exhibits() if entry.paper == key or entry.id.endswith(f".{exhibit_id}")]
    hint = f"There are: {', '.join(known)}." if known else "`ioweather show` lists them all."
    hint = f"Did you mean {' or '.join(near)}?" if near else hint
    raise UsageError(f"There is no exhibit {exhibit_id!r}.", hint=hint)


@cache
def published(exhibit_id: str) -> tuple[Published, ...]:
    """All numbers that a paper prints for one exhibit; empty if it prints only a picture."""
    paper = exhibit_entry(exhibit_id).paper
    return tuple(
        value for block in document(paper)["exhibit"] if block["id"] == exhibit_id for value in values_of(block)
    )


def as_printed(value: Published) -> str:
    """The value for people, with '>', '<', '≥', '≤' or '~' where the paper gives a bound or says about."""
    words = value.note.partition(";")[0]
    mark = next((mark for mark, name in BOUNDS.items() if name == words), "")
    return mark.replace(">=", "≥").replace("<=", "≤") + format_value(value.value, value.unit)


@cache
def document(key: str) -> dict[str, Any]:
    """The parsed TOML file of one paper."""
    return tomllib.loads(Path(__file__).with_name(f"{key}.toml").read_text("utf-8"))


def _read_paper(key: str) -> _Paper:
    """A paper with its exhibits, from its TOML file."""
    data, shared = document(key), document("equations")
    entries = []
    for block in data["exhibit"]:
        # An equation is written out, or named where several exhibits share it.
        equations = (shared[given] if isinstance(given, str) else given for given in block["equations"])
        words = {name: block[name] for name in ("id", "title", "what", "study", "page")}
        entries.append(_ExhibitEntry(paper=key, **words, equations=tuple((text, what) for text, what in equations)))
    about = {name: data[name] for name in ("key", "title", "venue", "year", "doi", "site")}
    return _Paper(**about, authors=tuple(data["authors"]), exhibits=tuple(entries))


def values_of(block: Mapping[str, Any]) -> Iterator[Published]:
    """The printed numbers of an exhibit: single ones, then those of tables, a value per cell. The quantity of a cell is
    the column's name with the row's name in brackets."""
    for entry in block.get("values", ()):
        place, note = entry.get("place", block.get("place", "")), entry.get("note", "")
        if "text" in entry:
            yield Published(block["id"], entry["quantity"], entry["text"], entry["unit"], place, note)
        else:
            yield _read_number(block["id"], entry["quantity"], entry["printed"], entry.get("unit", "n"), place, note)
    for table in block.get("tables", ()):
        for label, *cells in table["rows"]:
            for (name, unit), cell in zip(table["columns"], cells, strict=True):
                quantity = f"{name}[{label}]"
                note = table.get("notes", {}).get(quantity, "")
                if unit == "text":
                    yield Published(block["id"], quantity, cell, "text", table["place"], note)
                else:
                    yield _read_number(block["id"], quantity, cell, unit, table["place"], note)


def _read_number(exhibit: str, quantity: str, printed: str, default_unit: str, place: str, note: str) -> Published:
    """Return a printed number in our units; None for a dash. The note gets its bound and, if converted, its digits."""
    if printed == "-":
        unit = parse_printed("0", default_unit).unit
        return Published(exhibit, quantity, None, unit, place, "; ".join(filter(None, ["printed as a dash", note])))
    number = parse_printed(printed, default_unit)
    digits = printed.lstrip("<>=~ ")
    if number.scaled and digits[-1].isdigit():  # the unit of a table's column is in its heading
        digits += f" {default_unit}"
    remarks = [BOUNDS.get(number.bound, ""), f"printed {digits}" if number.scaled else "", note]
    return Published(exhibit, quantity, number.value, number.unit, place, "; ".join(filter(None, remarks)))


PAPERS: Final[Mapping[str, _Paper]] = {key: _read_paper(key) for key in ("car11", "don15", "kun19", "mad17", "pat19")}
