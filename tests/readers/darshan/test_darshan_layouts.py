"""Every module version: record size, field order, byte orders, compressions, log versions."""

from __future__ import annotations

import itertools

import pytest

from darshan_logs import LogParts, record
from ioweather.core.errors import CorruptInput, UnsupportedVersion
from ioweather.readers.darshan.darshan_reader import read_log
from ioweather.readers.darshan.format import FIXED, fixed_dtype

# (module, version): record bytes, counters, offset of counters, float counters, offset of these; from the format.
TABLE = {
    ("POSIX", 4): (704, 69, 16, 17, 568),
    ("POSIX", 3): (664, 64, 16, 17, 528),
    ("POSIX", 2): (648, 64, 16, 15, 528),
    ("POSIX", 1): (680, 68, 16, 15, 560),
    ("MPI-IO", 3): (560, 51, 16, 17, 424),
    ("MPI-IO", 2): (544, 51, 16, 15, 424),
    ("MPI-IO", 1): (544, 51, 16, 15, 424),
    ("STDIO", 2): (248, 14, 16, 15, 128),
    ("STDIO", 1): (240, 13, 16, 15, 120),
    ("H5F", 3): (80, 3, 16, 5, 40),
    ("H5F", 2): (56, 1, 16, 4, 24),
    ("H5F", 1): (40, 1, 16, 2, 24),
    ("H5D", 2): (912, 94, 24, 17, 776),
    ("H5D", 1): (904, 94, 16, 17, 768),
    ("PNETCDF_FILE", 3): (152, 9, 16, 8, 88),
    ("PNETCDF_FILE", 2): (64, 2, 16, 4, 32),
    ("PNETCDF_FILE", 1): (48, 2, 16, 2, 32),
    ("PNETCDF_VAR", 1): (1120, 120, 24, 17, 984),
    ("BG/Q", 2): (112, 11, 16, 1, 104),
    ("BG/Q", 1): (120, 11, 24, 1, 112),
    ("DFS", 1): (584, 52, 16, 15, 432),
    ("DAOS", 1): (696, 64, 16, 15, 528),
}


@pytest.mark.parametrize(("module", "version"), sorted(TABLE))
@pytest.mark.parametrize("order", ["little", "big"])
def test_record_layout(module, version, order):
    size, counters, counters_at, fcounters, fcounters_at = TABLE[module, version]
    dtype = fixed_dtype(module, version, order)
    names = FIXED[module, version]
    assert dtype.itemsize == size
    assert (len(names.counters), len(names.fcounters)) == (counters, fcounters)
    assert dtype.fields["id"][1] == 0
    assert dtype.fields["rank"][1] == 8
    assert [dtype.fields[n][1] for n in names.counters] == [counters_at + 8 * i for i in range(counters)]
    assert [dtype.fields[n][1] for n in names.fcounters] == [fcounters_at + 8 * i for i in range(fcounters)]


HOLDS = {"3.00": ("POSIX", 1), "3.10": ("POSIX", 3), "3.20": ("POSIX", 4), "3.21": ("POSIX", 4), "3.41": ("POSIX", 4)}


@pytest.mark.parametrize(
    ("version", "order", "compression"), list(itertools.product(HOLDS, ["<", ">"], ["zlib", "bzip2", "none"]))
)
def test_log_versions_orders_compressions(log_parts, fixed_record, version, order, compression):
    module, module_version = HOLDS[version]
    _, counters, _, fcounters, _ = TABLE[module, module_version]
    records = [fixed_record(order, 11, 2, counters, fcounters), fixed_record(order, 12, -1, counters, fcounters)]
    stdio = fixed_record(order, 11, 0, 13, 15)
    data = log_parts(
        version=version,
        order=order,
        compression=["zlib", "bzip2", "none"].index(compression),
        modules=[(module, module_version, records), ("STDIO", 1, [stdio])],
    ).build()

    log = read_log(data)

    assert (log.version, log.byte_order) == (version, "little" if order == "<" else "big")
    assert log.compression == compression
    assert (log.job.uid, log.job.job_id, log.job.nprocs) == (1000, 4711, 4)
    exact = version == "3.41"
    assert log.job.start_ns == 1_600_000_000 * 10**9 + (123 if exact else 0)
    assert log.job.end_ns == 1_600_000_060 * 10**9 + (456 if exact else 0)
    assert log.job.run_seconds == pytest.approx(60 + 333e-9 if exact else 61, abs=1e-12)
    assert log.job.metadata == {"lib_ver": "3.4.0", "h": "cb_nodes=4;a=b"}
    assert log.job.exe == "./app -x"
    assert log.job.mounts == (("/scratch", "lustre"), ("/", "ext4"))
    assert log.names == {11: "/scratch/a", 12: "/tmp/b"}
    assert list(log.modules) == ["POSIX", "STDIO"]
    posix = log.modules["POSIX"]
    assert posix.records.dtype.isnative
    assert posix.records["id"].tolist() == [11, 12]
    assert posix.records["rank"].tolist() == [2, -1]
    names = FIXED[module, module_version]
    assert [posix.records[n][0] for n in names.counters] == list(range(1, counters + 1))
    assert [posix.records[n][1] for n in names.fcounters] == [i + 0.5 for i in range(fcounters)]
    assert log.modules["STDIO"].records["STDIO_F_META_TIME"].tolist() == [0.5]


