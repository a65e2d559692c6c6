"""`claims`: statements of five papers, tested at this site and compared with files of other sites."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal

from ioweather.core.contracts import Param, Params, Period, Question
from ioweather.core.errors import IoweatherError, UsageError
from ioweather.core.facility import Facility
from ioweather.core.papers import PAPERS
from ioweather.core.papers.claim_tests import (
    STANDINGS,
    Judgement,
    claim_of,
    claims,
    judge_claim,
    printed_value,
)
from ioweather.core.results import (
    Answer,
    Block,
    Cell,
    Coverage,
    Exhibit,
    Fact,
    FactGroup,
    Finding,
    Item,
    Items,
    Next,
    ResultColumn,
    ResultTable,
    columns_of,
    to_jsonable,
)
from ioweather.core.units import UNITS, format_value
from ioweather.lake.lake import Lake
from ioweather.topics.analyse import availability, each_exhibit
from ioweather.topics.source import DataSource


@dataclass(frozen=True)
class ClaimOutcome:
    """Result of one statement of a paper at one site.

    `standing` is supported (it agrees), weaker (same direction, short of the paper's number), refuted (it contradicts),
    undecided or untestable; `why` says what prevents a test. `p_value` is one-sided, None for exact counts.
    """

    id: str
    standing: Literal["supported", "weaker", "refuted", "undecided", "untestable"]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    n: int | None = None
    p_value: float | None = None
    why: str = ""


@dataclass(frozen=True)
class SiteClaims:
    """Results of all statements at one site."""

    site: str
    simulated: bool
    claims: tuple[ClaimOutcome, ...]


@dataclass(frozen=True)
class ClaimsOutcome:
    """This site, and the sites it is compared with."""

    here: SiteClaims
    others: tuple[SiteClaims, ...] = ()


FORMAT: Final = "ioweather claims"
_VERSION: Final = 1
_LARGEST_BYTES: Final = 4 << 20


def exhibits_of_claims(lake: Lake, paper: str, period_ns: Period) -> Mapping[str, Exhibit | str]:
    """Return every exhibit that a claim uses, or why there is none. A fault in one does not affect others."""
    wanted = {claim.exhibit for claim in claims(paper)}
    with lake.snapshot() as snapshot:
        found = [item for item in availability(snapshot) if item.id in wanted]
    made: dict[str, Exhibit | str] = {item.id: "; ".join(item.missing) for item in found if not item.ready}
    by_study: dict[str, list[str]] = {}
    for item in found:
        if item.ready:
            by_study.setdefault(item.study, []).append(item.id)
    for ids in by_study.values():
        for exhibit_id, outcome in each_exhibit(lake, ids, period_ns=period_ns).items():
            made[exhibit_id] = outcome if isinstance(outcome, Exhibit) else _reason(outcome)
    return made


def _reason(error: Exception) -> str:
    """Return why an exhibit could not be made: our message, or the kind of a fault."""
    return error.message if isinstance(error, IoweatherError) else f"it failed: {type(error).__name__}"


def write_claims(site: SiteClaims, file: Path) -> None:
    """Write one site's results for comparison by others: numbers and marks, no users and no paths."""
    body = {"format": FORMAT, "version": _VERSION, **to_jsonable(site)}
    try:
        file.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--export {file}: {error.strerror}.") from None


def read_claims(file: Path) -> SiteClaims:
    """Read a file of `write_claims`. Statements that this version does not know are left out."""
    where = f"--against {file}"
    try:
        if file.stat().st_size > _LARGEST_BYTES:
            raise UsageError(f"{where}: too large for a claims file.")
        body = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{where}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{where} is not JSON.", hint="`ioweather claims --export FILE` writes one.") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise UsageError(f"{where} is not a claims file.", hint="`ioweather claims --export FILE` writes one.")
    if body.get("version") != _VERSION:
        raise UsageError(f"{where} has version {body.get('version')!r}, but this release reads version {_VERSION}.")
    try:
        known = {claim.id for claim in claims()}
        listed = tuple(_claim(row) for row in body["claims"] if row["id"] in known)
        return SiteClaims(str(body["site"])[:100], bool(body["simulated"]), listed)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{where} has an unreadable statement ({type(error).__name__}: {error}).") from None


_NUMBERS: Final = ("value", "low", "high", "n", "p_value")


def _claim(row: Mapping[str, Any]) -> ClaimOutcome:
    """Return a statement from a file of another site; raises for values that no site writes."""
    kept = {field.name: row[field.name] for field in fields(ClaimOutcome) if field.name in row}
    if kept["standing"] not in STANDINGS or kept.get("unit", "") not in UNITS:
        raise ValueError(f"{kept['id']} has an unknown standing or unit")
    for name in _NUMBERS:
        number = kept.get(name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, (int, float))):
            raise TypeError(f"{kept['id']}: {name} is not a number")
    return ClaimOutcome(**{**kept, "why": str(kept.get("why", ""))[:200]})


