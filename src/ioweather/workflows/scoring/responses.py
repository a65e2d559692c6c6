"""Questions about response times: the law of head and tail, what incidents and benchmarks do to it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from ioweather.workflows.scoring.items import Evidence, Item, NotBuilt

_MAIN_SAMPLE = 2**20


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
    expected = 1.0 if law["head"] == "normal" else 0.0
    yield Item("heads called Normal", expected, normal, 0.2, "difference", note=f"of {len(found)} series")
    yield Item("tails called Power Law (AIC)", 1.0, power, 0.2, "rate", note=f"of {len(found)} series")
    shares = [float(str(row["tail_share"])) for row, _ in found]
    yield Item("share in the tail, median", law["tail_ratio"], median(shares), 0.05, "difference", "ratio",
               "the planted law is that of the quiet system; load adds to its tail")  # fmt: skip
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
    """Do targets slow down together? A common factor was planted, or not."""
    laws = evidence.truth("distribution")
    if not laws:
        return
    found = evidence.estimates("don15.maxorder").get("target_correlation")
    common = laws[0]["details"]["common_sd"]
    if not common:
        yield Item("correlation between targets", 0.0, found, 0.15, "difference")
    else:
        # Any clear correlation is right: its size depends on the tail, which the factor multiplies.
        told = None if found is None else float(found > 0.15)
        yield Item("correlation between targets is seen", 1.0, told, 0.0, "rate", note=f"found {found:.2f}")


def slowdown(evidence: Evidence) -> Iterator[Item]:
    if not evidence.truth("benchmark"):
        return
    evidence.exhibit("kun19.fig3")
    raise NotBuilt("its figures are not compared yet")


def episodes(evidence: Evidence) -> Iterator[Item]:
    evidence.exhibit("kun19.episodes")
    raise NotBuilt("its figures are not compared yet")
    yield  # a question is a generator


def forecast(evidence: Evidence) -> Iterator[Item]:
    raise NotBuilt("forecast")
    yield
