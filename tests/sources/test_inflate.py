"""The same streams from zlib-ng and from the standard library."""

from __future__ import annotations

import importlib
import sys
import zlib

import pytest

from ioweather.sources import inflate


@pytest.fixture(params=["as installed", "without zlib-ng"])
def library(request, monkeypatch):
    if request.param == "without zlib-ng":
        monkeypatch.setitem(sys.modules, "zlib_ng", None)
    yield importlib.reload(inflate)
    monkeypatch.undo()
    importlib.reload(inflate)


def test_streams_follow_each_other(library):
    data = zlib.compress(b"first" * 1000) + zlib.compress(b"second")
    stream = library.decompressobj()
    assert stream.decompress(data, 6000) == b"first" * 1000
    assert stream.eof
    assert zlib.decompress(stream.unused_data) == b"second"


def test_output_is_bounded(library):
    assert len(library.decompressobj().decompress(zlib.compress(bytes(1 << 20)), 100)) == 100


@pytest.mark.parametrize("damage", [b"not a stream", zlib.compress(b"x" * 99)[:-1] + b"\1"])
def test_damage_is_an_error(library, damage):
    with pytest.raises(library.InflateError):
        library.decompressobj().decompress(damage)
