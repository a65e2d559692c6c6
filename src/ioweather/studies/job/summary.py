"""One job on one screen: what ran, how long, how much I/O, what share of the run, how fast, and what is notable.

A job is one Darshan log, or all logs of one scheduler job with their amounts and times added up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from ioweather.core.clock import format_time_ns
from ioweather.core.results import Answer, Exhibit, Fact, FactGroup
from ioweather.core.units import NS, format_bytes, format_seconds, format_value
from ioweather.derive.signatures import program_of
from ioweather.studies.job.heat_map import busiest, heat_chart
from ioweather.studies.job.notes import notes
from ioweather.studies.job.view import JobView, printable
from ioweather.tables.applications import READ_BINS, SIZE_BIN_UPPER_BYTES, STRATEGIES, WRITE_BINS

# One screen: what does not fit shrinks the heat map, down to its fewest rows.
SCREEN_LINES: Final = 44
_FEWEST_ROWS: Final = 4
_COMMAND_CHARACTERS: Final = 62
# What fits beside a bar.
_NOTE_CHARACTERS: Final = 26
# Runs shorter than this are badly known where a log has whole seconds.
_SHORT_SECONDS: Final = 20
_NODE_WORDS: Final = {
    "accounting": "from accounting",
    "processes_per_node": "by the processes per node you gave",
    "cores per node": "one process per core of facility.toml",
    "hosts in traces": "host names in the trace: used, not allocated",
}


def job_answer(view: JobView, *, lines_beside: int = 0) -> Answer:
    """The screen: facts with bars, one heat map, notes. `one_job_page.page_exhibits` has the rest. `lines_beside` are
    wanted for something else on the same screen."""
    row = view.row()
    groups = (
        FactGroup("Job", tuple(_about(view, row))),
        FactGroup(_time_title(view, row), tuple(_times(row))),
        FactGroup("Speed" if row["nprocs"] == 1 else "Speed (by the slowest process)", tuple(_speeds(row))),
        FactGroup(_files_title(row), tuple(_files(row))),
        FactGroup("Access sizes and order", tuple(_accesses(row))),
    )
    facts = tuple(group for group in groups if group.facts)
    said = tuple(notes(view, row))
    # Headline and axis take about five lines, a group two more than its facts.
    used = 5 + sum(len(group.facts) + 2 for group in facts) + len(said)
    return Answer(
        question=f"What I/O did {view.label} do?",
        headline=headline(view, row),
        facts=facts,
        exhibits=tuple(_activity(view, max(_FEWEST_ROWS, SCREEN_LINES - used - lines_beside))),
        findings=said,
    )


def program(row: Mapping[str, Any]) -> str:
    name = printable(program_of(row["exe"] or ""))
    # Anonymised logs have a number for the command.
    return "An anonymous program" if not name or name.isdigit() else name


def run_text(view: JobView, row: Mapping[str, Any]) -> str:
    if row["run_seconds"] is None:
        return "under 1 s" if view.whole_seconds else "an unknown time"
    return format_seconds(row["run_seconds"])


def headline(view: JobView, row: Mapping[str, Any]) -> str:
    """Worth reading alone: what ran, how long, how much I/O, what share of the run, how fast."""
    least = int(np.asarray(view.applications.array("nprocs"), np.int64).min())
    processes = "" if least == row["nprocs"] else f"{least:,} to "
    who = f"{program(row)} on {processes}{_counted(row['nprocs'], 'process', 'processes')}"
    ran = f"{who} took {run_text(view, row)}"
    if view.logs > 1:
        ran = f"{view.logs} runs of {who} took {run_text(view, row)} together"
    if not row["file_count"]:
        return f"{ran} and used no file."
    spent, moved = row["io_seconds"], row["moved_bytes"]
    if not spent:
        used = _counted(row["file_count"], "file", "files")
        return f"{ran} and opened {used}: no I/O time was recorded."
    share = spent / row["run_seconds"] if row["run_seconds"] else None
    part = "" if share is None else " (all of it)" if share >= 1 else f" ({format_value(share, 'ratio')})"
    bound = "at least " if row["partial"] else ""
    if not moved:
        touched = _counted(row["file_count"], "file", "files")
        return f"{ran}; metadata of {touched} took {bound}{format_seconds(spent)} of it{part}, no data moved."
    return f"{ran}; I/O took {bound}{format_seconds(spent)} of it{part}: {_moved_text(row)}."


def _moved_text(row: Mapping[str, Any]) -> str:
    parts = []
    for verb, word in (("read", "read"), ("write", "written")):
        if row[f"{verb}_bytes"]:
            rate = row[f"{verb}_bytes_per_s"]
            speed = f" at {format_value(rate, 'bytes_per_s')}" if rate else ""
            parts.append(f"{format_bytes(row[f'{verb}_bytes'])} {word}{speed}")
    return ", ".join(parts)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _about(view: JobView, row: Mapping[str, Any]) -> Iterator[Fact]:
    user = row.get("user") or f"uid {row['uid']}"
    account = f", account {row['account']}" if row.get("account") else ""
    when = f"started {format_time_ns(row['start_ns'])}"
    if view.logs > 1:
        when += f", over {format_seconds((row['end_ns'] - row['start_ns']) / NS)}"
    yield Fact("id", "", note=f"{row['job_id']} of {user}{account}, {when}")
    command = printable(" ".join((row["exe"] or "").split()))
    if command:
        cut = command if len(command) <= _COMMAND_CHARACTERS else command[: _COMMAND_CHARACTERS - 1] + "…"
        yield Fact("command", "", note=cut)
    if row["node_count"] is None:
        yield Fact("nodes", "", note="not known: no accounting (--ppn N gives the processes per node)")
    else:
        words = _NODE_WORDS.get(row["node_source"] or "", "")
        yield Fact("nodes", "", note=f"{row['node_count']:,} ({words})")


def _time_title(view: JobView, row: Mapping[str, Any]) -> str:
    if row["process_seconds"] is None:
        return "Time of all processes (run time not known)"
    if view.logs > 1:
        return f"Time of all processes ({format_seconds(row['process_seconds'])} in all)"
    rough = "; rough: the log has whole seconds" if view.whole_seconds and row["run_seconds"] < _SHORT_SECONDS else ""
    return f"Time of all processes ({row['nprocs']:,} x {format_seconds(row['run_seconds'])}{rough})"


def _times(row: Mapping[str, Any]) -> Iterator[Fact]:
    """Of all processes together, as shares of processes x run time; nothing where no time is recorded."""
    parts = {
        "reading": row["read_seconds"],
        "writing": row["write_seconds"],
        "metadata": row["meta_seconds"],
        "waiting": row["wait_seconds"],
    }
    known = {name: seconds for name, seconds in parts.items() if seconds}
    whole = row["process_seconds"]
    if not known:
        return
    for name, seconds in known.items():
        share = None if whole is None else seconds / whole
        note = f"{format_seconds(seconds)}{' (close flushes count here)' if name == 'metadata' else ''}"
        yield Fact(name, share, "ratio", share, note) if share is not None else Fact(name, seconds, "seconds")
    if whole is not None and sum(known.values()) < whole:
        rest = 1 - sum(known.values()) / whole
        yield Fact("all else", rest, "ratio", rest, "computing, communicating, idle")


def _speeds(row: Mapping[str, Any]) -> Iterator[Fact]:
    rates = {verb: row[f"{verb}_bytes_per_s"] for verb in ("read", "write") if row[f"{verb}_bytes_per_s"]}
    top = max(rates.values(), default=0.0)
    for verb, rate in rates.items():
        took = format_seconds(row[f"d_{verb}_seconds"])
        yield Fact(verb, rate, "bytes_per_s", rate / top, f"{format_bytes(row[f'{verb}_bytes'])} in {took}")
    if row["mib_per_s_per_node"] is not None and row["moved_bytes"]:
        yield Fact("per compute node", row["mib_per_s_per_node"], "mib_per_s_per_node", note="both together")


def _files_title(row: Mapping[str, Any]) -> str:
    return "Files" if row["nprocs"] == 1 else "Files (unique: of one process; shared: of all)"


def _files(row: Mapping[str, Any]) -> Iterator[Fact]:
    count = row["file_count"]
    if not count:
        return
    for name in STRATEGIES if row["nprocs"] > 1 else ():
        files = row[f"{name}_file_count"]
        if files:
            moved = row[f"{name}_read_bytes"], row[f"{name}_write_bytes"]
            yield Fact(name.replace("_", " "), files, "count", files / count, _both(*moved))
    kinds = {"only read": "read_only", "only written": "write_only", "read and written": "read_write"}
    used = {label: row[f"{kind}_file_count"] for label, kind in kinds.items()}
    used["only opened"] = count - sum(used.values())
    for label, files in used.items():
        if files > 0:
            yield Fact(label, files, "count", files / count)


def _both(read: int, written: int) -> str:
    parts = [f"{format_bytes(read)} read"] if read else []
    parts += [f"{format_bytes(written)} written"] if written else []
    return ", ".join(parts) or "no data"


def bin_labels() -> tuple[str, ...]:
    """Darshan's ten access-size bins in words; the upper end belongs to the bin."""
    uppers = [0, *(upper for upper in SIZE_BIN_UPPER_BYTES if upper is not None)]
    spans = [f"{format_bytes(low)} to {format_bytes(high)}" for low, high in pairwise(uppers)]
    return ("up to 100 B", *spans[1:], f"over {format_bytes(uppers[-1])}")


