"""The probe beside a C loop that does the same, and beside ioping: what Python adds to an operation, and what it costs.

On a memory file system (storage adds no noise of its own there), each tool in turns: the median time of every
operation, and how much longer ours is. Then the agent as it runs, one cycle a second: processor time per cycle,
resident memory.

    python benchmarks/probe.py [DIRECTORY]
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ioweather.agent.probe import Probe, ProbeSettings
from ioweather.agent.status import read_status

ROUNDS, CYCLES, PERIOD_SECONDS = 5, 60, 0.02
OPERATIONS = ("read", "write", "write_sync", "stat", "file_read", "delete", "create")

C_LOOP = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#define MIB (1 << 20)
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static char small[3901], name[4096];
static const char *file(const char *dir, int n) { snprintf(name, sizeof name, "%s/c%d", dir, n); return name; }
static void create(const char *dir, int n) {
  int fd = open(file(dir, n), O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (write(fd, small, sizeof small) < 0) exit(1);
  close(fd);
}
int main(int argc, char **argv) {
  const char *dir = argv[1];
  int cycles = atoi(argv[2]), blocks = atoi(argv[4]), direct = atoi(argv[5]), pool = 100;
  double pause = atof(argv[3]);
  void *buffer, *target;
  struct stat st;
  if (posix_memalign(&buffer, 4096, MIB) || posix_memalign(&target, 4096, MIB)) return 1;
  for (int i = 0; i < MIB; i++) ((char *)buffer)[i] = rand();
  snprintf(name, sizeof name, "%s/cdata", dir);
  int fd = open(name, O_RDWR | O_CREAT, 0600);
  for (int i = 0; i < blocks; i++) if (pwrite(fd, buffer, MIB, (off_t)i * MIB) != MIB) return 1;
  fdatasync(fd);
  close(fd);
  char data[4096];
  snprintf(data, sizeof data, "%s/cdata", dir);
  for (int i = 0; i < pool; i++) create(dir, i);
  for (int i = 0; i < cycles; i++) {
    struct timespec rest = {0, (long)(pause * 1e9)};
    nanosleep(&rest, NULL);
    double t[9];
    fd = open(data, O_RDWR | (direct ? O_DIRECT : 0));
    struct iovec piece = {buffer, MIB}, into = {target, MIB};
    t[0] = now();
    if (preadv(fd, &into, 1, (off_t)(rand() % blocks) * MIB) != MIB) return 1;
    t[1] = now();
    if (pwritev(fd, &piece, 1, (off_t)(rand() % blocks) * MIB) != MIB) return 1;
    t[2] = now();
    fdatasync(fd);
    t[3] = now();
    close(fd);
    file(dir, i);
    t[4] = now();
    stat(name, &st);
    t[5] = now();
    int g = open(name, O_RDONLY);
    if (read(g, small, sizeof small) < 0) return 1;
    close(g);
    t[6] = now();
    unlink(name);
    t[7] = now();
    create(dir, pool + i);
    t[8] = now();
    printf("%.9f %.9f %.9f %.9f %.9f %.9f %.9f\n", t[1] - t[0], t[2] - t[1], t[3] - t[1], t[5] - t[4], t[6] - t[5],
           t[7] - t[6], t[8] - t[7]);
  }
  for (int i = cycles; i < cycles + pool; i++) unlink(file(dir, i));
  unlink(data);
  return 0;
}
"""


