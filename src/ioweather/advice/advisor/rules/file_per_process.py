"""At least one file of its own for each process, and making them costs."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ioweather.advice.advisor.fixes import (
    main_verb,
    setstripe,
)
from ioweather.advice.advisor.metadata_costs import LONG_SECONDS, opening_seconds
from ioweather.advice.advisor.profile import Profile
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_value

MANY_FILES: Final = 1000
FELT_SHARE: Final = 0.1


def _look(profile: Profile) -> Seen | None:
    files = profile.count("unique_file_count")
    if not profile.parallel or files < profile.nprocs:
        return None
    rows = profile.counted & (profile.records.rank >= 0) & ~profile.shared
    meta, spent = (float(part[rows].sum()) for part in (profile.seconds("meta_seconds"), profile.spent))
    if files < MANY_FILES and meta < FELT_SHARE * spent and meta <= LONG_SECONDS:
        return None
    # Each N files become one. It is made once; to be read, every node opens it. Making is what costs: with files made
    # before, the 728 s of car11 VI became 25 s.
    keep = math.ceil(files / profile.nprocs) / files
    written = profile.ints("write_bytes") > 0
    share = np.where(written, keep, min(1.0, keep * min(profile.nodes, profile.nprocs)))
    saved = np.where(rows, opening_seconds(profile) * (1.0 - share), 0.0)
    part = f", {format_value(meta / spent, 'ratio')} of their time in metadata" if spent > 0 else ""
    evidence = f"{files:,} files of single processes, {format_value(files / profile.nprocs)} each{part}"
    verb = main_verb(profile, rows)
    lines = ["MPI_File_open(MPI_COMM_WORLD, one_path, ...);", f"MPI_File_{verb}_at_all(file, rank * bytes, ...);"]
    if int(profile.ints("stripe_count")[rows].max(initial=0)) > 1:
        lines.append(setstripe(profile, rows, 1))
    return Seen(evidence, profile.saving(saved), tuple(lines))


RULE = Rule(
    name="file_per_process",
    headline="file per process",
    dimension="metadata",
    part="metadata",
    trigger="at least one file of its own per process: 1,000 or more, or metadata over 10% of their time or 30 s",
    model=("metadata time of first opens, less what one shared file needs: made once, opened by each node to read"),
    sources=("Carns et al. 2011, VI", "Drishti (Bez et al. 2022)"),
    before=(
        'sprintf(path, "checkpoint.%d", rank);\nint fd = open(path, O_WRONLY | O_CREAT, 0644);\nwrite(fd, part, bytes);'
    ),
    after=(
        'MPI_File_open(MPI_COMM_WORLD, "checkpoint", MPI_MODE_WRONLY | MPI_MODE_CREATE, info, &file);\n'
        "MPI_File_write_at_all(file, rank * bytes, part, bytes, MPI_BYTE, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
