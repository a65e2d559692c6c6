"""The writer of what others push: many files in one commit, nothing twice, nothing lost."""

from __future__ import annotations

import hashlib
import json

import pytest
from deltalake import DeltaTable

from ioweather.core.errors import LakeError, SourceError
from ioweather.core.tables import TABLES
from ioweather.core.units import DAY_NS, NS
from ioweather.ingestion import drain as draining
from ioweather.ingestion import queue
from ioweather.ingestion.drain import drain, run_pass, write_batch
from ioweather.ingestion.ingest import IngestReport, ingest
from ioweather.ingestion.ledger import FileOutcome
from ioweather.ingestion.queue import draft_in, enqueue, queued, waiting
from ioweather.ingestion.reading import read_bounded
from ioweather.ingestion.receive import MOST_DAYS, receive
from ioweather.lake.lake import open_lake
from ioweather.lake.layout import locked
from pushed_segments import START_NS, operations_in, segment


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def pushed(lake, host: str, starts, name: str = ""):
    with draft_in(lake.root) as draft:
        draft.write_bytes(segment(host, starts))
        return receive(lake, draft, host, name or f"seg-{host}-1-1.ndjson", host)


def laid(lake, data: bytes, name: str = "seg-x-1-1.ndjson") -> None:
    """In the queue without a check, as a mistake of ours would."""
    with draft_in(lake.root) as draft:
        draft.write_bytes(data)
        enqueue(lake.root, draft, name, hashlib.sha256(data).hexdigest()[:32])


def ledger(lake) -> list[tuple[str, str | None]]:
    with lake.snapshot() as snapshot:
        return snapshot.query("SELECT status, reason FROM ingests ORDER BY ALL").fetchall()


def version_of(lake, table: str) -> int:
    return DeltaTable(str(lake.root / "tables" / table)).version()


def test_many_files_are_one_commit_of_every_table(lake):
    for n in range(30):
        pushed(lake, f"n{n}", [START_NS + n * NS])
    assert waiting(lake.root).files == 30
    assert drain(lake) == 30
    assert sum(operations_in(lake.root).values()) == 30
    # Version 0 is the empty table.
    assert {table: version_of(lake, table) for table in ("responses", "response_rollups", "ingests")} == {
        "responses": 1, "response_rollups": 1, "ingests": 1
    }  # fmt: skip
    assert waiting(lake.root) == queue.Waiting()
    assert drain(lake) == 0


def test_killed_between_the_rows_and_the_ledger_it_goes_on_without_doubles(lake, monkeypatch):
    pushed(lake, "n1", [START_NS, START_NS + NS])
    with monkeypatch.context() as broken:
        broken.setattr("ioweather.ingestion.drain.record", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            drain(lake)
    assert waiting(lake.root).files == 1
    drain(lake)
    assert operations_in(lake.root) == {("n1", START_NS): 1, ("n1", START_NS + NS): 1}


def test_rows_of_too_many_days_are_refused(lake):
    pushed(lake, "wide", [START_NS + day * DAY_NS for day in range(5)])
    with pytest.raises(SourceError, match=f"more than {MOST_DAYS} days"):
        pushed(lake, "long", [START_NS - day * DAY_NS for day in range(MOST_DAYS + 1)])
    drain(lake)
    assert len(operations_in(lake.root)) == 5
    assert ledger(lake) == [("ok", None)]


def test_what_cannot_be_read_any_more_is_kept_and_named(lake):
    laid(lake, b"garbage\n")
    pushed(lake, "n2", [START_NS])
    drain(lake)
    assert len(operations_in(lake.root)) == 1
    assert ledger(lake) == [("ok", None), ("quarantined", "corrupt_input")]
    (kept,) = queue.refused_dir(lake.root).rglob("*.ndjson")
    assert kept.read_bytes() == b"garbage\n"
    assert waiting(lake.root).files == 0


def test_a_file_that_kills_the_writer_is_found_and_set_aside(lake, monkeypatch):
    """Each round is a new writer, which is killed when the bad file is in its batch."""
    for n in range(4):
        pushed(lake, f"n{n}", [START_NS + n])
    deaths, real = 0, draining.write_batch

    def dying(lake, files, report):
        if any("-n2-" in file.name for file in files):
            raise KeyboardInterrupt
        real(lake, files, report)

    monkeypatch.setattr(draining, "write_batch", dying)
    while waiting(lake.root).files:
        try:
            drain(lake)
        except KeyboardInterrupt:
            deaths += 1
    assert deaths == 3
    assert {host for host, _ in operations_in(lake.root)} == {"n0", "n1", "n3"}
    assert ("quarantined", "worker_lost") in ledger(lake)
    (kept,) = queue.refused_dir(lake.root).iterdir()
    assert kept.name.endswith("-seg-n2-1-1.ndjson")


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), LakeError("No space left on device.")])
def test_a_fault_of_the_lake_is_told_and_costs_no_file(lake, monkeypatch, fault):
    """However often it fails, no file is moved; then it goes in."""
    pushed(lake, "n1", [START_NS])
    with monkeypatch.context() as patch:
        patch.setattr(draining, "write_batch", lambda *_: (_ for _ in ()).throw(fault))
        assert {run_pass(lake.root) for _ in range(3)} == {2}
    found = waiting(lake.root)
    assert (found.files, found.trouble) == (1, str(fault))
    assert run_pass(lake.root) == 0
    assert waiting(lake.root) == queue.Waiting()
    assert operations_in(lake.root) == {("n1", START_NS): 1}
    pushed(lake, "n1", [START_NS + NS])
    assert waiting(lake.root).trouble == ""


