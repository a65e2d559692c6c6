"""One job on one screen: program, duration, amount and speed of I/O, its share of the run, and notes.

A job with several runs is shown by the run with the most I/O time (`view.main_run_of`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np

from ioweather.core.results import Answer, Fact, FactGroup, Finding, number_names
from ioweather.core.tables import FILE_MODULES, READ_BINS, SIZE_BIN_UPPER_BYTES, STRATEGIES, WRITE_BINS
from ioweather.core.units import MIB, format_bytes, format_seconds, format_time_ns, format_value, names_of
from ioweather.facts.bandwidth import Verb, bandwidth_caveats
from ioweather.facts.runs import program_of, signatures
from ioweather.job_io.advisor.profile import FILESYSTEMS, UNKNOWN
from ioweather.job_io.outcomes import JobOutcome
from ioweather.job_io.view import JobView, printable, recorded_whole

# Darshan records 1,024 files per process and module, in 4 MiB for all modules, and 1 MiB of names (darshan-runtime's
# manual: MAX_RECORDS, DARSHAN_MODMEM, DARSHAN_NAMEMEM). A file that does not fit has no record.
DEFAULT_RECORDS: Final = 1024
DEFAULT_MODULE_MIB: Final = 4
DEFAULT_NAME_MIB: Final = 1
# A record in memory, where the log has none to measure: POSIX of Darshan 3.2 and later.
_RECORD_BYTES: Final = 704
# Memory of heat maps and of the records of other modules.
_OTHER_MIB: Final = 2
# The first Darshan that reads DARSHAN_CONFIG_PATH.
_CONFIGURED_FROM: Final = "3.4"
_ID_BYTES: Final = 8


def partial_modules(view: JobView) -> tuple[str, ...]:
    """Return modules with counters of files that ran out of memory, in any log of the job."""
    found = view.listed("partial_modules")
    return tuple(name for name in FILE_MODULES if name in found)


def ran_out_of_memory(view: JobView) -> bool:
    """Whether Darshan ran out of memory for some files."""
    return bool(partial_modules(view)) or view.unrecorded_file_count > 0


def count_unrecorded_processes(view: JobView) -> int:
    """Count processes of an incomplete log without a record of any file; standard streams are no files."""
    rank = view.files.ints("rank")[~view.files.bools("standard_stream")]
    if not ran_out_of_memory(view) or view.logs != 1 or view.separate or (rank < 0).any():
        return 0
    return max(0, int(view.applications.ints("nprocs")[0]) - len(np.unique(rank)))


def sum_console_seconds(view: JobView) -> tuple[float, float]:
    """Return seconds on standard input, output and error: of all processes together, and of the slowest."""
    files, rank = view.files, view.files.ints("rank")
    spent = sum(files.floats(f"{name}_seconds") for name in ("read", "write", "meta"))
    mine = files.bools("standard_stream") & np.isfinite(spent)
    spent = np.where(mine, spent, 0.0)
    processes = max(1, int(view.applications.ints("nprocs").max(initial=1)))
    # A record of all processes has the sum; its mean stands for the slowest.
    slowest = float(np.bincount(np.maximum(rank, 0)[rank >= 0], weights=spent[rank >= 0]).max(initial=0.0))
    return float(spent.sum()), slowest + float(spent[rank < 0].sum()) / processes


def recording_advice(view: JobView) -> str | None:
    """Return the settings that record the run whole next time; None if the log is whole.

    Names have memory of their own: if there are more names than records, they give the number of files. Otherwise the
    number is a guess, twice the recorded one.
    """
    if not ran_out_of_memory(view):
        return None
    log, modules = view.log, partial_modules(view) or ("POSIX",)
    names = [] if log is None else [*log.names.values()]
    processes = int(view.applications.ints("nprocs").max(initial=1))
    fullest = 0
    for module in modules:
        # Records of the fullest process; a shared file has one in every process.
        rank = view.files.ints("rank")[view.files.text("module").equals(module)]
        fullest = max(fullest, int((rank < 0).sum() + np.bincount(rank[rank >= 0]).max(initial=0)))
    if known := view.unrecorded_file_count > 0:
        wanted = max(math.ceil(len(names) / processes), fullest + 1)
    else:
        wanted = 2 * max(fullest, DEFAULT_RECORDS)
    sizes = [log.modules[name].records.dtype.itemsize for name in FILE_MODULES if log and name in log.modules]
    module_mib = math.ceil(wanted * (sum(sizes) or _RECORD_BYTES) / MIB) + _OTHER_MIB
    name_bytes = sum(map(len, names)) / max(len(names), 1) + 1 + _ID_BYTES
    name_mib, records = math.ceil(wanted * name_bytes / MIB), max(wanted, DEFAULT_RECORDS + 1)
    name_memory = f" DARSHAN_NAMEMEM={name_mib}" if name_mib > DEFAULT_NAME_MIB else ""
    guess = "" if known else f" (an estimate: twice {max(fullest, DEFAULT_RECORDS):,})"
    version = log.job.metadata.get("lib_ver") if log is not None else None
    needs = " with Darshan 3.4 or later" if version and version < _CONFIGURED_FROM else ""
    memory = f"DARSHAN_MODMEM={max(module_mib, 2 * DEFAULT_MODULE_MIB)}{name_memory}"
    return (
        f"To record everything{needs}: export {memory}, and add "
        f"this line to the file in DARSHAN_CONFIG_PATH: MAX_RECORDS {records} {','.join(modules)}{guess}."
    )


# A note on standard streams needs this share of the run. [ours]
WORTH_SAYING: Final = 0.05
_OBJECT_STORES: Final = ("DFS", "DAOS")
_VERBS: Final[tuple[Verb, Verb]] = ("read", "write")
_CACHED: Final = {"read": "reads came from memory", "write": "writes went to memory"}


def notes(view: JobView, row: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings about a run: on the log, on the pattern of I/O, and on the meaning of its speed."""
    for name, text in chain(
        _find_notes_on_completeness(view, row), _find_notes_on_pattern(view, row), _find_notes_on_speed(row)
    ):
        yield Finding(text, name=name)


