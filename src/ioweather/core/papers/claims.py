"""Claims of the papers tested on estimates of a site, and printed numbers compared with them.

A claim is an estimate of an exhibit above or below a number. Its result follows from the estimate, its interval and
the criterion, here and nowhere else; so does the sentence. Where a paper has words and no number, the number is ours.

A published quantity is compared with the estimate of its name, or of the name that `beside` in the paper's file gives.
A quantity with a key (a project, a group, a system) is compared with all of the same quantity here, from estimates or a
table's column: their median and their range.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from statistics import NormalDist, median
from typing import Any, Final, Literal, TypeAlias

from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS, as_printed, document, published
from ioweather.core.results import Cell, Estimate, Exhibit, Finding, Published, ResultTable, columns_of, quantity_label
from ioweather.core.units import format_value

Standing: TypeAlias = Literal["supported", "refuted", "undecided", "untestable"]
# What each standing is called before people.
STANDINGS: Final[Mapping[Standing, str]] = {
    "supported": "agrees",
    "refuted": "contradicts",
    "undecided": "undecided",
    "untestable": "not testable",
}
LEGEND: Final = (
    "✓ agrees with the paper, ✗ contradicts the paper, ? not decided by these data, · measured here, ! look at this now"
)
NO_INTERVAL: Final = "no interval asked for"
FALSE_DISCOVERY_RATE: Final = 0.1


@dataclass(frozen=True)
class Claim:
    """`text` says what the paper states, `otherwise` what holds where it does not; both are clauses.

    The estimate must lie above (or below) a number. `exact` counts need no interval. A number that speaks of so many
    parts of a system of `scale_of` is scaled by this site's own count of them, the estimate `scale`, and cannot be
    judged with fewer than `scale_least`. `ours`: the paper has words, and the number is ours. `least_n`: with fewer
    observations nothing is decided. `printed` is the quantity that the paper prints of its own site. `without` says why
    there may be no such estimate.
    """

    id: str
    paper: str
    text: str
    otherwise: str
    place: str
    exhibit: str
    estimate: str
    unit: str = ""
    above: float | None = None
    below: float | None = None
    exact: bool = False
    ours: bool = False
    scale: str = ""
    scale_of: float = 1.0
    scale_least: int = 0
    least_n: int = 0
    observation: int = 0
    printed: str = ""
    without: str = ""

    @property
    def number(self) -> float:
        return self.above if self.above is not None else self.below or 0.0

    @property
    def criterion(self) -> str:
        """'above 50%', 'below 20 of 248 targets', for people."""
        side = "above" if self.above is not None else "below"
        scaled = f" of {self.scale_of:g} {self.scale}" if self.scale else ""
        return f"{side} {format_value(self.number, self.unit)}{scaled}"


@dataclass(frozen=True)
class Judgement:
    """How a claim stands at one site. `limit` is the criterion there; `why` says what stands in the way of a decision;
    `p_value` is that of the estimate lying at the limit, None for exact counts."""

    claim: Claim
    standing: Standing
    estimate: Estimate | None = None
    limit: float | None = None
    why: str = ""
    p_value: float | None = None

    @property
    def finding(self) -> Finding:
        return Finding(_sentence(self), _KINDS[self.standing], self.claim.id.partition(".")[2], self.claim.id)


_KINDS: Final[Mapping[Standing, Literal["supported", "refuted", "undecided"]]] = {
    "supported": "supported",
    "refuted": "refuted",
    "undecided": "undecided",
    "untestable": "undecided",
}


@cache
def claims(key: str = "") -> tuple[Claim, ...]:
    """Of one paper, or of all five in alphabetical order."""
    if not key:
        return tuple(claim for paper in PAPERS for claim in claims(paper))
    return tuple(
        Claim(paper=key, **{**block, "id": f"{key}.{block['id']}", "exhibit": f"{key}.{block['exhibit']}"})
        for block in document(key).get("claim", ())
    )


@cache
def claim_of(claim_id: str) -> Claim:
    for claim in claims():
        if claim.id == claim_id:
            return claim
    raise UsageError(f"There is no claim {claim_id!r}.", hint="`ioweather claims` lists them all.")


def printed_value(claim: Claim) -> str:
    """What the paper's own site has, as printed; empty where it has words alone."""
    wanted = claim.printed or claim.estimate
    return next((as_printed(value) for value in published(claim.exhibit) if value.quantity == wanted), "")


