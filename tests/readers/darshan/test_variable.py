"""Modules with records of variable length: LUSTRE, HEATMAP, DXT."""

from __future__ import annotations

import struct

import pytest

from ioweather.core.errors import CorruptInput
from ioweather.readers.darshan.darshan_reader import read_log

ORDERS = ["<", ">"]


def words(order, *values):
    return b"".join(struct.pack(f"{order}{'d' if isinstance(v, float) else 'q'}", v) for v in values)


@pytest.mark.parametrize("order", ORDERS)
def test_lustre_v1(log_parts, order):
    raw = words(order, 11, -1, 248, 1, 0, 1 << 20, 3, 7, 8, 9) + words(order, 12, 2, 248, 1, -1, 1 << 22, 0)
    module = read_log(log_parts(order=order, modules=[("LUSTRE", 1, [raw])]).build()).modules["LUSTRE"]
    assert module.records["id"].tolist() == [11, 12]
    assert module.records["rank"].tolist() == [-1, 2]
    assert module.records["LUSTRE_OSTS"].tolist() == [248, 248]
    assert module.records["LUSTRE_STRIPE_OFFSET"].tolist() == [0, -1]
    assert module.records["LUSTRE_STRIPE_SIZE"].tolist() == [1 << 20, 1 << 22]
    assert module.records["LUSTRE_STRIPE_WIDTH"].tolist() == [3, 0]
    assert [ids.tolist() for ids in module.ragged["ost_ids"]] == [[7, 8, 9], []]
    assert len(module.ragged["ost_ids"]) == 2


@pytest.mark.parametrize("order", ORDERS)
def test_lustre_v2(log_parts, order):
    first = words(order, 1 << 20, 2, 1, 0, 0, 1 << 30, 0) + b"flash".ljust(16, b"\0")
    second = words(order, 1 << 22, 1, 1, 0, 1 << 30, -1, 0) + b"".ljust(16, b"\0")
    raw = words(order, 11, -1, 2, 3) + first + second + words(order, 5, 6, 9) + words(order, 12, 0, 0, 1, 4)
    module = read_log(log_parts(order=order, modules=[("LUSTRE", 2, [raw])]).build()).modules["LUSTRE"]
    assert module.records["components"].tolist() == [2, 0]
    components = module.ragged["components"][0]
    assert components["LUSTRE_COMP_STRIPE_SIZE"].tolist() == [1 << 20, 1 << 22]
    assert components["LUSTRE_COMP_STRIPE_COUNT"].tolist() == [2, 1]
    assert components["LUSTRE_COMP_EXT_END"].tolist() == [1 << 30, -1]
    assert components["pool"].tolist() == [b"flash", b""]
    assert [ids.tolist() for ids in module.ragged["ost_ids"]] == [[5, 6, 9], [4]]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("second_bins", [2, 1, 0])
def test_heatmap_of_equal_and_of_different_bins(log_parts, order, second_bins):
    writes, reads = [30, 40][:second_bins], [5, 6][:second_bins]
    raw = words(order, 11, 0, 0.1, 2, 999, 999, 10, 20, 1, 2)
    raw += words(order, 12, 3, 0.2, second_bins, 999, 999, *writes, *reads)
    module = read_log(log_parts(order=order, modules=[("HEATMAP", 1, [raw])]).build()).modules["HEATMAP"]
    assert module.records["id"].tolist() == [11, 12]
    assert module.records["bin_width_seconds"].tolist() == [0.1, 0.2]
    assert module.records["bins"].tolist() == [2, second_bins]
    assert [b.tolist() for b in module.ragged["write_bins"]] == [[10, 20], writes]
    assert [b.tolist() for b in module.ragged["read_bins"]] == [[1, 2], reads]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("module", "version"), [("DXT_POSIX", 1), ("DXT_POSIX", 2), ("DXT_MPIIO", 1), ("DXT_MPIIO", 2),
                                                 ("DXT_MPIIO", 3)])  # fmt: skip
def test_dxt(log_parts, order, module, version):
    thread = [4242] if (module, version) in {("DXT_POSIX", 2), ("DXT_MPIIO", 3)} else []

    def head(record_id, rank, writes, reads):
        return words(order, record_id, rank, -1) + b"nid00042".ljust(64, b"\0") + words(order, writes, reads)

    raw = head(11, 1, 1, 2)
    raw += words(order, 0, 100, 0.5, 0.75, *thread, 7, 8, 1.0, 1.5, *thread, 9, 10, 2.0, 2.5, *thread)
    raw += head(12, 0, 0, 0) + head(13, 3, 1, 0) + words(order, 64, 1 << 20, 3.0, 4.0, *thread)
    found = read_log(log_parts(order=order, modules=[(module, version, [raw])]).build()).modules[module]
    assert found.records["id"].tolist() == [11, 12, 13]
    assert found.records["rank"].tolist() == [1, 0, 3]
    assert found.records["hostname"].tolist() == [b"nid00042"] * 3
    assert found.records["writes"].tolist() == [1, 0, 1]
    assert found.records["reads"].tolist() == [2, 0, 0]
    segments = found.segments
    assert segments["record"].tolist() == [0, 0, 0, 2]
    assert segments["write"].tolist() == [True, False, False, True]
    assert segments["length"].tolist() == [100, 8, 10, 1 << 20]
    assert segments["start_seconds"].tolist() == [0.5, 1.0, 2.0, 3.0]
    assert segments["end_seconds"].tolist() == [0.75, 1.5, 2.5, 4.0]
    assert ("thread" in segments.dtype.names) == bool(thread)
    if (module, version) == ("DXT_MPIIO", 1):
        assert "offset" not in segments.dtype.names
    else:
        assert segments["offset"].tolist() == [0, 7, 9, 64]


@pytest.mark.parametrize("count", [-1, -(2**62), 4, 2**31, 2**62, 2**63 - 1])
@pytest.mark.parametrize(
    ("module", "version", "before"),
    [("LUSTRE", 1, (11, 0, 1, 1, 0, 1)), ("LUSTRE", 2, (11, 0)), ("HEATMAP", 1, (11, 0, 0.1))],
)
def test_counts_that_do_not_fit_are_refused(log_parts, module, version, before, count):
    raw = words("<", *before, count, 1, 2, 3)
    with pytest.raises(CorruptInput, match=f"Record 0 of the {module} module"):
        read_log(log_parts(modules=[(module, version, [raw])]).build())
