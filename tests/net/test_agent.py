"""The agent as an operator runs it: commands in processes of their own, counters from text that grows, a server."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ioweather
from ioweather.ui.cli import main

OST, MDT = "proc/fs/lustre/obdfilter/fs1-OST0000", "proc/fs/lustre/mdt/fs1-MDT0000"
OPERATIONS = {"read", "write", "write_sync", "stat", "file_read", "delete", "create"}
QUICK = ("--period", "100ms", "--file-size", "2MiB", "--pool", "3", "--for", "600ms")
MMPMON = """#!/bin/sh
cat > /dev/null
n=$(($(cat {folder}/n) + 1)); echo $n > {folder}/n
echo "_fs_io_s_ _n_ 10.0.0.1 _nn_ other _rc_ 0 _t_ $((1700000000 + 10 * n)) _tu_ 0 _cl_ c _fs_ gpfs0 _d_ 1 \
_br_ $((n * 4096)) _bw_ 0 _oc_ $n _cc_ 0 _rdc_ $n _wc_ 0 _dir_ 0 _iu_ 0"
"""


def write_counters(root: Path, count: int) -> None:
    """A host with a disk, an NFS mount, and a Lustre server with one job, after `count` steps."""
    texts = {
        "proc/diskstats": f"   8       0 sda {count} 0 {8 * count} {count} {count} 0 {8 * count} {count} 0 {count} 0\n"
        + (f"   8      16 sdb {count} 0 8 1 1 0 8 1 0 1 0\n" if count % 6 < 3 else ""),
        "proc/stat": f"cpu  {count} 0 0 {3 * count} 0 0 0 0 0 0\n",
        "proc/self/mountstats": "device nas:/export mounted on /nfs with fstype nfs statvers=1.1\n"
        f"\tage:\t{count}\n\tbytes:\t0 0 0 0 {count * 4096} 0 0 0\n\tper-op statistics\n"
        f"\t        READ: {count} {count} 0 0 0 0 {count} {3 * count}\n\n",
        f"{OST}/stats": f"snapshot_time             {1000 + count}.5 secs.usecs\n"
        f"read_bytes                {count} samples [bytes] 4096 1048576 {count * 1048576}\n",
        f"{OST}/kbytesfree": "1000\n",
        f"{MDT}/md_stats": f"snapshot_time             {1000 + count}.5 secs.usecs\nopen {count} samples [reqs]\n",
        f"{OST}/job_stats": 'job_stats:\n- job_id:          "7"\n'
        f"  snapshot_time:   {1000 + count}.000000000 secs.nsecs\n"
        "  start_time:      900.000000000 secs.nsecs\n"
        f"  write_bytes:     {{ samples: {count}, unit: bytes, min: 1, max: 1, sum: {count * 100}, hist: {{ }} }}\n",
    }
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}")
        draft.write_text(text)
        draft.replace(path)


@contextlib.contextmanager
def growing_counters(root: Path) -> Iterator[None]:
    write_counters(root, 1)
    for device in ("sda", "sdb"):
        (root / "sys/block" / device / "slaves").mkdir(parents=True, exist_ok=True)
    over = threading.Event()

    def grow() -> None:
        for count in range(2, 10_000):
            if over.wait(0.1):
                return
            write_counters(root, count)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("agent")
    (folder / "bin").mkdir()
    (folder / "bin/n").write_text("0")
    (folder / "bin/mmpmon").write_text(MMPMON.format(folder=folder / "bin"))
    (folder / "bin/mmpmon").chmod(0o755)
    (folder / "probed").mkdir()
    return folder


@pytest.fixture(scope="module")
def begin(place: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start a command in a process of its own: these commands fork, and take signals."""
    environment = {"PATH": f"{place}/bin:/usr/bin:/bin", "HOME": str(place), "XDG_STATE_HOME": str(place / "state")}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}

    def call(*arguments: object, program: tuple[object, ...] = (sys.executable, "-m", "ioweather")) -> Any:
        command = [*map(str, program), *map(str, arguments)]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=place
        )

    return call