def judge(claim: Claim, estimates: Mapping[str, Estimate]) -> Judgement:
    """`estimates` are those of the claim's exhibit, by name."""
    estimate = estimates.get(claim.estimate)
    if estimate is None or estimate.value is None:
        return Judgement(claim, "untestable", estimate, why=claim.without or "these data give no value for it")
    limit = claim.number
    if claim.scale:
        count = estimates[claim.scale].value if claim.scale in estimates else None
        if count is None or count < claim.scale_least:
            why = f"it takes {claim.scale_least} {claim.scale} to tell, and {count or 0:g} are known"
            return Judgement(claim, "untestable", estimate, why=why)
        limit *= count / claim.scale_of
    if claim.least_n and (estimate.n or 0) < claim.least_n:
        return Judgement(claim, "undecided", estimate, limit, f"n = {estimate.n or 0}, and it takes {claim.least_n}")
    if claim.exact:
        return Judgement(claim, _side(claim, estimate.value, estimate.value, limit), estimate, limit)
    if estimate.low is None or estimate.high is None:
        why = NO_INTERVAL if estimate.method == NO_INTERVAL else "too few data for an interval"
        return Judgement(claim, "undecided", estimate, limit, why)
    return Judgement(
        claim, _side(claim, estimate.low, estimate.high, limit), estimate, limit, p_value=_p_value(estimate, limit)
    )


def judged(exhibit: str, estimates: Iterable[Estimate]) -> tuple[Judgement, ...]:
    """All claims that rest on one exhibit."""
    known = {estimate.name: estimate for estimate in estimates}
    key = exhibit.partition(".")[0]
    return tuple(judge(claim, known) for claim in (claims(key) if key in PAPERS else ()) if claim.exhibit == exhibit)


def _side(claim: Claim, low: float, high: float, limit: float) -> Standing:
    if claim.above is not None:
        return "supported" if low > limit else "refuted" if high <= limit else "undecided"
    return "supported" if high < limit else "refuted" if low >= limit else "undecided"


def _p_value(estimate: Estimate, limit: float) -> float:
    """Two-sided, from the interval as if it were that of a normal variable: below 1 - level exactly where the interval
    leaves the limit out."""
    assert estimate.low is not None
    assert estimate.high is not None
    reach = NormalDist().inv_cdf(0.5 + (estimate.level or 0.9) / 2)
    middle, sd = (estimate.low + estimate.high) / 2, (estimate.high - estimate.low) / 2 / reach
    if not math.isfinite(middle) or not math.isfinite(sd):
        return 0.0 if math.isfinite(estimate.low) and estimate.low > limit else 1.0
    if sd == 0:
        return 0.0 if middle != limit else 1.0
    return math.erfc(abs(middle - limit) / sd / math.sqrt(2))


def controlled(judgements: Sequence[Judgement], rate: float = FALSE_DISCOVERY_RATE) -> tuple[Judgement, ...]:
    """The same when all of them are read together: of what is still decided, at most this share is wrong on average,
    however they depend on each other (Benjamini & Yekutieli 2001). Exact counts are not tests."""
    tests = sorted((j.p_value, i) for i, j in enumerate(judgements) if j.p_value is not None)
    count = len(tests)
    harmonic = sum(1 / i for i in range(1, count + 1))
    kept: set[int] = set()
    for rank, (p_value, _) in enumerate(tests, 1):
        if p_value <= rate * rank / (count * harmonic):
            kept = {i for _, i in tests[:rank]}
    why = f"not sure enough where {count} claims are tested at once"
    return tuple(
        Judgement(j.claim, "undecided", j.estimate, j.limit, why, j.p_value)
        if j.p_value is not None and j.standing in ("supported", "refuted") and i not in kept
        else j
        for i, j in enumerate(judgements)
    )


def evidence(judgement: Judgement) -> str:
    """'1.24x, 90% interval 0.91x to 1.66x'."""
    estimate = judgement.estimate
    if estimate is None or estimate.value is None:
        return ""
    value, low, high = (format_value(x, estimate.unit) for x in (estimate.value, estimate.low, estimate.high))
    return value if estimate.low is None else f"{value}, {estimate.level or 0.9:.0%} interval {low} to {high}"


def _sentence(judgement: Judgement) -> str:
    claim, shown = judgement.claim, evidence(judgement)
    if judgement.standing == "untestable":
        return f"Cannot be told here whether {claim.text}: {judgement.why}."
    clause = {"supported": claim.text, "refuted": claim.otherwise}.get(judgement.standing)
    clause = clause[0].upper() + clause[1:] if clause else f"Not decided whether {claim.text}"
    theirs = printed_value(claim)
    beside = f"; in the paper {theirs}" if theirs else ""
    why = f"; {judgement.why}" if judgement.why else ""
    return f"{clause} ({shown}{beside}{why})."