_TABLES: Final = frozenset({"applications", "job_io", "responses", "scans", "series"})
MARKS: Final = {"supported": "✓", "weaker": "~", "refuted": "✗", "undecided": "?", "untestable": "–"}


def run(source: DataSource, params: Params) -> Answer:
    """Judge the claims by exhibits of this lake, compared with other sites."""
    source.note_tables(_TABLES)
    paper = params["paper"] or ""
    source.snapshot  # noqa: B018  opened, so that provenance names the state of the lake
    made = exhibits_of_claims(source.lake, paper, source.period_ns)
    others = tuple(read_claims(Path(file)) for file in params["against"])
    return claims_answer(source.facility, paper, made, others)


def claims_answer(
    facility: Facility, paper: str, made: Mapping[str, Exhibit | str], others: tuple[SiteClaims, ...] = ()
) -> Answer:
    """Judge every statement by its exhibit, or give the reason why there is none."""
    found = []
    for claim in claims(paper):
        exhibit = made.get(claim.exhibit, "no data")
        if isinstance(exhibit, str):
            found.append(Judgement(claim, "untestable", why=exhibit))
        else:
            found.append(judge_claim(claim, {estimate.name: estimate for estimate in exhibit.estimates}))
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
        question="Which statements of the papers are true here?",
        headline=(
            f"Of {len(found)} statements in the papers, {counts['supported']} agree here, {counts['weaker']} are "
            f"weaker here, {counts['refuted']} are contradicted, {counts['undecided']} are undecided and "
            f"{counts['untestable']} cannot be tested."
        ),
        facts=tuple(groups),
        exhibits=(Exhibit("claims", "Statements of five papers", tables=(_table(found, others),)),),
        findings=tuple(judgement.finding for judgement in found if judgement.standing == "refuted"),
        caveats=(
            "✓ agrees with the paper, ~ same direction but weaker, ✗ contradicts the paper, ? undecided, – cannot "
            "be tested here. Criteria marked * are ours, because the paper gives no number.",
            f"The significance level of each test is 1 in {len(claims())}, so less than one statement would be decided "
            "wrongly if every test were exact. On simulated sites, one or two are wrong. Exhibits and observations use "
            "the same results. Exact counts are not tests.",
        ),
        coverage=(Coverage(len(found), testable, "statements", {"without data": counts["untestable"]}),),
        name="claims",
        result=ClaimsOutcome(here, others),
    )


def _outcome(judgement: Judgement) -> ClaimOutcome:
    """Return a judgement as the result shows it."""
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


_MOST_CONTRADICTED: Final = 5


def claims_screen(answer: Answer, params: Params) -> Iterator[Block]:
    """Statements by paper and standing, the first that are contradicted, and what the others lack."""
    result = answer.result
    assert isinstance(result, ClaimsOutcome)
    if any(claim.standing != "untestable" for claim in result.here.claims):
        words = (f"{name}: {word.partition(' than')[0]} [count]" for name, word in STANDINGS.items())
        counts = [(g.title, {fact.name: fact.value for fact in g.facts}) for g in answer.facts]
        rows = [(title, *map(own.get, STANDINGS)) for title, own in counts]
        yield ResultTable.of("papers", "; ".join(["paper [text]", *words]), rows)
    against = [claim for claim in result.here.claims if claim.standing == "refuted"]
    if against:
        shown = against[:_MOST_CONTRADICTED]
        items = (Item(c.id, f"{claim_of(c.id).text}: here {_value(c)}") for c in shown)
        left = len(against) - len(shown)
        yield Items("Contradicted here", tuple(items), more=f"{left} more: --full" if left else "")
    lacks = Counter(claim.why for claim in result.here.claims if claim.standing == "untestable")
    yield from (Finding(f"{n} not testable: {why or 'no value'}.") for why, n in lacks.most_common(3))
    yield Next("ioweather claims --full")


def _value(claim: ClaimOutcome) -> str:
    """Return the value with its unit; empty without one."""
    return "" if claim.value is None else format_value(claim.value, claim.unit)


QUESTION = Question(
    name="claims",
    result=ClaimsOutcome,
    run=run,
    tables=_TABLES,
    params=(
        Param("paper", "Show only statements from this paper.", choices=tuple(PAPERS)),
        Param(
            "against",
            "Compare with another site's file from --export (repeatable).",
            many=True,
            local=True,
            metavar="FILE",
        ),
    ),
    help="""Check the claims of five papers at this site.

    The table has a row for each statement: its place, a criterion scaled to this site, the local value with
    its interval, and the result: agrees, weaker, contradicts, undecided or not testable. It also shows the values from
    the papers.

    --export FILE writes this site's results, without users and paths. --against FILE adds those of another site.""",
    epilog="Example: ioweather claims --against their-site.json",
    seen_by="public",
    table="claims",
    blocks=claims_screen,
)
