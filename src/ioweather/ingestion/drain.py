"""Write what other hosts pushed from the queue to the lake, many files in one commit.

    python -m ioweather.ingestion.drain LAKE

One pass in a child of the server, which keeps memory and processor time of writing out of the server. It may be killed
at any moment: a file leaves the queue after its ledger entry is committed, and rows in the lake are not added again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ioweather.core.errors import IoweatherError, LakeError
from ioweather.core.safe_files import write_whole
from ioweather.core.tables import concat
from ioweather.core.units import HOUR_NS, MIB, now_ns
from ioweather.ingestion import queue
from ioweather.ingestion.derivations import search_new_rows
from ioweather.ingestion.ingest import IngestReport, add_rows
from ioweather.ingestion.ledger import FileOutcome, record
from ioweather.ingestion.queue import Queued
from ioweather.ingestion.reading import UNREADABLE, Frames, Reading, context_of, limits_of, read_bounded
from ioweather.lake.lake import Lake, new_ingest_id, open_lake
from ioweather.lake.layout import locked

_LOG = logging.getLogger("ioweather.drain")
# One commit of every table.
BATCH_FILES: Final = 5_000
BATCH_BYTES: Final = 32 * MIB
# Files of one commit, by how many writers were killed over them; after one more they are set aside.
_FILES_BY_DEATHS: Final = (BATCH_FILES, 100, 1)
# A search of new rows waits so many times as long as the last one took, so that rows of many hosts do not wait for it.
_SEARCH_REST: Final = 5.0


def drain(lake: Lake) -> int:
    """Write the queued files, then search the new rows for events; returns the number of files.

    Of files that arrive during the pass, full batches are written too; others wait for the next pass, since a commit
    of a few rows takes as long as one of many. Raises LakeError or OSError if the lake or its disk fails: the files
    stay in the queue."""
    done, report, is_last = 0, IngestReport(), False
    while files := queue.first_within(queue.queued(lake.root), BATCH_FILES, BATCH_BYTES):
        is_part = len(files) < BATCH_FILES and sum(file.bytes for file in files) < BATCH_BYTES // 2
        if is_part and is_last:
            break
        is_last = is_last or is_part
        _write_counting_deaths(lake, files, report)
        done += len(files)
    _search_if_due(lake, report.first_ns)
    return done


def _search_if_due(lake: Lake, first_ns: dict[str, int]) -> None:
    """Search new rows for events, of this pass and of passes that left it to a later one."""
    note = queue.queue_dir(lake.root) / ".searched"
    not_before = 0.0
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        body = json.loads(note.read_bytes())
        not_before = float(body["not_before"])
        for table, first in body["first_ns"].items():
            first_ns[table] = min(int(first), first_ns.get(table, int(first)))
    if not first_ns:
        return
    if (began := time.time()) >= not_before:
        search_new_rows(lake, first_ns)
        first_ns, not_before = {}, time.time() + _SEARCH_REST * (time.time() - began)
    write_whole(note, json.dumps({"not_before": not_before, "first_ns": first_ns}).encode(), 0o640)


def _write_counting_deaths(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Write the files. A writer that is killed leaves a count for each file that it was writing: the next one writes
    these in smaller batches, and sets a file aside that killed a writer alone."""
    note, deaths = queue.queue_dir(lake.root) / ".writing", Counter[str]()
    with suppress(OSError, ValueError):
        deaths.update(json.loads(note.read_bytes()))
    for count, size in enumerate(_FILES_BY_DEATHS):
        same = [file for file in files if deaths[file.path.name] == count]
        for batch in (same[first : first + size] for first in range(0, len(same), size)):
            names = Counter(file.path.name for file in batch)
            write_whole(note, json.dumps(deaths + names).encode(), 0o640)
            try:
                write_batch(lake, batch, report)
            except (Exception, SystemExit):  # the writer is alive
                write_whole(note, json.dumps(deaths).encode(), 0o640)
                raise
            deaths = Counter({name: deaths[name] for name in deaths.keys() - names.keys()})
    fatal = [file for file in files if deaths[file.path.name] >= len(_FILES_BY_DEATHS)]
    why = "Writing the file crashed the lake's writer repeatedly."
    outcomes = [
        FileOutcome(str(f.path), f.path.name[:32], f.bytes, None, "quarantined", {}, "worker_lost", why) for f in fatal
    ]
    record(lake, _entries(lake.root, outcomes))
    note.unlink(missing_ok=True)


