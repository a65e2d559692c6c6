"""Claims of the papers tested on estimates of a site, and printed numbers compared with them.

A claim says that an estimate of an exhibit is above or below a number. Its result and its sentence follow from the
estimate, its interval and the criterion, only here. Where a paper has words and no number, the number is ours.

Every claim is one one-sided test at the level 1 / number of claims. So of all claims together less than one is decided
wrongly on average, however they depend on each other (the per-family error rate; Spjotvoll 1972), and a claim has the
same result on every page.

A published quantity is compared with the estimate of its name, or of the name that `beside` in the paper's file gives:
the same quantity of the same kind of thing. What a paper prints of one of its projects, groups or systems has no
counterpart here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import Any, Final, Literal, TypeAlias

from ioweather.core.errors import UsageError
from ioweather.core.papers import PAPERS, as_printed, document, published
from ioweather.core.results import (
    POSITIVE_UNITS,
    Cell,
    Estimate,
    Exhibit,
    Finding,
    Published,
    ResultTable,
    columns_of,
    quantity_label,
)
from ioweather.core.units import format_value

Standing: TypeAlias = Literal["supported", "weaker", "refuted", "undecided", "untestable"]
# Words for people.
STANDINGS: Final[Mapping[Standing, str]] = {
    "supported": "agrees",
    "weaker": "weaker than in the paper",
    "refuted": "contradicts",
    "undecided": "undecided",
    "untestable": "not testable",
}
LEGEND: Final = "✓ agrees with the paper, ✗ contradicts the paper, ? undecided, · measured here, ! needs attention"
# [ours] On our side of a criterion of ours is agreement from this part of the paper's own distance from it on.
_AGREES: Final = 0.9


@dataclass(frozen=True)
class _Claim:
    """A statement of a paper as a one-sided test. `text` is the statement, `otherwise` its opposite; both are clauses.

    The estimate must be above (or below) a number. `exact` counts need no interval. A number that counts parts of a
    system of `scale_of` such parts is scaled by this site's own count, the estimate `scale`; with fewer than
    `scale_least` parts the claim cannot be judged. `ours`: the paper has words, and the number is ours, for the reason
    `because`. `least_n`: with fewer observations nothing is decided. `printed` is the quantity that the paper prints of
    its own site. `without` says why there may be no such estimate.
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
    because: str = ""
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
    """The result of a claim at one site. `limit` is the criterion there; `why` is the reason why it is not decided;
    `p_value` is one-sided, of an estimate at the limit; None for exact counts. `weaker`: on the right side of a
    criterion of ours, but short of what the paper prints."""

    claim: _Claim
    standing: Standing
    estimate: Estimate | None = None
    limit: float | None = None
    why: str = ""
    p_value: float | None = None

    @property
    def finding(self) -> Finding:
        kind = self.standing if self.standing == "supported" or self.standing == "refuted" else "undecided"
        return Finding(_sentence(self), kind, self.claim.id.partition(".")[2], self.claim.id)


@cache
def claims(key: str = "") -> tuple[_Claim, ...]:
    """The claims of one paper, or of all five in alphabetical order."""
    if not key:
        return tuple(claim for paper in PAPERS for claim in claims(paper))
    return tuple(
        _Claim(paper=key, **{**block, "id": f"{key}.{block['id']}", "exhibit": f"{key}.{block['exhibit']}"})
        for block in document(key).get("claim", ())
    )


@cache
def claim_of(claim_id: str) -> _Claim:
    """The claim of this id. Raises UsageError where there is none."""
    for claim in claims():
        if claim.id == claim_id:
            return claim
    raise UsageError(f"There is no claim {claim_id!r}.", hint="`ioweather claims` lists them all.")


def _printed(claim: _Claim) -> Published | None:
    """The number that the paper prints of its own site for a claim."""
    wanted = claim.printed or claim.estimate
    return next((value for value in published(claim.exhibit) if value.quantity == wanted), None)


def printed_value(claim: _Claim) -> str:
    """The number that the paper prints for its own site, as printed; empty if it has only words."""
    value = _printed(claim)
    return as_printed(value) if value else ""


def judge_claim(claim: _Claim, estimates: Mapping[str, Estimate]) -> Judgement:
    """Test a claim on the estimates of its exhibit, by name."""
    estimate = estimates.get(claim.estimate)
    if estimate is None or estimate.value is None:
        return Judgement(claim, "untestable", estimate, why=claim.without or "no value in these data")
    limit = claim.number
    if claim.scale:
        count = estimates[claim.scale].value if claim.scale in estimates else None
        if count is None or count < claim.scale_least:
            why = f"needs {claim.scale_least} {claim.scale}; these data have {count or 0:g}"
            return Judgement(claim, "untestable", estimate, why=why)
        limit *= count / claim.scale_of
    if claim.least_n and (estimate.n or 0) < claim.least_n:
        return Judgement(claim, "undecided", estimate, limit, f"n = {estimate.n or 0}; needs {claim.least_n}")
    above = estimate.value > limit if claim.above is not None else estimate.value < limit
    if claim.exact:
        p_value = None
    elif estimate.low is None or estimate.high is None:
        return Judgement(claim, "undecided", estimate, limit, "too few data for an interval")
    else:
        p_value = _p_value(estimate, limit)
        if p_value > 1 / len(claims()):
            inside = estimate.low <= limit <= estimate.high
            why = "" if inside else f"not significant among {len(claims())} tested claims"
            return Judgement(claim, "undecided", estimate, limit, why, p_value)
    standing: Standing = "refuted" if not above else "supported" if _reaches(claim, estimate, limit) else "weaker"
    return Judgement(claim, standing, estimate, limit, p_value=p_value)