# Differences of these are in their own unit: half of a share is no sensible half.
_ADDITIVE: Final = frozenset({"", "ratio", "percent"})
_COLUMNS: Final = columns_of(
    "quantity [text]; published [text]; here [text]; range: interval, or range here [text]; difference [text]; "
    "holds: range holds it [text]; place [text]"
)


@dataclass(frozen=True)
class Compared:
    """One printed value and what stands beside it: one estimate, or those of all groups, projects or sizes here."""

    published: Published
    ours: tuple[Estimate, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        known = [e.value for e in self.ours if e.value is not None]
        return median(known) if known else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The interval of one estimate, or the least and the greatest of several."""
        if len(self.ours) == 1:
            low, high = self.ours[0].low, self.ours[0].high
            return None if low is None or high is None else (low, high)
        known = [e.value for e in self.ours if e.value is not None]
        return (min(known), max(known)) if known else None

    @property
    def holds(self) -> bool | None:
        printed, bounds = self.published.value, self.bounds
        if bounds is None or not isinstance(printed, (int, float)) or isinstance(printed, bool):
            return None
        return bounds[0] <= printed <= bounds[1]


def compare(exhibit: Exhibit) -> tuple[Compared, ...]:
    """In the order of the paper."""
    names = {estimate.name: estimate for estimate in exhibit.estimates}
    other = _beside(exhibit.id)
    found = []
    for value in exhibit.published:
        asked = value.quantity
        if asked not in names:
            asked = other.get(asked) or other.get(_base(asked)) or asked
        if asked in names:
            found.append(Compared(value, (names[asked],)))
            continue
        # A threshold ('>=25') is no row of a table that others could stand for.
        threshold = "[>" in value.quantity
        keyed = tuple(e for e in exhibit.estimates if "[" in e.name and _base(e.name) == _base(asked) and not threshold)
        cells = () if keyed or threshold else tuple(_column(exhibit.tables, _base(asked)))
        numbers = keyed or tuple(cell for cell in cells if isinstance(cell, Estimate))
        found.append(Compared(value, numbers, tuple(cell for cell in cells if isinstance(cell, str))))
    return tuple(found)


def _base(name: str) -> str:
    return name.partition("[")[0]


def _column(tables: Sequence[ResultTable], name: str) -> Iterator[Estimate | str]:
    """Of the first table that has it: another one's column of that name is of other things."""
    places = ((table, place) for table in tables for place, column in enumerate(table.columns) if column.name == name)
    for table, place in islice(places, 1):
        for row in table.rows:
            cell = row[place]
            if isinstance(cell, str):
                yield cell
            elif isinstance(cell, (int, float)):
                yield Estimate(f"{name}[{row[0]}]", float(cell), table.columns[place].unit, method="row of a table")


@cache
def _beside(exhibit: str) -> Mapping[str, str]:
    """Published quantities that have another name here."""
    key = exhibit.partition(".")[0]
    if key not in PAPERS:
        return {}
    blocks: list[dict[str, Any]] = document(key)["exhibit"]
    return next((block.get("beside", {}) for block in blocks if block["id"] == exhibit), {})


def comparison_table(exhibit: Exhibit, *, places: bool = True) -> ResultTable | None:
    """What is shown; None where the paper prints nothing."""
    rows = tuple(_row(item) for item in compare(exhibit))
    if not rows:
        return None
    kept = len(_COLUMNS) if places else len(_COLUMNS) - 1
    return ResultTable("published", _COLUMNS[:kept], tuple(row[:kept] for row in rows), "Published, and here")


def _row(item: Compared) -> tuple[Cell, ...]:
    printed, unit = item.published, item.ours[0].unit if item.ours else ""
    value, bounds = item.value, item.bounds
    here = format_value(value, unit) if item.ours else "; ".join(dict.fromkeys(item.words)) or "not here"
    if len(item.ours) > 1 and value is not None:
        here = f"{here} (median of {len(item.ours)})"
    shown = "" if bounds is None else " to ".join(format_value(bound, unit) for bound in bounds)
    holds = "" if item.holds is None else "yes" if item.holds else "no"
    label, note = quantity_label(printed.quantity, printed.unit), filter(None, [printed.place, printed.note])
    return label, as_printed(printed), here, shown, _difference(printed, value, unit), holds, "; ".join(note)


def _difference(printed: Published, value: float | None, unit: str) -> str:
    theirs = printed.value
    if value is None or not isinstance(theirs, (int, float)) or isinstance(theirs, bool) or printed.unit != unit:
        return ""
    if unit in _ADDITIVE:
        return f"{100 * (value - theirs):+.3g} points" if unit == "ratio" else f"{value - theirs:+.3g}"
    return f"{value / theirs:.3g}x" if theirs else ""
