"""A scan with all histograms beside `find -printf`, `du` and a bare loop in Python, on a tree of a million entries.

    python benchmarks/scan.py [--entries 1000000] [--workers 2] [--where DIR] [--realtime]

All warm, in one run, in turn; the best of several rounds counts. fsstats, the tool of car11, does 46,000 entries per
second of processor time; it is not run here. On a busy machine --realtime (as root) lets what is measured go first.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FSSTATS_PER_CPU_SECOND = 46_000
FORM = "%s %b %T@ %A@ %C@ %U %G %n %p\n"
SCAN = """
import sys, time
from pathlib import Path
from ioweather.lake.workers import Processes
from ioweather.readers.scan.scanner import Scan, ScanState, plan_scan
plan, workers = plan_scan(Path(sys.argv[1]), start_ns=time.time_ns()), int(sys.argv[2])
executor = Processes(workers) if workers > 1 else None
print(Scan(plan, ScanState(), executor, workers).run().counts["entries"])
"""


BARE = """
import os, sys
entries, folders = 0, [sys.argv[1]]
while folders:
    with os.scandir(folders.pop()) as listing:
        for entry in listing:
            entries += 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                entry.stat(follow_symlinks=False)
print(entries)
"""


@dataclass(frozen=True)
class Cost:
    seconds: float
    cpu_seconds: float
    peak_bytes: int = 0


def make_tree(root: Path, entries: int) -> None:
    """Directories of 10 to 1,000 files; sizes with a long tail, written to two years ago, of three users."""
    rng = random.Random(1)
    now = time.time()
    made = 0
    number = 0
    while made < entries:
        folder = root / f"project{number % 20}" / f"user{number % 7}" / f"run{number}"
        folder.mkdir(parents=True)
        owner = (1001 + number % 3, 100 + number % 2)
        fd = os.open(folder, os.O_RDONLY)
        count = min(rng.choice([10, 50, 100, 300, 1000]), entries - made)
        for index in range(count):
            name = f"output_{index:06d}.{rng.choice(['dat', 'h5', 'nc', 'txt', 'log'])}"
            file = os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
            os.ftruncate(file, int(rng.lognormvariate(11, 3)))
            if os.geteuid() == 0:
                os.fchown(file, *owner)
            age = rng.uniform(0, 730 * 86_400)
            os.utime(file, (now - age * rng.random(), now - age))
            os.close(file)
        os.close(fd)
        made += count + 1
        number += 1


def resident_bytes(pid: int) -> int:
    """Memory of a process and its children, what they share counted once."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) << 10
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            total += resident_bytes(int(child))
    except OSError:
        return total  # it has just ended
    return total


def cost(command: list[str], watch: bool = False) -> Cost:
    before, started = children_seconds(), time.perf_counter()
    peak = 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    done = threading.Event()

    def look() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, resident_bytes(process.pid))

    watcher = threading.Thread(target=look)
    if watch:
        watcher.start()
    process.wait()
    seconds = time.perf_counter() - started
    done.set()
    if watch:
        watcher.join()
    return Cost(seconds, children_seconds() - before, peak)


def children_seconds() -> float:
    """Finer than the hundredths of os.times."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def best(work: Callable[[], Cost], rounds: int) -> Cost:
    """The least of each: what it costs, not what the neighbours do."""
    found = [work() for _ in range(rounds)]
    return Cost(
        min(c.seconds for c in found), min(c.cpu_seconds for c in found), max(c.peak_bytes for c in found)
    )  # fmt: skip


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--entries", type=int, default=1_000_000)
    arguments.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--where", type=Path, default=None)
    arguments.add_argument("--realtime", action="store_true")
    given = arguments.parse_args()
    root = Path(tempfile.mkdtemp(prefix="ioweather-scan-", dir=given.where))
    try:
        started = time.perf_counter()
        make_tree(root, given.entries)
        print(f"{given.entries:,} entries made in {time.perf_counter() - started:.0f} s; load {os.getloadavg()[0]:.1f}")
        peers = {
            "find -printf": ["find", str(root), "-printf", FORM],
            "du": ["du", "-s", str(root)],
            "bare scandir and stat": [sys.executable, "-c", BARE, str(root)],
            "scan, 1 process": [sys.executable, "-c", SCAN, str(root), "1"],
            f"scan, {given.workers} processes": [sys.executable, "-c", SCAN, str(root), str(given.workers)],
        }
        if given.realtime:
            peers = {name: ["chrt", "-f", "1", *command] for name, command in peers.items()}
        cost(peers["find -printf"])  # warm
        # In turn, so that a noisy minute falls on all.
        costs: dict[str, list[Cost]] = {name: [] for name in peers}
        for _ in range(given.rounds):
            for name, command in peers.items():
                costs[name].append(cost(command))
        least = {name: best(iter(found).__next__, len(found)) for name, found in costs.items()}
        find = least["find -printf"]
        print(f"{'':22} {'seconds':>8} {'cpu s':>7} {'entries/cpu s':>14} {'x find':>7} {'x fsstats':>9}")
        for name, found in least.items():
            rate = given.entries / found.cpu_seconds
            print(
                f"{name:22} {found.seconds:8.2f} {found.cpu_seconds:7.3f} {rate:14,.0f} "
                f"{find.seconds / found.seconds:7.2f} {rate / FSSTATS_PER_CPU_SECOND:9.1f}"
            )
        watched = cost([sys.executable, "-c", SCAN, str(root), str(given.workers)], watch=True)
        print(f"peak memory of all processes together: {watched.peak_bytes / 1e6:.0f} MB (shared pages once)")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
