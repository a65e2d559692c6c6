"""The eight boxed observations of pat19, each true, false or undecided here, and the advice that follows.

An observation is a set of claims (core/papers/pat19.toml); each is an estimate of another exhibit against a number. It
is true when all its claims are supported by their intervals, false when one is refuted, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from ioweather.core.papers.claims import STANDINGS, Judgement, claims, evidence, judge
from ioweather.core.results import Cell, Coverage, Estimate, Finding, Piece, ResultColumn, ResultTable, exhibit
from ioweather.studies.climate.context import Part

# Section and words of each box.
OBSERVATIONS: Final = (
    ("3", "More is read than written; both are bursty, writes more so."),
    ("4", "Average activity has no daily or weekly pattern, but writes vary more in the evening and on Sundays."),
    ("4", "The system enters high phases more often than low ones, and stays in low ones for longer."),
    (
        "5",
        "A minute of the whole system does not foretell the next, five minutes do; reads and writes do not "
        "foretell each other.",
    ),
    ("6", "OSTs are unbalanced in reads and in writes, over long times."),
    ("6", "Few OSTs work together, in high phases too, where writes have more."),
    ("6", "At a single OST reads of a minute foretell the next ones; writes do not."),
    ("7", "Metadata activity is autocorrelated and bursty; the processors of the OSSes are mostly idle."),
)
_WORDS: Final = {"supported": "true", "refuted": "false", "undecided": "undecided"}


@exhibit("pat19.observations")
def observations(
    parts: Iterable[Part], caveats: tuple[str, ...], coverage: tuple[Coverage, ...] = ()
) -> Iterator[Piece]:
    """pat19.observations, from the estimates of the other exhibits."""
    made = list(parts)
    known: dict[str, dict[str, Estimate]] = {}
    for part in made:
        known.setdefault(part.exhibit.id, {}).update({e.name: e for e in part.exhibit.estimates})
    claim_rows: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    for number, (section, text) in enumerate(OBSERVATIONS, 1):
        found = [judge(c, known.get(c.exhibit, {})) for c in claims("pat19") if c.observation == number]
        claim_rows += [
            (number, j.claim.text, STANDINGS[j.standing], evidence(j) or j.why, j.claim.exhibit) for j in found
        ]
        kind = _verdict(found)
        held = sum(j.standing == "supported" for j in found)
        rows.append((number, section, text, _WORDS[kind], f"{held} of {len(found)} claims hold"))
        listed = tuple(j.claim.id for j in found)
        yield Finding(f"{number}. {text} Here: {_WORDS[kind]}.", kind, f"observation_{number}", " ".join(listed))
    advice = [finding for part in made for finding in part.advice]
    yield _table("observations", ("observation", "section", "text", "here", "evidence"), rows)
    yield _table("claims", ("observation", "claim", "here", "evidence", "exhibit"), claim_rows)
    yield Estimate("observations", len(OBSERVATIONS), "count", method="exact count"), advice, caveats
    yield "True: every claim is supported by its 90% interval. False: at least one is refuted.", coverage


def _verdict(found: list[Judgement]) -> Literal["supported", "refuted", "undecided"]:
    standings = {judgement.standing for judgement in found}
    if "refuted" in standings:
        return "refuted"
    return "supported" if standings == {"supported"} else "undecided"


def _table(name: str, columns: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> ResultTable:
    columns_made = (ResultColumn(name, "", "text" if name != "observation" else "count") for name in columns)
    return ResultTable(name, tuple(columns_made), tuple(rows))
