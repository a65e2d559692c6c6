"""Many rows are written by who read them: the lake is the same, whatever happens meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from darshan_logs import LogParts
from ioweather.engine import Serial, Threads
from ioweather.sources.darshan.writer import new_records
from ioweather.store.lake import Lake, open_lake
from ioweather.workflows.ingest import ingest as module
from ioweather.workflows.ingest.ingest import ingest
from ioweather.workflows.ingest.staging import Staging
from lake_contents import contents

LOGS = 510


def parts(job_id: int) -> LogParts:
    records = new_records("POSIX", 2)
    records["id"], records["rank"] = (11, 12), (-1, 3)
    records["POSIX_BYTES_WRITTEN"] = 8 << 20
    return LogParts(job_id=job_id, modules=[("POSIX", 4, [records.tobytes()])])


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    for job_id in range(1, LOGS + 1):
        (folder / f"{job_id:04}.darshan").write_bytes(parts(job_id).build())
    return folder


@pytest.fixture
def lake(tmp_path) -> Lake:
    return open_lake(tmp_path / "lake", create=True)


@pytest.fixture
def in_one_batch(monkeypatch) -> None:
    monkeypatch.setattr(module, "_BATCHES_EACH", 1)


def parquet_files(lake: Lake) -> int:
    return len(list((lake.root / "tables").glob("*/day=*/*.parquet")))


pytestmark = pytest.mark.usefixtures("in_one_batch")


def test_the_lake_is_the_same_where_a_worker_does_not_see_it(logs, lake, tmp_path, monkeypatch):
    committed, commit = [], Lake.commit
    monkeypatch.setattr(Lake, "commit", lambda lake, table, new: committed.append(table) or commit(lake, table, new))
    report = ingest(lake, [logs], executor=Serial(), search=False)
    assert committed == ["applications", "files", "job_io"]
    assert report.rows_added == {"applications": LOGS, "files": 2 * LOGS, "job_io": LOGS}
    with lake.snapshot() as snapshot:
        (ids,) = snapshot.query("SELECT DISTINCT rows_ingest_ids FROM ingests").fetchall()
        for table in report.rows_added:
            found = snapshot.query(f"SELECT DISTINCT ingest_id FROM {table}").fetchall()
            assert {each for (each,) in found} <= set(ids[0].split(",")), "or `forget` would not find them"
    monkeypatch.setattr(Staging, "of", lambda root: Staging(root, b"of another machine"))
    other = open_lake(tmp_path / "other", create=True)
    assert ingest(other, [logs], executor=Serial(), search=False).rows_added == report.rows_added
    assert len(committed) == 3
    assert contents(other) == contents(lake)


def test_few_rows_go_in_with_the_commit_of_many(logs, lake, monkeypatch):
    # And a few more, for which no worker writes files.
    monkeypatch.setattr(
        module, "_share", lambda files, _: (sum(module._FILE_BYTES + f.bytes for f in files[:503]), 503)
    )
    report = ingest(lake, [logs], executor=Serial(), search=False)
    assert report.rows_added == {"applications": LOGS, "files": 2 * LOGS, "job_io": LOGS}
    with lake.snapshot() as snapshot:
        assert snapshot.versions == {"applications": 1, "files": 1, "job_io": 1, "ingests": 1}
        assert snapshot.scalar("SELECT count(DISTINCT ingest_id) FROM applications") == 2
    assert lake.tables()["applications"] == LOGS


def test_files_are_found_while_others_are_read(logs, lake, monkeypatch):
    monkeypatch.setattr(module, "_FIRST_FILES", 100)
    find, batches, found, shared_out, told = module.find_files, module._batches, [], [], []
    monkeypatch.setattr(module, "find_files", lambda paths: (found.append(file) or file for file in find(paths)))
    monkeypatch.setattr(module, "_batches", lambda *given: shared_out.append(len(found)) or batches(*given))
    with Threads(2) as pool:
        report = ingest(lake, [logs], executor=pool, search=False, progress=lambda *each: told.append(each))
    assert shared_out[:2] == [200, LOGS]
    assert report.rows_added == {"applications": LOGS, "files": 2 * LOGS, "job_io": LOGS}
    assert {total for _, total, _ in told} <= {None, LOGS}
    assert told[-1] == (LOGS, LOGS, "files")


def test_stopped_before_the_ledger_it_is_completed_without_doubles(logs, lake, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Lake, "record", stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(lake, [logs], executor=Serial(), search=False)
    monkeypatch.undo()
    files = parquet_files(lake)
    report = ingest(lake, [logs], executor=Serial(), search=False)
    assert report.rows_added == {"applications": 0, "files": 0, "job_io": 0}
    assert lake.tables()["applications"] == LOGS
    assert parquet_files(lake) == files + 1, "that of the ledger"
    assert ingest(lake, [logs], executor=Serial(), search=False).known == LOGS


def test_stopped_before_a_commit_it_leaves_nothing(logs, lake, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "without_copies", stop)
    with pytest.raises(KeyboardInterrupt):
        ingest(lake, [logs], executor=Serial(), search=False)
    assert parquet_files(lake) == 0


def test_a_log_takes_the_place_of_its_text(logs, lake, tmp_path):
    job = parts(7)
    zeros = new_records("POSIX", 1)
    records = (
        f"POSIX\t-1\t11\t{name}\t{'0.0' if '_F_' in name else 0}\t/a\t/\text4\n" for name in zeros.dtype.names[2:]
    )
    text = tmp_path / "7.txt"
    text.write_text(
        f"# darshan log version: 3.41\n# exe: ./app -x\n# uid: {job.uid}\n# jobid: 7\n"
        f"# start_time: {job.start[0]}\n# end_time: {job.end[0]}\n# nprocs: {job.nprocs}\n# run time: 60.0\n"
        f"# POSIX module: 9 bytes (compressed), ver=4\n# POSIX module data\n{''.join(records)}"
    )
    report = ingest(lake, [text])
    assert report.rows_added["applications"] == 1, report.outcomes
    assert ingest(lake, [logs], executor=Serial(), search=False).rows_added["applications"] == LOGS
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT count(*), count(form) FROM applications").fetchall() == [(LOGS, 0)]
        assert snapshot.scalar("SELECT count(DISTINCT log_digest) FROM files") == LOGS
