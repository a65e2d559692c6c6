"""Damaged Darshan logs: thousands of seeded mutations, each refused with one clear error or read as what it was.

A log is protected by its streams' checksums; its header is not, and uncompressed logs are not at all. What the checks
cover must never come out changed.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import re
import resource
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ioweather.core.errors import SourceError
from ioweather.readers.darshan.darshan_reader import read_log

MOST_SECONDS = 20.0  # what takes longer hangs
MOST_BYTES = 500 * 2**20


@contextlib.contextmanager
def bounded_memory():
    """Allocations beyond the limit raise MemoryError, which is no SourceError."""
    size_kib = int(re.search(r"VmSize:\s+(\d+)", Path("/proc/self/status").read_text())[1])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size_kib * 1024 + MOST_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def words(order, *values):
    return b"".join(struct.pack(f"{order}{'d' if isinstance(v, float) else 'q'}", v) for v in values)


@pytest.fixture(scope="module")
def seeds(log_parts, fixed_record):
    """Small logs of every version, byte order, compression and kind of module."""
    logs = []
    for version, posix, sizes in [("3.00", 1, (68, 15)), ("3.10", 3, (64, 17)), ("3.21", 4, (69, 17)),
                                  ("3.41", 4, (69, 17))]:  # fmt: skip
        for order in "<>":
            for compression in (0, 1, 2):
                dxt = words(order, 11, 1, -1) + b"n1".ljust(64, b"\0") + words(order, 1, 1)
                dxt += words(order, 0, 5, 0.5, 1.0, 5, 6, 1.5, 2.0)
                modules = [
                    ("POSIX", posix, [fixed_record(order, i, i, *sizes) for i in range(3)]),
                    ("LUSTRE", 1, [words(order, 11, -1, 9, 1, 0, 1 << 20, 2, 7, 8, 12, 0, 9, 1, 0, 1 << 20, 1, 3)]),
                    ("STDIO", 1, [fixed_record(order, 11, 0, 13, 15)]),
                    ("DXT_POSIX", 1, [dxt]),
                ]
                if version >= "3.21":
                    modules.append(("HEATMAP", 1, [words(order, 9, 0, 0.1, 1, 0, 0, 5, 6, 10, 1, 0.1, 1, 0, 0, 7, 8)]))
                logs.append(log_parts(version=version, order=order, compression=compression, modules=modules).build())
    for order in "<>":
        head = b"2.06".ljust(8, b"\0") + struct.pack(f"{order}6q", 6567223, 500, 1000, 1009, 4, 77)
        row = struct.pack(f"{order}Qq16s144q18d", 5, -1, b"name", *range(144), *range(18))
        logs.append(gzip.compress(head.ljust(4096, b"\0") + row * 2, mtime=0))
    return logs


class Mutator:
    def __init__(self, seeds, seed):
        self.seeds = seeds
        self.random = random.Random(seed)

    def mutate(self):
        """(original, mutated, kind)"""
        original = self.random.choice(self.seeds)
        kind = self.random.choice(["flip", "flip", "header", "place", "place", "truncate", "overwrite", "delete",
                                   "insert", "splice"])  # fmt: skip
        data = bytearray(original)
        getattr(self, f"_{kind}")(data)
        return original, bytes(data), kind

    def _flip(self, data):
        for _ in range(self.random.randint(1, 3)):
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)

    def _header(self, data):
        for _ in range(self.random.randint(1, 2)):
            data[self.random.randrange(min(len(data), 1328))] = self.random.randrange(256)

    def _place(self, data):
        """An offset or a length of the map, or a module version, becomes another number."""
        long = data[:4] == b"3.41"
        start, count = (32, 130) if long else (24, 34)
        order = "<" if data[8] else ">"
        if len(data) < 1400:
            return self._flip(data)
        used = [i for i in range(count) if any(data[start + 8 * i : start + 8 * i + 8])] or [0]
        index = self.random.choice([*used, self.random.randrange(count)])
        (value,) = struct.unpack_from(f"{order}Q", data, start + 8 * index)
        value = self.random.choice([
            value + 1, value - 1, value * 2, value // 2, 0, 1, 2**31, 2**63, 2**64 - 1, len(data),
            self.random.randrange(len(data)), value + self.random.randint(-700, 700),
        ])  # fmt: skip
        struct.pack_into(f"{order}Q", data, start + 8 * index, value % 2**64)
        if self.random.random() < 0.3:
            versions = 1072 if long else 296
            number = self.random.randrange(16)
            struct.pack_into(f"{order}I", data, versions + 4 * number, self.random.randrange(6))
        return None

    def _truncate(self, data):
        del data[self.random.randrange(len(data)) :]

    def _overwrite(self, data):
        start = self.random.randrange(len(data))
        length = self.random.randint(1, 64)
        data[start : start + length] = self.random.randbytes(min(length, len(data) - start))

    def _delete(self, data):
        start = self.random.randrange(len(data))
        del data[start : start + self.random.randint(1, 64)]

    def _insert(self, data):
        start = self.random.randrange(len(data))
        data[start:start] = self.random.randbytes(self.random.randint(1, 64))

    def _splice(self, data):
        other = self.random.choice(self.seeds)
        source, target = self.random.randrange(len(other)), self.random.randrange(len(data))
        piece = other[source : source + self.random.randint(1, 2000)]
        data[target : target + len(piece)] = piece


def payload(module):
    pieces = [module.records.tobytes()]
    pieces += [column.values.tobytes() for column in module.ragged.values()]
    pieces += [module.segments.tobytes()] if module.segments is not None else []
    return b"|".join(pieces)


def content(log):
    return (log.job, dict(log.names), {(n, m.version): payload(m) for n, m in log.modules.items()})


def judge(data, original, kind, detail):
    """Reads `data`; anything but a SourceError or the original's content is a failure. True if it was read."""
    began = time.process_time()
    try:
        log = read_log(data)
    except SourceError:
        return False
    finally:
        assert time.process_time() - began < MOST_SECONDS, detail
    # Nothing checks an uncompressed log, and a splice may bring a whole checked stream.
    if original.compression == "none" or log.compression == "none" or kind == "splice":
        return True
    job, names, modules = content(original)
    assert log.job == job, detail
    assert log.names == names, detail
    found = content(log)[2]
    # A module number or version is an unchecked field of the header; the same one must hold the same.
    assert all(found[key] == modules[key] for key in found if key in modules), detail
    assert len(log.modules) + len(log.unknown_modules) == len(original.modules) + len(original.unknown_modules), detail
    return True


