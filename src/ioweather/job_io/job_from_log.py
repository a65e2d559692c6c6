"""From a Darshan log to what studies of one job look at: rows, records of other modules, heat maps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ioweather.core.contracts import PathPolicy
from ioweather.core.errors import UsageError
from ioweather.facts.job_io import job_io
from ioweather.job_io.heat_map import HeatMap, Resolution, from_bins, from_segments
from ioweather.job_io.view import JobView, LogFacts, ModuleRecords, printable
from ioweather.readers.darshan.darshan_reader import read_log, rows_of_logs
from ioweather.readers.darshan.log import DarshanLog

TRACES = {"MPI-IO": "DXT_MPIIO", "POSIX": "DXT_POSIX"}
HEAT_NAMES = {"MPIIO": "MPI-IO"}


def view_of_log(path: Path, paths: PathPolicy, resolution: Resolution) -> JobView:
    """The log at `path` as a job of its own. Nothing is written, beside the log or elsewhere."""
    try:
        log = read_log(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from None
    applications, files = rows_of_logs([log], paths)
    # The name of a log usually holds the user's and the program's: who hides paths hides it too.
    name = printable(path.name) if paths == "keep" else log.digest[:12]
    facts = LogFacts(
        name,
        log.job.metadata.get("lib_ver", ""),
        log.job.run_seconds,
        tuple(ModuleRecords(m.name, m.version, m.partial, m.records) for m in log.modules.values()),
        log.unknown_modules,
        _unrecorded(log),
        len(log.names),
        sum(map(len, log.names.values())),
    )
    return JobView(
        name, applications, files, job_io(applications, files), log=facts, heat_maps=tuple(heat_maps(log, resolution))
    )


def _unrecorded(log: DarshanLog) -> int:
    """Paths of the name map that no module has a record of; modules that are not read may have one."""
    if log.unknown_modules or log.skipped_modules:
        return 0
    recorded = set().union(*(module.records["id"].tolist() for module in log.modules.values()))
    return sum(1 for record_id, name in log.names.items() if record_id not in recorded and name.startswith("/"))


def heat_maps(log: DarshanLog, resolution: Resolution) -> Iterator[HeatMap]:
    """One per module that has one: its heat map, else the one that its trace gives."""
    recorded = {heat.module: heat for heat in _recorded(log, resolution) if heat.total_bytes > 0}
    for module, trace in TRACES.items():
        if module not in recorded and trace in log.modules:
            heat = _traced(log, module, trace, resolution)
            if heat is not None and heat.total_bytes > 0:
                recorded[module] = heat
    yield from (recorded[module] for module in sorted(recorded))


def _recorded(log: DarshanLog, resolution: Resolution) -> Iterator[HeatMap]:
    module = log.modules.get("HEATMAP")
    if module is None:
        return
    records = module.records
    lengths = records["bins"].astype(np.int64)
    reads, writes = module.ragged["read_bins"], module.ragged["write_bins"]
    for record_id in np.unique(records["id"]):
        mine = records["id"] == record_id
        values = np.repeat(mine, lengths)
        name = log.names.get(int(record_id), "").removeprefix("heatmap:") or "unnamed"
        heat = from_bins(
            HEAT_NAMES.get(name, name), log.job.nprocs, float(records["bin_width_seconds"][mine][0]),
            records["rank"][mine], lengths[mine], reads.values[values], writes.values[values], resolution,
        )  # fmt: skip
        if heat is not None:
            yield heat


def _traced(log: DarshanLog, module: str, trace: str, resolution: Resolution) -> HeatMap | None:
    part = log.modules[trace]
    if part.segments is None or not len(part.segments):
        return None
    ranks = part.records["rank"][part.segments["record"]]
    return from_segments(module, log.job.nprocs, log.job.run_seconds, ranks, part.segments, resolution)