def test_a_file_that_cannot_be_read_now_stays_in_the_queue(lake, monkeypatch):
    for host in ("n1", "n2"):
        pushed(lake, host, [START_NS])

    def failing(batch, reading):
        outcomes, frames = read_bounded([file for file in batch if "-n1-" not in file[0]], reading)
        lost = next(path for path, _ in batch if "-n1-" in path)
        failed = FileOutcome(lost, "d", 1, "spool", "quarantined", reason="unreadable", message=f"Cannot read {lost}.")
        return [*outcomes, failed], frames

    with monkeypatch.context() as patch:
        patch.setattr(draining, "read_bounded", failing)
        with pytest.raises(LakeError, match="Cannot read"):
            write_batch(lake, queued(lake.root), IngestReport())
    assert [file.name for file in queued(lake.root)] == ["seg-n1-1-1.ndjson"]
    assert not queue.refused_dir(lake.root).exists()
    drain(lake)
    assert operations_in(lake.root) == {("n1", START_NS): 1, ("n2", START_NS): 1}


def test_one_writer_at_a_time(lake, tmp_path):
    with locked(tmp_path / "lock") as first, locked(tmp_path / "lock") as second:
        assert (first is None, second is None) == (False, True)
    with locked(tmp_path / "lock") as again:
        assert again is not None


def test_pushed_rows_of_every_table_are_those_that_an_ingest_of_the_segment_gives(lake, tmp_path):
    """With values and nulls in every kind of column."""
    series = {"start_ns": START_NS, "interval_ns": NS, "system": "n1:sda", "component_kind": "device",
              "component": "sda", "metric": "read_bytes", "value": 0.1, "quality": 0}  # fmt: skip
    job = {"start_ns": START_NS, "interval_ns": NS, "system": "fs", "component_kind": "ost", "component": "OST0",
           "job_key": "7", "operation": "read", "count": 3, "quality": 0}  # fmt: skip
    event = {"event_id": "n1:ü", "kind": "gap", "host": "n1", "start_ns": START_NS, "label": "größer"}
    ended = {"event_id": "n1:b", "end_ns": START_NS + 1, "withdrawn": False}
    rows = [("series", {**series, **more}) for more in ({}, {"metric": "write_bytes", "value": 7})]
    rows += [
        ("job_operations", {**job, **more}) for more in ({}, {"operation": "write", "job_id": 7, "bytes": 1 << 40})
    ]
    rows += [("events", {**event, **more}) for more in ({}, ended)]
    lines = segment("n1", [START_NS, START_NS + NS]).decode() + "".join(
        json.dumps({"table": table, **row}) + "\n" for table, row in rows
    )
    with draft_in(lake.root) as draft:
        draft.write_text(lines, encoding="utf-8")
        received = receive(lake, draft, "n1", "seg-n1-1-1.ndjson", "n1")
    assert received.rows == {"responses": 2, "series": 2, "job_operations": 2, "events": 2}
    drain(lake)
    file = tmp_path / "seg-n1-1-1.ndjson"
    file.write_text(lines, encoding="utf-8")
    other = open_lake(tmp_path / "other", create=True)
    ingest(other, [file])
    for table in received.rows:
        columns = ", ".join(TABLES[table].names)
        query = f"SELECT source, {columns} FROM {table} ORDER BY ALL"
        stored = [open_lake(root).snapshot().query(query).fetchall() for root in (lake.root, other.root)]
        assert stored[0] == stored[1]
        assert len(stored[0]) == received.rows[table]
