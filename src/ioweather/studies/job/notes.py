"""What is notable about one job, in sentences: what is missing first, then its pattern, then what its figures mean.

Each fits a line of the screen where it can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from ioweather.core.results import Finding
from ioweather.core.units import format_bytes, format_seconds, format_value
from ioweather.derive.bandwidth import Verb, bandwidth_caveats, passed_seconds
from ioweather.derive.file_records import file_records
from ioweather.derive.signatures import SMALL_BYTES, signatures
from ioweather.studies.job.view import JobView, printable
from ioweather.tables.applications import FILE_MODULES

# Drishti's threshold: the slowest rank of a shared file takes so much longer than the fastest. Said only where the
# difference is also so much of the job's I/O time. [ours]
STRAGGLER: Final = 0.15
WORTH_SAYING: Final = 0.05
_OBJECT_STORES: Final = ("DFS", "DAOS")
_DENSE: Final = 5
_VERBS: Final[tuple[Verb, Verb]] = ("read", "write")
_GERUND: Final = {"read": "reading", "write": "writing"}


def notes(view: JobView, row: Mapping[str, Any]) -> Iterator[Finding]:
    yield from _missing(view, row)
    yield from _pattern(view, row)
    yield from _meaning(row)


def _missing(view: JobView, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Partial data is first-class: said before anything that rests on it."""
    partial = _partial_modules(view)
    counters = [name for name in partial if name in FILE_MODULES]
    if counters:
        text = f"Partial: Darshan ran out of memory for {', '.join(counters)}; figures are lower bounds."
        yield Finding(text)
    for name in partial:
        if name not in FILE_MODULES and view.log is not None:
            yield Finding(f"Partial: {name} was cut short; what is drawn from it is incomplete.")
    for name in _OBJECT_STORES:
        records = view.log.records(name) if view.log else None
        if records is not None and len(records):
            moved = sum(int(np.maximum(records[f"{name}_BYTES_{word}"], 0).sum()) for word in ("READ", "WRITTEN"))
            yield Finding(f"{format_bytes(moved)} moved through {name} are not in these figures.")
    if view.logs > 1:
        times = "times too, though runs overlapped" if view.overlapping else "times too"
        yield Finding(f"{view.logs} logs of this job are added up, {times}; their files are taken to differ.")
    if view.log is None:
        place = f": ioweather job {view.log_paths[0]}" if len(view.log_paths) == 1 else "."
        yield Finding(f"Heat map: not kept in the lake; the log may have one{place}")
    elif row["moved_bytes"] and not view.heat_maps:
        short = view.log.records("HEATMAP") is not None
        why = "the run is shorter than two of its bins" if short else "not recorded in this log"
        yield Finding(f"Heat map: {why}.")


def _partial_modules(view: JobView) -> list[str]:
    texts = view.applications.text("partial_modules").tolist()
    return sorted({name for text in texts for name in (text or "").split(",") if name})


def _pattern(view: JobView, row: Mapping[str, Any]) -> Iterator[Finding]:
    marks = signatures(view.runs().frame).records()[0]
    if marks["negligible_io"]:
        yield Finding(f"I/O is {format_value(marks['io_ratio'], 'ratio')} of the run: faster I/O would not be felt.")
    if marks["rank0_io"]:
        by = "rank 0" if (marks["rank0_ratio"] or 0) > 0.5 else "one process"
        yield Finding(f"All data goes through {by}; {row['nprocs'] - 1:,} processes move none.")
    elif marks["subset_io"]:
        yield Finding(f"{row['io_rank_count']:,} of {row['nprocs']:,} processes move all data, not collectively.")
    if marks["file_per_process"]:
        each = format_value(row["unique_file_count"] / row["nprocs"])
        yield Finding(f"Every process has files of its own: {each} each, {row['unique_file_count']:,} in all.")
    if marks["metadata_bound"]:
        yield Finding(f"Metadata takes {format_value(row['metadata_ratio'], 'ratio')} of the I/O time.")
    # A few tiny accesses pull the mean of 1 MiB requests below 1 MiB: the most common size must be small too.
    if marks["small_requests"] and (row["common_access_bytes"] or 0) < SMALL_BYTES:
        operations = row["read_count"] + row["write_count"]
        yield Finding(f"Small requests: {format_bytes(marks['request_bytes'])} on average of {operations:,}.")
    if marks["seek_per_operation"]:
        yield Finding(f"A seek with nearly every read or write: {row['seek_count']:,} seeks.")
    yield from _layers(row)
    yield from _straggler(view, row)


