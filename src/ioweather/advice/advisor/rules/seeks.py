"""A seek with every read or write: one system call more for each."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.costs import (
    FEWEST,
)
from ioweather.advice.advisor.metadata_costs import metadata_calls
from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.derive.jobs.signatures import SEEKS_PER_OPERATION


def _look(profile: Profile) -> Seen | None:
    seeks = profile.ints("seek_count")
    # Streams seek in their own buffer.
    rows = profile.counted & ~profile.records.stdio
    done, sought = int(profile.operations[rows].sum()), int(seeks[rows].sum())
    if done < FEWEST or sought < SEEKS_PER_OPERATION * done:
        return None
    share = ratio(seeks.astype(np.float64), metadata_calls(profile))
    saved = np.where(rows, profile.seconds("meta_seconds") * share, 0.0)
    evidence = f"{sought:,} seeks for {done:,} reads and writes"
    lines = ("pread(fd, buffer, bytes, offset);", "pwrite(fd, buffer, bytes, offset);")
    if profile.python:
        lines = ("os.pread(fd, count, offset)", "os.pwrite(fd, data, offset)")
    return Seen(evidence, profile.saving(saved), lines)


RULE = Rule(
    name="seeks",
    headline="seek per request",
    dimension="interface",
    part="metadata",
    trigger="0.9 seeks or more per read and write, of 100 or more",
    model="metadata time, by the share of its calls that seek",
    sources=("Carns et al. 2011, V", "Dong et al. 2023 (AIIO), IOR"),
    before=("lseek(fd, offset, SEEK_SET);\nread(fd, buffer, bytes);"),
    after="pread(fd, buffer, bytes, offset);",
    look=_look,
)
