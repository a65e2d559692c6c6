"""One pass over watched directories and accounting: in once, bad ones quarantined, killed anywhere, never two."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace

import pytest

from ioweather.agent.settings import WatchSettings
from ioweather.ingestion import watch as catching
from ioweather.ingestion.queue import caught_up_file as state_file
from ioweather.ingestion.queue import read_caught_up
from ioweather.ingestion.watch import catch_up
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run as command
from planted_logs import write_climate


@pytest.fixture
def place(tmp_path):
    """A lake that watches a directory with a good and a bad log."""
    logs = tmp_path / "logs"
    (logs / "2026").mkdir(parents=True)
    write_climate(logs / "2026/good.darshan")
    (logs / "bad.darshan").write_bytes((logs / "2026/good.darshan").read_bytes()[:200])
    return open_lake(tmp_path / "lake", create=True), WatchSettings((logs,), accounting=False), logs


def later():
    return time.time_ns() + 10 * 10**9


def rows(lake, table="applications"):
    with lake.snapshot() as snapshot:
        return snapshot.tables()[table]


def test_killed_after_reading_and_before_its_notes(place, monkeypatch):
    lake, settings, _ = place

    def killed(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(catching, "write_whole", killed)
        with pytest.raises(KeyboardInterrupt):
            catch_up(lake, settings, clock=later)
    assert catch_up(lake, settings, clock=later).known == 1
    assert rows(lake) == 1


def test_sacct_that_never_answered_is_no_trouble_and_one_that_stopped_is(place, monkeypatch, tmp_path):
    """A login node may have Slurm's commands without a cluster."""
    lake, settings, _ = place
    sacct = tmp_path / "bin/sacct"
    sacct.parent.mkdir()
    monkeypatch.setenv("PATH", f"{sacct.parent}:{os.environ['PATH']}")
    settings = replace(settings, directories=(), accounting=True)

    def troubles(script):
        sacct.write_text(f"#!/bin/sh\n{script}\n")
        sacct.chmod(0o755)
        return catch_up(lake, settings, clock=later).troubles

    assert troubles("echo 'sacct: fatal: no configuration source' >&2; exit 1") == []
    assert troubles("echo JobID") == []
    assert len(troubles("exit 1")) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_log_that_speaks_of_somebody_else_than_its_owner_is_refused(place):
    """Where Darshan writes, all may: anybody could lay a log there that accuses another person."""
    lake, settings, logs = place
    (logs / "bad.darshan").unlink()
    forged, own = logs / "forged.darshan", logs / "2026/own.darshan"
    for job_id, (path, owner) in enumerate(((forged, 4242), (own, 1234))):
        write_climate(path, uid=1234, job_id=job_id + 1)
        os.chown(path, owner, owner)
    done = catch_up(lake, settings, clock=later)
    assert done.read == 2
    assert list(done.refused) == [str(forged)]
    assert "is a log of user 1234, but the file belongs to user 4242" in done.refused[str(forged)]
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT reason FROM quarantine").fetchall() == [("foreign_rows",)]
    os.utime(forged)
    assert catch_up(lake, replace(settings, check_owner=False), clock=later).read == 1
    assert rows(lake) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_stranger_is_believed_about_own_runs_alone_and_the_owner_of_the_directory_about_all(place):
    lake, settings, logs = place
    (logs / "bad.darshan").unlink()
    accounting = logs / "sacct.txt"
    accounting.write_text(
        "JobID|JobIDRaw|Cluster|UID|User|Account|JobName|State|Submit|Start|End|NNodes|NCPUS|NodeList\n"
        "4711|4711|big|1000|ann|phys|run|COMPLETED|1600000000|1600000000|1600000060|1|4|n1\n"
    )
    os.chown(accounting, 4242, 4242)
    done = catch_up(lake, settings, clock=later)
    assert list(done.refused) == [str(accounting)]
    assert "only if they are logs of their own runs" in done.refused[str(accounting)]
    assert rows(lake, "jobs") == 0
    os.chown(logs, 4242, 4242)
    os.utime(accounting)
    assert not catch_up(lake, settings, clock=later).refused
    assert rows(lake, "jobs") == 1


