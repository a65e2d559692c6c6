"""The goals of speed in one table: work, ours, a peer in the same run, ratio, goal, met or not.

    python benchmarks/table.py [--lake DEMO] [--ships 400] [--small 1000] [--days 30] [--write docs/reference/speed.md]

Processor seconds of child processes, the least of --repeat: other work on the machine only ever adds to them. A figure
in seconds depends on the machine; beside it stands what importing NumPy, DuckDB and Delta alone takes there. Without
--lake a demonstration is made first, which takes about a minute. What fails has a line that says so, and the rest goes
on. The other scripts of this folder look at one subject each, with more cases.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import darshan_read
import engine
import hdf5_day
import viewers

HERE = Path(__file__).parent
IOWEATHER = Path(sys.executable).with_name("ioweather")
IMPORTS = [sys.executable, "-c", "import numpy, duckdb, deltalake"]
_LONGEST_SECONDS = 300  # a command that hangs is one line
PLAIN_DAY = "import sys, hdf5_day; from pathlib import Path; hdf5_day.plain(Path(sys.argv[1]))"


# What is installed is compiled.
ONE_THREAD = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | {
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": str(HERE),
}
# Seconds of the process that commits, of all, and by the clock.
INGEST = """
import json, resource, sys, time
from pathlib import Path
from ioweather.lake.workers import Processes
from ioweather.lake.lake import open_lake
from reader_processes import stop_readers
from ioweather.ingestion.ingest import ingest
lake, workers = open_lake(Path(sys.argv[2]), create=True), int(sys.argv[3])
own, clock = time.process_time(), time.perf_counter()
report = ingest(lake, [Path(sys.argv[1])], executor=Processes(workers))
own, clock = time.process_time() - own, time.perf_counter() - clock
stop_readers()
children = resource.getrusage(resource.RUSAGE_CHILDREN)
assert not report.bad
print(json.dumps([own + children.ru_utime + children.ru_stime, clock]))
"""
READ = """
import sys, time
from pathlib import Path
from ioweather.readers.darshan.darshan_reader import read_log
files = [str(path) for path in Path(sys.argv[1]).iterdir()]
begun = time.process_time()
for file in files:
    read_log(file)