def _find_notes_on_completeness(view: JobView, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield notes on incomplete logs. They come first, since all others depend on them."""
    partial = view.listed("partial_modules")
    counters = partial_modules(view)
    if counters:
        text = f"The log is incomplete: Darshan ran out of memory for {', '.join(counters)}. Figures are lower bounds."
        yield "partial_counters", text
    if view.has_only_sums:
        text = "The log is incomplete: ioweather 0.2 ingested only sums or a trace of it. Figures are lower bounds."
        yield "only_sums", text
    if unrecorded := view.unrecorded_file_count:
        yield (
            "files_without_record",
            f"The log is incomplete: {_format_count(unrecorded, 'file has', 'files have')} a name but no record. "
            "Figures are lower bounds.",
        )
    for name in partial:
        if name not in FILE_MODULES and view.log is not None:
            yield "partial_module", f"The log is incomplete: {name} was truncated, so its figures are incomplete too."
    if missing := count_unrecorded_processes(view):
        yield (
            "processes_without_record",
            f"Only {row['nprocs'] - missing:,} of {row['nprocs']:,} processes have file records. Amounts and speeds "
            "cover only these processes.",
        )
    if (advice := recording_advice(view)) is not None:
        yield "record_it_whole", advice
    longer = view.listed("longer_records")
    if longer:
        text = f"A Darshan fork wrote this log. Its extra fields in {', '.join(longer)} records are ignored."
        yield "longer_records", text
    for name in _OBJECT_STORES:
        records = view.log.records(name) if view.log else None
        if records is not None and len(records):
            moved = sum(int(np.maximum(records[f"{name}_BYTES_{word}"], 0).sum()) for word in ("READ", "WRITTEN"))
            yield "object_store_left_out", f"These figures exclude {format_bytes(moved)} moved through {name}."
    if view.of_job is not None:
        every = view.of_job
        yield (
            "which_run",
            f"This is {view.run_words} of the job, the one with the most I/O time. All runs together: "
            f"{format_seconds(every.io_seconds)} of I/O, {_read_and_written(every.read_bytes, every.write_bytes)}.",
        )
    elif view.separate:
        yield "logs_as_one_run", f"{view.logs_of_job:,} overlapping single-process logs are shown as one run."
    elif view.logs > 1:
        yield "which_run", f"This is {view.run_words}, the one with the most I/O time. Each run is a single process."


def _find_notes_on_pattern(view: JobView, row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield notes on standard streams, negligible I/O, a single process and interfaces; patterns are the advisor's."""
    _, slowest = sum_console_seconds(view)
    if slowest > WORTH_SAYING * (row["run_seconds"] or math.inf):
        streams = view.files.bools("standard_stream")
        calls = int((view.files.ints("write_count") + view.files.ints("read_count"))[streams].max(initial=0))
        yield (
            "console_time",
            f"Standard streams took {format_seconds(slowest)} of {format_run_time(view, row)} in one process, with up "
            f"to {calls:,} reads and writes. Print less, print from one process, or print to a file without a flush "
            "per line.",
        )
    marks = signatures(view.runs.frame).records()[0]
    incomplete = view.incomplete
    # Incomplete counters cannot show that I/O is negligible, or that a process did none.
    if marks["negligible_io"] and not incomplete:
        text = f"I/O is {format_value(marks['io_ratio'], 'ratio')} of the run: faster I/O would make no difference."
        yield "negligible_io", text
    if marks["rank0_io"] and not incomplete:
        by = "rank 0" if (marks["rank0_ratio"] or 0) > 0.5 else "one process"
        yield "one_process_io", f"All data goes through {by}. The other {row['nprocs'] - 1:,} processes move no data."
    yield from _find_notes_on_interfaces(row)


def _find_notes_on_interfaces(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield which interfaces were used, how collectively, and what MPI-IO made of it for the file system."""
    if not row["interfaces"]:
        return
    text = f"Interfaces: {row['interfaces'].replace(',', ', ')}"
    calls = (row["collective_count"] or 0) + (row["independent_count"] or 0)
    if calls:
        text += f"; {format_value(row['collective_count'] / calls, 'ratio')} of {calls:,} MPI-IO calls are collective"
    yield "interfaces", f"{text}."
    verb = max(_VERBS, key=lambda v: row[f"{v}_bytes"])
    asked, done = row[f"{verb}_count"], row[f"fs_{verb}_count"]
    if _is_mostly_mpiio(row) and asked and done and not 0.8 <= done / asked <= 1.25:
        sizes = [format_bytes(n) for n in (row[f"{verb}_bytes"] / asked, row[f"fs_{verb}_bytes"] / done)]
        yield "requests_reshaped", f"{asked:,} {verb}s of {sizes[0]} reached the file system as {done:,} of {sizes[1]}."


def _find_notes_on_speed(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield why a speed may not be that of the storage (see facts.bandwidth)."""
    causes = {verb: set(bandwidth_caveats(row, verb)) for verb in _VERBS}
    cached = [verb for verb in _VERBS if "cache" in causes[verb]]
    if cached:
        rates = [f"{format_bytes(row[f'{verb}_bytes'] / row[f'{verb}_seconds'])}/s per process" for verb in cached]
        what = " and ".join(f"{_CACHED[verb]} ({rate})" for verb, rate in zip(cached, rates, strict=True))
        yield "cached_io", f"{what[0].upper()}{what[1:]}, not storage."
    if "spans" in causes["read"] | causes["write"]:
        text = "The slowest rank is not recorded. Time on shared files is measured from the first open to the last I/O."
        yield "no_slowest_rank", text


def _is_mostly_mpiio(row: Mapping[str, Any]) -> bool:
    """Whether POSIX calls can be compared with MPI-IO calls, because few were made through other interfaces."""
    calls = (row["collective_count"] or 0) + (row["independent_count"] or 0)
    return bool(calls) and calls >= 0.9 * (row["read_count"] + row["write_count"])


# Notes of every view: without them the figures mislead.
ALWAYS_SAID: Final = (
    "partial_counters",
    "only_sums",
    "files_without_record",
    "processes_without_record",
    "console_time",
    "cached_io",
)
_COMMAND_CHARACTERS: Final = 62
# Standard streams and missing processes have a bar from this share of the time on.
_LEAST_OF_BAR: Final = 0.01
_OF_TIME: Final = {"metadata": " (includes flushing on close)", "console": " on standard streams"}
# Width of the notes to the right of bars.
_NOTE_CHARACTERS: Final = 26
# Shorter durations are imprecise if the log has whole seconds.
_SHORT_SECONDS: Final = 20
_NODE_WORDS: Final = {
    "accounting": "from accounting",
    "processes_per_node": "from the given processes per node",
    "cores per node": "one process per core in facility.toml",
    "hosts in traces": "hosts in the trace; more may be allocated",
}


_OF_ROW: Final = names_of("""
    start_ns end_ns run_seconds io_seconds read_bytes write_bytes bytes_per_s metadata_ratio
""")


def job_answer(view: JobView) -> Answer:
    """Return the screen of a job: facts with bars, and notes. `job_page.page_exhibits` has the rest."""
    row = view.row()
    kind = describe_filesystem(view, row)
    title = f"Files on {kind}" if kind else "Files"
    title += "" if row["nprocs"] == 1 else " (unique: used by one process; shared: by all)"
    groups = (
        FactGroup("job", "Job", tuple(_list_job_facts(view, row))),
        FactGroup("time", _format_time_title(view, row), tuple(_list_time_facts(view, row))),
        FactGroup(
            "speed", "Speed" if row["nprocs"] == 1 else "Speed (of the slowest process)", tuple(_list_speed_facts(row))
        ),
        FactGroup("files", title, tuple(_list_file_facts(row))),
        FactGroup("accesses", "Access sizes and order", tuple(_list_access_facts(row))),
    )
    partial = [bool(names) or view.has_only_sums for names in view.applications.text("partial_modules").tolist()]
    return Answer(
        question=f"What I/O did {view.label} perform?",
        headline=headline(view, row),
        facts=tuple(group for group in groups if group.facts),
        findings=number_names(notes(view, row)),
        coverage=recorded_whole(partial),
        name="job",
        result=JobOutcome(
            job_id=row["job_id"],
            user=row.get("user") or None,
            project=row.get("account") or None,
            program=printable(program_of(row["exe"] or "")),
            logs=view.logs_of_job,
            processes=row["nprocs"],
            nodes=row["node_count"],
            files=row["file_count"],
            run=view.run_number,
            all_runs=view.of_job,
            **{name: row[name] for name in _OF_ROW},
        ),
    )


def describe_filesystem(view: JobView, row: Mapping[str, Any]) -> str:
    """Return the kind of the file system with most of the data, by its layout or mount; empty if it is not known."""
    moved = view.files.ints("read_bytes") + view.files.ints("write_bytes")
    if 2 * moved[view.files.ints("stripe_count") > 0].sum(dtype=np.float64) > moved.sum(dtype=np.float64):
        return FILESYSTEMS["lustre"]
    mounts: dict[str, str] = json.loads(view.applications.text("mounts").tolist()[0] or "{}")
    kind = mounts.get(row["main_mount"] or "", "").removeprefix("fuse.")
    return "" if kind in UNKNOWN else FILESYSTEMS.get(kind, printable(kind))


def program(row: Mapping[str, Any]) -> str:
    """Return the program for the headline."""
    name = printable(program_of(row["exe"] or ""))
    # Anonymised logs have a number for the command.
    return "An anonymous program" if not name or name.isdigit() else name


def format_run_time(view: JobView, row: Mapping[str, Any]) -> str:
    """Return the run time as text."""
    if row["run_seconds"] is None:
        return "under 1 s" if view.whole_seconds else "an unknown time"
    return format_seconds(row["run_seconds"])


def headline(view: JobView, row: Mapping[str, Any]) -> str:
    """Return one sentence: program, duration, amount and speed of I/O, and its share of the run."""
    who = f"{program(row)} on {_format_count(row['nprocs'], 'process', 'processes')}"
    ran = f"{who} took {format_run_time(view, row)}"
    if view.run_words:
        ran = f"{view.run_words[0].upper()}{view.run_words[1:]}: {ran}"
    if view.incomplete:
        ran = f"The log is incomplete. {ran}"
    spent, moved = row["io_seconds"], row["moved_bytes"]
    if row["file_count"] == 0:
        nothing = "used no files" if view.applications.text("modules").tolist()[0] else "no I/O was recorded"
        return f"{ran} and {nothing}."
    if not spent and row["file_count"] is None:
        return f"{ran}: {_format_moved(row) or 'no data moved'}. Its I/O time is not in the log."
    if not spent:
        used = _format_count(row["file_count"], "file", "files")
        return f"{ran} and opened {used}. No I/O time was recorded."
    share = spent / row["run_seconds"] if row["run_seconds"] else None
    part = (
        ""
        if share is None
        else " (all of it)"
        if share >= 1
        else " (under 0.1%)"
        if share < 1e-3
        else f" ({format_value(share, 'ratio')})"
    )
    bound = "at least " if view.incomplete else ""
    if not moved:
        touched = _format_count(row["file_count"], "file", "files")
        return f"{ran}; metadata of {touched} took {bound}{format_seconds(spent)} of it{part}, no data moved."
    return f"{ran}; I/O took {bound}{format_seconds(spent)} of it{part}: {_format_moved(row)}."


def _format_moved(row: Mapping[str, Any]) -> str:
    """Return bytes read and written, each with its speed, such as "2 GiB read at 1.1 GiB/s"."""
    parts = []
    for verb, word in (("read", "read"), ("write", "written")):
        if row[f"{verb}_bytes"]:
            rate = row[f"{verb}_bytes_per_s"]
            speed = f" at {format_value(rate, 'bytes_per_s')}" if rate else ""
            parts.append(f"{format_bytes(row[f'{verb}_bytes'])} {word}{speed}")
    return ", ".join(parts)


def _format_count(count: int, one: str, many: str) -> str:
    """Return a count with its noun, singular or plural."""
    return f"{count:,} {one if count == 1 else many}"


def _list_job_facts(view: JobView, row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield id and owner, command and nodes."""
    user = row.get("user") or f"uid {row['uid']}"
    account = f", account {row['account']}" if row.get("account") else ""
    when = f"started {format_time_ns(row['start_ns'])}"
    yield Fact("id", "id", "", note=f"{row['job_id']} of {user}{account}, {when}")
    command = printable(" ".join((row["exe"] or "").split()))
    if command:
        cut = command if len(command) <= _COMMAND_CHARACTERS else command[: _COMMAND_CHARACTERS - 1] + "…"
        yield Fact("command", "command", "", note=cut)
    if row["node_count"] is None:
        yield Fact("nodes", "nodes", "", note="unknown: no accounting (set processes per node with --ppn N)")
    else:
        words = _NODE_WORDS.get(row["node_source"] or "", "")
        yield Fact("nodes", "nodes", "", note=f"{row['node_count']:,} ({words})")


def _format_time_title(view: JobView, row: Mapping[str, Any]) -> str:
    """Return the heading of the bars of time: processes x run time."""
    if row["process_seconds"] is None:
        return "Time of all processes (run time unknown)"
    rough = "; rough: the log has whole seconds" if view.whole_seconds and row["run_seconds"] < _SHORT_SECONDS else ""
    return f"Time of all processes ({row['nprocs']:,} x {format_seconds(row['run_seconds'])}{rough})"


def _list_time_facts(view: JobView, row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield time of all processes together, as shares of processes x run time; nothing without recorded times."""
    whole = row["process_seconds"]
    console, _ = sum_console_seconds(view)
    missing = count_unrecorded_processes(view)
    # Console output of processes without another record is what is known of their time.
    unknown = max(0.0, missing * (whole or 0.0) / row["nprocs"] - console)
    parts = {
        "reading": row["read_seconds"],
        "writing": row["write_seconds"],
        "metadata": row["meta_seconds"],
        "console": console if whole and console > _LEAST_OF_BAR * whole else None,
        "not recorded": unknown if unknown > _LEAST_OF_BAR * (whole or 0.0) else None,
    }
    known = {name: seconds for name, seconds in parts.items() if seconds}
    if not known:
        return
    for name, seconds in known.items():
        note = f"{format_seconds(seconds)}{_OF_TIME.get(name, '')}"
        if name == "not recorded":
            note += f": {missing:,} of {row['nprocs']:,} processes"
        key = name.replace(" ", "_")
        if whole is None:
            yield Fact(key, name, seconds, "seconds")
        else:
            yield Fact(key, name, seconds / whole, "ratio", seconds / whole, note)
    if whole is not None and sum(known.values()) < whole:
        rest = 1 - sum(known.values()) / whole
        lost = ", not recorded" if ran_out_of_memory(view) else ""
        yield Fact("all_else", "all else", rest, "ratio", rest, f"computing, communicating, idle{lost}")


def _list_speed_facts(row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the read and write speed by the slowest process, and the speed per node."""
    rates = {verb: row[f"{verb}_bytes_per_s"] for verb in _VERBS if row[f"{verb}_bytes_per_s"]}
    top = max(rates.values(), default=0.0)
    for verb, rate in rates.items():
        took = format_seconds(row[f"d_{verb}_seconds"])
        note = f"{format_bytes(row[f'{verb}_bytes'])} in {took}"
        yield Fact(verb, verb, rate, "bytes_per_s", rate / top, note)
    if row["mib_per_s_per_node"] is not None and row["moved_bytes"]:
        rate, unit = row["mib_per_s_per_node"], "mib_per_s_per_node"
        yield Fact("per_node", "per compute node", rate, unit, note="read + write")


def _list_file_facts(row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield files by strategy (unique, shared) with their bytes, and by use (only read, written)."""
    count = row["file_count"]
    if not count:
        return
    for name in STRATEGIES if row["nprocs"] > 1 else ():
        files = row[f"{name}_file_count"]
        if files:
            moved = row[f"{name}_read_bytes"], row[f"{name}_write_bytes"]
            note = "" if None in moved else _read_and_written(*moved)
            yield Fact(name, name.replace("_", " "), files, "count", files / count, note)
    used = {kind: row[f"{kind}_file_count"] for kind in ("read_only", "write_only", "read_write")}
    used["open_only"] = count - sum(used.values())
    for kind, files in used.items():
        if files > 0:
            yield Fact(kind, _USES[kind], files, "count", files / count)


_USES: Final = {
    "read_only": "only read",
    "write_only": "only written",
    "read_write": "read and written",
    "open_only": "only opened",
}


def _read_and_written(read: int, written: int) -> str:
    """Return bytes read and written as text."""
    parts = [f"{format_bytes(read)} read"] if read else []
    parts += [f"{format_bytes(written)} written"] if written else []
    return ", ".join(parts) or "no data"


def bin_labels() -> tuple[str, ...]:
    """Return labels of Darshan's ten access-size bins; the upper end belongs to the bin."""
    uppers = [0, *(upper for upper in SIZE_BIN_UPPER_BYTES if upper is not None)]
    spans = [f"{format_bytes(low)} to {format_bytes(high)}" for low, high in pairwise(uppers)]
    return ("up to 100 B", *spans[1:], f"over {format_bytes(uppers[-1])}")


def _list_access_facts(row: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield accesses by size, and the shares that are sequential and aligned."""
    counts = [(row[read] or 0, row[write] or 0) for read, write in zip(READ_BINS, WRITE_BINS, strict=True)]
    total = sum(read + write for read, write in counts)
    for column, label, (read, write) in zip(READ_BINS, bin_labels(), counts, strict=True):
        if read + write:
            both = [_format_count(read, "read", "reads")] if read else []
            both += [_format_count(write, "write", "writes")] if write else []
            note = ", ".join(both)
            if len(note) > _NOTE_CHARACTERS:
                note = f"{format_value(read / (read + write), 'ratio')} reads"
            name = f"size_{column.removeprefix('read_').removesuffix('_count')}"
            yield Fact(name, label, read + write, "count", (read + write) / total, note)
    calls = row["fs_read_count"] + row["fs_write_count"]
    if calls and row["sequential_ratio"] is not None:
        consecutive = format_value(row["consecutive_count"] / calls, "ratio")
        share = row["sequential_ratio"]
        yield Fact("sequential", "sequential", share, "ratio", share, f"consecutive {consecutive}")
    if row["aligned_ratio"] is not None:
        yield Fact("aligned", "aligned in the file", row["aligned_ratio"], "ratio", row["aligned_ratio"])