def write_batch(lake: Lake, files: Sequence[Queued], report: IngestReport) -> None:
    """Read the files within limits and write their rows, in one commit of each table. Files that cannot be read any
    more are moved to `refused/`. Raises LakeError if the disk failed for some; these stay in the queue."""
    outcomes: list[FileOutcome] = []
    frames: Frames = {}
    for source in sorted({queue.source_of(file.name) for file in files}):
        batch = [(str(file.path), file.bytes) for file in files if queue.source_of(file.name) == source]
        reading = Reading(context_of(lake.facility), source, limits=limits_of(lake.facility))
        found, made = read_bounded(batch, reading)
        outcomes, frames = outcomes + found, frames | made
    unreadable = [outcome for outcome in outcomes if outcome.reason == UNREADABLE]
    read = [outcome for outcome in outcomes if outcome.reason != UNREADABLE]
    ingest_id = new_ingest_id()
    for (source, table), pieces in sorted(frames.items()):
        add_rows(lake, table, concat(pieces), source, ingest_id, report)
    record(lake, _entries(lake.root, read), ingest_id if frames else None)
    for outcome in read:
        outcome.path.unlink(missing_ok=True)
    if unreadable:
        raise LakeError(unreadable[0].message or "")


def _entries(root: Path, read: Sequence[FileOutcome]) -> list[FileOutcome]:
    """Entries for the ledger: one for all files without a complaint, because one for each would be more than the rows
    after some months of many hosts. Moves refused files."""
    quiet = [outcome for outcome in read if outcome.status == "ok" and not outcome.message]
    entries = [outcome for outcome in read if outcome.status != "ok" or outcome.message]
    for place, outcome in enumerate(entries):
        if outcome.status == "quarantined":
            folder = queue.refused_dir(root)
            folder.mkdir(exist_ok=True, mode=0o750)
            moved = outcome.path.replace(folder / outcome.path.name)
            entries[place] = outcome._replace(
                file=str(moved), message=f"{outcome.message} The file was moved to {moved}."
            )
            _LOG.error("%s", entries[place].message)
    if quiet:
        counts = sum((Counter(outcome.rows) for outcome in quiet), Counter[str]())
        digest = hashlib.sha256("".join(sorted(outcome.digest for outcome in quiet)).encode()).hexdigest()[:32]
        size, message = sum(outcome.bytes for outcome in quiet), f"{len(quiet):,} pushed file(s)"
        folder = queue.queue_dir(root).absolute()
        entries.append(FileOutcome(str(folder), digest, size, "spool", "ok", counts, message=message))
    return entries


# The process


def _report_trouble(fd: int, text: str) -> None:
    """Write the error of this pass to the writer's file, if its disk, which may be full, takes it."""
    with suppress(OSError):
        os.pwrite(fd, text.encode()[: queue.TROUBLE_BYTES].ljust(queue.TROUBLE_BYTES), 0)


def run_pass(root: Path) -> int:
    """Drain the queue unless another writer does; the exit code. An error is logged and shown with the queue."""
    with suppress(OSError):
        for entry in os.scandir(queue.queue_dir(root)):  # drafts of a killed server: their senders send again
            if queue.DRAFT.fullmatch(entry.name) and now_ns() - entry.stat().st_mtime_ns > HOUR_NS:
                Path(entry.path).unlink(missing_ok=True)
    try:
        queue.queue_dir(root).mkdir(exist_ok=True, mode=0o750)
        with locked(queue.writer_file(root)) as fd:
            if fd is None:
                time.sleep(1.0)
                return 0
            if not os.fstat(fd).st_size:
                _report_trouble(fd, "")  # takes the room on the disk
            try:
                drain(open_lake(root))
                _report_trouble(fd, "")
            except (IoweatherError, OSError) as error:
                _report_trouble(fd, str(error))
                raise
    except (IoweatherError, OSError) as error:
        _LOG.error("%s", error)
        return 2
    return 0


def main(arguments: Sequence[str]) -> int:
    """Drain the queue of a lake once, at low priority; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    os.nice(10)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the server ends
    return run_pass(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
