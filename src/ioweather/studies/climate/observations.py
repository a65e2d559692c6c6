"""The eight boxed observations of pat19, each true, false or undecided here, and the advice that follows.

An observation is a set of claims; each claim is an estimate of another exhibit against a number. It is true when all
its claims are supported by their intervals, false when one is refuted, and undecided otherwise.
Where the paper gives words and no number, the number is ours and stands in the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ioweather.core.results import Cell, Coverage, Estimate, Exhibit, Finding, ResultColumn, ResultTable
from ioweather.core.units import format_value
from ioweather.studies.climate.calendar import FLAT
from ioweather.studies.climate.context import HIGH_CORRELATION, WEAK_CORRELATION, Part
from ioweather.studies.climate.parallelism import LIMITED
from ioweather.studies.climate.servers import MODEST
from ioweather.studies.climate.targets import BALANCED
from ioweather.studies.shared.intervals import Standing, standing


@dataclass(frozen=True)
class Claim:
    """`text` says what is claimed; the estimate `name` of `exhibit` must lie above (or below) the number.

    `[w1]`, `[w5]`, `[w25]` in a name stand for the words of the three windows. An exact count needs no interval.
    """

    text: str
    exhibit: str
    name: str
    above: float | None = None
    below: float | None = None
    exact: bool = False


@dataclass(frozen=True)
class Observation:
    section: str
    text: str
    claims: tuple[Claim, ...]


_MOST = 0.5
OBSERVATIONS = (
    Observation(
        "3",
        "More is read than written; both are bursty, writes more so.",
        (
            Claim("more is read than written", "pat19.fig3", "read_over_written", above=1.0),
            Claim("reads are bursty (variation above 100%)", "pat19.fig4", "variation_read", above=1.0),
            Claim("writes are bursty (variation above 100%)", "pat19.fig4", "variation_write", above=1.0),
            Claim("writes vary more than reads", "pat19.fig4", "variation_write_minus_read", above=0.0),
        ),
    ),
    Observation(
        "4",
        "Average activity has no daily or weekly pattern, but writes vary more in the evening and on Sundays.",
        (
            Claim(
                f"hourly means of reads differ by less than {FLAT:.0%}, the busiest hour aside",
                "pat19.fig5",
                "hour_spread_read",
                below=FLAT,
            ),
            Claim(
                f"hourly means of writes differ by less than {FLAT:.0%}, the busiest hour aside",
                "pat19.fig5",
                "hour_spread_write",
                below=FLAT,
            ),
            Claim(f"daily means of reads differ by less than {FLAT:.0%}", "pat19.fig6", "day_spread_read", below=FLAT),
            Claim(
                f"daily means of writes differ by less than {FLAT:.0%}", "pat19.fig6", "day_spread_write", below=FLAT
            ),
            Claim("writes vary more in the evening", "pat19.fig5", "evening_variation_difference_write", above=0.0),
            Claim("writes vary more on Sundays", "pat19.fig6", "sunday_variation_difference_write", above=0.0),
        ),
    ),
    Observation(
        "4",
        "The system enters high phases more often than low ones, and stays in low ones for longer.",
        (
            Claim("high read phases begin more often", "pat19.fig8", "interarrival_over_high_read", above=1.0),
            Claim("high write phases begin more often", "pat19.fig8", "interarrival_over_high_write", above=1.0),
            Claim("low read phases last longer", "pat19.fig8", "length_over_high_read", above=1.0),
            Claim("low write phases last longer", "pat19.fig8", "length_over_high_write", above=1.0),
        ),
    ),
    Observation(
        "5",
        "A minute of the whole system does not foretell the next, five minutes do; reads and writes do not "
        "foretell each other.",
        (
            Claim("reads of [w1] tell little about the next", "pat19.fig9", "auto_read[w1]", below=HIGH_CORRELATION),
            Claim("writes of [w1] tell little about the next", "pat19.fig9", "auto_write[w1]", below=HIGH_CORRELATION),
            Claim("reads of [w5] tell about the next", "pat19.fig9", "auto_read[w5]", above=HIGH_CORRELATION),
            Claim("writes of [w5] tell about the next", "pat19.fig9", "auto_write[w5]", above=HIGH_CORRELATION),
            Claim("reads and writes are weakly correlated ([w1])", "pat19.fig9", "cross[w1]", below=WEAK_CORRELATION),
            Claim("reads and writes are weakly correlated ([w5])", "pat19.fig9", "cross[w5]", below=WEAK_CORRELATION),
        ),
    ),
    Observation(
        "6",
        "OSTs are unbalanced in reads and in writes, over long times.",
        (
            Claim("reads are unbalanced by more than 10%", "pat19.fig10", "max_over_min_read", above=BALANCED),
            Claim("writes are unbalanced by more than 10%", "pat19.fig10", "max_over_min_write", above=BALANCED),
            Claim(
                "the OSTs read much are not those written much",
                "pat19.fig10",
                "rank_correlation",
                below=HIGH_CORRELATION,
            ),
            Claim("the order by reads lasts", "pat19.fig10", "persistence_read", above=0.0),
        ),
    ),
    Observation(
        "6",
        f"Few OSTs work together: fewer than {LIMITED} at a time, in high phases too, where writes have more.",
        (
            Claim(
                f"fewer than {LIMITED} OSTs in more than 90% of cases",
                "pat19.fig11",
                f"below_ratio[{LIMITED}]",
                above=0.9,
            ),
            Claim(
                f"mean degree of reads in high phases below {LIMITED}",
                "pat19.sensitivity",
                "mean_high_phases_read",
                below=LIMITED,
            ),
            Claim(
                f"mean degree of writes in high phases below {LIMITED}",
                "pat19.sensitivity",
                "mean_high_phases_write",
                below=LIMITED,
            ),
            Claim(
                "writes are more parallel in high phases",
                "pat19.sensitivity",
                "mean_high_phases_write_minus_read",
                above=0.0,
            ),
        ),
    ),
    Observation(
        "6",
        "At a single OST reads of a minute foretell the next ones; writes do not.",
        (
            Claim("reads of [w1] tell about the next on most OSTs", "pat19.fig12", "lag1_high_ratio_read", above=_MOST),
            Claim("writes of [w1] do not on most OSTs", "pat19.fig12", "lag1_high_ratio_write", below=_MOST),
            Claim(
                "reads and writes are not correlated on most OSTs", "pat19.fig12", "lag0_high_ratio_cross", below=_MOST
            ),
        ),
    ),
    Observation(
        "7",
        "Metadata activity is autocorrelated and bursty; the processors of the OSSes are mostly idle.",
        (
            Claim("opens of [w5] tell about the next", "pat19.fig14", "auto_open[w5]", above=HIGH_CORRELATION),
            Claim("closes of [w5] tell about the next", "pat19.fig14", "auto_close[w5]", above=HIGH_CORRELATION),
            Claim("opens are bursty (variation above 100%)", "pat19.fig13", "variation_open", above=1.0),
            Claim("closes are bursty (variation above 100%)", "pat19.fig13", "variation_close", above=1.0),
            Claim(
                f"more than 60% of OSSes never reach {MODEST:.0%}",
                "pat19.fig15",
                "max_load_servers_ratio",
                above=0.6,
                exact=True,
            ),
        ),
    ),
)


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
        findings.append(
            Finding(f"{number}. {observation.text} Here: {verdict}.", _kind(verdict), f"observation_{number}")
        )
    advice = [finding for part in made for finding in part.advice]
    return Exhibit(
        "pat19.observations",
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