print(time.process_time() - begun)
"""


@dataclass(frozen=True)
class Line:
    work: str
    ours: str
    peer: str
    theirs: str
    ratio: str
    goal: str
    met: bool | None

    def cells(self) -> tuple[str, ...]:
        met = {True: "yes", False: "no", None: "–"}[self.met]
        return (self.work, self.ours, self.peer, self.theirs, self.ratio, self.goal, met)


_FLAT = 1.15
HEAD = ("work", "ours", "peer", "peer's", "ratio", "goal", "met")


def cost(command: Sequence[str | Path], repeat: int) -> tuple[float, float]:
    """Processor seconds and peak MiB of a command and its children, the least of each."""
    program = (
        "import json, resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "u = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([u.ru_utime + u.ru_stime, u.ru_maxrss / 1024]))"
    )
    runs = []
    for _ in range(repeat):
        done = run([sys.executable, "-c", program, *map(str, command)])
        runs.append(json.loads(done))
    return min(run[0] for run in runs), min(run[1] for run in runs)


def run(command: Sequence[str | Path]) -> str:
    """What it wrote."""
    done = subprocess.run(command, capture_output=True, text=True, env=ONE_THREAD, timeout=_LONGEST_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{command[-1]}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    return done.stdout


def times(work: str, ours: float, peer: str, theirs: float, at_least: float) -> Line:
    ratio = theirs / ours
    return Line(work, f"{ours:.3f} s", peer, f"{theirs:.3f} s", f"{ratio:.1f}x", f">= {at_least:g}x", ratio >= at_least)


def seconds(work: str, ours: float, peer: str, theirs: float, at_most: float) -> Line:
    ratio = f"{ours / theirs:.1f} of it"
    return Line(work, f"{ours:.2f} s", peer, f"{theirs:.2f} s", ratio, f"<= {at_most:g} s", ours <= at_most)


def darshan(folder: Path, repeat: int) -> Iterator[Line]:
    """The same result on both sides: every record and name as arrays, or a data frame of every module."""
    large = folder / "large.darshan"
    darshan_read.write_large_log(large, 100_000)
    logs = darshan_read.distinct_logs(None)
    for title, paths in ((f"{len(logs)} different Darshan logs", logs), ("a log of 100,000 records", [str(large)])):
        for kind, (ours, theirs) in darshan_read.compare(paths, repeat).items():
            yield times(f"{title}, {kind}", ours[0], darshan_read.peer(), theirs[0], 2.5)
        share = ours[1] / theirs[1]
        yield Line("the same, memory", f"{ours[1]:.0f} MiB", darshan_read.peer(), f"{theirs[1]:.0f} MiB",
                   f"{share:.2f} of it", "<= 0.75 of it", share <= 0.75)  # fmt: skip


def lmt_day(folder: Path, repeat: int) -> Iterator[Line]:
    path = folder / "fs1_2018-01-28.hdf5"
    hdf5_day.make_archive(path)
    ours = []
    for number in range(repeat):
        ours.append(cost([IOWEATHER, "ingest", path, "--lake", folder / f"lake{number}"], 1))
    taken, memory = min(run[0] for run in ours), min(run[1] for run in ours)
    theirs = cost([sys.executable, "-c", PLAIN_DAY, path], repeat)
    peer = "h5py + pandas, to memory alone"
    yield seconds(
        "`ingest` of a day of LMT, 248 OSTs: rows, sealed, and searched for incidents", taken, peer, theirs[0], 2.0
    )
    share = f"{memory / theirs[1]:.1f} of it"
    yield Line("the same, memory", f"{memory:.0f} MiB", peer, f"{theirs[1]:.0f} MiB", share, "", None)


def _is_idle() -> bool:
    """But for us: where others work, the clock tells of them."""
    return os.getloadavg()[0] <= 3.0


def many_logs(folder: Path, count: int, repeat: int) -> Iterator[Line]:
    engine.small_logs(folder, count)
    found: dict[int, list[float]] = {}
    for workers in (1, 2):
        runs = [
            json.loads(
                run([sys.executable, "-c", INGEST, folder / "small", folder / f"logs{workers}{n}", str(workers)])
            )
            for n in range(repeat)
        ]
        found[workers] = [min(values) for values in zip(*runs, strict=True)]
    total, clock = found[1]
    alone = min(float(run([sys.executable, "-c", READ, folder / "small"])) for _ in range(repeat))
    rates, peer = (count / total, count / alone), "reading them, without rows"
    yield Line(
        f"`ingest` of {count:,} small Darshan logs",
        f"{rates[0]:,.0f} logs/s",
        peer,
        f"{rates[1]:,.0f} logs/s",
        f"{rates[0] / rates[1]:.2f} of it",
        ">= 2,500 logs/s",
        rates[0] >= 2500,
    )
    gain = clock / found[2][1]
    yield Line(
        "the same, 2 workers, by the clock",
        f"{found[2][1]:.2f} s",
        "1 worker",
        f"{clock:.2f} s",
        f"{gain:.2f}x",
        ">= 1.8x",
        gain >= 1.8 if _is_idle() else None,
    )


def scans(entries: int, rounds: int) -> Iterator[Line]:
    printed = run([sys.executable, HERE / "scan.py", "--entries", str(entries), "--rounds", str(rounds)])
    ours, find = (float(printed.partition(f"\n{name}")[2].split()[1]) for name in ("scan, 1 process", "find -printf"))
    yield Line(
        f"a scan of {entries:,} entries, warm, all histograms",
        f"{ours:.2f} s",
        "find -printf",
        f"{find:.2f} s",
        f"{ours / find:.1f} of it",
        "",
        None,
    )


def ships(count: int) -> Iterator[Line]:
    done = run([sys.executable, HERE / "ships.py", "--ships", str(count), "--hosts", "20"])
    lines = [line.split() for line in done.splitlines()[1:] if line.split()[0].isdigit()]
    # Without the first fifth, in which there is nothing yet to compare with, and no file to merge.
    halves = lines[2:6], lines[6:]
    first, last = (sum(float(line[1]) for line in half) / len(half) for half in halves)
    plain = [sum(float(line[2]) for line in half) / len(half) for half in halves]
    growth, theirs = last / first, plain[1] / plain[0]
    peer = "write_deltalake alone"
    ratio = f"{growth:.2f} of the first half (peer {theirs:.2f})"
    work = f"a commit and its ledger entry, second half of {count:,} ships into one day"
    # Where the peer's own cost moved as much, the run tells of the machine and not of the lake.
    flat = None if theirs > _FLAT else growth <= _FLAT
    yield Line(work, f"{last:.0f} ms", peer, f"{plain[1]:.0f} ms", ratio, f"<= {_FLAT} of the first half", flat)


def answers(lake: Path, repeat: int) -> Iterator[Line]:
    least = cost(IMPORTS, repeat)[0]
    peer = "import numpy, duckdb, deltalake"
    job = viewers.newest_job(lake)
    for name, goal in (("why", 1.2), ("job", 1.0)):
        yield seconds(f"`{name} JOB`", cost([IOWEATHER, name, job, "--lake", lake], repeat)[0], peer, least, goal)
    with tempfile.TemporaryDirectory() as place:
        copy = shutil.copytree(lake, Path(place) / "lake", ignore=shutil.ignore_patterns("exhibits"))
        report = [IOWEATHER, "report", "--lake", copy, "--out", Path(place) / "report.html"]
        yield seconds("`report`, nothing kept", cost(report, 1)[0], peer, least, 10.0)


def pages(lake: Path, repeat: int) -> Iterator[Line]:
    least = cost(IMPORTS, repeat)[0]
    found = viewers.measure(lake, viewers.newest_job(lake), 20, 20)
    peer = "import numpy, duckdb, deltalake"
    yield seconds("first view of a job's page", found["first_view"], peer, least, 1.0)
    yield seconds("the same, below its first screens", found["evidence"], peer, least, 1.0)
    work, asking = "a page for one of 20 people who ask once a second, p95", "to ask for it"
    ours, theirs = f"{found['p95']:.0f} ms", f"{found['people_cpu']:.1f} ms of processor time"
    ratio = f"{found['server_cpu']:.1f} ms of processor time"
    yield Line(work, ours, asking, theirs, ratio, "<= 150 ms", found["p95"] <= 150)


def climate(days: int) -> Iterator[Line]:
    printed = run([sys.executable, HERE / "climate_year.py", "--lake", "--days", str(days)])
    found = re.search(r"processor seconds: ([\d.]+) with nothing kept, .* ([\d.]+) of what days left", printed)
    if found is None:
        raise RuntimeError(f"climate_year.py printed {printed}")
    work = f"all 17 exhibits of pat19, {days} sealed days of 248 targets"
    kept, plain = float(found[2]), float(found[1])
    yield seconds(work, plain, "the same, from sums of sealed days", kept, 3.0 * max(days / 30, 1))


def machine() -> str:
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in cpuinfo if "model name" in line), platform.machine())
    return (
        f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {model}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
    )


def page(lines: Sequence[Line]) -> str:
    rows = "\n".join(f"| {' | '.join(line.cells())} |" for line in lines)
    return (
        "# Speed\n\nWritten by `make bench`: processor seconds, the least of several, beside a peer in the same run.\n"
        "On a machine that others use too, all seconds are longer, ours and the peer's: compare ratios.\n"
        "A dash: no goal, or the peer's own figure moved too much in this run to tell.\n"
        "Of Darshan logs, both sides make every record and name as arrays, or a frame of every module.\n\n"
        f"{machine()}.\n\n| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}\n{rows}\n"
    )


def carried_on(name: str, part: Callable[[], Iterator[Line]]) -> Iterator[Line]:
    try:
        yield from part()
    except Exception as error:
        yield Line(name, "failed", "", "", f"{type(error).__name__}: {error}"[:200].replace("|", "/"), "", False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--lake", type=Path)
    parser.add_argument("--ships", type=int, default=400)
    parser.add_argument("--small", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lake = arguments.lake
        if lake is None:
            lake = folder / "demo"
            subprocess.run([IOWEATHER, "demo", "--out", lake], check=True, stdout=subprocess.DEVNULL)
        repeat = arguments.repeat
        parts: dict[str, Callable[[], Iterator[Line]]] = {
            "Darshan logs": lambda: darshan(folder, repeat),
            "`ingest` of small Darshan logs": lambda: many_logs(folder, 20 * arguments.small, repeat),
            "a day of LMT": lambda: lmt_day(folder, repeat),
            "answers": lambda: answers(lake, repeat),
            "pages": lambda: pages(lake, repeat),
            "exhibits of pat19": lambda: climate(arguments.days),
            "ships": lambda: ships(arguments.ships),
            "scans": lambda: scans(100_000, repeat),
        }
        for name, part in parts.items():
            for line in carried_on(name, part):
                lines.append(line)
                print(" | ".join(line.cells()), flush=True)
    text = page(lines)
    print(f"\n{text}")
    if arguments.write is not None:
        arguments.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
