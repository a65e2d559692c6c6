"""What a look at the jobs of Lustre targets costs the agent: 10,000 jobs on one target, and the same on 100 targets.

The peer is PyYAML's C loader on the same text, where it is installed: job_stats is YAML. Run: python
benchmarks/lustre_jobs.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ioweather.agent.counters import LustreServer

JOBS = 10_000
OPERATIONS = (
    "getattr",
    "setattr",
    "sync",
    "destroy",
    "create",
    "statfs",
    "get_info",
    "set_info",
    "quotactl",
    "prealloc",
)


class Counts:
    """A reporter that only counts."""

    def __init__(self) -> None:
        self.rows = 0

    def row(self, table: str, values: object) -> None:
        self.rows += 1


def entry(number: int, look: int) -> str:
    """As 2.14 shows one: reads, writes and truncates happened, the rest did not."""
    amount = "samples: {:11}, unit: {}, min: {:8}, max: {:8}, sum: {:16}, sumsq: {:18}"
    sizes = f"32K: 1, 64K: 1, 128K: 4, 256K: 11, 512K: 8, 1M: 13, 2M: 21, 4M: 38, 8M: 98, 16M: {666 + look}"
    moved = amount.format(861 + look, "bytes", 24576, 16777216, 11025514496 + (look << 24), 166242808078794752)
    timed = amount.format(861 + look, "usecs", 65, 34699, 7304967 + look, 80724646151)
    lines = [f"  {name}_bytes: {{ {moved}, hist: {{ {sizes} }} }}\n" for name in ("read", "write")]
    lines += [f"  {name}: {{ {timed} }}\n" for name in ("read", "write", "punch")]
    lines += [f"  {name}: {{ {amount.format(0, 'usecs', 0, 0, 0, 0)} }}\n" for name in OPERATIONS]
    return (
        f'- job_id:          "app:{1000 + number}:node{number:05}"\n'
        f"  snapshot_time:   {1723114647 + 10 * look}.887515895 secs.nsecs\n"
        f"  start_time:      1723102025.057286226 secs.nsecs\n  elapsed_time:    12622.830229669 secs.nsecs\n"
        + "".join(lines)
    )


def write(root: Path, targets: int, jobs: int, active: int, look: int) -> None:
    """A list per target, in which the first jobs did something since the look before."""
    idle = "".join(entry(number, 0) for number in range(active, jobs))
    busy = "".join(entry(number, look) for number in range(active))
    for target in range(targets):
        folder = root / f"proc/fs/lustre/obdfilter/fs-OST{target:04x}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "job_stats").write_text("job_stats:\n" + busy + idle)


def looks(targets: int, jobs: int, active: int) -> tuple[list[float], int]:
    """CPU seconds of three looks, the first of which knows nothing yet; rows of the last."""
    seconds, counts = [], Counts()
    with tempfile.TemporaryDirectory() as folder:
        server = LustreServer(root=Path(folder), host="oss1")
        for look in range(3):
            # By another process: what making the text takes is not the agent's.
            asked = (folder, targets, jobs, active, look)
            subprocess.run([sys.executable, __file__, *map(str, asked)], check=True)
            counts.rows, start = 0, time.process_time()
            server.cycle(0, counts)  # type: ignore[arg-type]
            seconds.append(time.process_time() - start)
    return seconds, counts.rows


def peer_seconds() -> float | None:
    try:
        import yaml
    except ImportError:
        return None
    if not hasattr(yaml, "CSafeLoader"):
        return None
    text = "".join(entry(number, 0) for number in range(JOBS // 20))
    start = time.process_time()
    yaml.load(text, yaml.CSafeLoader)
    return 20 * (time.process_time() - start)


def main() -> int:
    for targets, jobs, active in ((1, JOBS, JOBS // 10), (1, JOBS, JOBS), (100, JOBS // 100, JOBS // 1000)):
        (first, *_, last), rows = looks(targets, jobs, active)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{targets:3} target(s), {jobs:5} jobs each, {active:5} active: first look {first:.2f} CPU-s, "
              f"later {last:.2f} CPU-s, {rows:,} rows; {memory:.0f} MB at most so far")  # fmt: skip
    peer = peer_seconds()
    if peer is not None:
        print(f"PyYAML's C loader alone, {JOBS:,} jobs: {peer:.2f} CPU-s")
    return 0


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write(Path(sys.argv[1]), *map(int, sys.argv[2:]))
    else:
        sys.exit(main())
