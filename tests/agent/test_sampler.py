"""The sampler: sizes, modes, rest between measurements, one file per size."""

from __future__ import annotations

import errno
from collections import Counter

import pytest

from ioweather.agent import probe
from ioweather.agent.probe import Sampler, SamplerSettings
from ioweather.agent.sensor import Timing
from live_reporter import Heard

SIZES = (8192, 65536, 3 << 20)


def run_all(source: Sampler) -> Heard:
    heard = Heard()
    source.prepare(heard)
    for _ in range(10_000):
        source._resume_ns = 0
        source.cycle(1, heard)
        if heard.is_done:
            return heard
    raise AssertionError("it does not end")


def test_every_size_mode_and_operation_once_a_round(tmp_path):
    source = Sampler(str(tmp_path), SamplerSettings(SIZES, rounds=3), run_id="r", host="n1")
    heard = run_all(source)
    found = Counter((row["request_bytes"], row["mode"], row["op"]) for row in heard.of("responses"))
    kinds = (("cache", "read"), ("cache", "write"), ("nocache", "read"), ("nocache", "write_sync"))
    expected = [(size, mode, op) for size in SIZES for mode, op in kinds]
    assert found == dict.fromkeys(expected, 3)
    assert all(row["status"] == "ok" and row["duration_ns"] > 0 for row in heard.of("responses"))
    assert {path.stat().st_size for path in source.folder.iterdir() if path.name != "lock"} == set(SIZES)


def test_modes_do_what_they_say(tmp_path):
    source = Sampler(str(tmp_path), SamplerSettings(SIZES, rounds=1))
    heard = run_all(source)
    if source._files[0][0].access == "cached":
        pytest.skip("this file system is in memory")
    cached = {(row["mode"], row["op"], row["cached"]) for row in heard.of("responses")}
    assert cached == {("cache", "read", True), ("cache", "write", True), ("nocache", "read", False),
                      ("nocache", "write_sync", False)}  # fmt: skip


def test_it_rests(tmp_path, monkeypatch):
    source = Sampler(str(tmp_path), SamplerSettings((8192,), rounds=5, busy_ratio=0.25))
    heard = Heard()
    source.prepare(heard)
    now, busy = 0, 0

    def clock():
        return now

    def fail_after_a_while(opener, *arguments):
        nonlocal now, busy
        now += 1000
        busy += 1000
        return Timing(0, 1000, True, errno.EIO), -1

    monkeypatch.setattr(probe.time, "monotonic_ns", clock)
    monkeypatch.setattr(probe, "timed_open", fail_after_a_while)
    while not heard.is_done:
        source.cycle(0, heard)
        now += 100
    assert busy / now <= 0.25
    assert busy / now > 0.2


def test_a_request_larger_than_the_buffers_moves_all_of_its_bytes(tmp_path):
    """Requests repeat a buffer of 1 MiB, here 4 MiB and a part: what is on storage afterwards has the whole size."""
    size = (4 << 20) + 4096
    source = Sampler(str(tmp_path), SamplerSettings((size,), modes=("nocache",), rounds=2))
    rows = run_all(source).of("responses")
    assert {row["status"] for row in rows} == {"ok"}
    assert {path.stat().st_size for path in source.folder.iterdir() if path.name != "lock"} == {size}
