"""The probe on a file system that is slow, fails and hangs when told to: does it say what the file system did?"""

from __future__ import annotations

import errno
import itertools
import json
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fuse_mounts import DisturbedMount, disturbed_mount
from ioweather.agent.delivery import Shipper
from ioweather.agent.status import Status, read_status
from ioweather.lake.lake import open_lake
from ioweather.ui.cli.main import run

pytestmark = pytest.mark.real
OPERATIONS = ("read", "write", "write_sync", "stat", "file_read", "delete", "create")


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[DisturbedMount]:
    with disturbed_mount(tmp_path) as mounted:
        yield mounted


class ProbeProcess:
    """`ioweather probe` in a process of its own; rows come from its spool when it has ended."""

    def __init__(self, targets: list[Path], spool: Path, period: str) -> None:
        self.spool = spool
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ioweather", "probe", *map(str, targets), "--spool", str(spool), "--period", period,
             "--file-size", "8MiB", "--pool", "20"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def status(self) -> Status:
        return read_status(self.spool)

    def wait_until(self, test: Callable[[Status], bool], seconds: float = 30) -> Status:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if (self.spool / "status.json").exists():
                status = self.status()
                if test(status):
                    return status
            time.sleep(0.05)
        raise AssertionError(f"did not happen: {self.status()}")

    def stop(self) -> list[dict]:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(60) == 0
        rows = []
        for path in (self.spool / "segments").glob("seg-*"):
            rows += [json.loads(line) for line in path.read_text().splitlines()[1:]]
        return [row for row in rows if row["table"] == "responses"]


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Callable[..., ProbeProcess]]:
    begun: list[ProbeProcess] = []

    def begin(*targets: Path, period: str = "200ms") -> ProbeProcess:
        begun.append(ProbeProcess(list(targets), tmp_path / f"spool{len(begun)}", period))
        begun[-1].wait_until(lambda status: all(target.ticks >= 3 for target in status.targets))
        return begun[-1]

    yield begin
    for process in begun:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


def seconds_in(rows: list[dict], first_ns: int, last_ns: int) -> float:
    """Time in operations, each counted once: `write` is part of `write_sync`."""
    counted = [row["duration_ns"] for row in rows if row["op"] != "write" and row["status"] == "ok"
               and first_ns <= row["scheduled_ns"] < last_ns]  # fmt: skip
    return sum(counted) / 1e9


def cycles_in(rows: list[dict], first_ns: int, last_ns: int) -> int:
    """That were run: a busy machine misses some, and their rows say so."""
    return len({row["scheduled_ns"] for row in rows if row["status"] == "ok"
                and first_ns <= row["scheduled_ns"] < last_ns})  # fmt: skip


def test_added_time_is_delay_times_delayed_requests(mount, probe):
    """Delays in requests that are timed, none in what stands around them; within 10%."""
    delay = 0.04
    running = probe(mount.path, period="500ms")
    quiet_from = time.time_ns()
    time.sleep(8)
    quiet_to = time.time_ns()
    # Between two cycles: no cycle is half delayed.
    running.wait_until(lambda status: status.targets[0].state == "waiting")
    mount.disturb({name: {"delay_seconds": delay} for name in ("read", "write", "fsync", "create", "unlink")})
    slow_from = time.time_ns()
    time.sleep(8)
    running.wait_until(lambda status: status.targets[0].state == "waiting")
    mount.disturb({})
    slow_to = time.time_ns()
    rows = running.stop()
    requests = mount.counts
    cycles_slow = cycles_in(rows, slow_from, slow_to)
    usual = seconds_in(rows, quiet_from, quiet_to) / cycles_in(rows, quiet_from, quiet_to) * cycles_slow
    added = seconds_in(rows, slow_from, slow_to) - usual
    slept = requests.pop("slept_seconds")
    told = delay * sum(requests.values())
    print(f"{requests}: added {added:.3f} s, delay x requests {told:.3f} s ({added / told:.3f}), slept {slept:.3f} s")
    assert sum(requests.values()) >= 5 * cycles_slow
    assert slept >= told
    assert added == pytest.approx(slept, rel=0.10)