@pytest.mark.parametrize(("module", "version"), sorted(TABLE))
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_module_in_a_log(log_parts, fixed_record, module, version, order):
    _, counters, counters_at, fcounters, _ = TABLE[module, version]
    before = (77).to_bytes(8, "little" if order == "<" else "big") * ((counters_at - 16) // 8)
    tail = {"DFS": bytes(range(32)), "DAOS": bytes(range(32)) + b"\0" * 16}.get(module, b"")
    raw = fixed_record(order, 11, 1, counters, fcounters, before=before) + tail
    log = read_log(log_parts(order=order, modules=[(module, version, [raw, raw])]).build())
    found = log.modules[module]
    assert (found.name, found.version, found.partial, len(found.records)) == (module, version, False, 2)
    assert [found.records[n][1] for n in FIXED[module, version].counters] == list(range(1, counters + 1))
    assert [found.records[n][0] for n in FIXED[module, version].fcounters] == [i + 0.5 for i in range(fcounters)]
    if FIXED[module, version].links:
        assert found.records["file_id"].tolist() == [77, 77]
    if tail:
        assert bytes(found.records["pool_uuid"][0]) == bytes(range(16))
        assert bytes(found.records["container_uuid"][0]) == bytes(range(16, 32))


@pytest.mark.parametrize("module", ["POSIX", "MPI-IO", "STDIO"])
def test_an_unknown_version_of_an_essential_module_is_refused(log_parts, module):
    with pytest.raises(UnsupportedVersion, match=f"The {module} module is of version 9"):
        read_log(log_parts(modules=[(module, 9, [b"\0" * 704])]).build())


def test_partial_flags_of_older_versions_are_those_of_their_numbers(log_parts, fixed_record):
    log = read_log(
        log_parts(version="3.21", modules=[("STDIO", 2, [fixed_record("<", 11, 0, 14, 15)])], partial=1 << 8).build()
    )
    assert log.partial_modules == ("STDIO",)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("ranks", [(0,), (-1, 3), (0, 1, 2, 3, 0)])
def test_records_that_a_fork_made_longer(order, ranks):
    """POSIX 4 has 704 bytes; what stands behind them is left alone, and the log says so."""
    records = [record(order, 11 + place % 2, rank, 69, 17) + b"\7" * 16 for place, rank in enumerate(ranks)]
    log = read_log(LogParts(order=order, modules=[("POSIX", 4, [b"".join(records)])]).build())
    assert log.longer_records == ("POSIX",)
    assert log.modules["POSIX"].records["rank"].tolist() == list(ranks)
    assert set(log.modules["POSIX"].records["POSIX_OPENS"].tolist()) == {1}
    assert log.modules["POSIX"].records["POSIX_F_SLOWEST_RANK_TIME"][0] == 14.5


def test_longer_records_that_are_another_version_or_nobodys_are_refused():
    third = LogParts(modules=[("POSIX", 3, [record("<", 11, 0, 69, 17)])])  # 704 bytes: version 4
    with pytest.raises(CorruptInput, match="multiple"):
        read_log(third.build())
    nameless = LogParts(modules=[("POSIX", 4, [record("<", 99, 0, 69, 17) + b"\7" * 16])])
    with pytest.raises(CorruptInput, match="multiple"):
        read_log(nameless.build())
