"""Records the block device of this machine: `python tests/data/recorded/record_diskstats.py DEVICE`.

Writes `diskstats.log` (the device's line of /proc/diskstats each 0.25 s, stamped in ns) and two whole snapshots.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = Path("/proc/diskstats")


def main(device: str) -> None:
    lines = []
    (HERE / "diskstats.before.txt").write_text(SOURCE.read_text("ascii"), "ascii")
    for _ in range(12):
        (HERE / "written").write_bytes(os.urandom(1 << 20))
        os.sync()
        (line,) = (line for line in SOURCE.read_text("ascii").splitlines() if line.split()[2] == device)
        lines.append(f"{time.time_ns()} {' '.join(line.split())}\n")
        time.sleep(0.25)
    (HERE / "written").unlink()
    (HERE / "diskstats.after.txt").write_text(SOURCE.read_text("ascii"), "ascii")
    (HERE / "diskstats.log").write_text("".join(lines), "ascii")


if __name__ == "__main__":
    main(sys.argv[1])
