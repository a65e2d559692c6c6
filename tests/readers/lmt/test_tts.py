"""TOKIO time series: alignment, -0.0, units that lie, late samples, damage."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from lmt_files import LOCAL_MIDNIGHT, OSTS, Read, write_tts

from ioweather.core.contracts import ReadContext
from ioweather.core.errors import CorruptInput, EmptyInput, TruncatedInput, UnsupportedVersion
from ioweather.core.tables import Quality
from ioweather.readers.lmt_hdf5 import TTS

LATE, PARTIAL = int(Quality.LATE), int(Quality.PARTIAL)
T0 = LOCAL_MIDNIGHT


def read(path: Path, **context: object) -> Read:
    return Read(TTS.read(path, ReadContext(**context)))  # type: ignore[arg-type]


def test_amounts_are_left_aligned_whatever_the_units_say(tmp_path: Path):
    values = np.arange(48.0).reshape(24, 2)
    found = read(write_tts(tmp_path / "fs1_2018-01-28.hdf5", {"readbytes": values}))
    assert found.rows("read_bytes", "ost") == {
        (T0, OSTS[0]): (values[:12, 0].sum(), 0),
        (T0, OSTS[1]): (values[:12, 1].sum(), 0),
        (T0 + 60, OSTS[0]): (values[12:, 0].sum(), 0),
        (T0 + 60, OSTS[1]): (values[12:, 1].sum(), 0),
    }
    assert {frame.text("system").categories for frame in found.frames["series"]} == {("fs1",)}


def test_negative_zero_is_missing_and_zero_is_not(tmp_path: Path):
    values = np.ones((36, 2))
    values[3, 0] = -0.0
    values[4, 0] = 2.0  # carries it
    values[5, 1] = 0.0
    values[24:, 0] = -0.0
    found = read(write_tts(tmp_path / "x.hdf5", {"readbytes": values}), keep_raw=True)
    minute = found.rows("read_bytes")
    assert minute[T0, OSTS[0]] == (12.0, LATE)
    assert minute[T0, OSTS[1]] == (11.0, 0)
    assert (T0 + 120, OSTS[0]) not in minute  # absent, not zero
    raw = found.rows("read_bytes", interval_s=5)
    assert (T0 + 15, OSTS[0]) not in raw
    assert raw[T0 + 20, OSTS[0]] == (2.0, LATE)
    assert raw[T0 + 25, OSTS[1]] == (0.0, 0)


def test_states_of_lmt_are_stamped_at_the_end_of_their_interval(tmp_path: Path):
    load = np.arange(25.0)[:, None]
    path = write_tts(tmp_path / "x.hdf5", {"cpuload": load, "memused": load}, group="dataservers", columns=("oss0",))
    found = read(path)
    assert found.rows("cpu_ratio", "oss") == {
        (T0, "oss0"): (pytest.approx(load[1:13].mean() / 100), 0),
        (T0 + 60, "oss0"): (pytest.approx(load[13:25].mean() / 100), 0),
    }
    assert len(found.rows("memory_ratio")) == 2
    other = write_tts(
        tmp_path / "y.hdf5",
        {"cpuload": load[:24], "memused": load[:24]},
        group="mdservers",
        columns=("m",),
        source="collectd",
    )
    assert read(other).rows("cpu_ratio", "mds")[T0, "m"] == (pytest.approx(load[:12].mean() / 100), 0)
    assert read(other).rows("memory_ratio") == {}  # not a percentage there


def test_holes_in_the_stamps_are_missing_samples(tmp_path: Path):
    path = write_tts(tmp_path / "x.hdf5", {"readbytes": np.ones((24, 2))})
    with h5py.File(path, "a") as file:
        stamps = file["datatargets/timestamps"][:]
        stamps[6:] += 30  # six steps are not there
        file["datatargets/timestamps"][:] = stamps
    found = read(path).rows("read_bytes")
    assert [found[T0 + 60 * i, OSTS[0]] for i in range(3)] == [(6.0, PARTIAL), (12.0, LATE | PARTIAL), (6.0, PARTIAL)]
    assert sum(value for value, _ in found.values()) == 48


# --- damage ---------------------------------------------------------------------------------------------------------


def test_truncated_and_corrupt_files_are_refused_with_a_reason(tmp_path: Path):
    whole = write_tts(tmp_path / "x.hdf5", {"readbytes": np.random.default_rng(0).random((5000, 2))})
    data = whole.read_bytes()
    (tmp_path / "short.hdf5").write_bytes(data[: len(data) // 2])
    with pytest.raises(TruncatedInput, match=r"short\.hdf5 ends before it should"):
        read(tmp_path / "short.hdf5")
    (tmp_path / "empty.hdf5").write_bytes(b"")
    with pytest.raises(EmptyInput):
        read(tmp_path / "empty.hdf5")
    (tmp_path / "text.hdf5").write_bytes(b"hello" * 1000)
    with pytest.raises(CorruptInput):
        read(tmp_path / "text.hdf5")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda f: f.attrs.__setitem__("version", "9"), UnsupportedVersion, "version 9"),
        (lambda f: f["datatargets"].__delitem__("timestamps"), CorruptInput, "no timestamps"),
        (lambda f: f["datatargets/readbytes"].attrs.__delitem__("columns"), CorruptInput, "no named columns"),
        (lambda f: f["datatargets/timestamps"].__setitem__(3, 5), CorruptInput, "do not grow"),
        (lambda f: f["datatargets/timestamps"].__setitem__(3, T0 + 16), CorruptInput, "5 s apart"),
        (lambda f: f["datatargets/timestamps"].__setitem__(11, T0 + 10**6), CorruptInput, "scattered"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, change, error, message):
    path = write_tts(tmp_path / "x.hdf5", {"readbytes": np.ones((12, 2))})
    with h5py.File(path, "a") as file:
        change(file)
    with pytest.raises(error, match=message):
        read(path)


# --- the real half day ----------------------------------------------------------------------------------------------


@pytest.mark.shared
def test_half_a_day_of_edison(shared_data: Path):
    path = shared_data / "lmt" / "snx11025_2018-02-09T12.hdf5"
    half_day = read(path)
    assert half_day.total("read_bytes") == 16_266_516_840_448
    assert half_day.total("write_bytes") == 13_339_439_495_744
    _check_statistics(half_day, "read_bytes", 36.65, 5.54, 1.10)
    _check_statistics(half_day, "write_bytes", 35.30, 6.78, 1.74)
    _check_that_the_late_burst_is_flagged_and_the_minute_is_fine(path)


def _check_statistics(half_day: Read, metric: str, highest: float, cov: float, imbalance: float):
    rows = half_day.rows(metric)
    per_minute: dict[int, float] = {}
    per_target: dict[str, float] = {}
    for (start, target), (value, _) in rows.items():
        per_minute[start] = per_minute.get(start, 0.0) + value
        per_target[target] = per_target.get(target, 0.0) + value
    totals = np.array(list(per_minute.values()))
    assert len(totals) == 720
    assert totals.max() / 60e9 == pytest.approx(highest, abs=0.005)
    assert totals.std() / totals.mean() == pytest.approx(cov, abs=0.005)
    assert max(per_target.values()) / min(per_target.values()) == pytest.approx(imbalance, abs=0.005)


def _check_that_the_late_burst_is_flagged_and_the_minute_is_fine(path: Path):
    found = read(path, keep_raw=True)
    start = 1_518_163_200
    raw = found.rows("read_bytes", interval_s=5)
    burst = {name: raw[start + 2403 * 5, name] for _, name in raw if (start + 2403 * 5, name) in raw}
    assert sum(value for value, _ in burst.values()) / 5 > 140e9  # three times what the system can do
    assert sum(quality & LATE > 0 for _, quality in burst.values()) >= 22
    minute = [value for (begin, _), (value, _) in found.rows("read_bytes").items() if begin == start + 200 * 60]
    assert len(minute) == 24
    assert sum(minute) / 60 < 48e9
    # Every missing sample is absent, and only there.
    assert 8640 * 24 - len(raw) == 120
