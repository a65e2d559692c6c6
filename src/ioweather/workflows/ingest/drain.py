"""The one writer of what other hosts push: from the queue to the lake, many files in one commit.

    python -m ioweather.workflows.ingest.drain LAKE

A child of the server, so that its memory, its threads and its processor time are not the readers'. A byte on standard
input says that something came; its end says that the server is gone. It may be killed at any moment: a file leaves the
queue after the ledger speaks of it, and rows that are in already are not added again.
"""

from __future__ import annotations

import fcntl
import json
import logging
import math
import os
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ioweather.collect import queue
from ioweather.collect.queue import Queued
from ioweather.core.clock import now_ns
from ioweather.core.errors import IoweatherError, LakeError, SourceError
from ioweather.core.units import DAY_NS, MIB
from ioweather.engine import Serial
from ioweather.store.lake import Lake, LedgerEntry, open_lake
from ioweather.workflows.ingest.ingest import ingest
from ioweather.workflows.ingest.pushed_samples import take_samples
from ioweather.workflows.ingest.reading import UNREADABLE
from ioweather.workflows.ingest.receive import reading_of, source_of
from ioweather.workflows.ingest.watched import one_pass
from ioweather.workflows.ingest.what_follows import follow_arrival

_LOG = logging.getLogger("ioweather.drain")
# One commit of every table.
BATCH_FILES: Final = 500
BATCH_BYTES: Final = 32 * MIB
# Between the beginnings of two batches: every commit adds a file to each table, and small files make reading slow.
PAUSE_SECONDS: Final = 5.0
# It rests as long as it works, and so leaves half a processor or more to those who read.
_REST: Final = 1.0
# With nothing to do it ends, and gives its memory back; the server starts another when something comes.
IDLE_SECONDS: Final = 120.0
_LONGEST_WAIT_SECONDS: Final = 60.0
# A sender repeats soon, or its rows are told apart by their keys; the ledger of years is not read for every batch.
_REPEATED_WITHIN_NS: Final = 2 * DAY_NS
# What is searched for in new rows: not more often than this, and for a tenth of the time at most.
SEARCH_SECONDS: Final = 60.0
_SEARCH_REST: Final = 9.0
# Files over which so many writers died go alone; after as many deaths again they are set aside.
MOST_DEATHS: Final = 5


def drain(lake: Lake) -> int:
    """All that waits; returns how many files."""
    done = 0
    search = Search(lake)
    while files := next_batch(queue.queued(lake.root)):
        search.add(take(lake, files))
        done += len(files)
    search.run()
    return done


class Search:
    """What is searched for in new rows, put together for several batches: it takes longer than they do."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._first_ns: dict[str, int] = {}
        self._due = -math.inf

    def add(self, first_ns: Mapping[str, int]) -> None:
        for table, moment in first_ns.items():
            self._first_ns[table] = min(moment, self._first_ns.get(table, moment))

    @property
    def wait_seconds(self) -> float | None:
        """Until it is time; None where nothing is to be done."""
        return max(0.0, self._due - time.monotonic()) if self._first_ns else None

    def run(self) -> None:
        began = time.monotonic()
        follow_arrival(self._lake, self._first_ns)
        self._first_ns = {}
        now = time.monotonic()
        self._due = now + max(SEARCH_SECONDS, _SEARCH_REST * (now - began))


def next_batch(waiting: Sequence[Queued], most_files: int = BATCH_FILES) -> list[Queued]:
    """The oldest of those that are quick to write; where there are none, one of those that are not."""
    quick = [file for file in waiting if file.kind != "wide"]
    if not quick:
        return list(waiting[:1])
    return one_pass(quick, most_files, BATCH_BYTES)


def take(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    """Into the lake, the ledger, and out of the queue, in this order. Returns the times of the first new rows."""
    first_ns: dict[str, int] = {}
    notes = [file for file in files if file.kind == "refusal"]
    if notes:
        lake.record([LedgerEntry(**json.loads(note.path.read_bytes())) for note in notes])
        for note in notes:
            queue.take_away(note)
    for source in ("spool", "sacct"):
        rows = [file for file in files if file.kind != "refusal" and source_of(file.name) == source]
        if rows:
            first_ns |= _take_rows(lake, rows)
    samples = [file for file in files if file.kind != "refusal" and source_of(file.name) == "prometheus"]
    for table, moment in take_samples(lake, samples).items():
        first_ns[table] = min(moment, first_ns.get(table, moment))
    return first_ns


def _take_rows(lake: Lake, files: Sequence[Queued]) -> dict[str, int]:
    reading = reading_of(lake.facility, files[0].name)
    report = ingest(
        lake, [file.path for file in files], context=reading.context, source=reading.source, executor=Serial(),
        known_since_ns=now_ns() - _REPEATED_WITHIN_NS, search=False,
    )  # fmt: skip
    refused = {outcome.path: outcome for outcome in report.outcomes if outcome.status == "quarantined"}
    unreadable = {outcome.path: outcome.message for outcome in report.outcomes if outcome.reason == UNREADABLE}
    for file in files:
        if file.path in unreadable:
            continue
        if file.path in refused:
            place = queue.set_aside(lake.root, file)
            _LOG.error("%s was pushed and cannot be read any more: %s", place, refused[file.path].message)
        else:
            queue.take_away(file)
    if unreadable:  # the disk is wrong, not the file: they stay where they are
        raise LakeError("; ".join(message or "" for message in [*unreadable.values()][:3]))
    return report.first_ns


@contextmanager
def only_writer(root: Path) -> Iterator[bool]:
    """Whether no other writer of this lake is at work."""
    folder = queue.queue_dir(root)
    folder.mkdir(exist_ok=True, mode=0o750)
    fd = os.open(queue.writer_file(root), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        queue.tell_trouble(root)
        yield True
    finally:
        os.close(fd)


class Journal:
    """Over which files writers died: what is being written is noted beside the queue before, and struck out after."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._path = queue.queue_dir(root) / ".writing"
        self._deaths: Counter[str] = Counter()
        with suppress(OSError, ValueError, KeyError, TypeError):
            body = json.loads(self._path.read_bytes())
            self._deaths.update(body["deaths"])
            self._deaths.update(body["writing"])

    def choose(self, waiting: Sequence[Queued]) -> list[Queued]:
        """The next batch. What several writers died over goes last and alone; if that is no help, it is set aside."""
        clean = [file for file in waiting if self._deaths[file.path.name] < MOST_DEATHS]
        if clean or not waiting:
            return next_batch(clean)
        suspect = waiting[0]
        if self._deaths[suspect.path.name] < 2 * MOST_DEATHS:
            return [suspect]
        self.give_up(suspect, "worker_lost", f"{self._deaths[suspect.path.name]} writers of the lake died over it.")
        return self.choose(waiting[1:])

    def give_up(self, file: Queued, reason: str, why: str) -> None:
        """Set the file aside, and name it in the ledger."""
        place = queue.set_aside(self._root, file)
        message = f"{why} It was kept as {place}."
        _LOG.error("%s: %s", file.name, message)
        entry = LedgerEntry(
            digest=file.digest, path=str(place), bytes=file.bytes, source=source_of(file.name), status="quarantined",
            rows={}, reason=reason, message=message,
        )  # fmt: skip
        self.done([file])
        Lake(self._root).record([entry])

    def begin(self, files: Sequence[Queued]) -> None:
        self._keep([file.path.name for file in files])

    def failed(self) -> None:
        """The writer lives on: nobody died over what it was writing."""
        with suppress(OSError):
            self._keep([])

    def done(self, files: Sequence[Queued]) -> None:
        for file in files:
            self._deaths.pop(file.path.name, None)
        self._keep([])

    def _keep(self, writing: Sequence[str]) -> None:
        draft = self._path.with_name(".writing.new")
        draft.write_text(json.dumps({"deaths": +self._deaths, "writing": writing}), encoding="utf-8")
        draft.replace(self._path)


