"""What programs read of claims: one statement of a paper at one site, and all of a site's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class ClaimOutcome:
    """How one statement of a paper stands at one site: `standing` is supported (it agrees), refuted (it contradicts),
    undecided or untestable, `why` what stands in the way. `p_value` is None for exact counts."""

    id: str
    standing: Literal["supported", "refuted", "undecided", "untestable"]
    value: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    n: int | None = None
    p_value: float | None = None
    why: str = ""


@dataclass(frozen=True)
class SiteClaims:
    """All statements at one site, whose name is its own."""

    site: str
    simulated: bool
    claims: tuple[ClaimOutcome, ...]
