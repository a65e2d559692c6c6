"""Data through streams: fread and fwrite."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.costs import (
    rate_words,
)
from ioweather.advice.advisor.fixes import (
    larger_requests,
    main_verb,
)
from ioweather.advice.advisor.profile import VERBS, Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import MIB, format_value

STDIO_SHARE: Final = 0.1
FEWEST_BYTES: Final = MIB


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & profile.records.stdio
    moved = (profile.ints("read_bytes") + profile.ints("write_bytes")).astype(np.float64)
    streamed = float(moved[rows].sum())
    if streamed < FEWEST_BYTES or streamed <= STDIO_SHARE * profile.moved_bytes:
        return None
    saved = np.zeros(len(rows))
    for verb in VERBS:
        saved += profile.request_overhead(verb) * profile.ints(f"{verb}_count")
    part = format_value(min(streamed / profile.moved_bytes, 1.0), "ratio")
    evidence = f"{part} of the bytes go through streams (fread, fwrite); {rate_words(profile, rows)}"
    lines = larger_requests(profile, "STDIO", main_verb(profile, rows))
    return Seen(evidence, profile.saving(np.where(rows, saved, 0.0)), lines)


RULE = Rule(
    name="stdio",
    headline="streams",
    dimension="interface",
    part="requests",
    trigger="more than 10% of the bytes, and 1 MiB or more, through STDIO",
    model="the same bytes at the rate of large requests",
    sources=("Drishti (Bez et al. 2022)", "TraceBench LLL"),
    before=('FILE *file = fopen(path, "w");\nfwrite(data, 1, bytes, file);'),
    after=('FILE *file = fopen(path, "w");\nsetvbuf(file, NULL, _IOFBF, 4 << 20);\nfwrite(data, 1, bytes, file);'),
    look=_look,
)
