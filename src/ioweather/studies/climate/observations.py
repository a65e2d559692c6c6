"""The eight boxed observations of pat19, each true, false or undecided here, and the advice that follows.

An observation is a set of claims; each claim is an estimate of another exhibit against a number. It is true when all
its claims are supported by their intervals, false when one is refuted, and undecided otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from ioweather.core.results import Cell, Coverage, Estimate, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.core.units import format_value
from ioweather.studies.climate.claims import OBSERVATIONS, Claim
from ioweather.studies.climate.context import Part
from ioweather.studies.shared.intervals import Standing, standing

Verdict = Literal["true", "false", "undecided"]


def observations(
    parts: Iterable[Part], windows: tuple[str, str, str], caveats: tuple[str, ...], coverage: tuple[Coverage, ...] = ()
) -> Exhibit:
    """pat19.observations, from the estimates of the other exhibits. `windows` are the words of the three windows."""
    made = list(parts)
    known = {(part.exhibit.id, e.name): e for part in made for e in part.exhibit.estimates}
    words = dict(zip(("w1", "w5", "w25"), windows, strict=True))
    claim_rows: list[tuple[Cell, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    findings: list[Finding] = []
    for number, observation in enumerate(OBSERVATIONS, 1):
        standings = []
        for claim in observation.claims:
            estimate = known.get((claim.exhibit, _named(claim.name, words)))
            stands = _stands(claim, estimate)
            standings.append(stands)
            claim_rows.append((number, _worded(claim.text, words), _word(stands), _evidence(estimate), claim.exhibit))
        verdict = _verdict(standings)
        held = sum(s == "supported" for s in standings)
        rows.append((number, observation.section, observation.text, verdict, f"{held} of {len(standings)} claims hold"))
        findings.append(Finding(f"{number}. {observation.text} Here: {verdict}.", _kind(verdict)))
    advice = [finding for part in made for finding in part.advice]
    return Exhibit(
        "pat19.observations", "The eight observations",
        tables=(_table("observations", ("observation", "section", "text", "here", "evidence"), rows),
                _table("claims", ("observation", "claim", "here", "evidence", "exhibit"), claim_rows)),
        findings=(*findings, *advice),
        caveats=(*caveats, "True: every claim is supported by its 90% interval. False: at least one is refuted."),
        coverage=coverage,
    )  # fmt: skip


def _named(name: str, words: Mapping[str, str]) -> str:
    for key, word in words.items():
        name = name.replace(f"[{key}]", f"[{word}]")
    return name


def _worded(text: str, words: Mapping[str, str]) -> str:
    for key, word in words.items():
        text = text.replace(f"[{key}]", word)
    return text


def _stands(claim: Claim, estimate: Estimate | None) -> Standing | None:
    """None: there are no data for it."""
    if estimate is None or estimate.value is None:
        return None
    if not claim.exact:
        return standing(estimate, above=claim.above, below=claim.below)
    holds = estimate.value > claim.above if claim.above is not None else estimate.value < (claim.below or 0.0)
    return "supported" if holds else "refuted"


def _word(stands: Standing | None) -> str:
    words = {"supported": "true", "refuted": "false", "undecided": "undecided", "note": "no interval asked for"}
    return words[stands] if stands else "no data"


def _evidence(estimate: Estimate | None) -> str:
    if estimate is None or estimate.value is None:
        return "–"
    shown = format_value(estimate.value, estimate.unit)
    if estimate.low is None:
        return shown
    return f"{shown} ({format_value(estimate.low, estimate.unit)} to {format_value(estimate.high, estimate.unit)})"


def _verdict(standings: list[Standing | None]) -> Verdict:
    if "refuted" in standings:
        return "false"
    return "true" if standings and all(s == "supported" for s in standings) else "undecided"


def _kind(verdict: Verdict) -> Literal["supported", "refuted", "undecided"]:
    kinds: dict[Verdict, Literal["supported", "refuted", "undecided"]] = {
        "true": "supported", "false": "refuted", "undecided": "undecided",
    }  # fmt: skip
    return kinds[verdict]


def _table(name: str, columns: tuple[str, ...], rows: list[tuple[Cell, ...]]) -> ResultTable:
    return ResultTable(name, tuple(ResultColumn(column, "", "text" if column != "observation" else "count")
                                   for column in columns), tuple(rows))  # fmt: skip