def run(seeds, count, seed):
    mutator = Mutator(seeds, seed)
    originals = {data: read_log(data) for data in seeds}
    survived = 0
    with bounded_memory():
        for number in range(count):
            original, data, kind = mutator.mutate()
            survived += judge(data, originals[original], kind, f"mutation {number} of seed {seed}: {kind}")
    return survived


def test_mutated_logs(seeds):
    survived = run(seeds, 3_000, seed=1)
    assert 0 < survived < 1_500  # some changes say nothing (partial flags), most must be seen


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_mutated_logs(seeds, seed):
    run(seeds, 50_000, seed=1000 + seed)


@pytest.mark.slow
@pytest.mark.shared
def test_many_mutated_real_logs(shared_data):
    folders = [shared_data / "darshan" / name for name in ("examples", "real", "v2")]
    paths = [p for folder in folders for p in sorted(folder.iterdir()) if ".darshan" in p.name]
    run([p.read_bytes() for p in paths if p.stat().st_size < 10_000], 50_000, seed=7)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_edits_chosen_by_hypothesis(seeds, data):
    original = seeds[data.draw(st.integers(0, len(seeds) - 1))]
    edits = data.draw(st.lists(st.tuples(st.integers(0, len(original) - 1), st.integers(0, 255)), max_size=4))
    mutated = bytearray(original)
    for position, value in edits:
        mutated[position] = value
    judge(bytes(mutated), read_log(original), "overwrite", str(edits))


@settings(max_examples=300, deadline=None)
@given(
    st.binary(max_size=3000),
    st.sampled_from([b"", b"3.41\0\0\0\0" + (6567223).to_bytes(8, "little"), b"\x1f\x8b", b"BZh9"]),
)
def test_any_bytes(noise, start):
    with pytest.raises(SourceError):
        read_log(start + noise)
