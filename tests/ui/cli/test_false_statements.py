"""What a screen says is true of the data it is about."""

from __future__ import annotations

import json

import pytest
from small_facility import make_small_lake

from ioweather.lake.lake import open_lake
from planted_advice import own, requests, shared, view_of
from planted_logs import MIB, write_climate


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make_small_lake(tmp_path_factory.mktemp("statements")).root


def test_an_incomplete_log_and_all_advice_are_in_the_short_view(call, tmp_path):
    log = write_climate(tmp_path / "p.darshan", partial=("POSIX",))
    for command in ("job", "why"):
        code, out, _ = call(command, log, "--lake", open_lake(tmp_path / "lake", create=True).root)
        assert code == 0
        assert "The log is incomplete" in out, command


def test_reads_from_memory_are_in_the_short_view(call, tmp_path):
    rows = [own(0, **requests("READ", 4096, MIB, 0.5)), own(1, **requests("WRITE", 64, MIB, 40.0))]
    view_of(tmp_path / "a.darshan", {"POSIX": rows}, 2)
    code, out, _ = call("job", tmp_path / "a.darshan")
    assert code == 0
    assert "Reads came from memory" in out
    assert "\n  write " in out
    assert "\n  writing " in out


@pytest.mark.parametrize("command", ["job", "why"])
def test_a_real_log_is_not_called_simulated(call, small, tmp_path, command):
    log = write_climate(tmp_path / "real.darshan")
    code, out, _ = call(command, log, "--lake", small)
    assert code == 0
    assert "This facility is simulated" not in out
    job = json.loads(call("runs", "--lake", small, "--json")[1])["result"]["runs"][0]["job_id"]
    assert "This facility is simulated" in call(command, job, "--lake", small)[1]


def test_the_state_of_a_file_system_does_not_depend_on_the_period(call, small):
    found = json.loads(call("storage", "--lake", small, "--json")[1])["result"]
    state = found["filesystems"][0]
    assert state["slowdown"] is not None
    for hours in (1, 6, 12):
        start = f"@{(found['end_ns'] - hours * 3_600_000_000_000) // 1_000_000_000}"
        other = json.loads(call("storage", "--lake", small, "--from", start, "--json")[1])["result"]["filesystems"][0]
        for name in ("slowdown", "slowest_op", "slow", "read_bytes_per_s", "write_bytes_per_s", "load_ratio"):
            expected = pytest.approx(state[name]) if isinstance(state[name], float) else state[name]
            assert other[name] == expected, name


def test_who_names_the_hour_that_it_looks_at(call, small):
    _, out, _ = call("who", "--lake", small)
    assert "This is the last hour with jobs" in " ".join(out.split())
    _, out, _ = call("who", "--from", "2026-03-02", "--lake", small)
    assert "last hour" not in out


def test_without_a_declared_peak_there_is_no_share_of_it(call, small, tmp_path):
    lake = make_small_lake(tmp_path / "lake").root
    file = lake / "facility.toml"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "peak_bytes_per_s" not in line))
    state = json.loads(call("storage", "--lake", lake, "--json")[1])["result"]["filesystems"][0]
    assert (state["load_ratio"], state["peak_bytes_per_s"]) == (None, None)
    assert (
        json.loads(call("storage", "--lake", small, "--json")[1])["result"]["filesystems"][0]["load_ratio"] is not None
    )
    assert "of its" not in call("storage", "--lake", lake)[1].splitlines()[0].partition("usual time")[2]


def test_no_fix_is_a_question_or_for_another_file_system(call, tmp_path):
    rows = [shared(slowest=60.0, fastest=5.0, **requests("WRITE", 400, MIB, 70.0))]
    rows += [own(rank, **requests("WRITE", 40, MIB, 30.0 if rank else 1.0)) for rank in range(4)]
    view_of(tmp_path / "a.darshan", {"POSIX": rows}, 4, mounts=(("/scratch", "moosefs"), ("/", "ext4")))
    seen = json.loads(call("job", tmp_path / "a.darshan", "--json")[1])["result"]["seen"]
    lines = [line for item in seen for line in item["fix"]]
    assert lines
    assert not [line for line in lines if "?" in line or line.startswith("lfs ")]
