"""Scan a tree into the lake, and summarise it. An unfinished scan is resumed; its state goes with the last row."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ioweather.core.contracts import PathPolicy
from ioweather.core.errors import UsageError
from ioweather.core.facility import load_facility
from ioweather.core.logs import Progress, silent
from ioweather.core.results import Answer, Coverage, Fact, FactGroup
from ioweather.core.tables import Complaints
from ioweather.core.units import GIB, KIB, MIB, format_bytes, format_ratio, format_time_ns, now_ns, ns_to_datetime
from ioweather.lake import layout
from ioweather.lake.lake import Lake, new_ingest_id, open_lake
from ioweather.lake.workers import Processes, workers_of
from ioweather.readers.scan.scanner import Plan, Scan, ScanState, plan_scan
from ioweather.readers.scan.tally import (
    FUTURE,
    Cells,
    Owner,
    ScanFacts,
    Tally,
    entries_in,
    project_name,
    scan_frames,
    stored_text,
    tree_facts,
    user_name,
    weight_in,
)

SOURCE: Final = "scan"
_SIZES: Final = (4 * KIB, 64 * KIB, MIB, 64 * MIB, GIB)
_AGES: Final = (7, 8, 9)  # bins that begin at 64, 128 and 256 days
_SHOWN: Final = 5


@dataclass(frozen=True)
class ScanRequest:
    """Options of a scan."""

    root: Path
    workers: int = 1
    rate: float | None = None
    resume: bool = False
    restart: bool = False
    paths: PathPolicy = "keep"


@dataclass(frozen=True)
class ScanReport:
    """Result of a scan."""

    facts: ScanFacts
    tally: Tally
    lake: Path
    seconds: float
    resumed: bool
    rows_added: dict[str, int]
    rows_refused: int = 0
    complaint: str = ""


def scan(
    lake_dir: Path | None, request: ScanRequest, *, executor: Executor | None = None, progress: Progress = silent
) -> ScanReport:
    """Walk the tree, then write its rows; a lake that is not there is made. KeyboardInterrupt leaves a state that
    `resume` takes up. The walkers are `request.workers` processes, or the workers of a cluster."""
    plan = plan_scan(request.root, start_ns=now_ns())
    root = open_lake(lake_dir, create=True).root
    with layout.lake_directory(root) as lake:
        lake.inside("scans", mode=0o750, keep=0o770, shared=True).close()
    key = hashlib.sha256(os.fsencode(plan.root)).hexdigest()[:16]
    file = root / "scans" / f"{key}.state"
    with layout.locked(file.with_suffix(".lock")) as lock:
        if lock is None:
            raise UsageError("Another scan of this tree into this lake is running.", hint="Wait until it ends.")
        state, about = _open_state(file, request, plan)
        try:
            report = _scan_and_store(root, request, state, about, executor, progress)
            _remove_state(file)
            return report
        finally:
            state.close()


def _remove_state(file: Path) -> None:
    """Remove the state and its journal, in an order in which `resume` finds the rows that were written."""
    for each in (file.with_name(f"{file.name}-journal"), file):
        each.unlink(missing_ok=True)


def _open_state(file: Path, request: ScanRequest, plan: Plan) -> tuple[ScanState, dict[str, Any]]:
    """The state to resume, or a new one; and the id, start and options of the scan."""
    if request.restart:
        _remove_state(file)
    state = ScanState(file)
    about: dict[str, Any] | None = state.load_note("about") if state.usable else None
    if about and not request.resume:
        state.close()
        raise UsageError(
            f"An earlier scan of {plan.root}, started {format_time_ns(about['start_ns'])}, is unfinished.",
            hint="Use --resume to continue it or --restart to start over.",
        )
    if about is None:
        start_ns = now_ns()
        stamp = ns_to_datetime(start_ns).strftime("%Y%m%dT%H%M%SZ")
        about = {"scan_id": f"{stamp}-{secrets.token_hex(4)}", "start_ns": start_ns}
        state.save_note("about", about)
    return state, about


def _scan_and_store(
    lake: Path,
    request: ScanRequest,
    state: ScanState,
    about: dict[str, Any],
    executor: Executor | None,
    progress: Progress,
) -> ScanReport:
    """Walk the tree from its state, then write rows."""
    started = time.monotonic()
    resumed = state.usable
    plan = plan_scan(
        request.root,
        start_ns=about["start_ns"],
        rules=load_facility(layout.facility_file(lake)).projects,
        rate=request.rate,
    )
    tree = tree_facts(plan.root)
    expected = tree.used_inodes if plan.root == tree.mount else None
    processes = Processes(request.workers) if executor is None and request.workers > 1 else None
    hands = request.workers if executor is None else max(2, workers_of(executor))
    work = Scan(plan, state, executor or processes, hands, expected=expected, progress=progress)
    try:
        tally = work.run()
    finally:
        if processes is not None:
            processes.stop()
    now = now_ns()
    facts = ScanFacts(
        scan_id=about["scan_id"],
        start_ns=about["start_ns"],
        end_ns=now if now >= about["start_ns"] else None,  # the clock was set back
        root=plan.root,
        system=f"mount:{tree.mount or plan.root}",
        host=socket.gethostname(),
        tree=tree,
        names=True,
        cpu_seconds=work.cpu_seconds,
    )
    seconds = time.monotonic() - started
    opened, ingest_id, complaints, added = Lake(lake), new_ingest_id(), Complaints(), Counter[str]()
    # Bins first and the scan last: a stored scan is complete.
    for table, frame in scan_frames(facts, tally, request.paths):
        added[table] += opened.append(table, frame, source=SOURCE, ingest_id=ingest_id, complaints=complaints)
    return ScanReport(facts, tally, lake, seconds, resumed, dict(added), complaints.refused_rows, str(complaints))


# What a scan found, on one screen


def summary(report: ScanReport) -> Answer:
    """Files and bytes, sizes, ages, owners and the largest files."""
    tally, counts, whole = report.tally, report.tally.counts, report.tally.histograms()
    sizes, files, place = whole["size"], counts["files"], _printable(report.facts.root)
    held, allocated = _total_bytes(sizes), _total_bytes(whole["capacity"])
    rate = counts["entries"] / report.seconds if report.seconds > 0 else 0.0
    over = f"{(allocated - held) / held:+.1%} relative to the size" if held else ""
    there = [
        Fact("files", "files", files, "count"),
        Fact("bytes", "bytes", held, "bytes"),
        Fact("allocated_bytes", "allocated", allocated, "bytes", note=over),
        Fact("directories", "directories", counts["directories"], "count"),
        Fact("symbolic_links", "symbolic links", counts["symlinks"], "count"),
    ]
    if linked := counts["linked_files"]:
        note = f"{counts['linked_names']:,} names, each file counted once"
        there.append(Fact("linked_files", "files with several hard links", linked, "count", note=note))
    if counts["others"]:
        there.append(Fact("others", "devices, pipes, sockets", counts["others"], "count"))
    by_size, by_age, by_owner = [], [], []
    for limit in _SIZES:
        below = [cell for index, cell in sizes.items() if 1 << index <= limit]
        share = sum(map(entries_in, below)) / files if files else None
        note = f"{format_ratio(sum(map(weight_in, below)) / held if held else 0.0)} of the bytes"
        by_size.append(Fact(f"below_{limit}_bytes", f"below {format_bytes(limit)}", share, "ratio", share, note))
    for first in _AGES:
        older = sum(weight_in(cell) for index, cell in whole["mtime"].items() if first <= index < FUTURE)
        share, days = older / held if held else None, 1 << (first - 1)
        by_age.append(Fact(f"older_than_{days}_days", f"{days} days", share, "ratio", share))
    groups: dict[str, list[Owner]] = {}
    for owner in tally.owners:
        groups.setdefault(project_name(owner) or "unknown", []).append(owner)
    of_groups = {name: tally.histograms(owners)["size"] for name, owners in groups.items()}
    counted = sorted(((sum(map(entries_in, cells.values())), name) for name, cells in of_groups.items()), reverse=True)
    for number, (count, name) in enumerate(counted[:_SHOWN], 1):
        share, note = count / files if files else None, format_bytes(_total_bytes(of_groups[name]))
        by_owner.append(Fact(f"owner_{number}", _printable(name), count, "count", share, note=note))
    largest = [
        Fact(f"file_{number}", user_name(uid) or f"uid {uid}", value, "bytes", note=_printable(path))
        for number, (value, path, uid) in enumerate(sorted(tally.largest, reverse=True)[:_SHOWN], 1)
    ]
    lost = {"vanished while scanning": counts["vanished"], "stat failed": counts["not_examined"]}
    return Answer(
        question=f"What is in {place}?",
        headline=f"{files:,} files with {format_bytes(held)} in {place}, read in {report.seconds:,.1f} s "
        f"({rate:,.0f} entries/s).",
        facts=(
            FactGroup("contents", "Contents", tuple(there)),
            FactGroup("sizes", "Files by size", tuple(by_size)),
            FactGroup("ages", "Bytes not modified for", tuple(by_age)),
            FactGroup("owners", "Owners of most files", tuple(by_owner)),
            FactGroup("largest", "Largest files", tuple(largest)),
        ),
        caveats=tuple(_caveats(report)),
        coverage=(Coverage(counts["entries"], counts["entries"] - sum(lost.values()), "entries", lost),),
        name="scan",
    )


def _caveats(report: ScanReport) -> Iterator[str]:
    """Sentences on what the scan did not see."""
    counts = report.tally.counts
    names = ", ".join(f"{n:,} {code}" for code, n in sorted(report.tally.errors.items()))
    if counts["unreadable"]:
        example = _printable(report.tally.troubles[0][0]) if report.tally.troubles else ""
        yield f"{counts['unreadable']:,} directories could not be read ({names}), such as {example}."
    if counts["snapshots"]:
        yield f"{counts['snapshots']:,} snapshot directories were not entered."
    if counts["other_filesystems"]:
        yield f"{counts['other_filesystems']:,} mount points of other file systems were not entered."
    if counts["not_examined"]:
        yield f"{counts['not_examined']:,} entries could not be read with stat ({names})."
    if report.complaint:
        yield report.complaint
    if report.resumed:
        yield "This scan was interrupted and resumed; ages are relative to its first start."


def _total_bytes(cells: Cells) -> int:
    return sum(map(weight_in, cells.values()))


def _printable(text: str) -> str:
    """The text without escape sequences of terminals, which names may contain."""
    shown: Iterable[str] = (c if c.isprintable() else f"\\x{ord(c):02x}" for c in stored_text(text)[0])
    return "".join(shown)