def test_a_log_becomes_whole_after_it_was_refused(place):
    lake, settings, logs = place
    catch_up(lake, settings, clock=later)
    write_climate(logs / "bad.darshan", job_id=4712)
    assert catch_up(lake, settings, clock=later).read == 1
    with lake.snapshot() as snapshot:
        assert snapshot.query("SELECT count(*) FROM quarantine").fetchall() == [(0,)]


def test_the_rest_waits_for_the_next_pass(place, monkeypatch):
    lake, settings, logs = place
    monkeypatch.setattr(catching, "MOST_FILES", 1)
    assert catch_up(lake, settings, clock=later).left_files == 1
    assert catch_up(lake, settings, clock=later).left_files == 0
    assert rows(lake) == 1
    write_climate(logs / "more.darshan", job_id=7)
    write_climate(logs / "most.darshan", job_id=8)
    done = catch_up(lake, settings, clock=later, everything=True)
    assert (done.read, done.left_files) == (2, 0)


def test_a_directory_that_is_gone_is_said_and_the_others_are_read(place, tmp_path):
    lake, settings, logs = place
    done = catch_up(lake, replace(settings, directories=(tmp_path / "gone", logs)), clock=later)
    assert done.read == 1
    assert done.troubles == [f"{tmp_path / 'gone'}: No such file or directory"]


def test_the_command_reads_facility_toml_and_tells_who_does_not_open_the_lake(place, capsys, monkeypatch):
    lake, _, logs = place
    (lake.root / "facility.toml").write_text(f'[watch]\ndirectories = ["{logs}"]\naccounting = false\n')
    for path in (*logs.glob("*.darshan"), *logs.glob("2026/*")):
        os.utime(path)
    monkeypatch.setattr(catching, "_SETTLED_NS", 0)  # files of this moment are still being written
    assert command(["catch-up", "--lake", str(lake.root), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["read"] == 1
    told = read_caught_up(lake.root)["last"]
    assert (told["read"], told["refused"], told["kinds_last_day"]) == (1, 1, {})
    assert command(["catch-up", "--lake", str(lake.root)]) == 0
    assert "0 new files read" in capsys.readouterr().out


def test_each_verdict_is_told_once_and_again_after_a_kill(place, tmp_path, monkeypatch):
    lake, settings, logs = place
    now = time.time_ns()
    for path in logs.rglob("*.darshan"):
        path.unlink()
    write_climate(logs / "new.darshan", job_id=77, start_ns=now - 100 * 10**9, end_ns=now)
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\necho "$1: $2" >> {tmp_path}/told\n')
    program.chmod(0o755)
    settings = replace(settings, tell=program)
    with monkeypatch.context() as patch:
        patch.setattr(catching, "report_verdicts", lambda *_: None)  # killed before it came to this
        assert catch_up(lake, settings, clock=later).verdicts == 1
    assert catch_up(lake, settings, clock=later).told == 1
    assert catch_up(lake, settings, clock=later).told == 0
    (line,) = (tmp_path / "told").read_text().splitlines()
    assert line.startswith("77: Unknown: ")
    program.unlink()
    state_file(lake.root).unlink()
    assert "No such file" in catch_up(lake, settings, clock=later).troubles[0]


def test_accounting_is_polled_an_hour_further_back_than_the_last_time(tmp_path, monkeypatch):
    heading = "\x1f".join(catching.SACCT_FIELDS.split(","))
    values = "7,7,c1,1,ann,m1,run,COMPLETED,1794724380,1794724381,1794724400,2,4,n[1-2]"
    job = values.replace(",", "\x1f")
    (tmp_path / "out").write_text(f"{heading}\n{job}\n")
    program = tmp_path / "bin/sacct"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$SLURM_TIME_FORMAT $*" >> {tmp_path}/calls\ncat {tmp_path}/out\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    lake, moment = open_lake(tmp_path / "lake", create=True), 1_794_730_000 * 10**9
    for seconds in (0, 300):
        done = catch_up(lake, WatchSettings(()), clock=lambda seconds=seconds: moment + seconds * 10**9)
        assert done.troubles == []
    first, second = (tmp_path / "calls").read_text().splitlines()
    assert first.startswith("%s ")
    assert "now-86400seconds" in first
    assert "now-3900seconds" in second
    assert rows(lake, "jobs") == 1
    program.write_text("#!/bin/sh\necho no database >&2; exit 1\n")
    assert "no database" in catch_up(lake, WatchSettings(()), clock=lambda: moment).troubles[0]
