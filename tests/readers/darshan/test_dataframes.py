"""Records as data frames."""

from __future__ import annotations

import struct
import sys

import pytest

from ioweather.core.errors import UsageError
from ioweather.readers.darshan.darshan_reader import read_log


@pytest.fixture(params=["pandas", "polars"])
def convert(request):
    pytest.importorskip(request.param)
    return lambda module: getattr(module, f"to_{request.param}")()


def test_fixed_records(log_parts, fixed_record, convert):
    data = log_parts(modules=[("POSIX", 4, [fixed_record("<", 2**64 - 1, -1, 69, 17)] * 2)]).build()
    frame = convert(read_log(data).modules["POSIX"])
    assert list(frame.columns)[:4] == ["id", "rank", "POSIX_OPENS", "POSIX_FILENOS"]
    assert frame.shape == (2, 88)
    assert list(frame["id"]) == [2**64 - 1] * 2
    assert list(frame["POSIX_F_OPEN_START_TIMESTAMP"]) == [0.5, 0.5]


def test_traces(log_parts, convert):
    raw = struct.pack("<Qqq", 11, 1, -1) + b"nid1".ljust(64, b"\0") + struct.pack("<2q", 1, 1)
    raw += struct.pack("<qqddqqdd", 0, 10, 0.5, 1.0, 10, 20, 1.5, 2.0)
    frame = convert(read_log(log_parts(modules=[("DXT_POSIX", 1, [raw])]).build()).modules["DXT_POSIX"])
    assert list(frame.columns) == [
        "id",
        "rank",
        "hostname",
        "write",
        "offset",
        "length",
        "start_seconds",
        "end_seconds",
    ]
    assert list(frame["hostname"]) == ["nid1", "nid1"]
    assert list(frame["write"]) == [True, False]
    assert list(frame["length"]) == [10, 20]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_without_the_package(log_parts, fixed_record, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    module = read_log(log_parts(modules=[("POSIX", 4, [fixed_record("<", 1, 0, 69, 17)])]).build()).modules["POSIX"]
    with pytest.raises(UsageError, match=f"{package} is not installed"):
        getattr(module, f"to_{package}")()