@pytest.fixture(scope="module")
def run(begin: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    def call(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        process = begin(*arguments, **options)
        out, err = process.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    return call


def here(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command that neither measures nor waits for signals, in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.run([*map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def written_settings(place: Path, more: str = "") -> Path:
    lake = place / "lake"
    lake.mkdir(exist_ok=True)
    (lake / "facility.toml").write_text(
        f'clusters = ["big"]\n[filesystem.scratch]\nprobes = ["{place}/probed"]\nmounts = ["/"]\n'
        f'[collect]\nroot = "{place}/root"\nprobe_period = "100ms"\nprobe_file = "2MiB"\nprobe_pool = 3\n'
        + "".join(f'{kind}_period = "200ms"\n' for kind in ("block", "lustre", "gpfs", "nfs"))
        + more
    )
    return lake


@pytest.fixture(scope="module")
def collected(place: Path, run: Callable[..., Any]) -> tuple[Path, dict[str, Any]]:
    """A run of three seconds with all sources: the lake, and the last status."""
    lake, spool = written_settings(place, 'ship_every = "1s"\n'), place / "spool"
    with growing_counters(place / "root"):
        done = run("-v", "agent", "run", "--lake", lake, "--spool", spool, "--for", "3s")
    assert done.returncode == 0, done.stderr
    assert "started on" in done.stderr
    return lake, json.loads((spool / "status.json").read_text())


def query(lake: Path, sql: str) -> list[dict[str, Any]]:
    with ioweather.open_lake(lake).snapshot() as snapshot:
        found = snapshot.query(sql)
        names = [name for name, *_ in found.description]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def test_every_source_reaches_the_lake(collected, run, place):
    lake, status = collected
    rows = query(lake, "SELECT op, count(*) AS n, count(*) FILTER (status = 'ok') AS ok FROM responses GROUP BY op")
    assert {row["op"] for row in rows} == OPERATIONS
    (target,) = status["targets"]
    assert {row["n"] for row in rows} == {target["ticks"]}
    assert sum(row["ok"] for row in rows) == sum(each["ok_count"] for each in target["operations"])
    metrics = query(lake, "SELECT component_kind AS kind, system, metric, sum(value) AS moved FROM series GROUP BY ALL")
    moved: dict[tuple[str, str], float] = {}
    for row in metrics:
        moved[row["kind"], row["metric"]] = moved.get((row["kind"], row["metric"]), 0.0) + row["moved"]
    for kind, metric in (
        ("device", "read_bytes"), ("host", "read_bytes"), ("ost", "read_bytes"), ("ost", "free_bytes"),
        ("oss", "cpu_ratio"), ("mds", "cpu_ratio"), ("mdt", "open_ops"),
    ):  # fmt: skip
        assert moved[kind, metric] > 0, (kind, metric)
    assert {row["system"] for row in metrics if row["kind"] == "host"} == {"gpfs0", "mount:/nfs"}
    jobs = query(lake, "SELECT job_id, cluster, operation, sum(bytes) AS bytes FROM job_operations GROUP BY ALL")
    assert [(row["job_id"], row["cluster"], row["operation"]) for row in jobs] == [(7, "big", "write")]
    labels = [row["label"] for row in query(lake, "SELECT label FROM events")]
    assert "device disappeared" in labels


def test_the_status_has_every_field(collected):
    _, status = collected
    assert list(status) == [
        "host", "pid", "boot_id", "run_id", "state", "started_ns", "written_ns", "period_ns", "spool", "targets",
        "sources", "software_version", "version", "ship_period_ns", "received_ns",
    ]  # fmt: skip
    assert (status["state"], status["version"], status["received_ns"]) == ("stopped", 1, None)
    assert set(status["spool"]) == {
        "directory", "files", "bytes", "limit_bytes", "written_rows", "dropped_rows", "shipped_files", "refused_files",
        "last_ship_ns", "last_ship_ok", "message", "dropped_why", "refused_why",
    }  # fmt: skip
    assert status["spool"]["last_ship_ok"] is True
    assert status["spool"]["files"] == 0
    (target,) = status["targets"]
    assert set(target) == {
        "target", "system", "state", "period_ns", "pid", "access", "ticks", "missed_ticks", "in_flight", "operations",
        "message",
    }  # fmt: skip
    read = target["operations"][0]
    assert set(read) == {
        "op", "request_bytes", "mode", "ok_count", "error_count", "missed_count", "errors", "last", "last_success_ns",
        "expected_ns", "expected_count", "recent", "bucket_counts", "sum_ns",
    }  # fmt: skip
    assert set(read["last"]) == {"start_ns", "status", "scheduled_ns", "duration_ns", "errno", "cached"}
    assert set(read["recent"]) == {"window_ns", "count", "median_ns", "q90_ns", "max_ns"}
    assert sum(read["bucket_counts"]) == read["ok_count"] > 0
    assert [source["name"] for source in status["sources"]] == ["probe", "block", "lustre", "gpfs", "nfs"]
    for source in status["sources"]:
        assert set(source) == {
            "name", "state", "period_ns", "pid", "runs", "failed_runs", "missed_ticks", "rows", "last_start_ns",
            "last_duration_ns", "last_ok", "message",
        }  # fmt: skip
        assert source["runs"] > 0
        assert source["state"] == "stopped"


def test_the_next_agent_records_the_gap_and_goes_on_with_the_files(collected, run, place):
    lake, status = collected
    files = {path.name for path in (place / "probed").rglob("*")}
    assert "data" in files, "the agent keeps its files"
    done = run("agent", "run", "probe", "--lake", lake, "--spool", place / "spool", "--for", "300ms", "--no-ship")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for path in (place / "spool/segments").iterdir()
            for line in path.read_text().splitlines()]  # fmt: skip
    gaps = [row for row in rows if row.get("table") == "events"]
    assert [(row["kind"], row["label"], row["start_ns"]) for row in gaps] == [
        ("gap", "agent stopped", status["written_ns"])
    ]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def get(url: str, seconds: float = 20.0) -> str:
    until = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.read().decode()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def test_metrics_of_a_running_agent_and_a_kill(place, begin, run):
    spool, target = place / "live", place / "live-probed"
    target.mkdir()
    port = free_port()
    measuring = begin("probe", target, *QUICK[:-1], "1min", "--spool", spool, "--name", "mine")
    exporting = begin("agent", "export", "--spool", spool, "--port", port)
    try:
        for _ in range(100):
            text = get(f"http://127.0.0.1:{port}/metrics")
            if "ioweather_response_seconds_count" in text and "ioweather_up 1.0" in text:
                break
            time.sleep(0.1)
        for name in (
            "ioweather_ticks_total", "ioweather_response_seconds_bucket", "ioweather_in_flight_seconds",
            "ioweather_target_ready", "ioweather_spool_rows_total", "ioweather_last_success_timestamp_seconds",
        ):  # fmt: skip
            assert name in text
        shown = here("now", "--spool", spool, "--json")
        assert shown.returncode == 0, shown.stderr
        assert run("probe", target, "--spool", spool, *QUICK).returncode == 2, "the spool has an owner"
        other = run("probe", target, "--name", "mine", "--spool", place / "own", *QUICK)
        assert (other.returncode, "is in use by the probe with pid" in other.stderr) == (2, True)
        measuring.send_signal(signal.SIGTERM)
        out, err = measuring.communicate(timeout=30)
        assert measuring.returncode == 0, err
        assert "rows are queued in" in out
        assert list(target.iterdir()) == []
        assert "ioweather_up 0.0" in get(f"http://127.0.0.1:{port}/metrics")
    finally:
        for process in (measuring, exporting):
            process.terminate()
            process.communicate(timeout=30)
    assert here("agent", "export", "--spool", spool, "--textfile", place / "io.prom", "--once").returncode == 0
    assert "ioweather_up 0.0" in (place / "io.prom").read_text()


def test_a_probe_prints_rows_and_samples_by_size(place, run):
    target = place / "samples"
    target.mkdir()
    done = run("probe", target, place / "none", *QUICK, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    assert {row["op"] for row in rows if row["table"] == "responses"} == OPERATIONS
    shipped = run("probe", target, *QUICK, "--lake", place / "probed-lake", "--keep", "--name", "shared")
    assert (shipped.returncode, "rows are in" in shipped.stdout) == (0, True), shipped.stderr
    assert rows_in(place / "probed-lake", "responses") >= 42
    shutil.rmtree(target / ".ioweather-shared")
    sizes = ("--sizes", "8KiB,2MiB", "--busy", "1", "--json")
    rows = [json.loads(line) for line in run("probe", target, *sizes).stdout.splitlines()]
    kinds = {(row["request_bytes"], row["mode"], row["op"]) for row in rows}
    assert len(rows) == len(kinds) == 8
    for program, arguments, reason in (
        (here, (place / "none", *QUICK), "not a directory"),
        (here, (target, "--sizes", "7"), "multiple of 4096"),
        (run, (target, "--file-size", "200TiB", "--for", "1s"), "free"),
        (run, (target, "--require-mount", place / "mnt", *QUICK), "is not mounted"),
    ):
        done = program("probe", *arguments)
        assert reason in done.stderr or reason in done.stdout, (arguments, done.stderr)
    assert list(target.iterdir()) == []


def test_a_wrong_setting_is_named(place):
    other = place / "other"
    other.mkdir()
    for text, reason in (
        ('probe_period = "soon"', "probe_period"), ("probe_pool = true", "probe_pool"), ("x = 1", "unknown key x"),
        ('push_url = "http://weather.example.org"', "unencrypted"), ('push_url = "https://a.example"', "or neither"),
        ('probe_request = "1000"', "4096"), ("probe_targets = 3", "probe_targets"),
    ):  # fmt: skip
        (other / "facility.toml").write_text(f"[collect]\n{text}\n")
        done = here("agent", "run", "block", "--lake", other, "--for", "100ms")
        assert (done.returncode, reason in done.stderr) == (2, True), done.stderr


@pytest.fixture(scope="module")
def server(place: Path, begin: Callable[..., Any]) -> Iterator[tuple[Path, str, Path]]:
    """A server with a lake of its own: the lake, its address, and the token of this host."""
    lake, token, port = place / "central", place / "token", free_port()
    done = here("serve", "token", "create", socket.gethostname(), "--lake", lake)
    assert done.returncode == 0, done.stderr
    token.touch(0o600)
    token.write_text(done.stdout)
    serving = begin("serve", "--lake", lake, "--port", port)
    get(f"http://127.0.0.1:{port}/healthz")
    yield lake, f"http://127.0.0.1:{port}", token
    serving.send_signal(signal.SIGINT)
    serving.communicate(timeout=30)


def rows_in(lake: Path, table: str) -> int:
    return int(query(lake, f"SELECT count(*) AS n FROM {table}")[0]["n"])


def test_rows_are_pushed_to_a_server_and_its_pages_know_the_agent(place, server, run):
    lake, url, token = server
    settings = written_settings(place, f'ship_every = "500ms"\npush_url = "{url}"\npush_token_file = "{token}"\n')
    write_counters(place / "root", 1)
    done = run("agent", "run", "probe", "block", "--lake", settings, "--spool", place / "pushing", "--for", "1500ms")
    assert done.returncode == 0, done.stderr
    status = json.loads((place / "pushing/status.json").read_text())
    assert (status["spool"]["last_ship_ok"], status["spool"]["files"]) == (True, 0)
    assert status["ship_period_ns"] == 500_000_000
    stored = json.loads(next((lake / "inbox").glob("*/status.json")).read_text())
    assert stored["run_id"] == status["run_id"]
    assert stored["received_ns"] > 0
    expected = sum(each["ok_count"] + each["missed_count"] for each in status["targets"][0]["operations"])
    until = time.monotonic() + 20
    while rows_in(lake, "responses") < expected and time.monotonic() < until:
        time.sleep(0.2)
    assert rows_in(lake, "responses") == expected
    assert "ioweather_remote_up" in get(f"{url}/metrics")
    assert "agent" in here("doctor", "--lake", settings, "--spool", place / "pushing").stdout
    token.chmod(0o644)
    done = run("agent", "run", "block", "--lake", settings, "--spool", place / "pushing", "--for", "300ms")
    status = json.loads((place / "pushing/status.json").read_text())
    assert status["spool"]["last_ship_ok"] is False
    assert "Other users can read" in status["spool"]["message"]
    token.chmod(0o600)


def test_a_refused_file_is_moved_aside(place, run):
    spool = place / "refusing"
    (spool / "segments").mkdir(parents=True, mode=0o700)
    spool.chmod(0o700)
    (spool / "segments/seg-n1-1-1.ndjson").write_text('{"ioweather_spool": 9}\n')
    write_counters(place / "root", 1)
    settings = written_settings(place, 'ship_every = "1s"\n')
    done = run("agent", "run", "block", "--lake", settings, "--spool", spool, "--for", "500ms")
    assert done.returncode == 1
    assert [path.name for path in (spool / "refused").iterdir()] == ["seg-n1-1-1.ndjson"]
    assert "seg-n1-1-1.ndjson" in json.loads((spool / "status.json").read_text())["spool"]["refused_why"]


def pythons() -> list[str]:
    """The oldest Python that the bundle supports, if it is here, else this one."""
    old = sorted((Path.home() / ".pyenv/versions").glob("3.9.*/bin/python3"))
    return [str(old[-1] if old else shutil.which("python3.9") or sys.executable)]


def test_the_bundle_needs_no_package(place, run):
    archive = place / "agent.pyz"
    assert here("agent", "bundle", "--out", archive).returncode == 0
    program = (*pythons(), "-I", "-S", archive)
    settings = {"filesystem": {"scratch": {"probes": [str(place / "probed")]}}, "collect": {"probe_file": "2MiB"}}
    (place / "b.json").write_text(json.dumps(settings))
    options = ("--settings", place / "b.json", "--spool", place / "b")
    assert run("run", "probe", "--no-push", "--for", "500ms", *options, program=program).returncode == 0
    now = run("now", "--spool", place / "b", program=program)
    assert (now.returncode, "write_sync      1 MiB" in now.stdout) == (1, True)
    assert run("doctor", "--spool", place / "b", program=program).returncode == 0
    prom = ("export", "--spool", place / "b", "--textfile", place / "b.prom", "--once")
    assert run(*prom, program=program).returncode == 0
    assert run("run", "cheese", program=program).returncode == 2