class Writer:
    """The loop of the child."""

    def __init__(self, root: Path) -> None:
        self._lake = open_lake(root)
        self._journal = Journal(root)
        self._search = Search(self._lake)
        self._is_ending = False

    def run(self) -> None:
        """Until the server is gone, or nothing came for a while."""
        idle_since = time.monotonic()
        failures = 0
        while not self._is_ending:
            started = time.monotonic()
            waiting = queue.queued(self._lake.root)
            if not waiting:
                if self._search.wait_seconds == 0:
                    self._search.run()
                elif started - idle_since > IDLE_SECONDS:
                    return
                else:
                    self._wait(min(IDLE_SECONDS, self._search.wait_seconds or IDLE_SECONDS), wake=True)
                continue
            failures = 0 if self.attempt(waiting) else failures + 1
            idle_since = time.monotonic()
            took = idle_since - started
            pause = max(PAUSE_SECONDS - took, _REST * took)
            if failures:
                pause = min(_LONGEST_WAIT_SECONDS, PAUSE_SECONDS * 2 ** (failures - 1))
            self._wait(pause, wake=False)

    def attempt(self, waiting: Sequence[Queued]) -> bool:
        """Whether the next of them are written. Without space, permission or a disk that works, everything stays where
        it is, and those who look at the queue are told why."""
        try:
            files = self._journal.choose(waiting)
            self._journal.begin(files)
            self._take(files)
            self._journal.done(files)
            if self._search.wait_seconds == 0:
                self._search.run()
        except (LakeError, OSError) as error:
            self._journal.failed()
            queue.tell_trouble(self._lake.root, str(error))
            _LOG.error("%s files wait: %s", len(waiting), error)
            return False
        queue.tell_trouble(self._lake.root)
        return True

    def _take(self, files: Sequence[Queued]) -> None:
        """All at once; one by one where that fails, so that one bad file costs no other."""
        try:
            self._search.add(take(self._lake, files))
        except (LakeError, OSError):
            raise
        except Exception as error:
            left = [file for file in files if file.path.exists()]
            if len(files) > 1:
                for file in left:
                    self._take([file])
            elif left:
                reason = error.reason if isinstance(error, SourceError) else "reader_failed"
                self._journal.give_up(left[0], reason, f"It cannot be written ({type(error).__name__}: {error}).")

    def end(self, *_: object) -> None:
        self._is_ending = True

    def _wait(self, seconds: float, *, wake: bool) -> None:
        """Until the time is over, something came (if that counts) or the server is gone."""
        deadline = time.monotonic() + seconds
        while not self._is_ending and (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([sys.stdin], [], [], min(left, 1.0))
            if not ready:
                continue
            if not os.read(sys.stdin.fileno(), 65536):
                self._is_ending = True
            elif wake:
                return


def main(arguments: Sequence[str]) -> int:
    root = Path(arguments[0])
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
    os.nice(10)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then ends this
    try:
        queue.clear_drafts(root)
        with only_writer(root) as is_only:
            if not is_only:  # of another server of this lake, or of one that just ended
                time.sleep(1.0)
                return 0
            writer = Writer(root)
            signal.signal(signal.SIGTERM, writer.end)
            writer.run()
    except (IoweatherError, OSError) as error:
        _LOG.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
