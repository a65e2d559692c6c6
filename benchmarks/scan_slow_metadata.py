"""A scan with many walkers beside `find`, where every metadata operation takes 2 ms, as on a busy parallel file system.

    python benchmarks/scan_slow_metadata.py [--entries 100000] [--workers 16] [--delay-us 2000]

The file system is slow_metadata.c (FUSE; needs root and a C compiler), mounted anew for each, so that nothing is known
to the kernel. First without delay, to show that it alone, by its own processor time, sustains ten times what the scan
asks of it.
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


def on_mounted(server: list[str], where: Path, command: list[str]) -> tuple[Cost, int, float]:
    """What the command cost, how many metadata operations it asked for, and processor seconds of the server."""
    process = subprocess.Popen(server, stdout=subprocess.PIPE, text=True)
    try:
        while not os.path.ismount(where):
            if process.poll() is not None:
                raise SystemExit("The file system did not start: it needs root.")
            time.sleep(0.02)
        found = cost(command, watch=True)
    finally:
        subprocess.run(["umount", where], check=False)
    assert process.stdout is not None
    operations = int(process.stdout.read())
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return found, operations, used.ru_utime + used.ru_stime


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
            "server alone, no delay": ["sh", "-c", f"{' & '.join(halves)} & wait"],
            "find": ["find", str(where), "-printf", FORM],
            f"scan, {given.workers} walkers": [sys.executable, "-c", SCAN, str(where), str(given.workers)],
        }
        seconds = {}
        print(f"{'':28} {'seconds':>8} {'operations/s':>13} {'x find':>7} {'MiB':>5}")
        for name, command in commands.items():
            alone = name.startswith("server")
            words = [str(server), str(where), str(directories), str(FILES), str(0 if alone else given.delay_us)]
            found, operations, server_cpu = on_mounted(words, where, command)
            seconds[name] = server_cpu if alone else found.seconds
            times = f"{seconds['find'] / seconds[name]:7.1f}" if "find" in seconds else f"{'':7}"
            rate = operations / seconds[name]
            print(f"{name:28} {seconds[name]:8.2f} {rate:13,.0f} {times} {found.peak_bytes / 2**20:5.0f}", flush=True)


if __name__ == "__main__":
    main()