class Durations:
    """Hears the probe and keeps what operations took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def begin(self, op: str, request_bytes: int, scheduled_ns: int | None) -> None: ...
    def document(self, name: str, text: str) -> None: ...
    def progress(self, done: int, total: int | None, what: str) -> None: ...
    def done(self) -> None: ...

    def row(self, table: str, values: Mapping[str, object]) -> None: ...

    def line(self, text: str) -> None:
        row = json.loads(text)
        self.seconds.setdefault(row["op"], []).append(row["duration_ns"] / 1e9)


def ours(folder: Path) -> dict[str, list[float]]:
    heard = Durations()
    probe = Probe(str(folder), ProbeSettings(file_bytes=16 << 20), run_id="benchmark")
    probe.prepare(heard)
    heard.seconds.clear()
    for _ in range(CYCLES):
        time.sleep(PERIOD_SECONDS)
        probe.cycle(time.time_ns(), heard)
    probe.finish(heard)
    return heard.seconds


def c_loop(folder: Path, program: Path, direct: bool) -> dict[str, list[float]]:
    command = [str(program), str(folder), str(CYCLES), str(PERIOD_SECONDS), "16", str(int(direct))]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    columns = zip(*(map(float, line.split()) for line in lines), strict=True)
    return {op: list(column) for op, column in zip(OPERATIONS, columns, strict=True)}


def ioping(folder: Path, direct: bool) -> dict[str, list[float]]:
    """Reads of 1 MiB at random places of a file: the one operation that both have."""
    if shutil.which("ioping") is None:
        return {}
    how = "-D" if direct else "-C"
    command = ["ioping", "-c", str(CYCLES), "-i", str(PERIOD_SECONDS), "-s", "1m", "-S", "16m", how, str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    units = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    times = [float(n) * units[unit] for n, unit in re.findall(r"time=([\d.]+) (ns|us|ms|s)\b", text)]
    return {"read": times}


def compile_loop(folder: Path) -> Path:
    source, program = folder / "loop.c", folder / "loop"
    source.write_text(C_LOOP)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", str(program), str(source)], check=True)
    return program


def compare(folder: Path, program: Path) -> None:
    direct = uses_direct(folder)
    tools: dict[str, Callable[[], dict[str, list[float]]]] = {
        "C loop": lambda: c_loop(folder, program, direct),
        "ioping": lambda: ioping(folder, direct),
        "ioweather": lambda: ours(folder),
    }
    gathered: dict[str, dict[str, list[float]]] = {name: {} for name in tools}
    for _ in range(ROUNDS):
        for name, run in tools.items():
            for op, seconds in run().items():
                gathered[name].setdefault(op, []).extend(seconds)
    print(f"medians of {ROUNDS * CYCLES} cycles {PERIOD_SECONDS * 1e3:.0f} ms apart on {folder}, us")
    print(f"{'operation':<12}{'C loop':>10}{'ioping':>10}{'ioweather':>11}{'added':>9}{'ratio':>8}")
    for op in OPERATIONS:
        middle = {name: statistics.median(found[op]) * 1e6 for name, found in gathered.items() if op in found}
        peer = f"{middle['ioping']:>10.1f}" if "ioping" in middle else f"{'-':>10}"
        added = middle["ioweather"] - middle["C loop"]
        ratio = middle["ioweather"] / middle["C loop"]
        print(f"{op:<12}{middle['C loop']:>10.1f}{peer}{middle['ioweather']:>11.1f}{added:>9.1f}{ratio:>8.2f}")


def uses_direct(folder: Path) -> bool:
    probe = Probe(str(folder), ProbeSettings(file_bytes=2 << 20, pool_files=2), run_id="look")
    heard = Durations()
    ready = probe.prepare(heard)
    probe.finish(heard)
    return ready.access == "direct"


def cost_of_the_agent(folder: Path, spool: Path, seconds: int = 20) -> None:
    """From outside: what the kernel says that its processes used and hold."""
    command = [
        sys.executable,
        "-m",
        "ioweather",
        "probe",
        str(folder),
        "--spool",
        str(spool),
        "--for",
        f"{seconds + 8}s",
    ]
    agent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        pids = _wait_for_start(agent.pid, spool)
        before, started = sum(map(cpu_seconds, pids)), read_status(spool).targets[0].ticks
        time.sleep(seconds)
        used, cycles = sum(map(cpu_seconds, pids)) - before, read_status(spool).targets[0].ticks - started
        memory = [resident_mib(pid) for pid in pids]
    finally:
        agent.terminate()
        agent.wait()
    print(f"agent, 1 cycle a second: {used / cycles * 1e3:.2f} ms of processor time a cycle ({cycles} cycles), "
          f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")  # fmt: skip
    for name, (rss, pss) in zip(("agent", "child"), memory, strict=True):
        print(f"{name}: {rss:.1f} MiB resident, {pss:.1f} MiB with shared pages shared")


def cost_of_the_c_loop(folder: Path, program: Path, seconds: int = 10) -> None:
    """What the operations themselves cost the kernel, whoever asks for them."""
    direct = str(int(uses_direct(folder)))
    loop = subprocess.Popen([program, folder, str(seconds + 6), "0.999", "16", direct], stdout=subprocess.DEVNULL)
    time.sleep(3)
    before = cpu_seconds(loop.pid)
    time.sleep(seconds)
    used = cpu_seconds(loop.pid) - before
    loop.wait()
    print(f"C loop, 1 cycle a second: {used / seconds * 1e3:.2f} ms of processor time a cycle")


def _wait_for_start(pid: int, spool: Path) -> list[int]:
    for _ in range(200):
        time.sleep(0.1)
        if (spool / "status.json").exists():
            target = read_status(spool).targets[0]
            if target.pid is not None and target.ticks >= 3:
                return [pid, target.pid]
    raise SystemExit("the agent did not start")


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_mib(pid: int) -> tuple[float, float]:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rss, pss = (int(re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE)[1]) for name in ("Rss", "Pss"))  # type: ignore[index]
    return rss / 1024, pss / 1024


def main() -> None:
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=parent) as folder, tempfile.TemporaryDirectory() as other:
        program = compile_loop(Path(other))
        compare(Path(folder), program)
        cost_of_the_c_loop(Path(other), program)
        cost_of_the_agent(Path(other), Path(other, "spool"))


if __name__ == "__main__":
    main()
