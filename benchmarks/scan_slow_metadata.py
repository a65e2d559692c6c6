"""A scan with many walkers beside `find`, where every metadata operation takes 2 ms, as on a busy parallel file system.

    python benchmarks/scan_slow_metadata.py [--entries 100000] [--workers 16] [--delay-us 2000]

The file system is slow_metadata.c (FUSE; needs root and a C compiler), mounted anew for each, so that nothing is known
to the kernel. First without delay, to show that it sustains ten times what the scan asks of it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scan import FORM, SCAN, Cost, cost

FILES = 100  # of each directory


def on_mounted(server: list[str], where: Path, command: list[str]) -> tuple[Cost, int]:
    """What the command cost, and how many metadata operations it asked for."""
    process = subprocess.Popen(server, stdout=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(where):
            if process.poll() is not None:
                raise SystemExit("The file system did not start: it needs root.")
            time.sleep(0.02)
        found = cost(command, watch=True)
    finally:
        subprocess.run(["umount", where], check=False)
    return found, int(process.communicate()[0])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--entries", type=int, default=100_000)
    arguments.add_argument("--workers", type=int, default=16)
    arguments.add_argument("--delay-us", type=int, default=2_000)
    given = arguments.parse_args()
    directories = given.entries // FILES
    entries = directories * (FILES + 1)
    with tempfile.TemporaryDirectory(prefix="ioweather-slow-") as folder:
        server, where = Path(folder, "server"), Path(folder, "mount")
        where.mkdir()
        subprocess.run(["cc", "-O2", "-o", server, Path(__file__).with_name("slow_metadata.c")], check=True)
        print(f"{entries:,} entries, {FILES} in a directory; load {os.getloadavg()[0]:.1f}")
        halves = [f"find {where}/d*[{digits}] -printf '%s'" for digits in ("0-4", "5-9")]
        commands = {
            "no delay, two find at once": ["sh", "-c", f"{' & '.join(halves)} & wait"],
            "find": ["find", str(where), "-printf", FORM],
            f"scan, {given.workers} walkers": [sys.executable, "-c", SCAN, str(where), str(given.workers)],
        }
        seconds = {}
        print(f"{'':28} {'seconds':>8} {'operations/s':>13} {'x find':>7} {'MiB':>5}")
        for name, command in commands.items():
            delay_us = 0 if name.startswith("no delay") else given.delay_us
            words = [str(server), str(where), str(directories), str(FILES), str(delay_us)]
            found, operations = on_mounted(words, where, command)
            seconds[name] = found.seconds
            times = f"{seconds['find'] / found.seconds:7.1f}" if "find" in seconds else f"{'':7}"
            rate = operations / found.seconds
            print(f"{name:28} {found.seconds:8.2f} {rate:13,.0f} {times} {found.peak_bytes / 2**20:5.0f}", flush=True)


if __name__ == "__main__":
    main()
