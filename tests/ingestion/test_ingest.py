"""Ingest through the normal door: what goes in, once; what is refused, and why; what resumes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iostat_sample import write_sample
from ioweather.core.contracts import ReadContext
from ioweather.core.errors import LakeError, UsageError
from ioweather.core.units import DAY_NS, MINUTE_NS, utc_day, zone_named
from ioweather.ingestion import derivations, reading
from ioweather.ingestion.ingest import ingest
from ioweather.lake.lake import open_lake
from ioweather.lake.maintenance import compact
from planted_logs import write_climate


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write_sample(tmp_path_factory.mktemp("sample"), days=1, servers=2)


@pytest.fixture
def lake(tmp_path):
    return open_lake(tmp_path / "lake", create=True)


def total(lake) -> tuple[int, int]:
    with lake.snapshot() as snapshot:
        (row,) = snapshot.query(
            "SELECT sum(round(value)::HUGEINT), count(*) FROM series WHERE metric = 'read_bytes'"
        ).fetchall()
    return row


def test_a_file_that_grew_adds_only_what_is_new(lake, sample, tmp_path):
    whole = (sample.folder / "oss1.iostat.txt").read_text()
    growing = tmp_path / "growing.txt"
    for share in (0.3, 0.31, 0.75, 1.0):
        growing.write_text(whole[: int(len(whole) * share)])
        (outcome,) = ingest(lake, [growing]).outcomes
        assert (outcome.status, outcome.reason) == (("ok", None) if share == 1 else ("partial", "truncated_input"))
    grown = total(lake)
    other = open_lake(tmp_path / "other", create=True)
    ingest(other, [sample.folder / "oss1.iostat.txt"])
    assert grown == total(other)


def test_two_overlapping_dumps_are_one(lake, sample, tmp_path):
    reports = (sample.folder / "oss1.iostat.txt").read_text().split("\n\n\n")
    header, rest = reports[0], reports[1:]
    (tmp_path / "a.txt").write_text("\n\n\n".join([header, *rest[:700]]) + "\n\n\n")
    beginning = header.split("\n\n")[0] + "\n\n"
    (tmp_path / "b.txt").write_text(beginning + "\n\n\n".join(rest[500:]) + "\n\n\n")
    ingest(lake, [tmp_path / "a.txt", tmp_path / "b.txt"])
    other = open_lake(tmp_path / "other", create=True)
    ingest(other, [sample.folder / "oss1.iostat.txt"])
    assert total(lake) == total(other)


LOCAL = """Linux 6.1.0 (oss9) \t10/25/26 \t_x86_64_\t(2 CPU)

10/25/26 {first}
Device            r/s     rkB/s     w/s     wkB/s  %util
sda              1.00     10.00    1.00     10.00   1.00

10/25/26 {second}
Device            r/s     rkB/s     w/s     wkB/s  %util
sda              1.00     10.00    1.00     10.00   1.00

10/25/26 {third}
Device            r/s     rkB/s     w/s     wkB/s  %util
sda              1.00     10.00    1.00     10.00   1.00

