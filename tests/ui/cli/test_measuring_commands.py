"""`probe`, `sample`, `collect`, `export` as a person calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ioweather.agent.spool import Spool
from ioweather.agent.status import read_status


@pytest.fixture
def ioweather(tmp_path):
    """In a process of its own: these commands fork and take signals."""

    def call(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ioweather", *map(str, arguments)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)

    return call


QUICK = ("--period", "100ms", "--file-size", "2MiB", "--pool", "3", "--for", "500ms")


def test_probe_streams_rows_and_leaves_nothing_behind(ioweather, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    done = ioweather("probe", target, *QUICK, "--json", "--annotate", "test")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    responses = [row for row in rows if row["table"] == "responses"]
    assert len(responses) == 5 * 7
    assert {row["target"] for row in responses} == {str(target)}
    assert [row["label"] for row in rows if row["table"] == "events"] == ["test", "test"]
    assert list(target.iterdir()) == []
    spool = tmp_path / "state/ioweather/spool"
    assert read_status(spool).state == "stopped"
    assert len(list((spool / "segments").iterdir())) == 1


def test_probe_ships_at_the_end(ioweather, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    done = ioweather("probe", target, *QUICK, "--lake", tmp_path / "lake", "--keep", "--name", "shared")
    assert done.returncode == 0, done.stderr
    assert "35 rows are in" in done.stdout
    assert "write_sync 1 MiB" in done.stdout
    assert "MiB/s read" in done.stderr, "it says what load it makes"
    assert [path.name for path in target.iterdir()] == [".ioweather-shared"]
    counted = ioweather("sql", "SELECT count(*) AS n FROM responses", "--lake", tmp_path / "lake", "--json")
    assert json.loads(counted.stdout) == [{"n": 35}]
    assert list((tmp_path / "state/ioweather/spool/segments").iterdir()) == []


def test_a_path_that_is_not_there(ioweather, tmp_path):
    done = ioweather("probe", tmp_path / "none", *QUICK)
    assert done.returncode == 2
    assert "not a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_one_bad_path_does_not_stop_the_good_one(ioweather, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    done = ioweather("probe", target, tmp_path / "none", *QUICK, "--json")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 35


@pytest.mark.parametrize(
    "option", [("--period", "soon"), ("--request", "1000"), ("--file-size", "1MiB"), ("--for", "x")]
)
def test_wrong_options_are_named(ioweather, tmp_path, option):
    done = ioweather("probe", tmp_path, *option)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_second_probe_beside_a_running_agent(ioweather, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    spool = Spool(tmp_path / "state/ioweather/spool", "n1", "r")
    done = ioweather("probe", target, *QUICK)
    assert done.returncode == 0
    assert "An agent is running" in done.stderr
    done = ioweather("probe", target, *QUICK, "--spool", spool.directory)
    assert done.returncode == 2
    assert "--spool" in done.stderr
    spool.close(0)


def test_sample(ioweather, tmp_path):
    done = ioweather("sample", tmp_path, "--sizes", "8KiB,64KiB", "--rounds", "1", "--busy", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 8
    assert ioweather("sample", tmp_path, "--sizes", "7").returncode == 2
    assert ioweather("sample", tmp_path, "--osts", "one").returncode == 2


def test_collect_runs_what_the_facility_names(ioweather, tmp_path):
    target, lake = tmp_path / "target", tmp_path / "lake"
    target.mkdir()
    lake.mkdir()
    (lake / "facility.toml").write_text(
        f'[filesystem.scratch]\nprobes = ["{target}"]\nmounts = ["/"]\n'
        '[collect]\nprobe_period = "100ms"\nprobe_file = "2MiB"\nprobe_pool = 3\nblock_period = "200ms"\n'
    )
    done = ioweather("collect", "probe", "block", "--lake", lake, "--spool", tmp_path / "spool", "--for", "1s")
    assert done.returncode == 0, done.stderr
    question = "SELECT op, count(*) AS n FROM responses GROUP BY op"
    found = json.loads(ioweather("sql", question, "--lake", lake, "--json").stdout)
    assert len(found) == 7
    assert {row["n"] for row in found} == {status_ticks(tmp_path / "spool")}
    status = read_status(tmp_path / "spool")
    assert [source.name for source in status.sources] == ["probe", "block"]
    assert status.spool.shipped_files >= 1
    assert (target / next(target.iterdir()).name / "data").exists(), "the agent keeps its files for the next start"


def test_collect_ends_in_time_though_a_mount_is_missing(ioweather, tmp_path):
    target, lake = tmp_path / "target", tmp_path / "lake"
    target.mkdir()
    lake.mkdir()
    (lake / "facility.toml").write_text(f'[filesystem.scratch]\nprobes = ["{target}"]\nmounts = ["{target}"]\n')
    done = ioweather("collect", "probe", "block", "--lake", lake, "--spool", tmp_path / "spool", "--for", "1s")
    assert done.returncode == 0, done.stderr
    status = read_status(tmp_path / "spool")
    assert "is not mounted" in status.targets[0].message
    assert list(target.iterdir()) == [], "the disk below the mount stays as it was"


def status_ticks(spool: Path) -> int:
    return read_status(spool).targets[0].ticks


def test_collect_says_what_is_missing(ioweather, tmp_path):
    done = ioweather("collect", "probe", "--lake", tmp_path / "lake", "--for", "1s")
    assert done.returncode == 2
    assert "facility.toml" in done.stderr


def test_export_writes_a_file(ioweather, tmp_path):
    file = tmp_path / "io.prom"
    done = ioweather("export", "--textfile", file, "--once")
    assert done.returncode == 0, done.stderr
    assert "ioweather_up 0.0" in Path(file).read_text()
    assert ioweather("export", "--listen", "nowhere").returncode == 2