def judge_claims(exhibit: str, estimates: Iterable[Estimate]) -> tuple[Judgement, ...]:
    """Test all claims about one exhibit on its estimates."""
    known = {estimate.name: estimate for estimate in estimates}
    key = exhibit.partition(".")[0]
    return tuple(
        judge_claim(claim, known) for claim in (claims(key) if key in PAPERS else ()) if claim.exhibit == exhibit
    )


def _reaches(claim: _Claim, estimate: Estimate, limit: float) -> bool:
    """Whether the estimate is compatible with what the paper prints, where the criterion itself is ours."""
    printed = _printed(claim)
    if not claim.ours or printed is None or not isinstance(printed.value, (int, float)):
        return True
    bounds = ("at most", "less than") if claim.above is not None else ("at least", "more than")
    if printed.note.partition(";")[0] in bounds:
        return True  # a bound on the other side
    needed = limit + _AGREES * (printed.value - limit)
    ends = [end for end in (estimate.value, estimate.low, estimate.high) if end is not None]
    return max(ends) >= needed if claim.above is not None else min(ends) <= needed


def _p_value(estimate: Estimate, limit: float) -> float:
    """One-sided p of an estimate at the limit, from the half of its interval on that side as if it were normal, on
    the scale that the interval was made on."""
    value, low, high = estimate.value or 0.0, estimate.low or 0.0, estimate.high or 0.0
    reach = NormalDist().inv_cdf(0.5 + (estimate.level or 0.9) / 2)
    end = low if limit < value else high
    if not math.isfinite(end):
        return 0.5
    if value == limit:
        return 0.0 if low == high else 0.5
    if estimate.unit in POSITIVE_UNITS and min(limit, end, value) > 0:
        value, limit, end = (math.log(each) for each in (value, limit, end))
    half = value - end if limit < value else end - value
    return 0.0 if half <= 0 else NormalDist().cdf(-reach * abs(value - limit) / half)


def describe_estimate(judgement: Judgement) -> str:
    """'1.24x, 90% interval 0.91x to 1.66x'."""
    estimate = judgement.estimate
    if estimate is None or estimate.value is None:
        return ""
    value, low, high = (format_value(x, estimate.unit) for x in (estimate.value, estimate.low, estimate.high))
    return value if estimate.low is None else f"{value}, {estimate.level or 0.9:.0%} interval {low} to {high}"


def _sentence(judgement: Judgement) -> str:
    """The result of a claim as a sentence, with the estimate here and the number in the paper."""
    claim, shown = judgement.claim, describe_estimate(judgement)
    if judgement.standing == "untestable":
        return f"These data cannot show whether {claim.text}: {judgement.why}."
    clause = {"supported": claim.text, "weaker": claim.text, "refuted": claim.otherwise}.get(judgement.standing)
    clause = clause[0].upper() + clause[1:] if clause else f"These data do not decide whether {claim.text}"
    if judgement.standing == "weaker":
        clause += ", but less so than in the paper"
    theirs = printed_value(claim)
    beside = f"; in the paper {theirs}" if theirs else ""
    why = f"; {judgement.why}" if judgement.why else ""
    return f"{clause} ({shown}{beside}{why})."


# Differences of these are in their own unit: half of a share is no sensible half.
_ADDITIVE: Final = frozenset({"", "ratio", "percent"})
_COLUMNS: Final = columns_of(
    "quantity [text]; published: paper [text]; here [text]; range: 90% interval [text]; difference [text]; "
    "holds: within interval [text]; place [text]"
)


def match_published(exhibit: Exhibit) -> tuple[tuple[Published, Estimate], ...]:
    """Printed values that have a counterpart here, with it, in the order of the paper."""
    key = exhibit.id.partition(".")[0]
    blocks: list[dict[str, Any]] = document(key)["exhibit"] if key in PAPERS else []
    other_names: Mapping[str, str] = next(
        (block.get("beside", {}) for block in blocks if block["id"] == exhibit.id), {}
    )
    names = {estimate.name: estimate for estimate in exhibit.estimates if estimate.value is not None}
    pairs = (
        (value, names.get(value.quantity) or names.get(other_names.get(value.quantity, "")))
        for value in exhibit.published
    )
    return tuple((value, here) for value, here in pairs if here is not None)


def comparison_table(exhibit: Exhibit, *, places: bool = True) -> ResultTable | None:
    """A table of printed values and their counterparts here; None if there are none."""
    rows = tuple(_row(*pair) for pair in match_published(exhibit))
    if not rows:
        return None
    kept = len(_COLUMNS) if places else len(_COLUMNS) - 1
    return ResultTable("published", _COLUMNS[:kept], tuple(row[:kept] for row in rows), "Paper and here")


def _row(printed: Published, here: Estimate) -> tuple[Cell, ...]:
    """The cells of _COLUMNS."""
    label, unit = quantity_label(printed.quantity, printed.unit), here.unit
    shown, low, high = (format_value(each, unit) for each in (here.value, here.low, here.high))
    interval = f"{low} to {high}" if here.low is not None and here.high is not None else ""
    difference, holds, theirs = "", "", printed.value
    if isinstance(theirs, (int, float)) and not isinstance(theirs, bool):
        if here.low is not None and here.high is not None:
            holds = "yes" if here.low <= theirs <= here.high else "no"
        if here.value is not None and printed.unit == unit:
            gap = here.value - theirs
            difference = f"{here.value / theirs:.3g}x" if theirs else ""
            if unit in _ADDITIVE:
                difference = f"{100 * gap:+.3g} points" if unit == "ratio" else f"{gap:+.3g}"
    place = "; ".join(filter(None, [printed.place, printed.note]))
    return label, as_printed(printed), shown, interval, difference, holds, place
