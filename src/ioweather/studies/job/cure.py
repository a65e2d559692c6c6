"""How to record a run whole next time: what Darshan was short of, and the values to set.

Darshan keeps 1,024 records per process and module, in 4 MiB for all modules, and 1 MiB of names (darshan-runtime's
manual: MAX_RECORDS, DARSHAN_MODMEM, DARSHAN_NAMEMEM). A file that does not fit has no record.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from ioweather.core.units import MIB
from ioweather.studies.job.view import JobView
from ioweather.tables.applications import FILE_MODULES

DEFAULT_RECORDS: Final = 1024
DEFAULT_MODULE_MIB: Final = 4
DEFAULT_NAME_MIB: Final = 1
# Of a record in memory, where the log has none to measure: POSIX of Darshan 3.2 and later.
_RECORD_BYTES: Final = 704
# Beside the file records: heat maps and the records of other modules.
_OTHER_MIB: Final = 2
_ID_BYTES: Final = 8


@dataclass(frozen=True)
class Cure:
    """`known` says that the number of files is; else so many were recorded, and twice as many are taken."""

    modules: tuple[str, ...]
    records: int
    module_mib: int
    name_mib: int
    known: bool

    @property
    def text(self) -> str:
        names = f" DARSHAN_NAMEMEM={self.name_mib}" if self.name_mib > DEFAULT_NAME_MIB else ""
        guess = "" if self.known else f" ({self.records:,} is a guess: twice what was recorded)"
        return (
            f"To record it whole: export DARSHAN_MODMEM={self.module_mib}{names}, and in the file of "
            f"DARSHAN_CONFIG_PATH the line MAX_RECORDS {self.records} {','.join(self.modules)}{guess}."
        )


def partial_modules(view: JobView) -> tuple[str, ...]:
    """Modules with counters of files that ran out of memory, in any log of the job."""
    texts = view.applications.text("partial_modules").tolist()
    found = {name for text in texts for name in (text or "").split(",")}
    return tuple(name for name in FILE_MODULES if name in found)


def unrecorded_files(view: JobView) -> int:
    return view.log.unrecorded_file_count if view.log is not None else 0


def is_incomplete(view: JobView) -> bool:
    return bool(partial_modules(view)) or unrecorded_files(view) > 0


def cure(view: JobView) -> Cure | None:
    """None where the log is whole."""
    if not is_incomplete(view):
        return None
    modules = partial_modules(view) or ("POSIX",)
    processes = int(view.applications.ints("nprocs").max(initial=1))
    fullest = max((_fullest(view, name) for name in modules), default=0)
    log = view.log
    # Names are kept apart from records: where there are more of them, they say how many files there were.
    named = math.ceil(log.name_count / processes) if log is not None else 0
    known = unrecorded_files(view) > 0
    wanted = max(named, fullest + 1) if known else 2 * max(fullest, DEFAULT_RECORDS)
    sizes = [m.records.dtype.itemsize for m in log.modules if m.name in FILE_MODULES] if log is not None else []
    module_mib = math.ceil(wanted * (sum(sizes) or _RECORD_BYTES) / MIB) + _OTHER_MIB
    name_bytes = (log.name_bytes / log.name_count if log is not None and log.name_count else 0) + 1 + _ID_BYTES
    return Cure(
        modules, max(wanted, DEFAULT_RECORDS + 1), max(module_mib, 2 * DEFAULT_MODULE_MIB),
        max(math.ceil(wanted * name_bytes / MIB), DEFAULT_NAME_MIB), known,
    )  # fmt: skip


def _fullest(view: JobView, module: str) -> int:
    """Records of the process with most; those of files that all share are in every process."""
    rank = view.files.ints("rank")[view.files.text("module").equals(module)]
    shared = int((rank < 0).sum())
    return shared + int(np.bincount(rank[rank >= 0]).max(initial=0)) if len(rank) else 0