def _accesses(row: Mapping[str, Any]) -> Iterator[Fact]:
    counts = [(row[read] or 0, row[write] or 0) for read, write in zip(READ_BINS, WRITE_BINS, strict=True)]
    total = sum(read + write for read, write in counts)
    for label, (read, write) in zip(bin_labels(), counts, strict=True):
        if read + write:
            yield Fact(label, read + write, "count", (read + write) / total, _reads_and_writes(read, write))
    calls = row["fs_read_count"] + row["fs_write_count"]
    if calls and row["sequential_ratio"] is not None:
        consecutive = format_value(row["consecutive_count"] / calls, "ratio")
        yield Fact(
            "sequential", row["sequential_ratio"], "ratio", row["sequential_ratio"], f"consecutive {consecutive}"
        )
    if row["aligned_ratio"] is not None:
        yield Fact("aligned in the file", row["aligned_ratio"], "ratio", row["aligned_ratio"])


def _reads_and_writes(read: int, write: int) -> str:
    """How many of each; shares where the numbers are too long."""
    both = [_counted(read, "read", "reads")] if read else []
    both += [_counted(write, "write", "writes")] if write else []
    text = ", ".join(both)
    return text if len(text) <= _NOTE_CHARACTERS else f"{format_value(read / (read + write), 'ratio')} reads"


def _activity(view: JobView, rows: int) -> Iterator[Exhibit]:
    heat = busiest(view.heat_maps)
    if heat is not None:
        heat = heat.within(rows)
        ranks = "Bytes over time" if heat.nprocs == 1 else "Bytes by rank (down) and time (across)"
        origin = ", from the trace" if heat.origin == "trace" else ""
        yield Exhibit("job.activity", ranks, charts=(heat_chart(heat, f"{ranks}, {heat.module}{origin}", split=False),))
