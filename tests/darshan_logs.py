"""A builder of Darshan logs of any version, written from the format's description and sharing nothing with the source.

Tests that read what it builds therefore check the reader against a second statement of the layout.
"""

from __future__ import annotations

import bz2
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

MAGIC = 6567223
# Module numbers per version, typed from the table of the format.
NUMBERS = {
    "3.41": {"POSIX": 1, "MPI-IO": 2, "H5F": 3, "H5D": 4, "PNETCDF_FILE": 5, "PNETCDF_VAR": 6, "BG/Q": 7, "LUSTRE": 8,
             "STDIO": 9, "DXT_POSIX": 10, "DXT_MPIIO": 11, "MDHIM": 12, "APXC": 13, "APMPI": 14, "HEATMAP": 15,
             "DFS": 16, "DAOS": 17},
    "3.21": {"POSIX": 1, "MPI-IO": 2, "H5F": 3, "H5D": 4, "PNETCDF_FILE": 5, "BG/Q": 6, "LUSTRE": 7, "STDIO": 8,
             "DXT_POSIX": 9, "DXT_MPIIO": 10, "MDHIM": 11, "APXC": 12, "APMPI": 13, "HEATMAP": 14},
    "3.10": {"POSIX": 1, "MPI-IO": 2, "H5F": 3, "PNETCDF_FILE": 4, "BG/Q": 5, "LUSTRE": 6, "STDIO": 7, "DXT_POSIX": 8,
             "DXT_MPIIO": 9, "MDHIM": 10},
}  # fmt: skip
NUMBERS["3.20"] = NUMBERS["3.21"]
NUMBERS["3.00"] = NUMBERS["3.10"]


@dataclass
class LogParts:
    """What a log is made of; `modules` are (name or number, version, streams of raw bytes)."""

    version: str = "3.41"
    order: str = "<"
    compression: int = 0
    uid: int = 1000
    job_id: int = 4711
    nprocs: int = 4
    start: tuple[int, int] = (1_600_000_000, 123)
    end: tuple[int, int] = (1_600_000_060, 456)
    metadata: bytes = b"lib_ver=3.4.0\nh=cb_nodes=4;a=b\n"
    command: bytes = b"./app -x\next4\t/\nlustre\t/scratch"
    names: Sequence[tuple[int, bytes]] = ((11, b"/scratch/a"), (12, b"/tmp/b"))
    modules: Sequence[tuple[Any, int, Sequence[bytes]]] = ()
    partial: int = 0
    edits: dict[int, bytes] = field(default_factory=dict)

    def pack(self, raw: bytes) -> bytes:
        return (zlib.compress, bz2.compress, bytes)[self.compression](raw)

    def job_region(self) -> bytes:
        if self.version == "3.41":
            words = (self.uid, *self.start, *self.end, self.nprocs, self.job_id)
        else:
            words = (self.uid, self.start[0], self.end[0], self.nprocs, self.job_id)
        return (
            struct.pack(f"{self.order}{len(words)}q", *words) + self.metadata.ljust(1024, b"\0") + self.command + b"\0"
        )

    def name_region(self) -> bytes:
        if self.version == "3.00":
            return b"".join(struct.pack(f"{self.order}QI", i, len(n)) + n for i, n in self.names)
        return b"".join(struct.pack(f"{self.order}Q", i) + n + b"\0" for i, n in self.names)

    def build(self) -> bytes:
        long = self.version == "3.41"
        size, count = (1328, 64) if long else (360, 16)
        regions = [self.pack(self.job_region())]
        name_bytes = self.name_region()
        stored_names = self.pack(name_bytes) if name_bytes else b""
        position = size + len(regions[0])
        places = [(position if stored_names else 0, len(stored_names))] + [(0, 0)] * count
        versions = [0] * count
        regions.append(stored_names)
        position += len(stored_names)
        for name, version, streams in self.modules:
            number = NUMBERS[self.version][name] if isinstance(name, str) else name
            region = b"".join(self.pack(stream) for stream in streams)
            places[number + 1] = (position, len(region))
            versions[number] = version
            position += len(region)
            regions.append(region)
        head = struct.pack(f"{self.order}8sqB", self.version.encode(), MAGIC, self.compression)
        head += struct.pack(f"{self.order}7xQ", self.partial) if long else struct.pack(f"{self.order}3xI", self.partial)
        head += b"".join(struct.pack(f"{self.order}QQ", *place) for place in places)
        head += struct.pack(f"{self.order}{count}I", *versions)
        assert len(head) == size
        data = bytearray(head + b"".join(regions))
        for offset, replacement in self.edits.items():
            data[offset : offset + len(replacement)] = replacement
        return bytes(data)


def record(order: str, record_id: int, rank: int, counters: int, fcounters: int, *, before: bytes = b"") -> bytes:
    """A fixed record whose counters are 1, 2, 3, ... and whose float counters are 0.5, 1.5, ..."""
    return (
        struct.pack(f"{order}Qq", record_id, rank)
        + before
        + struct.pack(f"{order}{counters}q", *range(1, counters + 1))
        + struct.pack(f"{order}{fcounters}d", *(i + 0.5 for i in range(fcounters)))
    )
