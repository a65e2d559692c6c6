"""Questions about response times: the law of head and tail, what incidents and benchmarks do to it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from ioweather.core.outcomes import ForecastOutcome
from ioweather.core.units import HOUR_NS, MINUTE_NS
from ioweather.workflows.ask import ask
from ioweather.workflows.score.items import Evidence, Item

_FELT_BY_ALL = ("mds_overload", "network_cap")
# Mean stretch that a person notices.
_FELT = 1.5


def distributions(evidence: Evidence) -> Iterator[Item]:
    """Each series of the sampler against the law it was drawn from."""
    laws = {(row["name"], int(row["value"])): row["details"] for row in evidence.truth("distribution")}
    if not laws:
        return
    winners = next(t for t in evidence.exhibit("don15.fig6").tables if t.name == "winners")
    labels = {f"{op} {_shown(size)}": law for (op, size), law in laws.items()}
    rows = [dict(zip((c.name for c in winners.columns), row, strict=True)) for row in winners.rows]
    found = [(row, law) for row in rows for label, law in labels.items() if str(row["sample"]).endswith(label)]
    if not found:
        return
    law = found[0][1]
    normal = sum(row["head"] == "Normal" for row, _ in found) / len(found)
    power = sum(row["tail_aic"] == "Power Law" for row, _ in found) / len(found)
    yield Item("heads called Normal", 1.0, normal, 0.2, "difference", note=f"of {len(found)} series")
    yield Item("tails called Power Law (AIC)", 1.0, power, 0.2, "rate", note=f"of {len(found)} series")
    shares = [float(str(row["tail_share"])) for row, _ in found]
    note = "the planted law is that of the quiet system; load adds to its tail"
    yield Item("share in the tail, median", law["tail_ratio"], median(shares), 0.05, "difference", "ratio", note)
    alphas = [float(str(row["alpha"])) for row, _ in found if row["alpha"] is not None]
    yield Item("exponent of the tail, median", law["alpha"], median(alphas) if alphas else None, 0.15)
    pivots = [float(str(row["pivot"])) / each["pivot_seconds"] for row, each in found]
    yield Item("pivot over the planted one, median", 1.0, median(pivots), 0.1)


def _shown(size: int) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def independence(evidence: Evidence) -> Iterator[Item]:
    """Do targets slow down together? Here they do not."""
    if evidence.truth("distribution"):
        found = evidence.estimates("don15.maxorder").get("target_correlation")
        yield Item("correlation between targets", 0.0, found, 0.15, "difference")


def slowdown(evidence: Evidence) -> Iterator[Item]:
    """Metadata phases of the benchmark stretch every metadata operation by a known factor."""
    phases = {row["name"]: row for row in evidence.truth("benchmark") if row["name"].startswith("mdtest")}
    if not phases:
        return
    found = evidence.estimates("kun19.fig3")
    ratios = []
    for name, row in phases.items():
        planted = row["observed_seconds"] / row["details"]["free_seconds"]
        ends = tuple(f" {op}]" for op in ("create", "stat", "delete"))
        values = [v for label, v in found.items() if label.startswith(f"slowdown[{name}, ") and label.endswith(ends)]
        ratios += [value / planted for value in values if value is not None]
    if ratios:
        name = "slowdown in metadata phases over the planted one, median"
        yield Item(name, 1.0, median(ratios), 0.1, note=f"{len(ratios)} values")


def episodes(evidence: Evidence) -> Iterator[Item]:
    """Incidents that everybody feels against episodes of the probes."""
    table = next(t for t in evidence.exhibit("kun19.episodes").tables if t.name == "episodes")
    rows = [dict(zip((c.name for c in table.columns), row, strict=True)) for row in table.rows]
    found = [(int(str(row["start"])), int(str(row["end"] or 2**62))) for row in rows]
    everybody = [row for row in evidence.truth("incident") if row["name"] in _FELT_BY_ALL]
    # On a quiet system a narrow network delays nobody.
    planted = [row for row in everybody if row["value"] is not None and row["value"] >= _FELT]
    if not planted:
        return
    seen = [[e for e in found if e[0] < row["end_ns"] and e[1] > row["start_ns"]] for row in planted]
    hit = sum(bool(each) for each in seen)
    yield Item(
        "incidents of all that were found", 1.0, hit / len(planted), 0.3, "rate", note=f"{hit} of {len(planted)}"
    )
    causes = [*evidence.truth("incident"), *evidence.truth("benchmark")]
    right = sum(any(e[0] < c["end_ns"] and e[1] > c["start_ns"] for c in causes) for e in found)
    if found:
        yield Item("episodes with a planted cause", 1.0, right / len(found), 0.3, "rate", note=f"of {len(found)}")
    delays = [
        max(0, min(e[0] for e in each) - row["start_ns"]) / HOUR_NS
        for each, row in zip(seen, planted, strict=True)
        if each
    ]
    if delays:
        yield Item("hours until noticed, mean", 0.0, sum(delays) / len(delays), 4.0, "difference")


def forecast(evidence: Evidence) -> Iterator[Item]:
    """What the last day's load was forecast as: no worse than 'as now' and 'as usual', in intervals that hold."""
    outcome = ask("forecast", evidence.lake).result
    for horizon in outcome.horizons if isinstance(outcome, ForecastOutcome) else ():
        label = f"{horizon.horizon_ns // MINUTE_NS} min ahead"
        if horizon.skill.value is not None:
            lost = max(0.0, -horizon.skill.value)
            name = f"errors beyond the better of 'as now' and 'as usual', {label}"
            yield Item(name, 0.0, lost, 0.05, "difference", "ratio", f"skill {horizon.skill.value:+.2f}")
        if horizon.coverage is not None:
            yield Item(f"intervals that held, {label}", 0.9, horizon.coverage, 0.05, "difference", "ratio")