"""


def test_each_bad_file_is_refused_with_its_own_reason_while_the_rest_goes_in(lake, sample, tmp_path):
    folder = tmp_path / "mixed"
    folder.mkdir()
    shutil.copy(sample.folder / "oss1.iostat.txt", folder / "good.txt")
    (folder / "empty.txt").write_text("")
    (folder / "garbage.bin").write_bytes(bytes(range(256)) * 40)
    (folder / "undated.txt").write_text(
        "Linux 6.1.0 (oss9) \t10/25/26\n\n"
        + "Device r/s rkB/s w/s wkB/s %util\nsda 1.00 10.00 1.00 10.00 1.00\n\n" * 3  # the first is since boot
    )
    (folder / "no_zone.txt").write_text(LOCAL.format(first="06:00:00", second="06:01:00", third="06:02:00"))
    (folder / "truncated.darshan").write_bytes(_truncated_darshan())
    report = ingest(lake, [folder])
    assert {o.path.name: o.reason for o in report.bad} == {
        "empty.txt": "empty_input",
        "garbage.bin": "unknown_format",
        "undated.txt": "undated_input",
        "no_zone.txt": "undated_input",
        "truncated.darshan": "truncated_input",
    }
    assert [o.path.name for o in report.good] == ["good.txt"]
    messages = {o.path.name: o.message or "" for o in report.bad}
    assert "iostat with -t" in messages["undated.txt"]
    assert "--zone" in messages["no_zone.txt"]


def _truncated_darshan() -> bytes:
    """A 3.41 header that promises more than there is."""
    header = bytearray(1328)
    header[:4] = b"3.41"
    header[8:16] = (6567223).to_bytes(8, "little")
    header[32:48] = (4000).to_bytes(8, "little") + (500).to_bytes(8, "little")
    return bytes(header)


def test_a_wrong_zone_is_refused_where_the_hour_does_not_exist(lake, tmp_path):
    """02:30 on 29 March does not exist in Berlin: the file was not written there."""
    text = LOCAL.replace("10/25/26", "03/29/26").format(first="02:29:00", second="02:30:00", third="02:31:00")
    (tmp_path / "x.txt").write_text(text)
    (outcome,) = ingest(lake, [tmp_path / "x.txt"], context=ReadContext(zone=zone_named("Europe/Berlin"))).bad
    assert outcome.reason == "undated_input"
    assert "does not exist" in (outcome.message or "")
    report = ingest(lake, [tmp_path / "x.txt"], context=ReadContext(zone=zone_named("UTC")))
    assert not report.bad, "what was quarantined is tried again when more is known"
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM quarantine") == 0


def test_an_unreadable_name_is_a_usage_error(lake, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, words in (
        (Path("/no/such/file"), "does not exist"),
        (tmp_path / "pipe", "pipe"),
        (Path("/dev/null"), "device"),
    ):
        with pytest.raises(UsageError, match=words):
            ingest(lake, [path])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
@pytest.mark.usefixtures("reading_here")  # a child could not start: this Python is root's
def test_what_may_not_be_looked_at_is_said_and_the_rest_goes_in(lake, sample, monkeypatch):
    ingest(lake, [sample.folder])  # what that imports, the other may not read
    # So that one of the files is a large one.
    monkeypatch.setattr("ioweather.ingestion.ingest._STREAM_BYTES", 1000)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's are the owner's alone
        top = Path(folder)
        (top / "locked").mkdir(mode=0)
        (top / "shut").mkdir()
        (top / "shut" / "x").write_text("x")
        (top / "large").write_bytes(bytes(2000))
        shutil.copy(sample.folder / "oss1.iostat.txt", top / "good")
        for path, mode in ((top, 0o777), (top / "shut", 0o444), (top / "large", 0)):
            path.chmod(mode)
        os.seteuid(65534)
        try:
            made = open_lake(top / "lake", create=True)
            report = ingest(made, [top])
            with pytest.raises(UsageError, match="Permission denied"):
                ingest(made, [top / "shut" / "x"])
        finally:
            os.seteuid(0)
    assert [o.path.name for o in report.good] == ["good"], report.bad
    assert sorted(o.path.name for o in report.bad if o.reason == "unreadable") == ["large", "locked", "x"]


def test_a_lake_that_may_not_be_written_is_said_before_anything_is_read(lake, sample, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(LakeError, match="No write permission"):
        ingest(lake, [sample.folder])


def test_the_quarantine_shows_how_it_ended(lake, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    header = "JobID|JobIDRaw|State|Submit|Start|End\n"
    row = "{}|{}|COMPLETED|2026-01-01T00:00:00|2026-01-01T00:01:00|2026-01-01T00:02:00\n"
    dump = Path("dump")
    context = ReadContext(zone=zone_named("UTC"))

    def quarantine() -> list[tuple[str, ...]]:
        with lake.snapshot() as snapshot:
            return snapshot.query("SELECT path, status, reason FROM quarantine").fetchall()

    dump.write_text(header + row.format(1, 1))
    ingest(lake, [dump])
    assert quarantine() == [(str(tmp_path / "dump"), "quarantined", "undated_input")]
    dump.write_text(header + row.format(1, 1) + "2|2|COMPL")
    for _ in range(2):
        report = ingest(lake, [dump], context=context)
        assert [outcome.status for outcome in report.outcomes] == ["partial"], "and it is tried again"
    assert quarantine() == [(str(tmp_path / "dump"), "partial", "truncated_input")]
    dump.write_text(header + row.format(1, 1) + row.format(2, 2))
    ingest(lake, [dump], context=context)
    assert quarantine() == []


def test_a_half_day_from_three_archives_of_one_system_counts_once(samples, own_samples, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    los_angeles = ReadContext(zone=zone_named("America/Los_Angeles"))
    ingest(lake, sorted((samples / "lmt").glob("*_2018-01-28.*")), context=los_angeles)
    with lake.snapshot() as snapshot:
        sources = {g.source for g in snapshot.series() if g.component_kind == "ost" and g.metric == "read_bytes"}
        assert {"h5lmt", "tts"} <= sources
        selection = snapshot.selection(
            filesystem="fs1" if samples == own_samples else "snx11025",
            component_kind="ost",
            metrics=("read_bytes",),
            step_ns=60 * 10**9,
        )
        assert {group.source for group in selection.groups} == {"tts"}


def test_copied_lustre_trees_are_read_as_one(samples, own_samples, tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    report = ingest(lake, [samples / "lustre"])
    trees = {
        o.path.name: (o.source, o.status)
        for o in report.outcomes
        if o.path.parent.name == "lustre" and o.path.name != "get_param"
    }
    versions = ("2.15.3",) if samples == own_samples else ("1.8.3", "2.10.8", "2.12.9_12", "gsi-2.x")
    assert trees == dict.fromkeys(versions, ("lustre", "ok"))
    assert ingest(lake, [samples / "lustre"]).known == len(report.good) > len(trees)
    systems = {"fs1"} if samples == own_samples else {"lc1", "lquake"}
    with lake.snapshot() as snapshot:
        assert systems <= {group.system for group in snapshot.series()}


def test_one_csv_mapped_into_two_tables_is_read_twice(tmp_path):
    lake = open_lake(tmp_path / "lake", create=True)
    (tmp_path / "x.csv").write_text("when,what\n1700000000,first\n")
    for number in (1, 2):
        sql = (
            f"SELECT 'e{number}' AS event_id, 'annotation' AS kind, ns(\"when\") AS start_ns, what AS label FROM input"
        )
        report = ingest(lake, [tmp_path / "x.csv"], select=("events", sql))
        assert not report.bad, report.bad
        assert len(report.good) == 1


@pytest.mark.usefixtures("reading_here")
def test_a_log_that_fails_among_others_is_the_only_one_refused(lake, tmp_path, monkeypatch):
    logs = [write_climate(tmp_path / f"{number}.darshan", job_id=number) for number in (1, 2, 3)]
    right = reading.job_io

    def fail_on_two(applications, files):
        if 2 in applications.array("job_id"):
            raise ZeroDivisionError("two")
        return right(applications, files)

    monkeypatch.setattr(reading, "job_io", fail_on_two)
    report = ingest(lake, logs)
    assert [(outcome.path, outcome.reason) for outcome in report.bad] == [(logs[1], "reader_failed")]
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT job_id FROM applications ORDER BY 1").fetchall() == [(1,), (3,)]
        assert snapshot.scalar("SELECT count(*) FROM job_io") == 2


def test_names_that_are_no_text_go_in_and_are_told(sample, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(sample.folder / "oss1.iostat.txt", folder / os.fsdecode(b"io\xff.txt"))
    (folder / os.fsdecode(b"no\xff.txt")).write_text("neither fish nor fowl")
    # As in a language other than C, where Python refuses to print what is no text.
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8:strict", "COLUMNS": "300"}
    command = [sys.executable, "-m", "ioweather", "ingest", folder, "--lake", tmp_path / "lake"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert done.returncode == 1, done.stderr.decode()
    assert b"no\\xff.txt" in done.stdout
    with open_lake(tmp_path / "lake").snapshot() as snapshot:
        found = snapshot.query("SELECT path, status FROM ingests ORDER BY path").fetchall()
    assert [(Path(path).name, status) for path, status in found] == [
        ("io\\udcff.txt", "ok"), ("no\\udcff.txt", "quarantined"),
    ]  # fmt: skip


@pytest.mark.parametrize("wrong", ['"interval_ns":0', '"interval_ns":-1', '"start_ns":9223372036854775000'])
def test_a_row_on_which_every_question_would_fail_is_refused(lake, tmp_path, wrong):
    row = (
        '{"table":"series","start_ns":1700000000000000000,"interval_ns":10,"system":"h:sda","component_kind":"device",'
        f'"component":"sda","metric":"read_bytes","value":1,"quality":0,{wrong}}}'
    )
    segment = tmp_path / "segment.ndjson"
    segment.write_text(f'{{"ioweather_spool":1,"host":"h","boot_id":"b"}}\n{row}\n')
    (refused,) = ingest(lake, [segment]).bad
    assert (refused.reason, refused.refused_rows) == ("impossible_rows", 1)
    assert wrong.split('"')[1] in str(refused.message)


def _stopped(*_: object) -> int:
    raise KeyboardInterrupt


def test_what_was_stopped_behind_the_responses_makes_their_rollups_next_time(lake, tmp_path, monkeypatch):
    row = (
        '{"table":"responses","start_ns":1700000000000000000,"host":"h","target":"/scratch","op":"stat",'
        '"request_bytes":0,"mode":"nocache","duration_ns":1000000,"system":"mount:/scratch","status":"ok"}'
    )
    segment = tmp_path / "segment.ndjson"
    segment.write_text(f'{{"ioweather_spool":1,"host":"h","boot_id":"b"}}\n{row}\n')
    with monkeypatch.context() as patch:
        patch.setattr(derivations, "refresh_rollups", _stopped)
        with pytest.raises(KeyboardInterrupt):
            ingest(lake, [segment])
    ingest(lake, [segment])
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT count(*) FROM responses") == 1
        assert snapshot.scalar("SELECT sum(count) FROM response_rollups WHERE interval_ns = 60000000000") == 1


def test_what_was_stopped_behind_the_entries_of_a_scan_is_counted_next_time(lake, tmp_path, monkeypatch):
    (tmp_path / "list.csv").write_text("path,size\n/scratch/a,5\n")
    sql = f"SELECT path, size AS size_bytes, 'file' AS kind, 's' AS scan_id, {10**18} AS start_ns FROM input"
    with monkeypatch.context() as patch:
        patch.setattr(derivations, "tally_entries", _stopped)
        with pytest.raises(KeyboardInterrupt):
            ingest(lake, [tmp_path / "list.csv"], select=("scan_entries", sql))
    ingest(lake, [tmp_path / "list.csv"], select=("scan_entries", sql))
    with lake.snapshot() as snapshot:
        assert snapshot.scalar("SELECT file_bytes FROM scans") == 5


def test_closed_days_of_samples_are_sealed_and_sealed_again_an_hour_after_late_rows(tmp_path):
    def samples(name, minutes):
        path = tmp_path / name
        rows = "".join(
            f"{20_000 * DAY_NS + minute * MINUTE_NS},60000000000,scratch,ost,OST0000,read_bytes,1.0,0\n"
            for minute in minutes
        )
        path.write_text("start_ns,interval_ns,system,component_kind,component,metric,value,quality\n" + rows)
        return path

    lake = open_lake(tmp_path / "lake", create=True)
    select = ("series", "SELECT * FROM input")
    ingest(lake, [samples("first.csv", range(600))], select=select)
    assert compact(lake) == []
    late = samples("late.csv", range(600, 700))
    seal = lake.root / "seals" / f"{utc_day(20_000 * DAY_NS)}.json"
    ingest(lake, [late], select=select)
    assert [rows for *_, rows in compact(lake)] == [700]
    os.utime(seal, (0, 0))
    ingest(lake, [samples("later.csv", range(700, 800))], select=select)
    assert compact(lake) == []
    assert lake.tables()["series"] == 800
