"""Bytes written over what was just written."""

from __future__ import annotations

from ioweather.advice.advisor.layouts import (
    repeated,
)
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes


def _look(profile: Profile) -> Seen | None:
    seconds, again, moved = repeated(profile, "write")
    if not again:
        return None
    evidence = f"{format_bytes(again)} of {format_bytes(moved)} were written over what was written"
    return Seen(evidence, seconds, ("change it in memory, write it once",))


RULE = Rule(
    name="redundant_writes",
    headline="written again",
    dimension="random",
    part="requests",
    trigger="more bytes written than the file's extent: over 10% of it, and 1 MiB in all",
    model="the repeated bytes at the rate at which the file was written",
    sources=("Drishti (Bez et al. 2022)",),
    before=("for (step = 0; step < steps; step++) {\n    update(field);\n    pwrite(fd, field, bytes, 0);\n}"),
    after=("for (step = 0; step < steps; step++)\n    update(field);\npwrite(fd, field, bytes, 0);"),
    look=_look,
)
