"""Logs that lie: regions out of place, streams that do not end, bombs. One clear error each, in bounded room."""

from __future__ import annotations

import bz2
import gzip
import random
import struct
import subprocess
import sys
import textwrap
import zlib

import pytest

from ioweather.core.errors import CorruptInput, SourceError, TruncatedInput
from ioweather.sources.darshan.log import read_log

NAME_MAP_AT = 32
POSIX_AT = 48 + 16


@pytest.fixture
def parts(log_parts, fixed_record):
    return log_parts(modules=[("POSIX", 4, [fixed_record("<", 11, 0, 69, 17)])])


def place(data, at):
    return struct.unpack_from("<QQ", data, at)


def edited(data, at, offset, length):
    return data[:at] + struct.pack("<QQ", offset, length) + data[at + 16 :]


def test_regions_that_overlap_leave_gaps_or_pass_the_end(parts):
    data = parts.build()
    offset, length = place(data, POSIX_AT)
    names = place(data, NAME_MAP_AT)
    for broken, error in [
        (edited(data, POSIX_AT, offset - 1, length + 1), CorruptInput),
        (edited(data, POSIX_AT, offset + 1, length - 1), CorruptInput),
        (edited(data, POSIX_AT, offset, length - 1), CorruptInput),
        (edited(data, POSIX_AT, offset, length + 1), TruncatedInput),
        (edited(data, POSIX_AT, offset, 2**63), TruncatedInput),
        (edited(data, POSIX_AT, 2**63, length), CorruptInput),
        (edited(data, POSIX_AT, *names), CorruptInput),
        (edited(data, POSIX_AT, offset, 0), CorruptInput),
        (edited(data, NAME_MAP_AT, 0, names[1]), CorruptInput),
        (edited(data, NAME_MAP_AT, 1328, names[0] + names[1] - 1328), CorruptInput),
    ]:
        with pytest.raises(error):
            read_log(broken)