def test_a_hang_of_20_seconds(mount, probe, tmp_path):
    """Seen in the status and by a scrape within 2 s; the schedule kept; nothing lost; the other path goes on."""
    other = tmp_path / "other"
    other.mkdir()
    running = probe(mount.path, other, period="1s")
    port = 19754
    exporter = subprocess.Popen(
        [sys.executable, "-m", "ioweather", "export", "--spool", str(running.spool), "--port", str(port)],
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(200):
            try:
                scrape(port)
                break
            except OSError:
                time.sleep(0.05)
        began_ns = time.time_ns()
        mount.disturb({"read": {"hang_seconds": 20}})
        running.wait_until(lambda status: in_read(status) > 1e8)
        seen_after = time.time_ns() - began_ns
        shown = scrape(port)
        shown_after = time.time_ns() - began_ns
        assert seen_after < 2e9
        assert shown_after < 2e9
        assert in_flight(shown, mount.path) > 0.1
        later = running.wait_until(lambda status: in_read(status) > 15e9)
        assert later.targets[0].state == "hung"
        assert later.targets[0].missed_ticks >= 13
        assert later.targets[1].missed_ticks <= 1
        assert in_flight(scrape(port), mount.path) > 15
        mount.disturb({})
        running.wait_until(lambda status: status.targets[0].state == "waiting")
    finally:
        exporter.terminate()
        exporter.wait()
    rows = running.stop()
    last = running.status()
    for target in last.targets:
        mine = [row for row in rows if row["target"] == target.target]
        counts = Counter(row["op"] for row in mine)
        assert counts == dict.fromkeys(OPERATIONS, target.ticks), "every operation of every tick is a row"
        times = sorted({row["scheduled_ns"] for row in mine})
        steps = {round((b - a) / 1e9, 2) for a, b in itertools.pairwise(times)}
        assert steps == {1.0}, "the schedule is absolute"
    longest = max(row["duration_ns"] or 0 for row in rows if row["op"] == "read")
    assert longest == pytest.approx(20e9, rel=0.05)


def in_read(status: Status) -> int:
    """Age of the read in flight on the first path."""
    current = status.targets[0].in_flight
    return current.age_ns if current is not None and current.op == "read" else 0


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
        return str(answer.read().decode())


def in_flight(text: str, target: Path) -> float:
    lines = [line for line in text.splitlines()
             if line.startswith("ioweather_in_flight_seconds{") and f'target="{target}"' in line]  # fmt: skip
    return max(float(line.split()[-1]) for line in lines)


def test_a_storm_of_errors_is_survived_and_counted(mount, probe):
    running = probe(mount.path)
    names = ("read", "write", "open", "create", "unlink", "getattr")
    mount.disturb({name: {"errno": errno.EIO} for name in names})
    running.wait_until(lambda status: status.targets[0].operations[0].error_count >= 10)
    stormy = running.status().targets[0]
    assert stormy.state in ("waiting", "running")
    assert stormy.operations[0].errors["EIO"] >= 10
    mount.disturb({})
    before = running.status().targets[0].operations[6].ok_count
    running.wait_until(lambda status: status.targets[0].operations[6].ok_count > before + 5)
    rows = running.stop()
    counts = Counter(row["op"] for row in rows)
    assert len(set(counts.values())) == 1, "errors are rows too"
    # The kernel may answer ESTALE for a file whose lookup failed.
    assert {row["errno"] for row in rows if row["status"] == "error"} - {errno.ESTALE} == {errno.EIO}
    assert [path for path in mount.backing.iterdir() if path.name.startswith(".ioweather")] == []


def test_the_end_does_not_wait_for_a_hanging_child(mount, probe):
    running = probe(mount.path)
    mount.disturb({"read": {"hang_seconds": 25}})
    running.wait_until(lambda status: status.targets[0].state == "hung")
    child = running.status().targets[0].pid
    began = time.monotonic()
    rows = running.stop()
    assert time.monotonic() - began < 10
    pending = [row for row in rows if row["status"] == "pending"]
    assert [row["op"] for row in pending] in (["read"], ["file_read"])  # whichever reads first
    assert pending[0]["duration_ns"] is None
    # It may still be there: in uninterruptible sleep until the file system answers. Then it is gone.
    mount.disturb({})
    end = time.monotonic() + 40
    while Path(f"/proc/{child}").exists() and time.monotonic() < end:
        time.sleep(0.2)
    assert not Path(f"/proc/{child}").exists()


def test_a_file_system_that_goes_away_and_comes_back(tmp_path, probe):
    """Unmounted under the probe and mounted anew: errors meanwhile, then results again, without a restart."""
    with disturbed_mount(tmp_path) as mount:
        running = probe(mount.path)
        for _ in range(100):  # a cycle holds its directory; between two cycles nothing is held
            if subprocess.run(["fusermount3", "-u", str(mount.path)], check=False).returncode == 0:
                break
            time.sleep(0.03)
        running.wait_until(lambda status: status.targets[0].operations[0].error_count >= 2)
        assert running.status().targets[0].missed_ticks <= 2
    (tmp_path / "backing").rename(tmp_path / "kept")
    (tmp_path / "mount").rmdir()
    with disturbed_mount(tmp_path):
        before = running.status().targets[0].operations[0].ok_count
        running.wait_until(lambda status: status.targets[0].operations[0].ok_count > before + 3, 40)
        rows = running.stop()
    counts = Counter(row["op"] for row in rows)
    assert len(set(counts.values())) == 1


def test_a_file_system_that_gives_our_files_to_another_user_is_refused(mount, tmp_path):
    """As an NFS server with root_squash does."""
    mount.disturb({"squash": {"uid": 65534}})
    done = subprocess.run(
        [sys.executable, "-m", "ioweather", "probe", str(mount.path), "--spool", str(tmp_path / "spool"),
         "--for", "1s"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "root_squash" in done.stderr
    assert list(mount.backing.iterdir()) == []


STRETCH = 150  # seconds of the run become minutes of the lake: 36 s are nine intervals of ten minutes
INTERVAL_NS = 600 * 10**9


def stretched_time(moment_ns: int, origin_ns: int) -> int:
    """Two days ago, at the beginning of an interval: a lake refuses rows that lie a day ahead of the clock."""
    return origin_ns // INTERVAL_NS * INTERVAL_NS - 2 * 86400 * 10**9 + (moment_ns - origin_ns) * STRETCH


def stretched(source: Path, target: Path, origin_ns: int) -> None:
    """The same rows with longer pauses between them; what an operation took stays what it took."""
    target.mkdir()
    for path in source.glob("seg-*"):
        header, *lines = path.read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        for row in rows:
            row |= {
                name: stretched_time(row[name], origin_ns) for name in ("start_ns", "scheduled_ns") if row.get(name)
            }
        (target / path.name).write_text("\n".join([header, *map(json.dumps, rows)]) + "\n")


def test_a_planted_slowdown_arrives_in_the_lake_as_an_episode(mount, probe, tmp_path, capsys):
    """From agent through ship and lake to `events`: by how much within 10%, from when to when within one interval."""
    mount.disturb({"read": {"delay_seconds": 0.03}})  # slow by nature, so that a busy machine changes little of it
    running = probe(mount.path, period="400ms")
    begins, counts = [], []
    for delay in (0.03, 0.15, 0.03):
        mount.disturb({"read": {"delay_seconds": delay}})
        begins.append(time.time_ns())
        counts.append(mount.counts)
        time.sleep(12)
    reads = [row for row in running.stop() if row["op"] == "read" and row["status"] == "ok"]
    _, slow, calm = (stretched_time(moment, begins[0]) for moment in begins)

    lake = tmp_path / "lake"
    open_lake(lake, create=True)
    stretched(running.spool / "segments", tmp_path / "cargo", begins[0])
    shipper = Shipper(lake)
    shipper.start(sorted((tmp_path / "cargo").iterdir()), 0)
    while (shipment := shipper.poll(0)) is None:
        time.sleep(0.05)
    assert shipment.ok, shipment.message
    assert not list((tmp_path / "cargo").iterdir())

    assert run(["events", "--kind", "episode", "--lake", str(lake), "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["result"]["events"]
    (episode,) = [event for event in events if event["label"] == "slow read"]
    usual = statistics.median(row["duration_ns"] for row in reads if begins[0] <= row["start_ns"] < begins[1])
    # What the file system did beside its sleep it did before too. Small files are read as well: the sleep of one.
    slept, requests = (counts[2][name] - counts[1][name] for name in ("slept_seconds", "read"))
    ratio = (usual - 0.03e9 + slept / requests * 1e9) / usual
    assert episode["strength_ratio"] == pytest.approx(ratio, rel=0.10)
    assert (episode["start_ns"], episode["end_ns"]) == pytest.approx((slow, calm), abs=INTERVAL_NS)
