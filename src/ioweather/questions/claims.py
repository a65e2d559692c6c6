"""`claims`: what five papers state of storage, each statement held against this site and against others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ioweather.core.contracts import Need, Param, Params, Question, StudyData
from ioweather.core.facility import Facility
from ioweather.core.outcomes import ClaimOutcome, ClaimsOutcome, SiteClaims
from ioweather.core.papers import PAPERS
from ioweather.core.papers.claims import (
    FALSE_DISCOVERY_RATE,
    STANDINGS,
    Claim,
    Judgement,
    claims,
    controlled,
    judge,
    printed_value,
)
from ioweather.core.results import Answer, Cell, Coverage, Exhibit, Fact, FactGroup, ResultColumn, ResultTable
from ioweather.core.units import format_value

MARKS: Final = {"supported": "✓", "refuted": "✗", "undecided": "?", "untestable": "–"}


def answer(data: StudyData, facility: Facility, params: Params) -> Answer:
    asked = claims(params["paper"] or "")
    made: Mapping[str, Exhibit | str] = data.given["exhibits"]
    found = controlled([_judged(claim, made.get(claim.exhibit, "no data")) for claim in asked])
    here = SiteClaims(facility.name, facility.simulated, tuple(map(_outcome, found)))
    others: tuple[SiteClaims, ...] = data.given.get("sites", ())
    counts = Counter(judgement.standing for judgement in found)
    testable = len(found) - counts["untestable"]
    contradicted = [j for j in found if j.standing == "refuted"]
    return Answer(
        question="What do the papers state that holds here?",
        headline=(
            f"Of {len(found)} statements of the papers {counts['supported']} agree here, {counts['refuted']} are "
            f"contradicted, {counts['undecided']} are undecided and {counts['untestable']} cannot be tested."
        ),
        facts=tuple(_counts(found)),
        exhibits=(Exhibit("claims", "Statements of five papers", tables=(_table(found, others),)),),
        findings=tuple(judgement.finding for judgement in contradicted),
        caveats=(
            "✓ agrees with the paper, ✗ contradicts it, ? not decided by these data, – cannot be tested here. Criteria "
            "marked * are ours: the paper has words there, and no number.",
            f"All are tested together: of those decided, at most {FALSE_DISCOVERY_RATE:.0%} are wrong on average "
            "(Benjamini-Yekutieli); an exhibit by itself decides more. Exact counts are not tests.",
        ),
        coverage=(Coverage(len(found), testable, "statements", {"without data": counts["untestable"]}),),
        name="claims",
        result=ClaimsOutcome(here, others),
    )


def _judged(claim: Claim, exhibit: Exhibit | str) -> Judgement:
    if isinstance(exhibit, str):
        return Judgement(claim, "untestable", why=exhibit)
    return judge(claim, {estimate.name: estimate for estimate in exhibit.estimates})


def _outcome(judgement: Judgement) -> ClaimOutcome:
    estimate = judgement.estimate
    if estimate is None:
        return ClaimOutcome(judgement.claim.id, judgement.standing, why=judgement.why)
    value = (estimate.value, estimate.low, estimate.high, estimate.unit, estimate.n)
    return ClaimOutcome(judgement.claim.id, judgement.standing, *value, judgement.p_value, judgement.why)


def _counts(found: Sequence[Judgement]) -> Iterator[FactGroup]:
    for key, paper in PAPERS.items():
        own = Counter(j.standing for j in found if j.claim.paper == key)
        facts = tuple(
            Fact(standing, word, own[standing], "count", own[standing] / own.total())
            for standing, word in STANDINGS.items()
            if own[standing]
        )
        if facts:
            yield FactGroup(key, f"{key}: {paper.site}", facts)


def _table(found: Sequence[Judgement], others: Sequence[SiteClaims]) -> ResultTable:
    """A row per statement; what is contradicted stands first in each paper."""
    order = list(STANDINGS)
    order.remove("refuted")
    ranks = {standing: rank for rank, standing in enumerate(["refuted", *order])}
    known = [{claim.id: claim for claim in site.claims} for site in others]
    columns = [("id", "statement"), ("text", "what the paper states"), ("place", ""), ("criterion", ""),
               ("mark", "here"), ("value", "value here"), ("interval", "90% interval"), ("paper", "in the paper"),
               *((f"site_{number}", site.site) for number, site in enumerate(others, 1))]  # fmt: skip
    rows: list[tuple[Cell, ...]] = []
    for j in sorted(found, key=lambda j: (list(PAPERS).index(j.claim.paper), ranks[j.standing])):
        claim, own = j.claim, _outcome(j)
        elsewhere = [_cell(site.get(claim.id)) for site in known]
        rows.append(
            (claim.id, claim.text, claim.place, claim.criterion + ("*" if claim.ours else ""), MARKS[j.standing],
             _value(own) or j.why, _interval(own), printed_value(claim) or "✓", *elsewhere)
        )  # fmt: skip
    return ResultTable("claims", tuple(ResultColumn(name, label, "text") for name, label in columns), tuple(rows))


def _cell(claim: ClaimOutcome | None) -> str:
    return "–" if claim is None else f"{MARKS[claim.standing]} {_value(claim)}".rstrip()


def _value(claim: ClaimOutcome) -> str:
    return "" if claim.value is None else format_value(claim.value, claim.unit)


def _interval(claim: ClaimOutcome) -> str:
    if claim.low is None or claim.high is None:
        return ""
    return f"{format_value(claim.low, claim.unit)} to {format_value(claim.high, claim.unit)}"


QUESTION = Question(
    name="claims",
    result=ClaimsOutcome,
    needs=(
        Need("exhibits", "series", shape="exhibits", also=("applications", "job_io", "responses", "scans")),
        Need("sites", "", shape="sites", param="against", optional=True),
    ),
    answer=answer,
    params=(
        Param("paper", "Only the statements of this paper.", choices=tuple(PAPERS)),
        Param(
            "against",
            "Beside another site, a file that its --export wrote; again for more.",
            many=True,
            local=True,
            metavar="FILE",
        ),
    ),
    help="""Hold this site against what five papers state: more than 80 statements, each with its place, a criterion
    that fits the size of this site, the value here with its interval, and whether it agrees, contradicts, is undecided
    or cannot be tested. The values of the papers' own sites stand beside.

    --export FILE writes this site's row, without users and paths; --against FILE shows the row of another site.""",
    epilog="Example: ioweather claims --against their-site.json",
    seen_by="public",
    table="claims",
)
