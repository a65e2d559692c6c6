"""Below MPI-IO that only writes, POSIX reads: ROMIO fills the holes of strided writes."""

from __future__ import annotations

import numpy as np

from ioweather.advice.advisor.profile import Profile, ratio
from ioweather.advice.advisor.rule import Rule, Seen
from ioweather.core.units import format_bytes, format_value


def _look(profile: Profile) -> Seen | None:
    records = profile.records
    asked = records.per_file(profile.ints("read_count"), records.mpiio)
    done = records.per_file(profile.ints("read_bytes"), records.posix)
    wrote = records.per_file(profile.ints("write_bytes"), records.mpiio)
    files = (wrote > 0) & (asked == 0) & (done > 0)
    if not files.any():
        return None
    reading, writing = (records.per_file(profile.seconds(f"{v}_seconds"), records.posix) for v in ("read", "write"))
    share = np.where(files, ratio(reading, reading + writing), 0.0)
    saved = np.where(records.mpiio, profile.seconds("write_seconds") * share[records.file], 0.0)
    amount = float(done[files].sum())
    part = format_value(amount / float(wrote[files].sum()), "ratio")
    evidence = f"{format_bytes(amount)} read to be written again: {part} of what MPI-IO wrote"
    line = 'MPI_Info_set(info, "romio_ds_write", "disable");'
    return Seen(evidence, profile.saving(saved), (line, 'MPI_Info_set(info, "romio_cb_write", "enable");'))


RULE = Rule(
    name="data_sieving",
    headline="read to write",
    dimension="interface",
    part="requests",
    trigger="POSIX reads below MPI-IO that only writes",
    model="the share of reading in the POSIX time below",
    sources=("Thakur, Gropp, Lusk 1999: data sieving", "ROMIO user's guide: romio_ds_write"),
    before="MPI_File_write(file, data, 1, strided_type, MPI_STATUS_IGNORE);",
    after=(
        'MPI_Info_set(info, "romio_ds_write", "disable");\n'
        'MPI_Info_set(info, "romio_cb_write", "enable");\n'
        "MPI_File_write_all(file, data, 1, strided_type, MPI_STATUS_IGNORE);"
    ),
    look=_look,
)
