"""`claims`: what five papers state of storage, each statement held against this site and against others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from ioweather.core.contracts import Param, Params, Question
from ioweather.core.facility import Facility
from ioweather.core.outcomes import ClaimOutcome, ClaimsOutcome, SiteClaims
from ioweather.core.papers import PAPERS
from ioweather.core.papers.claims import (
    FALSE_DISCOVERY_RATE,
    STANDINGS,
    Judgement,
    claims,
    controlled,
    judge,
    printed_value,
)
from ioweather.core.results import (
    Answer,
    Cell,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    ResultColumn,
    ResultTable,
    columns_of,
)
from ioweather.core.units import format_value
from ioweather.studies.claims_query import exhibits_of_claims, read_claims
from ioweather.topics.source import DataSource

_TABLES: Final = frozenset({"applications", "job_io", "responses", "scans", "series"})
MARKS: Final = {"supported": "✓", "refuted": "✗", "undecided": "?", "untestable": "–"}


def run(source: DataSource, params: Params) -> Answer:
    """Judge the claims by exhibits of this lake, compared with other sites."""
    source.note_tables(_TABLES)
    paper = params["paper"] or ""
    source.snapshot  # noqa: B018  opened, so that provenance names the state of the lake
    made = exhibits_of_claims(source.place.lake, paper, source.period_ns)
    others = tuple(read_claims(Path(file)) for file in params["against"])
    return claims_answer(source.facility, paper, made, others)


def claims_answer(
    facility: Facility, paper: str, made: Mapping[str, Exhibit | str], others: tuple[SiteClaims, ...] = ()
) -> Answer:
    """From each exhibit, or why there is none."""
    judgements = []
    for claim in claims(paper):
        exhibit = made.get(claim.exhibit, "no data")
        if isinstance(exhibit, str):
            judgements.append(Judgement(claim, "untestable", why=exhibit))
        else:
            judgements.append(judge(claim, {estimate.name: estimate for estimate in exhibit.estimates}))
    found = controlled(judgements)
    here = SiteClaims(facility.name, facility.simulated, tuple(map(_outcome, found)))
    counts = Counter(judgement.standing for judgement in found)
    groups = []
    for key, study in PAPERS.items():
        own = Counter(j.standing for j in found if j.claim.paper == key)
        facts = tuple(
            Fact(standing, word, own[standing], "count", own[standing] / own.total())
            for standing, word in STANDINGS.items()
            if own[standing]
        )
        if facts:
            groups.append(FactGroup(key, f"{key}: {study.site}", facts))
    testable = len(found) - counts["untestable"]
    return Answer(
        question="What do the papers state that holds here?",
        headline=(
            f"Of {len(found)} statements of the papers {counts['supported']} agree here, {counts['refuted']} are "
            f"contradicted, {counts['undecided']} are undecided and {counts['untestable']} cannot be tested."
        ),
        facts=tuple(groups),
        exhibits=(Exhibit("claims", "Statements of five papers", tables=(_table(found, others),)),),
        findings=tuple(judgement.finding for judgement in found if judgement.standing == "refuted"),
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


def _outcome(judgement: Judgement) -> ClaimOutcome:
    estimate = judgement.estimate
    if estimate is None:
        return ClaimOutcome(judgement.claim.id, judgement.standing, why=judgement.why)
    value = (estimate.value, estimate.low, estimate.high, estimate.unit, estimate.n)
    return ClaimOutcome(judgement.claim.id, judgement.standing, *value, judgement.p_value, judgement.why)


def _table(found: Sequence[Judgement], others: Sequence[SiteClaims]) -> ResultTable:
    """A row per statement; contradicted ones come first in each paper."""
    papers, order = list(PAPERS), ["refuted", *(standing for standing in STANDINGS if standing != "refuted")]
    sites = [{claim.id: claim for claim in site.claims} for site in others]
    rows: list[tuple[Cell, ...]] = []
    for j in sorted(found, key=lambda j: (papers.index(j.claim.paper), order.index(j.standing))):
        claim, own = j.claim, _outcome(j)
        elsewhere = []
        for site in sites:
            theirs = site.get(claim.id)
            elsewhere.append("–" if theirs is None else f"{MARKS[theirs.standing]} {_value(theirs)}".rstrip())
        criterion = claim.criterion + ("*" if claim.ours else "")
        ends = [format_value(end, own.unit) for end in (own.low, own.high) if end is not None]
        interval = " to ".join(ends) if len(ends) == 2 else ""
        here = (MARKS[j.standing], _value(own) or j.why, interval, printed_value(claim) or "✓")
        rows.append((claim.id, claim.text, claim.place, criterion, *here, *elsewhere))
    columns = columns_of(
        "id: statement [text]; text: what the paper states [text]; place [text]; criterion [text]; mark: here [text]; "
        "value: value here [text]; interval: 90% interval [text]; paper: in the paper [text]"
    )
    named = (ResultColumn(f"site_{number}", site.site, "text") for number, site in enumerate(others, 1))
    return ResultTable("claims", (*columns, *named), tuple(rows))


def _value(claim: ClaimOutcome) -> str:
    return "" if claim.value is None else format_value(claim.value, claim.unit)


QUESTION = Question(
    name="claims",
    result=ClaimsOutcome,
    run=run,
    tables=_TABLES,
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
