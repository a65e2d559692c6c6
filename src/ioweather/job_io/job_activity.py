"""The heat map of a job by all of its logs: processes without MPI, and launches one after the other, write a log each.

The lake keeps no heat maps. They are taken from the logs, where these still lie where they were read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ioweather.core.arrays import Ints
from ioweather.core.errors import SourceError
from ioweather.core.units import NS
from ioweather.job_io.heat_map import HeatMap, Origin, Resolution, from_segments
from ioweather.job_io.job_from_log import HEAT_NAMES, TRACES, heat_maps
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.log import DarshanLog

# More are not read for a picture: on a parallel file system it is the opening that takes the time.
MOST_LOGS: Final = 1024
_SEGMENT: Final = [("write", "?"), ("length", "f8"), ("start_seconds", "f8"), ("end_seconds", "f8")]
_MODULES: Final = ("HEATMAP", *TRACES.values())


def known_logs(places: Mapping[str, str]) -> list[DarshanLog]:
    """The logs with these digests that are still where they were; what lies there now and is another file is not."""
    if len(places) > MOST_LOGS:
        return []
    found = []
    for digest, place in places.items():
        if not Path(place).is_file():  # a pipe would be waited for
            continue
        try:
            log = read_log(Path(place), modules=_MODULES)
        except (OSError, SourceError):
            continue
        if log.digest == digest:
            found.append(log)
    return found


def job_heat_maps(logs: Sequence[DarshanLog], resolution: Resolution) -> tuple[HeatMap, ...]:
    """One per module. Time is since the first log's start. Logs that went on at the same time have rows of their own,
    in the order of their start; launches one after the other share theirs, by rank."""
    if len(logs) < 2:
        return tuple(heat for log in logs for heat in heat_maps(log, resolution))
    logs = sorted(logs, key=lambda log: (log.job.start_ns, log.digest))
    start_ns = logs[0].job.start_ns
    seconds = (max(log.job.end_ns for log in logs) - start_ns) / NS
    first_rows, rows = _rows(logs)
    parts: dict[str, list[tuple[Ints, NDArray[Any], Origin]]] = {}
    for log, first_row in zip(logs, first_rows, strict=True):
        for module, (ranks, segments, origin) in _operations(log).items():
            later = (log.job.start_ns - start_ns) / NS
            segments["start_seconds"] += later
            segments["end_seconds"] += later
            inside = (ranks >= 0) & (ranks < log.job.nprocs)
            parts.setdefault(module, []).append((ranks[inside] + first_row, segments[inside], origin))
    return tuple(heat for module in sorted(parts) for heat in _merged(module, rows, seconds, parts[module], resolution))


def _merged(
    module: str,
    rows: int,
    seconds: float,
    parts: Sequence[tuple[Ints, NDArray[Any], Origin]],
    resolution: Resolution,
) -> Iterator[HeatMap]:
    ranks = np.concatenate([ranks for ranks, _, _ in parts])
    segments = np.concatenate([segments for _, segments, _ in parts])
    origin: Origin = "trace" if any(origin == "trace" for _, _, origin in parts) else "heat map"
    heat = from_segments(module, rows, seconds, ranks, segments, resolution, origin=origin)
    if heat is not None and heat.total_bytes > 0:
        yield heat


def _rows(logs: Sequence[DarshanLog]) -> tuple[list[int], int]:
    """The first row of each log, and how many there are."""
    ends = np.maximum.accumulate([log.job.end_ns for log in logs])
    at_once = any(log.job.start_ns < end for log, end in zip(logs[1:], ends[:-1].tolist(), strict=True))
    processes = [log.job.nprocs for log in logs]
    if not at_once:
        return [0] * len(logs), max(processes)
    return [0, *np.cumsum(processes)[:-1].tolist()], sum(processes)


def _operations(log: DarshanLog) -> dict[str, tuple[Ints, NDArray[Any], Origin]]:
    """Bytes with rank and time, by module: a bin of its heat map is one operation, else the operations of its trace."""
    found: dict[str, tuple[Ints, NDArray[Any], Origin]] = {}
    for module, ranks, segments in _bins(log):
        found[module] = ranks, segments, "heat map"
    for module, trace in TRACES.items():
        part = log.modules.get(trace)
        if module not in found and part is not None and part.segments is not None and len(part.segments):
            segments = np.zeros(len(part.segments), _SEGMENT)
            for name, _ in _SEGMENT:
                segments[name] = part.segments[name]
            found[module] = part.records["rank"][part.segments["record"]], segments, "trace"
    return found


def _bins(log: DarshanLog) -> Iterator[tuple[str, Ints, NDArray[Any]]]:
    module = log.modules.get("HEATMAP")
    if module is None:
        return
    records = module.records
    lengths = records["bins"].astype(np.int64)
    of_record = np.repeat(np.arange(len(records)), lengths)
    number = np.arange(len(of_record)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    width = records["bin_width_seconds"][of_record]
    run_seconds = max(log.job.run_seconds, 0.0)
    for record_id in np.unique(records["id"]).tolist():
        mine = records["id"][of_record] == record_id
        parts = []
        for write, values in ((False, module.ragged["read_bins"].values), (True, module.ragged["write_bins"].values)):
            there = mine & (values > 0)
            segments = np.zeros(int(there.sum()), _SEGMENT)
            segments["write"], segments["length"] = write, values[there]
            segments["start_seconds"] = number[there] * width[there]
            # The last bin reaches beyond the run; what is in it happened before its end.
            ends = segments["start_seconds"] + width[there]
            segments["end_seconds"] = np.where(
                segments["start_seconds"] < run_seconds, np.minimum(ends, run_seconds), ends
            )
            parts.append((records["rank"][of_record][there], segments))
        name = log.names.get(record_id, "").removeprefix("heatmap:") or "unnamed"
        ranks, segments = (np.concatenate(column) for column in zip(*parts, strict=True))
        if len(segments):
            yield HEAT_NAMES.get(name, name), ranks, segments
