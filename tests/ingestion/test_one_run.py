"""A log and its text are one run, in whatever order they come."""

from __future__ import annotations

import pytest

from darshan_logs import LogParts
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.writer import new_records


def made(start_s: int = 1_600_000_000) -> LogParts:
    records = new_records("POSIX", 2)
    records["id"], records["rank"] = (11, 12), (-1, 3)
    records["POSIX_WRITES"], records["POSIX_BYTES_WRITTEN"] = 8, 8 << 20
    records["POSIX_F_WRITE_TIME"], records["POSIX_F_SLOWEST_RANK_TIME"] = 2.5, (1.5, 0.0)
    return LogParts(modules=[("POSIX", 4, [records.tobytes()])], start=(start_s, 123), end=(start_s + 60, 456))


def texts(data: bytes) -> dict[str | None, bytes]:
    """The log, and its text as darshan-parser prints it."""
    log = read_log(data)
    job, records = log.job, log.modules["POSIX"].records
    head = (
        f"# darshan log version: {log.version}\n# exe: {job.exe}\n# uid: {job.uid}\n# jobid: {job.job_id}\n"
        f"# start_time: {job.start_ns // 10**9}\n# end_time: {job.end_ns // 10**9}\n# nprocs: {job.nprocs}\n"
        f"# run time: {job.run_seconds:.4f}\n"
    )
    version = "# POSIX module: 9 bytes (compressed), ver=4\n"
    counters = records.dtype.names[2:]
    shown = {name: ("{:f}" if "_F_" in name else "{}").format for name in counters}
    lines = [
        f"POSIX\t{row['rank']}\t{row['id']}\t{name}\t{shown[name](row[name])}\t/scratch/a\t/scratch\tlustre"
        for row in records
        for name in counters
    ]
    return {None: data, "text": (head + version + "\n".join(lines) + "\n").encode()}


def runs(lake):
    with lake.snapshot() as snapshot:
        rows = snapshot.query("SELECT form, start_ns // 1000000000 FROM applications ORDER BY start_ns").fetchall()
        digests = {
            table: {d for (d,) in snapshot.query(f"SELECT DISTINCT log_digest FROM {table}").fetchall()}
            for table in ("applications", "files", "job_io")
        }
    assert digests["applications"] == digests["files"] == digests["job_io"]
    return rows


@pytest.mark.parametrize("order", [(None, "text"), ("text", None)])
def test_a_log_replaces_its_text(tmp_path, order):
    lake = open_lake(tmp_path / "lake", create=True)
    content = texts(made().build())
    for number, form in enumerate(order):
        path = tmp_path / f"{number}.txt"
        path.write_bytes(content[form])
        report = ingest(lake, [path])
        assert not report.bad
        best = None if None in order[: number + 1] else "text"
        assert [found for found, _ in runs(lake)] == [best]
        left_out = form != best
        assert bool(report.noted) == left_out
        assert sum(report.rows_added.values()) == 0 or not left_out


def test_all_at_once_and_again(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    folder = tmp_path / "files"
    folder.mkdir()
    for form, data in texts(made().build()).items():
        (folder / f"{form}.x").write_bytes(data)
    ingest(lake, [folder])
    assert runs(lake) == [(None, 1_600_000_000)]
    ingest(lake, [folder], again=True)
    assert runs(lake) == [(None, 1_600_000_000)]


def test_other_runs_stay(tmp_path):
    """Of the same job and program a minute later: another run."""
    lake = open_lake(tmp_path / "lake", create=True)
    for number, data in enumerate((texts(made().build())["text"], texts(made(1_600_000_120).build())[None])):
        path = tmp_path / f"{number}.x"
        path.write_bytes(data)
        ingest(lake, [path])
    assert runs(lake) == [("text", 1_600_000_000), (None, 1_600_000_120)]
