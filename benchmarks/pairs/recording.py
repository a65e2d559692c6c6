"""What `recorder.c` kept of each process of a pair, and the Darshan log of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from recorded_calls import CLOSE, COLLECTIVE, EVENT, OPEN, READ, SYNC, WRITE, Recorded, write_recorded

from ioweather.core.units import NS
from ioweather.readers.darshan.log import DarshanJob

HERE = Path(__file__).parent
RECORDER = "ioweather benchmarks/pairs, LD_PRELOAD; not a Darshan runtime"


def build(folder: Path) -> Path:
    made = folder / "recorder.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", made, HERE / "recorder.c", "-ldl"], check=True)
    return made


def parse(raw: bytes) -> Recorded:
    count = int.from_bytes(raw[-8:], sys.byteorder)
    split = count * EVENT.itemsize
    if split > len(raw) - 8:
        raise ValueError(f"{count} events do not fit in {len(raw)} bytes")
    paths = tuple(raw[split:-8].decode().splitlines())
    return Recorded(np.frombuffer(raw[:split], EVENT), paths)


KINDS = {
    "open": OPEN, "close": CLOSE, "sync": SYNC, "read": READ, "write": WRITE,
    "collective read": READ + COLLECTIVE, "collective write": WRITE + COLLECTIVE,
}  # fmt: skip


def parse_mpi(path: Path) -> Recorded:
    """The MPI-IO calls that a program timed itself."""
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    paths = tuple(dict.fromkeys(row[0] for row in rows))
    events = np.array(
        [(KINDS[kind], paths.index(name), 0, int(size), float(a), float(b)) for name, kind, size, a, b in rows], EVENT
    )
    return Recorded(events, paths)


def write(
    path: Path,
    name: str,
    processes: list[Recorded],
    start_ns: int,
    seconds: float,
    mount: tuple[str, str],
    mpi: list[Recorded],
) -> Path:
    """Write the log of these processes; `mount` is the mount point of their files and its type, `mpi` their MPI-IO."""
    end_ns = start_ns + int(seconds * NS)
    job = DarshanJob(1, 1, len(processes), start_ns, end_ns, seconds, {}, f"pairs/{name}", (mount,))
    return write_recorded(path, job, RECORDER, processes, mpi)
