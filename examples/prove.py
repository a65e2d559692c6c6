"""Check that ioweather reports known work on this disk: `dd` writes, a probe and the block devices are measured.

    python examples/prove.py /scratch/me

It takes about 30 seconds and writes at most 2 GiB, all to one file of 256 MiB that is removed at the end. Exit code 1
if ioweather reports less than `dd` wrote, or if samples are missing.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ioweather

FILE_MIB = 256
MOST_ROUNDS = 8
QUIET_SECONDS = 10.0
BUSY_SECONDS = 10.0
# Rows are written in bursts, and the first and the last sample are cut.
LEAST_SHARE = 0.9

FACILITY = """name = "this directory"
zone = "UTC"

[filesystem.here]
mounts = ["{mount}"]
probes = ["{place}"]
devices = [{devices}]

[collect]
block_period = "200ms"
"""


def main(place: Path) -> int:
    devices = devices_below(place)
    with tempfile.TemporaryDirectory(prefix="ioweather-prove-") as name:
        lake = Path(name) / "lake"
        lake.mkdir()
        named = ", ".join(f'"{socket.gethostname()}:{device}"' for device in devices)
        (lake / "facility.toml").write_text(FACILITY.format(mount=mount_of(place), place=place, devices=named))
        spools = [Path(name) / "probe", Path(name) / "block"]
        agents = [
            start("probe", place, "--period", "100ms", "--file-size", "16MiB", "--pool", "20", "--spool", spools[0]),
            start("collect", "block", "--no-ship", "--lake", lake, "--spool", spools[1]),
        ]
        try:
            wait_for_samples(agents, spools)
            time.sleep(QUIET_SECONDS)
            start_ns = time.time_ns()
            written = write_with_dd(place)
            end_ns = time.time_ns()
            time.sleep(QUIET_SECONDS / 5)
        finally:
            for agent in agents:
                agent.send_signal(signal.SIGTERM)
            for agent in agents:
                agent.wait(60)
        ioweather.ingest(*(spool / "segments" for spool in spools), lake=lake)
        failures = [*check_devices(lake, written, devices), *check_probe(lake, start_ns, end_ns)]
    for failure in failures:
        print(f"✗ {failure}")
    if not failures:
        print("✓ ioweather reported the work that was done.")
    return 1 if failures else 0


def start(*arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ioweather", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)


def wait_for_samples(agents: list[subprocess.Popen[bytes]], spools: list[Path]) -> None:
    """Both agents write status.json once they have measured something."""
    until = time.monotonic() + 30.0
    while not all((spool / "status.json").exists() for spool in spools):
        if any(agent.poll() is not None for agent in agents) or time.monotonic() > until:
            sys.exit("No sample came: see the message above, or try another directory.")
        time.sleep(0.1)


def write_with_dd(place: Path) -> int:
    """Write the same file again and again for some seconds, past the page cache; the bytes that dd wrote."""
    path = place / f".ioweather-prove-{os.getpid()}"
    options = ["bs=1M", f"count={FILE_MIB}", "conv=notrunc,fsync", "status=none"]
    until, rounds = time.monotonic() + BUSY_SECONDS, 0
    try:
        while rounds < MOST_ROUNDS and time.monotonic() < until:
            subprocess.run(["dd", "if=/dev/urandom", f"of={path}", *options], check=True)
            rounds += 1
    finally:
        path.unlink(missing_ok=True)
    return rounds * FILE_MIB * 2**20


def check_devices(lake: Path, written: int, devices: list[str]) -> list[str]:
    """The lake must have the bytes that dd wrote, where the devices are those of this machine."""
    if not devices:
        print("· The devices of this file system are not on this machine: their bytes cannot be checked.")
        return []
    names = ", ".join(f"'{socket.gethostname()}:{device}'" for device in devices)
    query = f"SELECT sum(value) FROM series WHERE metric = 'write_bytes' AND system IN ({names})"
    reported = ioweather.sql(query, lake).rows[0][0] or 0.0
    print(f"· dd wrote {written / 1e9:.2f} GB; the devices counted {reported / 1e9:.2f} GB.")
    return [] if reported >= LEAST_SHARE * written else ["The devices counted fewer bytes than dd wrote."]


def check_probe(lake: Path, start_ns: int, end_ns: int) -> list[str]:
    """The probe must have measured while dd wrote; how much slower storage was is printed."""
    busy = f"start_ns BETWEEN {start_ns} AND {end_ns}"
    query = f"""SELECT op, median(duration_ns) FILTER ({busy}) / median(duration_ns) FILTER (NOT {busy})
        FROM responses WHERE op IN ('read', 'write_sync') AND status = 'ok' GROUP BY op ORDER BY op"""
    rows = ioweather.sql(query, lake).rows
    if not rows or any(factor is None for _, factor in rows):
        return ["The probe measured nothing while dd wrote."]
    print("· While dd wrote, " + ", ".join(f"{op} took {factor:.1f} times as long" for op, factor in rows) + ".")
    return []


def mount_of(place: Path) -> Path:
    return next(folder for folder in (place, *place.parents) if folder.is_mount())


def devices_below(place: Path) -> list[str]:
    """Block devices of this directory, without partitions and device mapper; none of a network file system."""
    number = place.stat().st_dev
    link = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return sorted(lowest_devices(link.resolve())) if link.exists() else []


def lowest_devices(device: Path) -> set[str]:
    if (device / "partition").exists():
        device = device.parent
    below = list((device / "slaves").iterdir()) if (device / "slaves").is_dir() else []
    return {device.name} if not below else {name for each in below for name in lowest_devices(each.resolve())}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