def _layers(row: Mapping[str, Any]) -> Iterator[Finding]:
    """Which interfaces, how collective, and what MPI-IO made of it for the file system."""
    if not row["interfaces"]:
        return
    text = f"Interfaces: {row['interfaces'].replace(',', ', ')}"
    calls = row["collective_count"] + row["independent_count"]
    if calls:
        text += f"; {format_value(row['collective_count'] / calls, 'ratio')} of {calls:,} MPI-IO calls collective"
    yield Finding(f"{text}.")
    verb = max(_VERBS, key=lambda v: row[f"{v}_bytes"])
    asked, done = row[f"{verb}_count"], row[f"fs_{verb}_count"]
    if _mostly_mpiio(row) and asked and done and not 0.8 <= done / asked <= 1.25:
        sizes = [format_bytes(n) for n in (row[f"{verb}_bytes"] / asked, row[f"fs_{verb}_bytes"] / done)]
        yield Finding(f"{asked:,} {verb}s of {sizes[0]} reached the file system as {done:,} of {sizes[1]}.")


def _straggler(view: JobView, row: Mapping[str, Any]) -> Iterator[Finding]:
    """The shared file on which waiting for the slowest rank cost most."""
    records = file_records(view.applications, view.files)
    slowest, fastest = records.seconds("slowest_rank_seconds"), records.seconds("fastest_rank_seconds")
    gap = np.where(records.counted & (records.rank < 0) & (slowest > 0), slowest - fastest, 0.0)
    if not row["io_seconds"] or not len(gap) or row["io_rank_count"] == 1:
        return
    worst = int(np.argmax(gap))
    if gap[worst] > STRAGGLER * slowest[worst] and gap[worst] > WORTH_SAYING * row["io_seconds"]:
        path = records.text("path")[worst : worst + 1].tolist()[0] or "a shared file"
        name = printable(path.rsplit("/", 1)[-1])
        low, high = format_seconds(float(fastest[worst])), format_seconds(float(slowest[worst]))
        yield Finding(f"Ranks differ: on {name[:28]} the slowest took {high}, the fastest {low}.")


def _meaning(row: Mapping[str, Any]) -> Iterator[Finding]:
    """Why a speed may not be that of the storage (derive.bandwidth), in fewer words."""
    causes = {verb: {cause.name for cause in bandwidth_caveats(row, verb)} for verb in _VERBS}
    either = causes["read"] | causes["write"]
    spans = [_span(row, verb) for verb in _VERBS if "ranks" in causes[verb] and _takes_turns(row, verb)]
    if spans:
        yield Finding(f"First to last (of which the slowest process): {', '.join(spans)}.")
    cached = [verb for verb in _VERBS if "cache" in causes[verb]]
    if cached:
        rates = [format_bytes(row[f"{verb}_bytes"] / row[f"{verb}_seconds"]) for verb in cached]
        what = " and ".join(f"{_GERUND[verb]} at {rate}/s" for verb, rate in zip(cached, rates, strict=True))
        yield Finding(f"{what[0].upper()}{what[1:]} per process is memory, not storage.")
    if "layer" in either and _mostly_mpiio(row):
        factor = row["io_seconds"] / row["posix_io_seconds"]
        yield Finding(f"Speeds are of MPI-IO; its POSIX calls alone would give {factor:.1f} times as much.")
    if "spans" in either:
        yield Finding("No slowest rank is recorded: time on shared files is first open to last I/O.")


def _takes_turns(row: Mapping[str, Any], verb: Verb) -> bool:
    """Where very much more time passes, the job did something else between its phases of I/O."""
    passed = passed_seconds(row, verb)
    return row["nprocs"] > 1 and passed is not None and passed < _DENSE * row[f"d_{verb}_seconds"]


def _span(row: Mapping[str, Any], verb: Verb) -> str:
    passed, spent = format_seconds(passed_seconds(row, verb) or 0.0), format_seconds(row[f"d_{verb}_seconds"])
    return f"{verb} {passed} ({spent})"


def _mostly_mpiio(row: Mapping[str, Any]) -> bool:
    """Otherwise the calls of another interface are in what is compared with POSIX."""
    calls = row["collective_count"] + row["independent_count"]
    return bool(calls) and calls >= 0.9 * (row["read_count"] + row["write_count"])
