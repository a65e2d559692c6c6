"""Fewer files than processes, or one process: still several for each that has any."""

from __future__ import annotations

from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    packed,
)
from ioweather.advice.advisor.metadata_costs import LONG_SECONDS, opening_seconds
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_value
from ioweather.derive.jobs.signatures import METADATA_BOUND

FEWEST_FILES: Final = 8


def _look(profile: Profile) -> Seen | None:
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    files = profile.files_moved(rows)
    holders = len(np.unique(profile.records.rank[rows]))
    per_process = profile.parallel and profile.nprocs <= profile.count("unique_file_count")
    if per_process or files < FEWEST_FILES * holders or not files:
        return None
    meta, spent = float(profile.seconds("meta_seconds")[rows].sum()), float(profile.spent[rows].sum())
    if meta <= 0 or (meta < METADATA_BOUND * spent and meta <= LONG_SECONDS):
        return None
    saved = np.where(rows, opening_seconds(profile) * (1.0 - holders / files), 0.0)
    who = "one process" if holders == 1 else f"{holders:,} processes"
    evidence = f"{files:,} files of {who}, {format_value(meta / spent, 'ratio')} of their time in metadata"
    return Seen(evidence, profile.saving(saved), packed(profile))


RULE = Rule(
    name="many_files",
    headline="many files",
    dimension="metadata",
    part="metadata",
    trigger=("8 files or more for each process with any, few of many processes; metadata over 30 s or half the time"),
    model="metadata time of first opens, if each of these processes had one file",
    sources=("Carns et al. 2011, V.J", "WisIO (Yildirim et al. 2025)"),
    before=('for (i = 0; i < n; i++) {\n    sprintf(path, "out.%d", i);\n    write_file(path, item[i]);\n}'),
    after=(
        'hid_t file = H5Fcreate("out.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);\n'
        "for (i = 0; i < n; i++)\n"
        "    write_dataset(file, name[i], item[i]);  /* H5Dcreate2, H5Dwrite */"
    ),
    look=_look,
)
