"""A scan beside `find`, `fd` and scandir-rs where each look at a file takes milliseconds.

    python benchmarks/slow_scan.py [--milliseconds 4] [--folders 80] [--walkers 16]

A pass-through FUSE file system without caches delays every `getattr`. Seconds are by the clock: they are waits.
"looks" are the calls of `getattr` that arrive. `fd` and scandir-rs (`pip install scandir-rs`) run where they are here.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scan import FORM, SCAN

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from fuse_mounts import disturbed_mount

FILES_PER_FOLDER = 24
SCANDIR_RS = """
import sys
from scandir_rs import ReturnType, Scandir
Scandir(sys.argv[1], return_type=ReturnType.Ext).collect()
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--milliseconds", type=float, default=4.0)
    parser.add_argument("--folders", type=int, default=80)
    parser.add_argument("--walkers", type=int, default=16)
    given = parser.parse_args()
    fd = shutil.which("fdfind") or shutil.which("fd")
    with tempfile.TemporaryDirectory() as place, disturbed_mount(Path(place), uncached=True) as mount:
        for folder in range(given.folders):
            (mount.backing / "tree" / f"d{folder}").mkdir(parents=True)
            for number in range(FILES_PER_FOLDER):
                (mount.backing / "tree" / f"d{folder}" / f"f{number}").write_bytes(b"x")
        tree = str(mount.path / "tree")
        commands: dict[str, list[str]] = {"find -printf": ["find", tree, "-printf", FORM]}
        if fd is not None:
            many = [f"-j{given.walkers}", "--type", "f", "--size", "+0b", ".", tree]
            commands[f"fd, {given.walkers} threads"] = [fd, "-u", *many]
        if importlib.util.find_spec("scandir_rs") is not None:
            commands["scandir-rs"] = [sys.executable, "-c", SCANDIR_RS, tree]
        for walkers in (1, given.walkers):
            commands[f"scan, {walkers} walkers"] = [sys.executable, "-c", SCAN, tree, str(walkers)]
        mount.disturb({"getattr": {"delay_seconds": given.milliseconds / 1e3}})
        print(f"{given.folders * (FILES_PER_FOLDER + 1):,} entries, {given.milliseconds:g} ms a look")
        for name, command in commands.items():
            before, begun = mount.counts.get("getattr", 0), time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - begun
            time.sleep(1)  # counts are written now and then
            print(f"{name:20} {seconds:7.2f} s  {mount.counts.get('getattr', 0) - before:8,.0f} looks", flush=True)


if __name__ == "__main__":
    main()