def test_a_flipped_bit_in_a_stream_is_seen(parts):
    data = parts.build()
    for position in range(1328, len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            try:
                log = read_log(bytes(flipped))
            except SourceError:
                continue
            # The zlib header's level is no content.
            assert log.modules["POSIX"].records.tobytes() == read_log(data).modules["POSIX"].records.tobytes()


def test_lengths_that_are_no_whole_records(log_parts, fixed_record):
    raw = fixed_record("<", 11, 0, 69, 17)
    for module, version in [("POSIX", 4), ("LUSTRE", 1), ("HEATMAP", 1), ("DXT_POSIX", 1)]:
        with pytest.raises(CorruptInput, match=module):
            read_log(log_parts(modules=[(module, version, [raw[:-1]])]).build())


def test_a_job_record_that_is_too_short(log_parts):
    class Short(log_parts):
        def job_region(self):
            return super().job_region()[:500]

    with pytest.raises(TruncatedInput, match=r"job record has 500 bytes; 1080 were expected"):
        read_log(Short().build())


def test_a_module_with_the_layout_of_another(log_parts, fixed_record):
    # 83 records of 704 bytes are 88 of 664: the length alone does not tell, the ranks do.
    data = log_parts(version="3.21", modules=[("POSIX", 3, [fixed_record("<", 11, 0, 69, 17) * 83])]).build()
    with pytest.raises(CorruptInput, match="ranks"):
        read_log(data)


CHILD = textwrap.dedent(
    """
    import re, sys, time
    from pathlib import Path
    from ioweather.core.errors import CorruptInput
    from ioweather.sources.darshan.log import read_log
    data = sys.stdin.buffer.read()
    before = time.process_time()
    try:
        read_log(data)
        outcome = "read"
    except CorruptInput as error:
        outcome = str(error)
    # Not ru_maxrss: that begins with the peak of the process this one was forked from.
    peak_kib = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
    print(time.process_time() - before, peak_kib, outcome, sep="|")
    """
)


def read_in_child(data):
    answer = subprocess.run([sys.executable, "-c", CHILD], input=data, capture_output=True, check=True)
    seconds, peak_kib, outcome = answer.stdout.decode().strip().split("|")
    return float(seconds), int(peak_kib) / 1024, outcome


def bomb(log_parts, name, version, unit, total, compression=0):
    """A module of `total` bytes of the same unit, in a file as small as the compression makes it."""
    return log_parts(compression=compression, modules=[(name, version, [unit * (total // len(unit))])]).build()


LUSTRE_UNIT = struct.pack("<8q", 1, 0, 1, 1, 0, 1, 1, 5) + struct.pack("<7q", 1, 0, 1, 1, 0, 1, 0)
DXT_UNIT = struct.pack("<3q", 1, 0, -1) + bytes(64) + struct.pack("<2q", 1, 0) + bytes(32) + bytes(104)
BOMBS = {
    "posix": ("POSIX", 4, bytes(704), 100 << 20, 0),
    "posix-bzip2": ("POSIX", 4, bytes(704), 100 << 20, 1),
    "stdio": ("STDIO", 2, bytes(248), 100 << 20, 0),
    "h5f": ("H5F", 1, bytes(40), 60 << 20, 0),
    "lustre": ("LUSTRE", 1, LUSTRE_UNIT, 60 << 20, 0),
    "lustre-2": ("LUSTRE", 2, struct.pack("<4q", 1, 0, 0, 0), 60 << 20, 0),
    "heatmap": ("HEATMAP", 1, bytes(48) + struct.pack("<8q", 1, 0, 0, 1, 0, 0, 5, 6), 60 << 20, 0),
    "dxt": ("DXT_POSIX", 1, DXT_UNIT, 60 << 20, 0),
}


@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_bombs_are_bounded(log_parts, kind):
    name, version, unit, total, compression = BOMBS[kind]
    seconds, peak_mib, outcome = read_in_child(bomb(log_parts, name, version, unit, total, compression))
    assert seconds < 2
    assert peak_mib < 500
    assert ("expands beyond" in outcome) == (total > 64 << 20), outcome


def test_a_bomb_of_names_is_bounded(log_parts):
    entries = 4_000_000
    unit = b"".join(struct.pack("<Q", i) + b"x\0" for i in range(1000))

    class Names(log_parts):
        def name_region(self):
            return unit * (entries // 1000)

    seconds, peak_mib, outcome = read_in_child(Names().build())
    assert seconds < 2
    assert peak_mib < 500
    assert "more names than" in outcome


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_a_bomb_of_version_2_is_bounded(pack):
    head = b"2.06".ljust(8, b"\0") + struct.pack("<6q", 6567223, 1, 10, 20, 4, 5)
    seconds, peak_mib, outcome = read_in_child(pack(head.ljust(4096, b"\0") + bytes(100 << 20)))
    assert seconds < 2
    assert peak_mib < 500
    assert "expands beyond" in outcome


def test_many_empty_streams_take_bounded_time(log_parts, fixed_record):
    streams = [fixed_record("<", 11, 0, 69, 17), *([b""] * 100_000)]
    seconds, _, outcome = read_in_child(log_parts(modules=[("POSIX", 4, streams)]).build())
    assert seconds < 2
    assert outcome == "read"


def test_the_limit_grows_with_the_file(log_parts):
    # 70 MiB that do not compress well are a large log, not a bomb.
    rng = random.Random(1)
    noise = [struct.pack("<Qq", 1, 0) + bytes(560) + rng.randbytes(128) for _ in range(2000)]
    data = log_parts(modules=[("POSIX", 4, [b"".join(rng.choices(noise, k=100_000))])]).build()
    assert len(data) * 64 > 70 << 20
    assert len(read_log(data).modules["POSIX"].records) == 100_000


def test_a_stream_without_its_checksum(parts):
    parts.pack = lambda raw: zlib.compress(raw)[:-4] if len(raw) == 704 else zlib.compress(raw)
    with pytest.raises(TruncatedInput, match="POSIX module ends in the middle"):
        read_log(parts.build())
